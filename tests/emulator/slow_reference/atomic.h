// What an atomic operation leaves in memory, one element at a time.
#pragma once

#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {

// The element after `op` with operands b (and c: cas). `flushes`: f32 sums in global memory flush
// subnormals, those in shared memory do not.
Part atomic_result(ptx::Op op, ptx::Type type, bool flushes, uint64_t old, uint64_t b, uint64_t c);

}  // namespace tilewright::emulator::slow
