#include "emulator/machine/block.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "core/check.h"
#include "emulator/machine/async_copy.h"
#include "emulator/machine/cluster.h"

namespace tilewright::emulator {
namespace {

// Warp instructions of one turn: long enough to stay in cache, short enough for polling loops.
constexpr int64_t kTurn = 4096;

Dim3 block_index(uint64_t linear, const Dim3& grid) {
  return {static_cast<uint32_t>(linear % grid.x), static_cast<uint32_t>(linear / grid.x % grid.y),
          static_cast<uint32_t>(linear / grid.x / grid.y)};
}

std::byte* aligned(std::vector<std::byte>& storage, size_t bytes) {
  if (storage.size() < bytes + 1024) storage.resize(bytes + 1024);
  const auto address = reinterpret_cast<uintptr_t>(storage.data());
  return reinterpret_cast<std::byte*>((address + 1023) & ~uintptr_t{1023});
}

uint32_t live_warps(const Block& block) {
  return static_cast<uint32_t>(std::count_if(block.warps.begin(), block.warps.end(),
                                             [](const Warp& w) { return !finished(w); }));
}

void complete(Block& block, uint32_t id) {
  Barrier barrier = std::move(block.barriers[id]);
  block.barriers[id] = Barrier{};
  uint32_t value = barrier.true_lanes;
  if (barrier.op == ptx::Op::kAnd) value = barrier.true_lanes == barrier.total_lanes;
  if (barrier.op == ptx::Op::kOr) value = barrier.true_lanes != 0;
  for (const Barrier::Waiter& waiter : barrier.waiters) {
    if (waiter.destination != kNoSlot && barrier.op == ptx::Op::kPopc) {
      auto* lanes = reinterpret_cast<uint32_t*>(waiter.registers + waiter.destination);
      for (int lane = 0; lane < 32; ++lane) {
        if ((waiter.mask >> lane) & 1) lanes[lane] = value;
      }
    } else if (waiter.destination != kNoSlot) {
      auto* bits = reinterpret_cast<uint32_t*>(waiter.registers + waiter.destination);
      *bits = value != 0 ? *bits | waiter.mask : *bits & ~waiter.mask;
    }
    Warp& warp = block.warps[waiter.warp];
    if (warp.ordered) {
      block.observer->on_sync(
          {.kind = SyncKind::kBarrierLeave, .warp = &warp, .lanes = waiter.lanes, .number = id});
    }
    release_from_barrier(warp, id);
  }
  if (block.warps[0].ordered) {
    block.observer->on_sync({.kind = SyncKind::kBarrierDone, .number = id});
  }
}

bool is_complete(const Block& block, const Barrier& barrier) {
  if (barrier.arrived_warps == 0) return false;
  const uint32_t expected = barrier.whole_block ? live_warps(block) : barrier.expected_warps;
  return barrier.arrived_warps >= expected;
}

// Whether the instruction at which a warp stands demands all its lanes.
bool is_aligned(const Warp& warp) {
  const ptx::Function& function = *warp.frame->function->source;
  if (warp.pc->source >= function.instructions.size()) return false;
  const ptx::Instruction& instruction = function.instructions[warp.pc->source];
  return instruction.modifiers.has(ptx::Flag::kAligned) &&
         ptx::family(instruction.opcode) == ptx::Family::kMatrix;
}

std::string_view wait_name(GroupState state) {
  switch (state) {
    case GroupState::kGathering:
      return "waits for the other lanes of its mask";
    case GroupState::kWarpSync:
      return "waits at bar.warp.sync";
    case GroupState::kAtBarrier:
      return "waits at barrier";
    case GroupState::kBarrierLanes:
      return "waits for the rest of its warp at barrier";
    case GroupState::kAligned:
      return "waits for the rest of its warp at aligned barrier";
    case GroupState::kAtCluster:
      return "waits at the cluster barrier";
    case GroupState::kAtMbarrier:
      return "waits for the";
    case GroupState::kAtWarpgroup:
      return "waits for the other warps of its warpgroup";
    case GroupState::kAtRegisters:
      return "waits for";
    case GroupState::kAtGrid:
      return "waits for the grid before it";
    case GroupState::kReady:
      break;
  }
  return "is ready";
}

// What a group waits for, where it has a number or an address.
std::string waited_object(const Block& block, const LaneGroup& group) {
  switch (group.state) {
    case GroupState::kAtBarrier:
    case GroupState::kBarrierLanes:
      return fmt::format(" {}", group.wait_id);
    case GroupState::kAtMbarrier:
      if (group.wait_id == kAnyMbarrier) return " mbarriers of its lanes";
      return fmt::format(" {}", describe_mbarrier(block, group.wait_id));
    case GroupState::kAtRegisters:
      return fmt::format(" {} more registers per thread, of which the block's pool has {},",
                         group.wait_id, block.free_registers);
    default:
      return {};
  }
}

}  // namespace

void Block::start(Launch& shared_launch, uint64_t linear_index, uint64_t* block_counts) {
  launch = &shared_launch;
  const LaunchRequest& request = *launch->request;
  const KernelCode& kernel = *launch->kernel;
  linear = linear_index;
  index = block_index(linear, request.grid);
  fault.reset();
  printed.clear();
  barriers = {};
  instructions = 0;
  clock = 0;
  next_warp = 0;
  mbarriers.clear();
  free_registers = 0;
  launches_dependents = false;
  random = Random(request.settings.seed * 0x9e3779b97f4a7c15u + linear);
  instruction_limit = request.settings.instruction_limit;

  const uint32_t threads = static_cast<uint32_t>(request.block.count());
  const uint32_t num_warps = (threads + 31) / 32;
  const size_t frame = (kernel.functions[0].frame_bytes + 63) / 64 * 64 + 256;
  std::byte* frames = aligned(registers, frame * num_warps);
  shared = aligned(shared_storage, launch->shared_bytes + 1024);
  std::memset(frames, 0, frame * num_warps);
  // Shared memory starts undefined; a pattern of NaNs makes that visible.
  std::memset(shared, 0xff, launch->shared_bytes);
  const size_t local_bytes = kernel.stack_bytes;
  std::byte* stacks =
      local_bytes == 0 ? nullptr : aligned(local_storage, local_bytes * 32 * num_warps);
  if (stacks != nullptr) std::memset(stacks, 0xff, local_bytes * 32 * num_warps);
  warps.resize(num_warps);
  warpgroups.clear();
  warpgroups.resize(num_warps / 4);
  for (uint32_t i = 0; i < num_warps; ++i) {
    Warp& warp = warps[i];
    warp.block = this;
    warp.launch = launch;
    warp.index = i;
    warp.shared = shared;
    warp.shared_low = launch->shared_base | (cluster_rank << 24);
    warp.observed = observer != nullptr;
    warp.ordered = request.settings.observers == ObserverLevel::kFull;
    warp.reads_unordered = false;
    warp.block_counts = block_counts;
    warp.bases[1] = reinterpret_cast<std::byte*>(const_cast<uint8_t*>(kernel.constants.data()));
    warp.local = stacks == nullptr ? nullptr : stacks + local_bytes * 32 * i;
    warp.local_bytes = local_bytes;
    const uint32_t lanes = std::min(32u, threads - i * 32);
    start_warp(warp, frames + frame * i, lanes == 32 ? kFullMask : (1u << lanes) - 1);
  }
}

bool Block::is_finished() const {
  return std::all_of(warps.begin(), warps.end(), [](const Warp& w) { return finished(w); });
}

bool Block::step() {
  bool progress = false;
  const size_t count = warps.size();
  const bool random_order = launch->schedule == Schedule::kRandom;
  for (size_t turn = 0; turn < count && !fault; ++turn) {
    size_t chosen = turn;
    if (launch->schedule == Schedule::kLazy) chosen = count - 1 - turn;
    if (random_order) chosen = (turn + next_warp) % count;
    Warp& warp = warps[chosen];
    if (finished(warp)) continue;
    const int64_t budget = random_order ? static_cast<int64_t>(1 + random.below(256)) : kTurn;
    warp.budget = budget;
    if (!run_warp(warp, budget)) continue;
    progress = true;
    const auto used = static_cast<uint64_t>(std::max<int64_t>(budget - warp.budget, 0));
    instructions += used;
    clock += used;
    if (random_order) {
      land_some(warp);
      land_some_bulk(*cluster);
      run_some_products(*this);
    }
    if (instruction_limit != 0 && instructions > instruction_limit && !fault && !finished(warp)) {
      const Instruction* at = warp.has_group        ? warp.pc
                              : warp.parked.empty() ? warp.frame->function->code.data()
                                                    : warp.parked.front().pc;
      if (!warp.has_group && !warp.parked.empty()) warp.frame = warp.parked.front().frame;
      emulator::fault(warp, at,
                      {.kind = FaultKind::kInstructionLimit,
                       .message = fmt::format("more than {} instructions: an endless loop?",
                                              instruction_limit)});
    }
  }
  if (random_order) next_warp = random.below(count);
  if (!progress && !fault) progress = unblock_block(*this);
  return progress && !fault;
}

bool arrive_at_barrier(Warp& warp, const Instruction* at, const BarrierArrival& arrival) {
  Block& block = *warp.block;
  const auto bad = [&](std::string message) {
    emulator::fault(warp, at, {.kind = FaultKind::kBarrier, .message = std::move(message)});
    return false;
  };
  if (arrival.id > 15) return bad(fmt::format("barrier {} does not exist", arrival.id));
  if (arrival.threads % 32 != 0) {
    return bad(fmt::format("barrier {} with {} threads, not a multiple of 32", arrival.id,
                           arrival.threads));
  }
  if (arrival.threads > block.warps.size() * 32) {
    return bad(fmt::format("barrier {} with {} threads in a block of {}", arrival.id,
                           arrival.threads, block.warps.size() * 32));
  }
  Barrier& barrier = block.barriers[arrival.id];
  const bool whole_block = arrival.threads == 0;
  if (barrier.arrived_warps == 0) {
    barrier.expected_warps = arrival.threads / 32;
    barrier.whole_block = whole_block;
    barrier.use = arrival.use;
    barrier.op = arrival.op;
  } else if (barrier.use != arrival.use || barrier.op != arrival.op) {
    return bad(
        fmt::format("barrier {} is used by bar.red and by another form at once", arrival.id));
  } else if (barrier.whole_block != whole_block || barrier.expected_warps != arrival.threads / 32) {
    return bad(fmt::format(
        "barrier {} with {} threads, but others wait there with {}", arrival.id,
        whole_block ? block.warps.size() * 32 : arrival.threads,
        barrier.whole_block ? block.warps.size() * 32 : size_t{barrier.expected_warps} * 32));
  }
  if (warp.ordered) {
    block.observer->on_sync({.kind = SyncKind::kBarrierArrive,
                             .warp = &warp,
                             .lanes = warp.live,
                             .number = arrival.id});
  }
  ++barrier.arrived_warps;
  barrier.true_lanes += arrival.true_lanes;
  barrier.total_lanes += arrival.lanes;
  if (arrival.waits) {
    barrier.waiters.push_back(
        {warp.index, arrival.destination, warp.mask, warp.live, warp.bases[0]});
  }
  return true;
}

void barrier_after_arrival(Block& block, uint32_t id) {
  if (is_complete(block, block.barriers[id])) complete(block, id);
}

void barrier_after_exit(Block& block) {
  for (uint32_t id = 0; id < block.barriers.size(); ++id) {
    if (block.barriers[id].whole_block && is_complete(block, block.barriers[id])) {
      complete(block, id);
    }
  }
}

void Block::report_deadlock() {
  std::string parties;
  Warp* first = nullptr;
  for (Warp& warp : warps) {
    if (finished(warp)) continue;
    for (const LaneGroup& group : warp.parked) {
      // Behind the barrier is where the lanes go on, not where they stand.
      const Instruction* at = group.state == GroupState::kAtBarrier ? group.pc - 1 : group.pc;
      if (first == nullptr) {
        first = &warp;
        warp.frame = group.frame;
        warp.bases[0] = group.frame->registers;
        warp.mask = group.mask;
        warp.pc = at;
      }
      parties +=
          fmt::format("{}warp {} lanes {:#010x} {}{} at {}", parties.empty() ? "" : "; ",
                      warp.index, group.mask, wait_name(group.state), waited_object(*this, group),
                      describe_instruction(warp, *group.frame, *at));
    }
    for (const Rejoin* rejoin : warp.waiting_rejoins) {
      parties +=
          fmt::format("{}warp {} lanes {:#010x} wait to rejoin {:#010x}",
                      parties.empty() ? "" : "; ", warp.index, rejoin->arrived, rejoin->expected);
    }
  }
  if (first == nullptr) first = &warps[0];
  const FaultKind kind =
      first->pc != nullptr && is_aligned(*first) ? FaultKind::kDivergent : FaultKind::kDeadlock;
  emulator::fault(*first, first->pc != nullptr ? first->pc : first->frame->function->code.data(),
                  {.kind = kind,
                   .message = "no warp of the block can go on",
                   .other_party = std::move(parties)});
}

}  // namespace tilewright::emulator
