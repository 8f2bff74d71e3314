// The arithmetic of instructions as functions over 32-lane arrays. Hot ones are compiled three
// times (plain, AVX2, AVX-512; lane_kernels.inc) and chosen once for the host; the others go lane
// by lane through the same pure functions of emulator/instructions.
#pragma once

#include <cstdint>

#include "emulator/machine/code.h"
#include "emulator/ptx/ast.h"

namespace tilewright::emulator {

struct KernelChoice {
  LaneKernel kernel = nullptr;
  uint32_t options = 0;
  explicit operator bool() const { return kernel != nullptr; }
};
struct CompareChoice {
  CompareKernel kernel = nullptr;
  uint32_t options = 0;
  explicit operator bool() const { return kernel != nullptr; }
};

// The kernel of an arithmetic instruction, by opcode and modifiers; empty if it has none (control,
// memory, …). mov, cvt, selp (c: the predicate's mask), set, slct included; setp is a comparison.
KernelChoice find_kernel(ptx::Opcode opcode, const ptx::Modifiers& modifiers);
CompareChoice find_compare(ptx::Opcode opcode, const ptx::Modifiers& modifiers);
// setp on f16x2 and bf16x2: the comparison of the high halves (find_compare: the low ones).
CompareChoice find_compare_high(const ptx::Modifiers& modifiers);

// Helpers of the interpreter that also profit from wide vectors.
struct LaneHelpers {
  // d[l] = a[l] where bit l of mask, for 4- and 8-byte lanes.
  void (*blend32)(uint32_t* d, const uint32_t* a, uint32_t mask);
  void (*blend64)(uint64_t* d, const uint64_t* a, uint32_t mask);
  // Nonzero if any a[l] + offset lies outside [low, high − bytes] or breaks the alignment mask.
  // All 32 lanes. The sums go to `out`.
  uint32_t (*check64)(const uint64_t* a, uint64_t offset, uint64_t low, uint64_t last,
                      uint64_t alignment_mask, uint64_t* out);
  uint32_t (*check32)(const uint32_t* a, uint32_t offset, uint32_t low, uint32_t last,
                      uint32_t alignment_mask, uint32_t* out);
};
const LaneHelpers& lane_helpers();
// "avx512", "avx2" or "plain".
const char* lane_kernel_variant();

}  // namespace tilewright::emulator
