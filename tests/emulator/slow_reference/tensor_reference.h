// Tensor copies element by element (PTX ISA, Tensors), and reductions over ranges of bytes.
#pragma once

#include "tests/emulator/slow_reference/copy_support.h"
#include "tests/emulator/slow_reference/tuples.h"

namespace tilewright::emulator::slow {

// target = target op source, element by element.
void reduce_range(ptx::Op op, ptx::Type type, const std::vector<uint8_t>& source, size_t from,
                  std::vector<uint8_t>& target, size_t to, int bytes);
// Gives both states the same random values of the type everywhere: edges, but no NaN of f32 and
// f64, whose bits are open.
void tame_range(ptx::Type type, CopyState& before, CopyState& expected, Random& random);

// cp.async.bulk.tensor or cp.reduce.async.bulk.tensor with every swizzle, fill and element type
// that it can have, boxes partly outside, strides between elements.
void check_tensor(const Tuple& tuple, Ledger& ledger);

}  // namespace tilewright::emulator::slow
