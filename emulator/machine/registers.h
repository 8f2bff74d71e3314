// Where a function's virtual registers lie in a frame. Registers that are never alive together
// share a slot, so that a warp's registers stay in cache; one that may be read before it is written
// keeps its own, with a mask of the lanes that wrote it.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/machine/code.h"
#include "emulator/ptx/control_flow.h"

namespace tilewright::emulator {

struct RegisterLayout {
  std::vector<Slot> slots;         // by register; kNoSlot: never used
  std::vector<Slot> written_mask;  // by register; kNoSlot: always written before it is read
  uint32_t bytes = 0;
};

RegisterLayout layout_registers(const ptx::Function& function, const ptx::ControlFlow& flow);

}  // namespace tilewright::emulator
