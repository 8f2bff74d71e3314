// Branches, calls, exits and barriers.
#include <bit>

#include "core/check.h"
#include "emulator/machine/block.h"
#include "emulator/machine/builtins.h"
#include "emulator/machine/execute.h"
#include "emulator/machine/watch.h"

namespace tilewright::emulator::execute {
namespace {

// Lanes of the running group that pass the instruction's guard.
uint32_t passing(Warp& warp, const Instruction* i) {
  if (i->guard == kNoSlot) return warp.mask;
  const uint32_t bits = warp.predicate(i->guard & ~kConstantBit);
  return warp.mask & ((i->guard & kConstantBit) != 0 ? ~bits : bits);
}

const Instruction* code_at(Warp& warp, uint32_t index) {
  return index == kNoSlot ? nullptr : warp.frame->function->code.data() + index;
}

// The one value that an operand has in every lane of the group; a fault if it differs.
bool uniform(Warp& warp, const Instruction* i, Slot slot, uint32_t lanes, uint32_t* value) {
  const auto* values = warp.at<uint32_t>(slot);
  const auto first = static_cast<size_t>(std::countr_zero(lanes));
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    if (values[lane] == values[first]) continue;
    fault(warp, i,
          {.kind = FaultKind::kBarrier,
           .message = fmt::format("lanes {} and {} name barrier operands {} and {}", first, lane,
                                  values[first], values[lane]),
           .lane = static_cast<uint32_t>(lane)});
    return false;
  }
  *value = values[first];
  return true;
}

}  // namespace

const Instruction* nothing(Warp&, const Instruction* i) { return i + 1; }

const Instruction* branch_always(Warp& warp, const Instruction* i) {
  return warp.frame->function->code.data() + i->extra;
}

const Instruction* branch(Warp& warp, const Instruction* i) {
  const uint32_t taken = passing(warp, i);
  if (taken == 0) return i + 1;
  const Instruction* target = warp.frame->function->code.data() + i->extra;
  if (taken == warp.mask) return target;
  return diverge(warp, taken, target, i + 1, code_at(warp, i->c));
}

const Instruction* branch_indexed(Warp& warp, const Instruction* i) {
  const uint32_t lanes = passing(warp, i);
  if (lanes == 0) return i + 1;
  const BranchTable& table = warp.launch->kernel->branch_tables[i->extra];
  const auto* index = warp.at<uint32_t>(i->a);
  const auto first = static_cast<size_t>(std::countr_zero(lanes));
  if (index[first] >= table.targets.size()) {
    return fault(warp, i,
                 {.kind = FaultKind::kIllegalInstruction,
                  .message = fmt::format("branch index {} of a table of {}", index[first],
                                         table.targets.size()),
                  .lane = static_cast<uint32_t>(first)});
  }
  uint32_t same = 0;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    if (index[lane] == index[first]) same |= 1u << lane;
  }
  const Instruction* target = code_at(warp, table.targets[index[first]]);
  if (same == warp.mask) return target;
  // One target at a time: the other lanes execute the branch again.
  const Instruction* other = same == lanes && lanes != warp.mask ? i + 1 : i;
  return diverge(warp, same, target, other, code_at(warp, i->c));
}

const Instruction* call(Warp& warp, const Instruction* i) {
  const uint32_t lanes = passing(warp, i);
  if (lanes == 0) return i + 1;
  // Not all: the callers go first, then the rest joins them behind the call.
  if (lanes != warp.mask) return diverge(warp, lanes, i, i + 1, i + 1);
  const KernelCode& kernel = *warp.launch->kernel;
  const CallForm& form = kernel.calls[i->extra];
  if (form.builtin != 0) return call_builtin(warp, i, form);
  if (form.callee >= 0) {
    return enter_function(warp, kernel.functions[static_cast<size_t>(form.callee)], form, i + 1);
  }
  const auto* addresses = warp.at<uint64_t>(form.target);
  const auto first = static_cast<size_t>(std::countr_zero(lanes));
  uint32_t same = 0;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    if (addresses[lane] == addresses[first]) same |= 1u << lane;
  }
  if (same != warp.mask) return diverge(warp, same, i, i, i + 1);
  const uint64_t address = addresses[first];
  const uint64_t index = (address - kFunctionBase) / 16;
  const auto found = kernel.function_of.find(static_cast<uint32_t>(index));
  if (address < kFunctionBase || address % 16 != 0 || index > UINT32_MAX ||
      found == kernel.function_of.end()) {
    return fault(warp, i,
                 {.kind = FaultKind::kIllegalInstruction,
                  .message = fmt::format("call of {:#x}, which is no function", address),
                  .address = address});
  }
  return enter_function(warp, kernel.functions[static_cast<size_t>(found->second)], form, i + 1);
}

const Instruction* ret(Warp& warp, const Instruction* i) {
  const uint32_t lanes = passing(warp, i);
  return lanes == 0 ? i + 1 : return_lanes(warp, lanes, i + 1);
}

const Instruction* exit_thread(Warp& warp, const Instruction* i) {
  const uint32_t lanes = passing(warp, i);
  return lanes == 0 ? i + 1 : exit_lanes(warp, lanes, i + 1);
}

const Instruction* end_of_code(Warp& warp, const Instruction* i) {
  return return_lanes(warp, warp.mask, i);
}

const Instruction* trap(Warp& warp, const Instruction* i) {
  return fault(warp, i, {.kind = FaultKind::kTrap, .message = "the kernel executed trap"});
}

