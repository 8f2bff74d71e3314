// Read-modify-write of one memory cell: the arithmetic of atom, red and the bulk reductions.
#pragma once

#include <cstddef>
#include <cstdint>

#include "emulator/ptx/types.h"

namespace tilewright::emulator {

struct CellUpdate {
  ptx::Type type = ptx::Type::kB32;
  ptx::Op op = ptx::Op::kNone;
  bool flushes = false;      // f32: subnormals, as in global memory
  bool host_atomic = false;  // other host threads may update the cell
};

// Replaces the cell of the type's size by op(cell, b); c: the new value of cas. The old value.
uint64_t update_cell(std::byte* cell, const CellUpdate& how, uint64_t b, uint64_t c = 0);

}  // namespace tilewright::emulator
