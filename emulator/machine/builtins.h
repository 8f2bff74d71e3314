// Functions that the CUDA runtime provides to device code: vprintf and __assertfail, malloc and
// free (refused with a trap-like fault when called: the heap is not emulated).
#pragma once

#include <string>
#include <string_view>

#include "emulator/machine/warp.h"

namespace tilewright::emulator {

// 0: not a builtin.
uint8_t find_builtin(std::string_view name);
const Instruction* call_builtin(Warp& warp, const Instruction* i, const CallForm& form);

}  // namespace tilewright::emulator