const Instruction* nanosleep(Warp& warp, const Instruction* i) {
  warp.stop = Stop::kYield;
  warp.pc = i + 1;
  return nullptr;
}

const Instruction* grid_wait(Warp& warp, const Instruction* i) {
  if (!warp.launch->waits_for_primary) return i + 1;
  return park_to_repeat(warp, i, GroupState::kAtGrid, 0);
}

const Instruction* grid_launch_dependents(Warp& warp, const Instruction* i) {
  warp.block->launches_dependents = true;
  return nanosleep(warp, i);  // a turn ends here, so that dependents can come before what follows
}

const Instruction* mbarrier_init_fence(Warp& warp, const Instruction* i) {
  note_sync(warp, SyncKind::kInitFence, warp.mask, i);
  return i + 1;
}

const Instruction* memory_fence(Warp& warp, const Instruction* i) {
  note_sync(warp, SyncKind::kFence, warp.mask, i);
  return i + 1;
}

const Instruction* barrier(Warp& warp, const Instruction* i) {
  const uint32_t lanes = passing(warp, i);
  if (lanes == 0) return i + 1;
  const bool aligned = (i->options & kBarrierAligned) != 0;
  if (lanes != warp.mask) {
    if (!aligned) return diverge(warp, lanes, i, i + 1, nullptr);
    return fault(warp, i,
                 {.kind = FaultKind::kDivergent,
                  .message = fmt::format("an aligned barrier for lanes {:#010x} of {:#010x}", lanes,
                                         warp.live)});
  }
  uint32_t id = 0;
  uint32_t threads = 0;
  if (!uniform(warp, i, i->a, lanes, &id)) return nullptr;
  if (i->b != kNoSlot) {
    if (!uniform(warp, i, i->b, lanes, &threads)) return nullptr;
    if (threads == 0) {
      return fault(
          warp, i,
          {.kind = FaultKind::kBarrier, .message = fmt::format("barrier {} for 0 threads", id)});
    }
  }
  // Lanes of an aligned barrier meet at one instruction, of another at one barrier number.
  const auto is_here = [&](const LaneGroup& group) {
    if (aligned) return group.state == GroupState::kAligned && group.pc == i;
    return group.state == GroupState::kBarrierLanes && group.wait_id == id;
  };
  uint32_t together = warp.mask;
  for (const LaneGroup& group : warp.parked) {
    if (is_here(group)) together |= group.mask;
  }
  if (together != warp.live) {
    return park(warp, i, aligned ? GroupState::kAligned : GroupState::kBarrierLanes, warp.live, id);
  }
  BarrierArrival arrival;
  arrival.id = id;
  arrival.threads = threads;
  arrival.waits = (i->options & kBarrierArrive) == 0;
  if ((i->options & kBarrierReduce) != 0) {
    arrival.use = BarrierUse::kReduce;
    arrival.op = static_cast<ptx::Op>(i->options >> 8);
    const uint32_t bits = warp.predicate(i->c);
    const uint32_t values = warp.mask & ((i->options & kBarrierNegated) != 0 ? ~bits : bits);
    arrival.true_lanes = static_cast<uint32_t>(std::popcount(values));
    arrival.lanes = static_cast<uint32_t>(std::popcount(warp.mask));
    arrival.destination = i->d;
  }
  if (!arrive_at_barrier(warp, i, arrival)) return nullptr;
  // Lanes that waited for the rest of the warp go on with it.
  for (LaneGroup& group : warp.parked) {
    if (!is_here(group)) continue;
    group.pc = group.pc + 1;
    group.wait_id = id;
    group.state = arrival.waits ? GroupState::kAtBarrier : GroupState::kReady;
  }
  const Instruction* next = i + 1;
  if (arrival.waits) next = park(warp, i + 1, GroupState::kAtBarrier, 0, id);
  barrier_after_arrival(*warp.block, id);
  return next;
}

const Instruction* warp_sync(Warp& warp, const Instruction* i) {
  const uint32_t lanes = passing(warp, i);
  if (lanes == 0) return i + 1;
  if (lanes != warp.mask) return diverge(warp, lanes, i, i + 1, i + 1);
  const auto* masks = warp.at<uint32_t>(i->a);
  const auto first = static_cast<size_t>(std::countr_zero(lanes));
  uint32_t same = 0;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    if (((masks[lane] >> lane) & 1) == 0) {
      return fault(
          warp, i,
          {.kind = FaultKind::kDivergent,
           .message = fmt::format("lane {} is not in its own mask {:#010x}", lane, masks[lane]),
           .lane = static_cast<uint32_t>(lane)});
    }
    if (masks[lane] == masks[first]) same |= 1u << lane;
  }
  if (same != lanes) return diverge(warp, same, i, i, i + 1);
  const uint32_t needed = masks[first] & warp.live;
  if ((needed & ~warp.mask) == 0) {
    note_sync(warp, SyncKind::kWarpBarrier, needed, i);
    return i + 1;
  }
  uint32_t here = warp.mask;
  for (const LaneGroup& group : warp.parked) {
    if (group.state == GroupState::kWarpSync && group.wait_mask == masks[first]) {
      here |= group.mask;
    }
  }
  if ((needed & ~here) != 0) return park(warp, i, GroupState::kWarpSync, masks[first], 0);
  note_sync(warp, SyncKind::kWarpBarrier, needed, i);
  for (LaneGroup& group : warp.parked) {
    if (group.state == GroupState::kWarpSync && group.wait_mask == masks[first]) {
      group.state = GroupState::kReady;
      group.pc = group.pc + 1;
    }
  }
  return i + 1;
}

}  // namespace tilewright::emulator::execute
