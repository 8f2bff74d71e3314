// The full observer: every access to shared memory against those that it may conflict with. Two
// conflict if one writes and neither has happened before the other (history.h), or if the async
// proxy touches what the generic proxy wrote without a proxy fence of the writer in between.
#include <algorithm>
#include <bit>

#include "core/check.h"
#include "emulator/machine/bulk_copy.h"
#include "emulator/machine/cluster.h"
#include "emulator/observers/cluster_watch.h"
#include "emulator/observers/conflict_report.h"
#include "emulator/observers/observer.h"

namespace tilewright::emulator {
namespace {

constexpr uint64_t kMbarrierParty = uint64_t{1} << 60;
constexpr uint64_t kBulkParty = uint64_t{2} << 60;
constexpr uint64_t kProductParty = uint64_t{3} << 60;
constexpr uint64_t kGlobalPlace = uint64_t{1} << 63;

// What a load, store or atomic says of its order; none of anything else.
ptx::Semantics semantics_of(const Warp& warp, const Instruction& at) {
  const ptx::Instruction& source = warp.frame->function->source->instructions[at.source];
  switch (source.opcode) {
    case ptx::Opcode::kLd:
    case ptx::Opcode::kSt:
    case ptx::Opcode::kAtom:
    case ptx::Opcode::kRed:
      return source.modifiers.semantics;
    default:
      return ptx::Semantics::kNone;
  }
}

bool is_strong(ptx::Semantics semantics) {
  return semantics != ptx::Semantics::kNone && semantics != ptx::Semantics::kWeak;
}
bool acquires(ptx::Semantics s) {
  return s == ptx::Semantics::kAcquire || s == ptx::Semantics::kAcqRel || s == ptx::Semantics::kSc;
}
bool releases(ptx::Semantics s) {
  return s == ptx::Semantics::kRelease || s == ptx::Semantics::kAcqRel || s == ptx::Semantics::kSc;
}

class FullObserver : public Observer {
 public:
  FullObserver(Launch& launch, Block& block, std::shared_ptr<ClusterWatch> watch)
      : launch_(launch),
        block_(block),
        memory_(make_memory_observer(launch, block)),
        watch_(std::move(watch)),
        history_(watch_->history),
        shadow_(launch.shared_bytes) {}

  bool on_access(Warp& warp, const Instruction& at, const MemoryAccess& access) override {
    if (is_operand(access) && is_checked_operand(warp)) return true;
    if (!memory_->on_access(warp, at, access)) return false;
    if (access.space == AccessSpace::kLocal) return true;
    const bool is_direct = access.kind == AccessKind::kRead || access.kind == AccessKind::kWrite ||
                           access.kind == AccessKind::kAtomic;
    if (access.space == AccessSpace::kGlobal) {
      if (is_direct) pass_flags(warp, at, access, kGlobalPlace);
      return true;
    }
    const bool ok = access.kind == AccessKind::kAsyncRead || access.kind == AccessKind::kAsyncWrite
                        ? async_access(warp, at, access)
                        : generic_access(warp, at, access);
    if (ok && is_direct) pass_flags(warp, at, access, uint64_t{block_.cluster_rank} << 32);
    return ok;
  }

  void on_landed(const Landing& landing) override;
  bool on_sync(const SyncEvent& event) override;

 private:
  // The access that is being checked: who makes it and what they know.
  struct Actor {
    Warp& warp;
    const Instruction& at;
    uint32_t index = 0;  // of the warp in the history
    uint32_t lane = 0;   // for reports
    uint32_t own = 0;    // lanes whose own past needs no order
    const VectorClock* known = nullptr;
    PastAccess now{};
    bool writes() const { return (now.flags & kPastWrite) != 0; }
    bool is_async() const { return (now.flags & kPastAsync) != 0; }
  };

