// mbarrier instructions, cluster addresses and the cluster barrier. Lanes act one after the other.
#include <bit>

#include "core/check.h"
#include "emulator/machine/access.h"
#include "emulator/machine/cluster.h"
#include "emulator/machine/execute.h"
#include "emulator/machine/watch.h"

namespace tilewright::emulator::execute {
namespace {

const MemoryForm& form_of(Warp& warp, const Instruction* i) {
  return warp.launch->kernel->memory_forms[i->extra];
}

const Instruction* misuse(Warp& warp, const Instruction* i, uint32_t lane, std::string message) {
  return fault(warp, i,
               {.kind = FaultKind::kMbarrier, .message = std::move(message), .lane = lane});
}

SharedPlace object_of(Warp& warp, const Instruction* i, uint32_t lane) {
  const MemoryForm& form = form_of(warp, i);
  const AddressForm address{i->a, form.offset, form.address_is_wide, form.space};
  return resolve_place(warp, i, address, 8, 8, lane);
}

// Lanes of one group that name the same object, told to the observer together.
class ObjectUsers {
 public:
  ObjectUsers(Warp& warp, const Instruction* i, SyncKind kind)
      : warp_(warp), instruction_(i), kind_(kind) {}
  // False: a fault.
  bool add(const SharedPlace& place, uint32_t lanes) {
    const bool is_same = place.block == place_.block && place.offset == place_.offset;
    if (!is_same && !flush()) return false;
    place_ = place;
    lanes_ |= lanes;
    return true;
  }
  bool flush() {
    const uint32_t lanes = lanes_;
    lanes_ = 0;
    const bool relaxed = (instruction_->options & kMbarrierRelaxed) != 0;
    return lanes == 0 || note_mbarrier(warp_, kind_, lanes, instruction_, place_, relaxed);
  }

 private:
  Warp& warp_;
  const Instruction* instruction_;
  SyncKind kind_;
  SharedPlace place_;
  uint32_t lanes_ = 0;
};

// Tells the observer of every lane's use of its object before anything happens to it.
bool note_users(Warp& warp, const Instruction* i, SyncKind kind) {
  if (!warp.ordered) return true;
  ObjectUsers users(warp, i, kind);
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const SharedPlace place = object_of(warp, i, lane);
    if (place.block == nullptr) return false;
    if (place.block->mbarriers.contains(place.offset) && !users.add(place, 1u << lane))
      return false;
  }
  return users.flush();
}

// Calls work(lane, place) for every lane, which returns an error or nothing.
template <class Work>
const Instruction* for_each_object(Warp& warp, const Instruction* i, Work&& work) {
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const SharedPlace place = object_of(warp, i, lane);
    if (place.block == nullptr) return nullptr;
    std::string error = work(lane, place);
    if (!error.empty()) return misuse(warp, i, lane, std::move(error));
    if (warp.block->fault) return nullptr;
  }
  return i + 1;
}

uint32_t operand(Warp& warp, Slot slot, uint32_t lane, uint32_t otherwise) {
  return slot == kNoSlot ? otherwise : warp.at<uint32_t>(slot)[lane];
}

// The lanes whose phase has completed; false with a fault recorded.
bool test_lanes(Warp& warp, const Instruction* i, uint32_t* done, uint32_t* waits_for) {
  *done = 0;
  *waits_for = kAnyMbarrier;
  bool first = true;
  ObjectUsers waited(warp, i, SyncKind::kMbarrierWait);
  ObjectUsers waiting(warp, i, SyncKind::kMbarrierUse);
  const Instruction* result =
      for_each_object(warp, i, [&](uint32_t lane, const SharedPlace& place) -> std::string {
        std::string error;
        const Mbarrier* barrier = find_mbarrier(place, &error);
        if (barrier == nullptr) return error;
        int completed = 0;
        if ((i->options & kMbarrierParity) != 0) {
          completed = (barrier->phase & 1) != (warp.at<uint32_t>(i->b)[lane] & 1) ? 1 : 0;
        } else {
          completed = is_completed(*barrier, warp.at<uint64_t>(i->b)[lane]);
          if (completed < 0) {
            return fmt::format(
                "a wait for a state that is neither of the current phase nor of the "
                "one before: {}",
                describe_mbarrier(*place.block, place.offset));
          }
        }
        if (warp.ordered) (completed != 0 ? waited : waiting).add(place, 1u << lane);
        if (completed != 0) *done |= 1u << lane;
        if (completed == 0) {
          *waits_for = first || *waits_for == place.offset ? place.offset : kAnyMbarrier;
          first = false;
        }
        return {};
      });
  return result != nullptr && waited.flush() && waiting.flush();
}

