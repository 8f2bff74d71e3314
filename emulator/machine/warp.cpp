#include "emulator/machine/warp.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/check.h"
#include "emulator/machine/cluster.h"
#include "emulator/machine/warpgroup.h"

namespace tilewright::emulator {
namespace {

// Instructions that a group may execute while others wait at its rejoin point; then they go on
// alone, because the group may be spinning on something that only they can do. The second figure
// holds for a warp in which that has happened.
constexpr int64_t kPatience = 20000;
constexpr int64_t kShortPatience = 512;
// Activations of functions that a warp keeps, and the bytes of their registers.
constexpr size_t kMostFrames = 4096;
constexpr size_t kMostFrameBytes = size_t{64} << 20;

Frame* new_frame(Warp& warp) {
  if (!warp.free_frames.empty()) {
    Frame* frame = warp.free_frames.back();
    warp.free_frames.pop_back();
    return frame;
  }
  return &warp.frame_store.emplace_back();
}

Rejoin* new_rejoin(Warp& warp) {
  if (!warp.free_rejoins.empty()) {
    Rejoin* rejoin = warp.free_rejoins.back();
    warp.free_rejoins.pop_back();
    *rejoin = Rejoin{};
    return rejoin;
  }
  return &warp.rejoin_store.emplace_back();
}

void release_rejoin(Warp& warp, Rejoin* rejoin) {
  if (rejoin->returns_from != nullptr) warp.free_frames.push_back(rejoin->returns_from);
  std::erase(warp.waiting_rejoins, rejoin);
  warp.free_rejoins.push_back(rejoin);
}

void note_waiting(Warp& warp, Rejoin* rejoin) {
  if (std::find(warp.waiting_rejoins.begin(), warp.waiting_rejoins.end(), rejoin) ==
      warp.waiting_rejoins.end()) {
    warp.waiting_rejoins.push_back(rejoin);
  }
}

void set_frame(Warp& warp, Frame* frame) {
  warp.frame = frame;
  warp.bases[0] = frame->registers;
}

void set_rejoin(Warp& warp, Rejoin* rejoin) {
  warp.rejoin = rejoin;
  warp.rejoin_at = rejoin != nullptr && rejoin->frame == warp.frame ? rejoin->at : nullptr;
}

void resume(Warp& warp, const LaneGroup& group) {
  warp.mask = group.mask;
  set_frame(warp, group.frame);
  set_rejoin(warp, group.rejoin);
  warp.pc = group.pc;
  warp.has_group = true;
}

const Instruction* group_gone(Warp& warp) {
  warp.has_group = false;
  warp.mask = 0;
  warp.stop = Stop::kGroupGone;
  return nullptr;
}

// Lanes that wait at a rejoin point go on without those that are missing.
void release_early(Warp& warp, Rejoin* rejoin) {
  LaneGroup group;
  group.pc = rejoin->at;
  group.mask = rejoin->arrived;
  group.frame = rejoin->frame;
  group.rejoin = rejoin->parent;
  rejoin->expected &= ~rejoin->arrived;
  rejoin->arrived = 0;
  std::erase(warp.waiting_rejoins, rejoin);
  warp.parked.push_back(group);
}

bool choose_group(Warp& warp) {
  const auto ready = std::find_if(warp.parked.begin(), warp.parked.end(),
                                  [](const LaneGroup& g) { return g.state == GroupState::kReady; });
  if (ready != warp.parked.end()) {
    const LaneGroup group = *ready;
    warp.parked.erase(ready);
    resume(warp, group);
    return true;
  }
  return false;
}

// Nothing of the warp is ready, but lanes wait at a rejoin point while others wait for a .sync
// instruction: convergence is no promise of the ISA, so let them go on.
bool unblock(Warp& warp) {
  // An aligned barrier that not all lanes come to is an error, whatever the others could do.
  for (const LaneGroup& group : warp.parked) {
    if (group.state != GroupState::kAligned) continue;
    resume(warp, group);
    fault(warp, group.pc,
          {.kind = FaultKind::kDivergent,
           .message = fmt::format("an aligned barrier reached by lanes {:#010x} of {:#010x}",
                                  group.mask, warp.live)});
    return false;
  }
  const bool someone_gathers =
      std::any_of(warp.parked.begin(), warp.parked.end(), [](const LaneGroup& g) {
        return g.state == GroupState::kGathering || g.state == GroupState::kWarpSync ||
               g.state == GroupState::kBarrierLanes;
      });
  if (!someone_gathers || warp.waiting_rejoins.empty()) return false;
  release_early(warp, warp.waiting_rejoins.back());
  return true;
}

void let_others_run(Warp& warp, int64_t used) {
  const bool others = std::any_of(warp.parked.begin(), warp.parked.end(),
                                  [](const LaneGroup& g) { return g.state == GroupState::kReady; });
  if (!others) {
    if (warp.waiting_rejoins.empty()) return;
    warp.alone += used;
    if (warp.alone < (warp.early_releases == 0 ? kPatience : kShortPatience)) return;
    ++warp.early_releases;
    release_early(warp, warp.waiting_rejoins.back());
  }
  warp.alone = 0;
  LaneGroup group;
  group.pc = warp.pc;
  group.mask = warp.mask;
  group.frame = warp.frame;
  group.rejoin = warp.rejoin;
  warp.parked.push_back(group);
  warp.has_group = false;
}

}  // namespace

void start_warp(Warp& warp, std::byte* registers, uint32_t live) {
  warp.mask = warp.live = live;
  warp.parked.clear();
  warp.waiting_rejoins.clear();
  warp.free_rejoins.clear();
  warp.free_frames.clear();
  warp.rejoin_store.clear();
  warp.frame_store.clear();
  warp.copies.clear();
  warp.copy_group.fill(0);
  warp.alone = 0;
  warp.early_releases = 0;
  warp.carry = 0;
  warp.bounds_low = 0;
  warp.bounds_high = 0;
  warp.gathered = false;
  warp.copy_sequence = 0;
  warp.bulk_group.fill(0);
  warp.timed_out = 0;
  warp.cluster_arrived = 0;
  warp.cluster_released = 0;
  warp.max_registers = warp.launch->kernel->attributes.fixed_registers;
  warp.register_changes = 0;
  warp.async_fences = 0;
  const FunctionCode& entry = warp.launch->kernel->functions[0];
  Frame* frame = new_frame(warp);
  frame->registers = registers;
  frame->function = &entry;
  frame->caller = nullptr;
  frame->local_base = 0;
  set_frame(warp, frame);
  set_rejoin(warp, nullptr);
  fill_initial_values(warp, *frame);
  warp.pc = entry.code.data();
  warp.has_group = true;
}

bool run_warp(Warp& warp, int64_t budget) {
  if (!warp.has_group && !choose_group(warp) && !(unblock(warp) && choose_group(warp))) {
    return false;
  }
  warp.budget = budget;
  while (true) {
    const Instruction* pc = warp.pc;
    while (pc != nullptr) pc = pc->handler(warp, pc);
    switch (warp.stop) {
      case Stop::kYield:
        let_others_run(warp, budget);
        return true;
      case Stop::kFault:
        return true;
      case Stop::kGroupGone:
        if (choose_group(warp)) continue;
        if (unblock(warp) && choose_group(warp)) continue;
        return true;
    }
  }
}

const Instruction* park(Warp& warp, const Instruction* pc, GroupState state, uint32_t wait_mask,
                        uint32_t wait_id) {
  LaneGroup group;
  group.state = state;
  group.pc = pc;
  group.mask = warp.mask;
  group.frame = warp.frame;
  group.rejoin = warp.rejoin;
  group.wait_mask = wait_mask;
  group.wait_id = wait_id;
  warp.parked.push_back(group);
  return group_gone(warp);
}

const Instruction* park_to_repeat(Warp& warp, const Instruction* at, GroupState state,
                                  uint32_t wait_id) {
  if (!warp.gathered) return park(warp, at, state, 0, wait_id);
  for (LaneGroup& group : warp.parked) {
    if (group.state != GroupState::kGathering || group.pc != at) continue;
    group.state = state;
    group.wait_id = wait_id;
  }
  return group_gone(warp);
}

const Instruction* diverge(Warp& warp, uint32_t taken, const Instruction* taken_at,
                           const Instruction* other_at, const Instruction* rejoin_at) {
  const uint32_t other = warp.mask & ~taken;
  if (rejoin_at != nullptr && rejoin_at != warp.rejoin_at) {
    Rejoin* rejoin = new_rejoin(warp);
    rejoin->at = rejoin_at;
    rejoin->frame = warp.frame;
    rejoin->expected = warp.mask;
    rejoin->parent = warp.rejoin;
    set_rejoin(warp, rejoin);
  }
  if (rejoin_at != nullptr && (taken_at == rejoin_at || other_at == rejoin_at)) {
    const bool taken_waits = taken_at == rejoin_at;
    warp.rejoin->arrived |= taken_waits ? taken : other;
    note_waiting(warp, warp.rejoin);
    warp.mask = taken_waits ? other : taken;
    return taken_waits ? other_at : taken_at;
  }
  const Schedule schedule = warp.launch->schedule;
  const bool taken_first = schedule == Schedule::kLazy ||
                           (schedule == Schedule::kRandom && warp.block->random.below(2) == 0);
  LaneGroup later;
  later.pc = taken_first ? other_at : taken_at;
  later.mask = taken_first ? other : taken;
  later.frame = warp.frame;
  later.rejoin = warp.rejoin;
  warp.parked.push_back(later);
  warp.mask = taken_first ? taken : other;
  return taken_first ? taken_at : other_at;
}

const Instruction* arrive(Warp& warp, const Instruction* at) {
  while (warp.rejoin_at == at) {
    Rejoin* rejoin = warp.rejoin;
    rejoin->arrived |= warp.mask;
    if (rejoin->arrived != rejoin->expected) {
      note_waiting(warp, rejoin);
      return group_gone(warp);
    }
    warp.mask = rejoin->arrived;
    warp.alone = 0;
    set_rejoin(warp, rejoin->parent);
    release_rejoin(warp, rejoin);
  }
  return at;
}

const Instruction* exit_lanes(Warp& warp, uint32_t lanes, const Instruction* next) {
  warp.live &= ~lanes;
  // Rejoin points stop waiting for the lanes that are gone. The one that this completes, if any,
  // can only be the innermost that the group's rest does not belong to.
  Rejoin* rejoin = warp.rejoin;
  warp.mask &= ~lanes;
  for (; rejoin != nullptr; rejoin = rejoin->parent) rejoin->expected &= ~lanes;
  if (warp.mask == 0) {
    rejoin = warp.rejoin;
    while (rejoin != nullptr && rejoin->expected == rejoin->arrived) {
      Rejoin* parent = rejoin->parent;
      if (rejoin->expected != 0) {
        LaneGroup group;
        group.pc = rejoin->at;
        group.mask = rejoin->arrived;
        group.frame = rejoin->frame;
        group.rejoin = parent;
        warp.parked.push_back(group);
        release_rejoin(warp, rejoin);
        break;
      }
      release_rejoin(warp, rejoin);
      rejoin = parent;
    }
  }
  barrier_after_exit(*warp.block);
  cluster_barrier_after_arrival(*warp.block->cluster);
  ++warp.block->cluster->events;
  // Groups that gather lanes may have waited for these alone: let them look again.
  for (LaneGroup& group : warp.parked) {
    if (group.state == GroupState::kGathering || group.state == GroupState::kWarpSync ||
        group.state == GroupState::kBarrierLanes || group.state == GroupState::kAligned) {
      if ((group.wait_mask & lanes) != 0) group.state = GroupState::kReady;
    }
  }
  return warp.mask != 0 ? next : group_gone(warp);
}

const Instruction* enter_function(Warp& warp, const FunctionCode& callee, const CallForm& call,
                                  const Instruction* return_to) {
  const uint64_t local_base = warp.frame->local_base + warp.frame->function->local_bytes;
  const bool too_deep = warp.frame_store.size() > kMostFrames ||
                        warp.frame_store.size() * callee.frame_bytes > kMostFrameBytes;
  if (too_deep || local_base + callee.local_bytes > warp.local_bytes) {
    return fault(
        warp, return_to - 1,
        {.kind = FaultKind::kOutOfBounds,
         .message = too_deep
                        ? fmt::format("stack overflow: {} calls nested", warp.frame_store.size())
                        : fmt::format("stack overflow: a call needs {} bytes of local "
                                      "memory, the stack has {}",
                                      local_base + callee.local_bytes, warp.local_bytes)});
  }
  Frame* frame = new_frame(warp);
  frame->storage.resize(callee.frame_bytes + 64);
  auto base = reinterpret_cast<uintptr_t>(frame->storage.data());
  frame->registers = reinterpret_cast<std::byte*>((base + 63) & ~uintptr_t{63});
  frame->function = &callee;
  frame->caller = warp.frame;
  frame->call = &call;
  frame->local_base = local_base;
  fill_initial_values(warp, *frame);
  for (size_t i = 0; i < call.arguments.size() && i < callee.params.size(); ++i) {
    const uint32_t bytes = (std::min(call.arguments[i].bytes, callee.params[i].bytes) + 3) / 4;
    std::memcpy(frame->registers + callee.params[i].first,
                warp.frame->registers + call.arguments[i].first, size_t{bytes} * kLaneBytes32);
  }
  Rejoin* rejoin = new_rejoin(warp);
  rejoin->at = return_to;
  rejoin->frame = warp.frame;
  rejoin->expected = warp.mask;
  rejoin->parent = warp.rejoin;
  rejoin->returns_from = frame;
  set_frame(warp, frame);
  set_rejoin(warp, rejoin);
  return callee.code.data();
}

const Instruction* return_lanes(Warp& warp, uint32_t lanes, const Instruction* next) {
  Frame* frame = warp.frame;
  if (frame->caller == nullptr) return exit_lanes(warp, lanes, next);
  if (!warp.launch->kernel->warpgroup_forms.empty()) {
    if (const Instruction* product = product_in_flight(warp)) {
      return fault(warp, next - 1,
                   {.kind = FaultKind::kAsynchronous,
                    .message = "a return while a wgmma of the function is in flight",
                    .other_party = describe_instruction(warp, *frame, *product)});
    }
  }
  for (size_t i = 0; i < frame->call->results.size() && i < frame->function->return_params.size();
       ++i) {
    const ParamWindow& to = frame->call->results[i];
    const ParamWindow& from = frame->function->return_params[i];
    const uint32_t words = (std::min(to.bytes, from.bytes) + 3) / 4;
    for (uint32_t word = 0; word < words; ++word) {
      auto* target = reinterpret_cast<uint32_t*>(frame->caller->registers + to.first) + word * 32;
      const auto* source = reinterpret_cast<uint32_t*>(frame->registers + from.first) + word * 32;
      for (int lane = 0; lane < 32; ++lane) {
        if ((lanes >> lane) & 1) target[lane] = source[lane];
      }
    }
  }
  Rejoin* rejoin = warp.rejoin;
  while (rejoin != nullptr && rejoin->returns_from != frame) rejoin = rejoin->parent;
  TW_CHECK(rejoin != nullptr, "a return without its call");
  const uint32_t rest = warp.mask & ~lanes;
  if (rest != 0) {
    rejoin->arrived |= lanes;
    note_waiting(warp, rejoin);
    warp.mask = rest;
    return next;
  }
  const Instruction* return_to = rejoin->at;
  set_frame(warp, rejoin->frame);
  set_rejoin(warp, rejoin);
  return arrive(warp, return_to);
}

bool gather(Warp& warp, const Instruction* instruction, uint32_t membership,
            const Instruction** result) {
  const uint32_t needed = membership & warp.live;
  if (warp.gathered || (needed & ~warp.mask) == 0) return true;
  uint32_t here = warp.mask;
  for (const LaneGroup& group : warp.parked) {
    if (group.state == GroupState::kGathering && group.pc == instruction &&
        group.frame == warp.frame && group.wait_mask == membership) {
      here |= group.mask;
    }
  }
  *result = park(warp, instruction, GroupState::kGathering, membership, 0);
  if ((needed & ~here) != 0) return false;
  // The last lanes are here: execute once for all, then every group goes on from behind.
  const Instruction* next = nullptr;
  Frame* frame = warp.parked.back().frame;
  warp.mask = here;
  set_frame(warp, frame);
  warp.gathered = true;
  next = instruction->handler(warp, instruction);
  warp.gathered = false;
  if (next == nullptr) {  // a fault
    *result = nullptr;
    return false;
  }
  for (LaneGroup& group : warp.parked) {
    if (group.state == GroupState::kGathering && group.pc == instruction && group.frame == frame &&
        group.wait_mask == membership) {
      group.state = GroupState::kReady;
      group.pc = next;
    }
  }
  *result = group_gone(warp);
  return false;
}

bool release_rejoin_early(Warp& warp) {
  if (warp.waiting_rejoins.empty()) return false;
  release_early(warp, warp.waiting_rejoins.back());
  return true;
}

void release_from_barrier(Warp& warp, uint32_t id) {
  for (LaneGroup& group : warp.parked) {
    if (group.state == GroupState::kAtBarrier && group.wait_id == id) {
      group.state = GroupState::kReady;
    }
  }
}

}  // namespace tilewright::emulator
