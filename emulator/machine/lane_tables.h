// The three compilations of lane_kernels.inc.
#pragma once

#include "emulator/machine/lane_kernels.h"

namespace tilewright::emulator {

struct LaneTable {
  LaneKernel (*kernel)(ptx::Opcode opcode, const ptx::Modifiers& modifiers);
  CompareKernel (*compare)(const ptx::Modifiers& modifiers);
  LaneHelpers helpers;
  const char* name;
};

namespace lanes_plain {
const LaneTable& table();
}
namespace lanes_avx2 {
const LaneTable& table();
}
namespace lanes_avx512 {
const LaneTable& table();
}

}  // namespace tilewright::emulator