// The lanes from `lane` on whose arrivals at `place` belong to its current phase: one that
// completes it hands on nothing of those behind it.
uint32_t arriving_in_phase(Warp& warp, const Instruction* i, uint32_t lane,
                           const SharedPlace& place) {
  const bool expects = (i->options & kMbarrierExpect) != 0;
  uint32_t pending = place.block->mbarriers.at(place.offset).pending;
  uint32_t lanes = 0;
  for (uint32_t rest = warp.mask >> lane << lane; rest != 0; rest &= rest - 1) {
    const auto each = static_cast<uint32_t>(std::countr_zero(rest));
    const SharedPlace other = object_of(warp, i, each);
    if (other.block != place.block || other.offset != place.offset) continue;
    lanes |= 1u << each;
    const uint32_t count = expects ? 1 : operand(warp, i->b, each, 1);
    if (count >= pending) break;
    pending -= count;
  }
  return lanes;
}

void write_predicate(Warp& warp, Slot slot, uint32_t bits) {
  if (slot == kNoSlot) return;
  uint32_t& target = warp.predicate(slot);
  target = (target & ~warp.mask) | (bits & warp.mask);
}

}  // namespace

const Instruction* mbarrier_init(Warp& warp, const Instruction* i) {
  return for_each_object(warp, i, [&](uint32_t lane, const SharedPlace& place) {
    std::string error = init_mbarrier(place, warp.at<uint32_t>(i->b)[lane]);
    if (error.empty()) note_mbarrier(warp, SyncKind::kMbarrierInit, 1u << lane, i, place);
    return error;
  });
}

const Instruction* mbarrier_inval(Warp& warp, const Instruction* i) {
  if (!note_users(warp, i, SyncKind::kMbarrierUse)) return nullptr;
  return for_each_object(
      warp, i, [](uint32_t, const SharedPlace& place) { return invalidate_mbarrier(place); });
}

const Instruction* mbarrier_transactions(Warp& warp, const Instruction* i) {
  if (!note_users(warp, i, SyncKind::kMbarrierUse)) return nullptr;
  return for_each_object(warp, i, [&](uint32_t lane, const SharedPlace& place) -> std::string {
    const uint32_t bytes = warp.at<uint32_t>(i->b)[lane];
    if (bytes > kMbarrierLimit) return fmt::format("a transaction count of {}", bytes);
    return (i->options & kMbarrierComplete) != 0 ? complete_transactions(place, bytes)
                                                 : expect_transactions(place, bytes);
  });
}

const Instruction* mbarrier_arrive(Warp& warp, const Instruction* i) {
  const bool expects = (i->options & kMbarrierExpect) != 0;
  uint32_t noted = warp.ordered ? 0 : kFullMask;
  return for_each_object(warp, i, [&](uint32_t lane, const SharedPlace& place) -> std::string {
    if (((noted >> lane) & 1) == 0 && place.block->mbarriers.contains(place.offset)) {
      const uint32_t lanes = arriving_in_phase(warp, i, lane, place);
      const bool relaxed = (i->options & kMbarrierRelaxed) != 0;
      if (!note_mbarrier(warp, SyncKind::kMbarrierArrive, lanes, i, place, relaxed)) return {};
      noted |= lanes;
    }
    MbarrierArrival arrival;
    const uint32_t number = operand(warp, i->b, lane, 1);
    if (number > kMbarrierLimit) return fmt::format("a count of {}", number);
    arrival.count = expects ? 1 : number;
    arrival.expect_bytes = expects ? number : 0;
    arrival.drops = (i->options & kMbarrierDrop) != 0;
    arrival.may_complete = (i->options & kMbarrierNoComplete) == 0;
    uint64_t state = 0;
    std::string error = arrive_at_mbarrier(place, arrival, &state);
    if (error.empty() && i->d != kNoSlot) warp.at<uint64_t>(i->d)[lane] = state;
    return error;
  });
}

const Instruction* mbarrier_test(Warp& warp, const Instruction* i) {
  uint32_t done = 0;
  uint32_t waits_for = 0;
  if (!test_lanes(warp, i, &done, &waits_for)) return nullptr;
  write_predicate(warp, i->d, done);
  if (done == warp.mask) return i + 1;
  // A loop around a failed test should not use up the turn, nor wait for ever for what only lands
  // when somebody waits.
  constexpr int64_t kTestCost = 64;
  constexpr uint32_t kPatience = 64;
  warp.budget -= kTestCost;
  Cluster& cluster = *warp.block->cluster;
  if (++cluster.failed_tests > kPatience) {
    cluster.failed_tests = 0;
    unblock_block(*warp.block);
  }
  return i + 1;
}

const Instruction* mbarrier_try(Warp& warp, const Instruction* i) {
  uint32_t done = 0;
  uint32_t waits_for = 0;
  if (!test_lanes(warp, i, &done, &waits_for)) return nullptr;
  const bool gives_up = (warp.timed_out & warp.mask) != 0;
  warp.timed_out &= ~warp.mask;
  const bool is_random = warp.launch->schedule == Schedule::kRandom;
  if (done != 0 || gives_up || (is_random && warp.block->random.below(4) == 0)) {
    write_predicate(warp, i->d, done);
    return i + 1;
  }
  return park(warp, i, GroupState::kAtMbarrier, 0, waits_for);
}