  uint32_t index_of(const Warp& warp) const {
    return warp.block->cluster_rank * history_.warps_per_block() + warp.index;
  }
  // The number of a thread of the cluster, from 1.
  uint32_t thread_number(const Warp& warp, uint32_t lane) const {
    return index_of(warp) * 32 + lane + 1;
  }
  static uint64_t product_party(const Warp& warp) {
    return kProductParty | warp.block->cluster_rank << 8 | warp.index / 4;
  }
  const VectorClock& known_of(uint32_t index, uint32_t lane) const {
    for (const LaneClass& c : history_.warp(index).classes) {
      if (((c.lanes >> lane) & 1) != 0) return c.known;
    }
    return history_.warp(index).classes.front().known;
  }

  // Of a wgmma; cp.async reads global memory.
  static bool is_operand(const MemoryAccess& access) {
    return access.kind == AccessKind::kAsyncRead && access.space == AccessSpace::kShared &&
           access.copy == nullptr;
  }
  bool is_checked_operand(const Warp& warp) const;
  static uint32_t product_clock(const Warp& warp) {
    const WarpgroupMember& member = warp.block->warpgroups[warp.index / 4].members[warp.index % 4];
    return static_cast<uint32_t>(member.issued) + 1;
  }

  bool generic_access(Warp& warp, const Instruction& at, const MemoryAccess& access);
  bool async_access(Warp& warp, const Instruction& at, const MemoryAccess& access);
  bool check(const Actor& actor, uint32_t offset, uint32_t bytes);
  bool check_cell(const Actor& actor, Cell& cell, uint32_t offset);
  bool is_ordered(const Actor& actor, const PastAccess& past) const;
  bool is_fenced(const Actor& actor, const PastAccess& past) const;
  bool check_past(const Actor& actor, const PastAccess& past, uint32_t offset);
  void record(const Actor& actor, uint32_t offset, uint32_t bytes);
  void record_beside(const Actor& actor, Cell& cell);
  void pass_flags(Warp& warp, const Instruction& at, const MemoryAccess& access, uint64_t space);
  void stamp(const Landing& landing, uint32_t clock, uint32_t thread);
  bool mbarrier_event(const SyncEvent& event);
  bool join_product(const SyncEvent& event);

