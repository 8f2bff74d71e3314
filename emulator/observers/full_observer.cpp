#include "emulator/observers/full_observer.h"

#include <bit>

#include "emulator/observers/conflict_report.h"

namespace tilewright::emulator {
namespace {

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

}  // namespace

bool FullObserver::on_access(Warp& warp, const Instruction& at, const MemoryAccess& access) {
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

std::shared_ptr<ClusterWatch> make_cluster_watch(const Launch& launch) {
  return std::make_shared<ClusterWatch>(static_cast<uint32_t>(launch.request->cluster.count()),
                                        static_cast<uint32_t>(launch.request->block.count()));
}

std::unique_ptr<Observer> make_full_observer(Launch& launch, Block& block,
                                             std::shared_ptr<ClusterWatch> watch) {
  return std::make_unique<FullObserver>(launch, block, std::move(watch));
}

}  // namespace tilewright::emulator
