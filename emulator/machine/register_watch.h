// The registers of wgmma under the full observer. Accumulators and fragments of A belong to the
// warpgroup's products from issue to wait, and what ordinary instructions do to them must stand
// before a wgmma.fence. The decoder numbers the registers that any wgmma of a kernel names, and
// puts a note of the ordinary instructions that touch them in front of each run of such
// instructions.
#pragma once

#include <cstdint>
#include <vector>

#include "emulator/machine/code.h"

namespace tilewright::emulator {

struct Warp;

struct RegisterWatch {
  struct State {
    uint32_t touched_at = 0;  // source + 1 of an instruction since the last fence, 0: none
    uint64_t product = 0;     // number + 1 of the newest product on it, 0: none
    const WarpgroupForm* form = nullptr;  // of which it accumulates, since the last fence
  };
  std::vector<State> registers;
};

// The warp is about to execute the instructions of a note. Null: a fault.
const Instruction* note_touched_registers(Warp& warp, const Instruction* i);
void note_register_fence(Warp& warp);
// The warp issues product `number`. False: a fault.
bool note_product_registers(Warp& warp, const Instruction* i, const WarpgroupForm& form,
                            uint64_t number);

}  // namespace tilewright::emulator
