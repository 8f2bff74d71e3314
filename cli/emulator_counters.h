// Instruction counts of the embedded emulator, by opcode.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tilewright/result.h"

namespace tilewright::cli {

Status reset_emulator_counters();
// Warp instructions executed since the reset, most first.
Result<std::vector<std::pair<std::string, uint64_t>>> emulator_counters();

}  // namespace tilewright::cli