  Launch& launch_;
  Block& block_;
  std::unique_ptr<Observer> memory_;
  std::shared_ptr<ClusterWatch> watch_;
  History& history_;
  ShadowMemory shadow_;
};

bool FullObserver::is_ordered(const Actor& actor, const PastAccess& past) const {
  uint32_t lanes = past.lanes;
  if (past.component / 3 == actor.index && past.component < history_.first_async_component()) {
    lanes &= ~actor.own;
    if (lanes == 0) return true;
  }
  return actor.known->covers(past.component, lanes, past.clock);
}

// Generic writes are fenced if each writer has executed a proxy fence behind them that the actor
// knows of. A cp.async that an mbarrier tracks lands when its issuer can no longer fence it.
bool FullObserver::is_fenced(const Actor& actor, const PastAccess& past) const {
  if ((past.flags & kPastUnwaited) != 0) return true;
  const uint32_t writer = past.component / 3;
  uint32_t lanes = past.lanes;
  if (writer == actor.index) {
    for (uint32_t rest = lanes & actor.own; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
      if (history_.warp(writer).fenced[lane] >= past.clock) lanes &= ~(1u << lane);
    }
    if (lanes == 0) return true;
  }
  return actor.known->covers(history_.fence_component(writer), lanes, past.clock);
}

bool FullObserver::check_past(const Actor& actor, const PastAccess& past, uint32_t offset) {
  if (past.clock == 0) return true;
  if ((past.flags & kPastWrite) == 0 && !actor.writes()) return true;
  if ((past.flags & actor.now.flags & kPastStrong) != 0) return true;
  const bool ordered = is_ordered(actor, past);
  const bool crosses =
      actor.is_async() && (past.flags & kPastAsync) == 0 && (past.flags & kPastWrite) != 0;
  if (ordered && (!crosses || is_fenced(actor, past))) return true;
  // One instruction that writes one value from several lanes is no race.
  if (past.at == actor.now.at && past.clock == actor.now.clock && !actor.is_async() &&
      past.component == actor.now.component &&
      store_equal_values(actor.warp, actor.at, past.lanes, actor.lane)) {
    return true;
  }
  report_conflict({.warp = actor.warp,
                   .at = actor.at,
                   .lane = actor.lane,
                   .writes = actor.writes(),
                   .is_async = actor.is_async(),
                   .is_copy = (actor.now.flags & kPastCopy) != 0,
                   .address = (launch_.shared_base | block_.cluster_rank << 24) + offset,
                   .past = past,
                   .is_unfenced = ordered,
                   .first_async_component = history_.first_async_component()});
  return false;
}

bool FullObserver::check_cell(const Actor& actor, Cell& cell, uint32_t offset) {
  if (cell.write.clock != 0 && !check_past(actor, cell.write, offset)) return false;
  if (cell.other.clock != 0 && !check_past(actor, cell.other, offset)) return false;
  if (cell.more == 0) return true;
  for (const PastAccess& past : *shadow_.find_list(cell)) {
    if (!check_past(actor, past, offset)) return false;
  }
  return true;
}

bool FullObserver::check(const Actor& actor, uint32_t offset, uint32_t bytes) {
  return shadow_.for_each(offset, bytes, [&](Cell& cell, uint32_t at, uint32_t) {
    return check_cell(actor, cell, at);
  });
}

// A read or a strong access: beside those that are concurrent with it.
void FullObserver::record_beside(const Actor& actor, Cell& cell) {
  const PastAccess& now = actor.now;
  if (cell.other.clock == 0 && cell.more == 0) {
    cell.other = now;
    return;
  }
  PastAccess* place = nullptr;
  PastAccess* free = nullptr;
  const auto look = [&](PastAccess& past) {
    if (past.clock != 0 && past.component == now.component && past.flags == now.flags) {
      if (past.at == now.at && past.clock == now.clock) {
        past.lanes |= now.lanes;
        place = &past;
        return;
      }
      // The lane's own newer access stands for its older one.
      if ((now.flags & kPastAsync) == 0) past.lanes &= ~now.lanes;
      if (past.lanes == 0) past.clock = 0;
    }
    if (past.clock != 0 && (past.flags & kPastWrite) == 0 && is_ordered(actor, past))
      past.clock = 0;
    if (past.clock == 0) free = &past;
  };
  look(cell.other);
  if (cell.more != 0) {
    for (PastAccess& past : shadow_.list(cell)) look(past);
  }
  if (place != nullptr) return;
  if (free != nullptr) {
    *free = now;
  } else {
    shadow_.list(cell).push_back(now);
  }
}

void FullObserver::record(const Actor& actor, uint32_t offset, uint32_t bytes) {
  if (actor.writes() && (actor.now.flags & kPastStrong) == 0) {
    shadow_.overwrite(offset, bytes, actor.now);
    return;
  }
  shadow_.for_each(offset, bytes, [&](Cell& cell, uint32_t, uint32_t) {
    record_beside(actor, cell);
    return true;
  });
}

bool FullObserver::generic_access(Warp& warp, const Instruction& at, const MemoryAccess& access) {
  const uint32_t index = index_of(warp);
  WarpHistory& state = history_.warp(index);
  const bool writes = access.kind != AccessKind::kRead;
  const bool strong = access.kind == AccessKind::kAtomic || is_strong(semantics_of(warp, at));
  (writes ? state.writers : state.readers) |= access.mask;
  state.has_accessed = true;
  if (!writes) warp.reads_unordered = true;
  Actor actor{.warp = warp, .at = at, .index = index};
  actor.now.at = &at;
  actor.now.clock = state.clock;
  actor.now.component = static_cast<uint16_t>(writes ? history_.write_component(index)
                                                     : history_.read_component(index));
  actor.now.flags =
      static_cast<uint8_t>((writes ? kPastWrite : 0) | (strong ? kPastStrong : 0) |
                           (access.kind == AccessKind::kCopyWrite ? kPastCopy | kPastUnwaited : 0));
  const bool is_uniform = state.classes.size() == 1;
  actor.known = &state.classes.front().known;
  for (uint32_t rest = access.mask; rest != 0; rest &= rest - 1) {
    actor.lane = static_cast<uint32_t>(std::countr_zero(rest));
    actor.own = actor.now.lanes = 1u << actor.lane;
    if (!is_uniform) actor.known = &known_of(index, actor.lane);
    const auto offset = static_cast<uint32_t>(access.addresses[actor.lane]);
    if (!check(actor, offset, access.bytes)) return false;
    record(actor, offset, access.bytes);
  }
  return true;
}

// The other warps of a warpgroup issue what the first has been checked for; they need not be
// checked again if they know what it knew.
bool FullObserver::is_checked_operand(const Warp& warp) const {
  const auto found = watch_->products.find(product_party(warp));
  if (found == watch_->products.end() || found->second.clock != product_clock(warp)) return false;
  if (found->second.first_warp == warp.index) return false;
  const uint32_t index = index_of(warp);
  const std::vector<LaneClass>& classes = history_.warp(index).classes;
  return classes.size() == 1 ? classes.front().known.dominates(found->second.known)
                             : history_.joint(index, kFullMask).dominates(found->second.known);
}

bool FullObserver::async_access(Warp& warp, const Instruction& at, const MemoryAccess& access) {
  const uint32_t index = index_of(warp);
  Actor actor{.warp = warp, .at = at, .index = index};
  actor.now.at = &at;
  actor.now.flags = kPastAsync;
  actor.lane = static_cast<uint32_t>(std::countr_zero(access.mask));
  VectorClock joint;
  if (access.copy == nullptr) {
    actor.own = kFullMask;
    actor.now.component = static_cast<uint16_t>(history_.component_of(product_party(warp)));
    actor.now.clock = product_clock(warp);
    joint = history_.joint(index, kFullMask);
    actor.known = &joint;
    CheckedProduct& checked = watch_->products[product_party(warp)];
    if (checked.clock != actor.now.clock) {
      checked = {actor.now.clock, warp.index, history_.past(index, kFullMask)};
    }
  } else {
    const BulkCopy& copy = *access.copy;
    actor.own = 1u << actor.lane;
    actor.known = &known_of(index, actor.lane);
    if (access.kind == AccessKind::kAsyncWrite) actor.now.flags |= kPastWrite;
    if (copy.op != ptx::Op::kNone && access.kind == AccessKind::kAsyncWrite) {
      actor.now.flags |= kPastStrong;
    }
    if (copy.kind == BulkKind::kStore) {
      actor.now.component = static_cast<uint16_t>(
          history_.component_of(kBulkParty | thread_number(warp, actor.lane)));
      actor.now.clock = copy.group + 1;
    } else {
      const uint64_t place = uint64_t{copy.barrier.block->cluster_rank} << 32 | copy.barrier.offset;
      actor.now.component = static_cast<uint16_t>(history_.component_of(kMbarrierParty | place));
      actor.now.clock = kInFlight;
    }
  }
  actor.now.lanes = thread_number(warp, actor.lane);
  for (uint32_t rest = access.mask; rest != 0; rest &= rest - 1) {
    const auto offset = static_cast<uint32_t>(access.addresses[std::countr_zero(rest)]);
    if (!check(actor, offset, access.bytes)) return false;
    record(actor, offset, access.bytes);
  }
  return true;
}

// Strong accesses and fences as flags between threads.
void FullObserver::pass_flags(Warp& warp, const Instruction& at, const MemoryAccess& access,
                              uint64_t space) {
  const bool is_atomic = access.kind == AccessKind::kAtomic;
  const ptx::Semantics semantics = semantics_of(warp, at);
  if (!is_atomic && !is_strong(semantics)) return;
  const uint32_t index = index_of(warp);
  for (uint32_t rest = access.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t place = space | access.addresses[lane];
    if (access.kind != AccessKind::kWrite) {
      history_.acquire_at(index, lane, place, acquires(semantics));
    }
    if (access.kind != AccessKind::kRead) {
      history_.release_at(index, lane, place, releases(semantics));
    }
  }
}

void FullObserver::stamp(const Landing& landing, uint32_t clock, uint32_t thread) {
  const Instruction* at = landing.copy->instruction;
  const auto set = [&](PastAccess& past) {
    if (past.clock == kInFlight && past.at == at && past.lanes == thread) past.clock = clock;
  };
  shadow_.for_each(landing.offset, landing.bytes, [&](Cell& cell, uint32_t, uint32_t) {
    set(cell.write);
    set(cell.other);
    if (cell.more != 0) {
      for (PastAccess& past : shadow_.list(cell)) set(past);
    }
    return true;
  });
}

void FullObserver::on_landed(const Landing& landing) {
  memory_->on_landed(landing);
  if (landing.copy != nullptr) {
    const BulkCopy& copy = *landing.copy;
    const uint64_t place = uint64_t{copy.barrier.block->cluster_rank} << 32 | copy.barrier.offset;
    const MbarrierHistory& barrier = watch_->mbarriers[place];
    stamp(landing, barrier.base + barrier.phases + 1, thread_number(*copy.warp, copy.lane));
    return;
  }
  if (landing.waiter == nullptr) return;
  // What cp.async wrote counts as written at the wait.
  const uint32_t index = index_of(*landing.waiter);
  WarpHistory& state = history_.warp(index);
  const uint32_t component = history_.write_component(index);
  state.has_accessed = true;
  shadow_.for_each(landing.offset, landing.bytes, [&](Cell& cell, uint32_t, uint32_t) {
    if (cell.write.component == component && cell.write.lanes == 1u << landing.lane) {
      cell.write.clock = state.clock;
      cell.write.flags &= static_cast<uint8_t>(~kPastUnwaited);
    }
    return true;
  });
}

bool FullObserver::mbarrier_event(const SyncEvent& event) {
  MbarrierHistory& barrier = watch_->mbarriers[uint64_t{block_.cluster_rank} << 32 | event.number];
  const uint64_t place = uint64_t{block_.cluster_rank} << 32 | event.number;
  if (event.kind == SyncKind::kMbarrierPhase) {
    ++barrier.phases;
    barrier.completed.join(barrier.gathered);
    barrier.completed.raise(barrier.component, barrier.base + barrier.phases);
    barrier.gathered.clear();
    return true;
  }
  Warp& warp = *event.warp;
  const uint32_t index = index_of(warp);
  if (event.kind == SyncKind::kMbarrierInit) {
    WarpHistory& state = history_.warp(index);
    barrier.base += barrier.phases + 1;
    barrier.phases = 0;
    barrier.component = history_.component_of(kMbarrierParty | place);
    barrier.gathered.clear();
    barrier.completed.clear();
    barrier.completed.raise(barrier.component, barrier.base);
    state.has_accessed = true;
    state.writers |= event.lanes;
    Actor actor{.warp = warp, .at = *event.at, .index = index};
    actor.lane = static_cast<uint32_t>(std::countr_zero(event.lanes));
    actor.own = event.lanes;
    actor.known = &known_of(index, actor.lane);
    barrier.init = {event.at, state.clock, event.lanes,
                    static_cast<uint16_t>(history_.write_component(index)), kPastWrite};
    actor.now = barrier.init;
    if (!check(actor, event.number, 8)) return false;
    record(actor, event.number, 8);
    return true;
  }
  // Everybody who uses it must come after its init.
  for (const LaneClass& c : history_.warp(index).classes) {
    uint32_t using_lanes = c.lanes & event.lanes;
    if (using_lanes == 0) continue;
    const uint32_t initialiser = barrier.init.component / 3;
    if (initialiser == index) using_lanes &= ~barrier.init.lanes;
    if (using_lanes == 0 || c.known.value(barrier.component) >= barrier.base ||
        c.known.covers(barrier.init.component, barrier.init.lanes, barrier.init.clock)) {
      continue;
    }
    report_unordered_mbarrier(warp, *event.at, static_cast<uint32_t>(std::countr_zero(using_lanes)),
                              describe_mbarrier(block_, event.number), barrier.init);
    return false;
  }
  if (event.relaxed) return true;
  if (event.kind == SyncKind::kMbarrierArrive) {
    barrier.gathered.join(history_.publish(index, event.lanes));
  } else if (event.kind == SyncKind::kMbarrierWait) {
    history_.acquire(index, event.lanes, barrier.completed);
  }
  return true;
}

bool FullObserver::on_sync(const SyncEvent& event) {
  if (event.kind >= SyncKind::kMbarrierInit && event.kind <= SyncKind::kMbarrierPhase) {
    return mbarrier_event(event);
  }
  if (event.kind == SyncKind::kClusterDone) {
    watch_->cluster_completed = std::move(watch_->cluster_gathered);
    watch_->cluster_gathered.clear();
    return true;
  }
  std::array<VectorClock, 16>& barriers = watch_->barriers[block_.cluster_rank];
  if (event.kind == SyncKind::kBarrierDone) {
    barriers[event.number].clear();
    return true;
  }
  const uint32_t index = index_of(*event.warp);
  switch (event.kind) {
    case SyncKind::kTogether:
      if (event.lanes == event.warp->live) event.warp->reads_unordered = false;
      history_.order_reads(index, event.lanes);
      return true;
    case SyncKind::kWarpBarrier:
      history_.synchronise(index, event.lanes);
      return true;
    case SyncKind::kBarrierArrive:
      barriers[event.number].join(history_.publish(index, event.lanes));
      return true;
    case SyncKind::kBarrierLeave:
      history_.acquire(index, event.lanes, barriers[event.number]);
      return true;
    case SyncKind::kClusterArrive: {
      const VectorClock clock = history_.publish(index, event.lanes);
      if (!event.relaxed) watch_->cluster_gathered.join(clock);
      const auto inits = watch_->fenced_inits.find(index);
      if (inits != watch_->fenced_inits.end()) watch_->cluster_gathered.join(inits->second);
      return true;
    }
    case SyncKind::kClusterWait:
      history_.acquire(index, event.lanes, watch_->cluster_completed);
      return true;
    case SyncKind::kFence:
      history_.fence(index, event.lanes);
      return true;
    case SyncKind::kInitFence:
      for (const auto& [place, barrier] : watch_->mbarriers) {
        if (barrier.init.component != history_.write_component(index)) continue;
        if ((barrier.init.lanes & event.lanes) == 0) continue;
        watch_->fenced_inits[index].raise(barrier.component, barrier.base);
      }
      return true;
    case SyncKind::kProxyFence:
      history_.fence_proxy(index, event.lanes);
      return true;
    case SyncKind::kBulkWait:
      for (uint32_t rest = event.lanes; rest != 0; rest &= rest - 1) {
        const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
        const uint32_t groups = event.warp->bulk_group[lane];
        const uint32_t component =
            history_.find_component(kBulkParty | thread_number(*event.warp, lane));
        if (groups <= event.number || component == 0) continue;
        VectorClock read;
        read.raise(component, groups - event.number);
        history_.acquire(index, 1u << lane, read);
      }
      return true;
    case SyncKind::kWgmmaWait: {
      VectorClock done;
      done.raise(history_.component_of(product_party(*event.warp)), event.number);
      history_.acquire(index, event.lanes, done);
      return true;
    }
    default:
      return true;
  }
}

}  // namespace

std::shared_ptr<ClusterWatch> make_cluster_watch(const Launch& launch) {
  return std::make_shared<ClusterWatch>(static_cast<uint32_t>(launch.request->cluster.count()),
                                        static_cast<uint32_t>(launch.request->block.count()));
}

std::unique_ptr<Observer> make_full_observer(Launch& launch, Block& block,
                                             std::shared_ptr<ClusterWatch> watch) {
  return std::make_unique<FullObserver>(launch, block, std::move(watch));
}

}  // namespace tilewright::emulator
