// Basic blocks of a function and where diverged lanes come together again: the first instruction of
// a branch's immediate post-dominator. PTX marks no reconvergence; this is what hardware compilers
// choose.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/ptx/ast.h"

namespace tilewright::emulator::ptx {

struct BasicBlock {
  uint32_t first = 0;  // instructions [first, first + count)
  uint32_t count = 0;
  std::vector<uint32_t> successors;  // blocks; the fall-through one first
  bool may_exit = false;             // ends in ret, exit or trap (perhaps guarded)
  // The block that every way from here to the end passes next; kNoIndex: only the end itself.
  uint32_t post_dominator = kNoIndex;
};

struct ControlFlow {
  std::vector<BasicBlock> blocks;  // in program order
  std::vector<uint32_t> block_of;  // by instruction

  // Where lanes that part at this instruction (the last of its block) meet again; kNoIndex: not
  // before they end.
  uint32_t reconvergence(uint32_t instruction) const {
    const uint32_t block = blocks[block_of[instruction]].post_dominator;
    return block == kNoIndex ? kNoIndex : blocks[block].first;
  }
};

// `function` has a body, as parse gave it. A call is an ordinary instruction, unless the callee is
// known not to return. A loop without a way out counts as ending at its last block.
ControlFlow build_control_flow(const Module& module, const Function& function);

}  // namespace tilewright::emulator::ptx
