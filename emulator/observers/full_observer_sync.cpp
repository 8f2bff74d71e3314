// What orders accesses, and what asynchronous operations complete.
#include <bit>

#include "emulator/observers/conflict_report.h"
#include "emulator/observers/full_observer.h"

namespace tilewright::emulator {

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

}  // namespace tilewright::emulator