const Instruction* mbarrier_pending_count(Warp& warp, const Instruction* i) {
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    warp.at<uint32_t>(i->d)[lane] = pending_of_state(warp.at<uint64_t>(i->a)[lane]);
  }
  return i + 1;
}

const Instruction* mbarrier_after_copies(Warp& warp, const Instruction* i) {
  if (!note_users(warp, i, SyncKind::kMbarrierArrive)) return nullptr;
  Cluster& cluster = *warp.block->cluster;
  const Instruction* result =
      for_each_object(warp, i, [&](uint32_t lane, const SharedPlace& place) -> std::string {
        std::string error;
        if ((i->options & kMbarrierNoIncrement) == 0) error = add_pending_arrival(place);
        if (!error.empty() || find_mbarrier(place, &error) == nullptr) return error;
        BulkCopy arrival;
        arrival.kind = BulkKind::kArrive;
        arrival.warp = &warp;
        arrival.lane = lane;
        arrival.frame = warp.frame;
        arrival.instruction = i;
        arrival.barrier = place;
        arrival.copies_before = warp.copy_sequence;
        issue_bulk(cluster, arrival);
        return {};
      });
  return warp.block->fault ? nullptr : result;
}

const Instruction* map_address(Warp& warp, const Instruction* i) {
  const bool is_generic = (i->options & kMapGeneric) != 0;
  const bool is_wide = (i->options & kMapWide) != 0;
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    const uint32_t rank = warp.at<uint32_t>(i->b)[lane];
    uint64_t address =
        is_wide ? warp.at<uint64_t>(i->a)[lane] : uint64_t{warp.at<uint32_t>(i->a)[lane]};
    const uint64_t base = is_generic ? kSharedWindow : 0;
    if (rank >= warp.block->cluster->blocks.size() || address - base >= kSharedWindowBytes) {
      return fault(warp, i,
                   {.kind = FaultKind::kOutOfBounds,
                    .message = fmt::format("mapa of {:#x} to rank {} of a cluster of {}", address,
                                           rank, warp.block->cluster->blocks.size()),
                    .lane = static_cast<uint32_t>(lane),
                    .address = address});
    }
    address = base + ((address - base) & 0xffffff) + (uint64_t{rank} << 24);
    if (is_wide) {
      warp.at<uint64_t>(i->d)[lane] = address;
    } else {
      warp.at<uint32_t>(i->d)[lane] = static_cast<uint32_t>(address);
    }
  }
  return i + 1;
}

const Instruction* rank_of_address(Warp& warp, const Instruction* i) {
  const uint64_t base = (i->options & kMapGeneric) != 0 ? kSharedWindow : 0;
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    const uint64_t address = (i->options & kMapWide) != 0 ? warp.at<uint64_t>(i->a)[lane]
                                                          : uint64_t{warp.at<uint32_t>(i->a)[lane]};
    warp.at<uint32_t>(i->d)[lane] = static_cast<uint32_t>((address - base) >> 24);
  }
  return i + 1;
}

const Instruction* cluster_arrive(Warp& warp, const Instruction* i) {
  const Instruction* result = nullptr;
  if ((i->options & kBarrierAligned) != 0 && !gather(warp, i, warp.live, &result)) return result;
  const uint32_t twice = warp.mask & (warp.cluster_arrived | warp.cluster_released);
  if (twice != 0) {
    return fault(warp, i,
                 {.kind = FaultKind::kBarrier,
                  .message = "a second barrier.cluster.arrive before the wait",
                  .lane = static_cast<uint32_t>(std::countr_zero(twice))});
  }
  note_sync(warp, SyncKind::kClusterArrive, warp.mask, i, 0, (i->options & kBarrierRelaxed) != 0);
  warp.cluster_arrived |= warp.mask;
  cluster_barrier_after_arrival(*warp.block->cluster);
  return i + 1;
}

const Instruction* cluster_wait(Warp& warp, const Instruction* i) {
  const Instruction* result = nullptr;
  if ((i->options & kBarrierAligned) != 0 && !gather(warp, i, warp.live, &result)) return result;
  const uint32_t without = warp.mask & ~(warp.cluster_arrived | warp.cluster_released);
  if (without != 0) {
    return fault(warp, i,
                 {.kind = FaultKind::kBarrier,
                  .message = "barrier.cluster.wait without barrier.cluster.arrive",
                  .lane = static_cast<uint32_t>(std::countr_zero(without))});
  }
  if ((warp.mask & ~warp.cluster_released) != 0) {
    return park_to_repeat(warp, i, GroupState::kAtCluster, 0);
  }
  note_sync(warp, SyncKind::kClusterWait, warp.mask, i);
  warp.cluster_released &= ~warp.mask;
  return i + 1;
}

const Instruction* fence_async_proxy(Warp& warp, const Instruction* i) {
  note_sync(warp, SyncKind::kProxyFence, warp.mask, i);
  ++warp.async_fences;
  return i + 1;
}

}  // namespace tilewright::emulator::execute
