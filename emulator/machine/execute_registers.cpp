// setmaxnreg: warpgroups trade registers through a pool that belongs to the block. The launch hands
// every warp the kernel's fixed count, so the pool starts empty; dec fills it, inc waits for it.
#include <algorithm>

#include "core/check.h"
#include "emulator/machine/block.h"
#include "emulator/machine/cluster.h"
#include "emulator/machine/execute.h"

namespace tilewright::emulator::execute {
namespace {

// Empty, or what is wrong with this warp's next setmaxnreg beside those of its warpgroup. All four
// warps execute the same ones, and meet between two of them.
std::string check_warpgroup(const Warp& warp, uint32_t options) {
  const Block& block = *warp.block;
  if (warp.index / 4 >= block.warpgroups.size()) return "outside of a whole warpgroup";
  const std::vector<uint32_t>& changes = block.warpgroups[warp.index / 4].register_changes;
  if (warp.register_changes < changes.size()) {
    return changes[warp.register_changes] == options
               ? ""
               : "while another warp of the warpgroup executed a different one";
  }
  const size_t first = warp.index / 4 * 4;
  for (size_t w = first; w < first + 4; ++w) {
    const Warp& other = block.warps[w];
    if (other.register_changes < warp.register_changes) {
      return fmt::format("before warp {} of the warpgroup has executed the one before", w);
    }
  }
  return {};
}

void wake_waiters(Block& block) {
  for (Warp& warp : block.warps) {
    for (LaneGroup& group : warp.parked) {
      if (group.state == GroupState::kAtRegisters) group.state = GroupState::kReady;
    }
  }
  ++block.cluster->events;
}

}  // namespace

const Instruction* set_max_registers(Warp& warp, const Instruction* i) {
  const Instruction* result = nullptr;
  if (!gather(warp, i, warp.live, &result)) return result;
  Block& block = *warp.block;
  const bool increases = (i->options & kRegistersIncrease) != 0;
  const uint32_t count = i->options & 0x3ff;
  const auto refuse = [&](FaultKind kind, const std::string& why) {
    return fault(warp, i,
                 {.kind = kind,
                  .message = fmt::format("setmaxnreg.{} to {} registers {}",
                                         increases ? "inc" : "dec", count, why)});
  };
  // Where nothing fixes the kernel's count the instruction may have no effect, says the ISA, and
  // ptxas drops it with a note. Nor has one that asks for what the warp has.
  if (warp.max_registers == 0 || count == warp.max_registers) return i + 1;
  if (increases ? count < warp.max_registers : count > warp.max_registers) {
    return refuse(FaultKind::kIllegalInstruction, fmt::format("from {}", warp.max_registers));
  }
  const std::string error = check_warpgroup(warp, i->options);
  if (!error.empty()) return refuse(FaultKind::kDivergent, error);
  std::vector<uint32_t>& changes = block.warpgroups[warp.index / 4].register_changes;
  if (changes.size() == warp.register_changes) changes.push_back(i->options);
  if (increases) {
    const uint32_t more = count - warp.max_registers;
    if (more > block.free_registers) {
      return park_to_repeat(warp, i, GroupState::kAtRegisters, more);
    }
    block.free_registers -= more;
  } else {
    block.free_registers += warp.max_registers - count;
    wake_waiters(block);
  }
  warp.max_registers = count;
  ++warp.register_changes;
  return i + 1;
}

}  // namespace tilewright::emulator::execute
