#include "emulator/machine/mbarrier.h"

#include <cstring>

#include "core/check.h"
#include "emulator/machine/cluster.h"

namespace tilewright::emulator {
namespace {

// bits 0…19 pending, 20…39 expected, 40…60 transactions, 61…63 phase.
constexpr int kPhaseShift = 61;
constexpr uint64_t kPhaseMask = 7;
constexpr uint64_t kTransactionMask = (uint64_t{1} << 21) - 1;

std::string name_of(const SharedPlace& place) {
  return fmt::format("mbarrier at {:#x}", place.block->warps[0].shared_low + place.offset);
}

void write_back(const SharedPlace& place, const Mbarrier& barrier) {
  const uint64_t bits = pack(barrier);
  std::memcpy(place.block->shared + place.offset, &bits, sizeof bits);
}

void wake_waiters(Block& block, uint32_t offset) {
  for (Warp& warp : block.warps) {
    for (LaneGroup& group : warp.parked) {
      if (group.state != GroupState::kAtMbarrier) continue;
      if (group.wait_id == offset || group.wait_id == kAnyMbarrier) {
        group.state = GroupState::kReady;
      }
    }
  }
}

void settle(const SharedPlace& place, Mbarrier& barrier) {
  ++place.block->cluster->events;
  if (barrier.pending == 0 && barrier.transactions == 0) {
    ++barrier.phase;
    barrier.pending = barrier.expected;
    Block& block = *place.block;
    if (block.warps[0].ordered) {
      block.observer->on_sync({.kind = SyncKind::kMbarrierPhase, .number = place.offset});
    }
    write_back(place, barrier);
    wake_waiters(*place.block, place.offset);
    return;
  }
  write_back(place, barrier);
}

}  // namespace

uint64_t pack(const Mbarrier& barrier) {
  return uint64_t{barrier.pending} | uint64_t{barrier.expected} << 20 |
         (static_cast<uint64_t>(barrier.transactions) & kTransactionMask) << 40 |
         (barrier.phase & kPhaseMask) << kPhaseShift;
}

int is_completed(const Mbarrier& barrier, uint64_t state) {
  const uint64_t later = (barrier.phase - (state >> kPhaseShift)) & kPhaseMask;
  return later > 1 ? -1 : static_cast<int>(later);
}

std::string describe_mbarrier(const Block& block, uint32_t offset) {
  const auto found = block.mbarriers.find(offset);
  const uint32_t address = block.warps[0].shared_low + offset;
  if (found == block.mbarriers.end()) return fmt::format("mbarrier at {:#x}", address);
  const Mbarrier& barrier = found->second;
  return fmt::format(
      "mbarrier at {:#x} (phase {}, {} of {} arrivals pending, {} bytes outstanding)", address,
      barrier.phase, barrier.pending, barrier.expected, barrier.transactions);
}

std::string init_mbarrier(const SharedPlace& place, uint32_t count) {
  if (count == 0 || count > kMbarrierLimit) {
    return fmt::format("{} with a count of {}, allowed are 1 to {}", name_of(place), count,
                       kMbarrierLimit);
  }
  const Mbarrier fresh{.expected = count, .pending = count};
  const auto [entry, is_new] = place.block->mbarriers.try_emplace(place.offset, fresh);
  // The same once more, before anybody used it, changes nothing.
  if (!is_new && (entry->second.phase != 0 || pack(entry->second) != pack(fresh))) {
    return fmt::format("init of the live {}", describe_mbarrier(*place.block, place.offset));
  }
  for (uint32_t other = place.offset < 7 ? 0 : place.offset - 7; other < place.offset + 8;
       ++other) {
    if (other != place.offset && place.block->mbarriers.contains(other)) {
      return fmt::format("init of the {} inside another", name_of(place));
    }
  }
  write_back(place, entry->second);
  if (place.block->observer != nullptr) {
    place.block->observer->on_landed({.offset = place.offset, .bytes = 8});
  }
  return {};
}

std::string invalidate_mbarrier(const SharedPlace& place) {
  std::string error;
  if (find_mbarrier(place, &error) == nullptr) return error;
  place.block->mbarriers.erase(place.offset);
  // Whoever still waits there waits for ever.
  ++place.block->cluster->events;
  return {};
}

Mbarrier* find_mbarrier(const SharedPlace& place, std::string* error) {
  const auto found = place.block->mbarriers.find(place.offset);
  if (found == place.block->mbarriers.end()) {
    *error = fmt::format("use of the {}, which is not initialised", name_of(place));
    return nullptr;
  }
  uint64_t bits;
  std::memcpy(&bits, place.block->shared + place.offset, sizeof bits);
  if (bits != pack(found->second)) {
    *error = fmt::format("the {} was overwritten with {:#x}",
                         describe_mbarrier(*place.block, place.offset), bits);
    return nullptr;
  }
  return &found->second;
}

std::string expect_transactions(const SharedPlace& place, uint32_t bytes) {
  std::string error;
  Mbarrier* barrier = find_mbarrier(place, &error);
  if (barrier == nullptr) return error;
  barrier->transactions += bytes;
  if (barrier->transactions > kMbarrierLimit) {
    return fmt::format("{}: more than {} bytes outstanding",
                       describe_mbarrier(*place.block, place.offset), kMbarrierLimit);
  }
  ++place.block->cluster->events;
  write_back(place, *barrier);
  return {};
}

std::string complete_transactions(const SharedPlace& place, uint32_t bytes) {
  std::string error;
  Mbarrier* barrier = find_mbarrier(place, &error);
  if (barrier == nullptr) return error;
  barrier->transactions -= bytes;
  if (barrier->transactions < -int64_t{kMbarrierLimit}) {
    return fmt::format("{}: more bytes completed than its transaction count holds",
                       describe_mbarrier(*place.block, place.offset));
  }
  settle(place, *barrier);
  return {};
}

std::string arrive_at_mbarrier(const SharedPlace& place, const MbarrierArrival& arrival,
                               uint64_t* state) {
  std::string error;
  Mbarrier* barrier = find_mbarrier(place, &error);
  if (barrier == nullptr) return error;
  *state = pack(*barrier);
  if (arrival.expect_bytes != 0) {
    error = expect_transactions(place, arrival.expect_bytes);
    if (!error.empty()) return error;
  }
  if (arrival.count == 0 || arrival.count > barrier->pending) {
    return fmt::format("an arrival of {} at the {}", arrival.count,
                       describe_mbarrier(*place.block, place.offset));
  }
  if (!arrival.may_complete && arrival.count == barrier->pending && barrier->transactions == 0) {
    return fmt::format("an arrival with .noComplete completes the phase of the {}",
                       describe_mbarrier(*place.block, place.offset));
  }
  if (arrival.drops) barrier->expected -= arrival.count;
  barrier->pending -= arrival.count;
  settle(place, *barrier);
  return {};
}

std::string add_pending_arrival(const SharedPlace& place) {
  std::string error;
  Mbarrier* barrier = find_mbarrier(place, &error);
  if (barrier == nullptr) return error;
  if (barrier->pending == kMbarrierLimit) {
    return fmt::format("more than {} arrivals pending at the {}", kMbarrierLimit, name_of(place));
  }
  ++barrier->pending;
  ++place.block->cluster->events;
  write_back(place, *barrier);
  return {};
}

}  // namespace tilewright::emulator
