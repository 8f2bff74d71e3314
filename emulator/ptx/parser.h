// PTX text to Module. Accepts what NVRTC and nvcc emit for sm_80 to sm_90a with inline assembly,
// and hand-written PTX of the same kind; any other input, however broken, is an error and never a
// crash.
#pragma once

#include <string_view>

#include "emulator/ptx/ast.h"
#include "tilewright/result.h"

namespace tilewright::emulator::ptx {

// kParseError: "line:column: what is wrong: the instruction's text". What the emulator's tables do
// not hold (opcodes.def) is refused here, so that nothing fails at run time for being unknown.
Result<Module> parse(std::string_view text);

}  // namespace tilewright::emulator::ptx
