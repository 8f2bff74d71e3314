// Inside of mma.cpp and wgmma.cpp: products on dense tiles, for what the fp32 core does not
// compute, the `hardware` numerics and integers. Tiles are rows of 32 bytes of k (B: one row per
// column); accumulators are dense rows of raw 32-bit words (f32, s32, or an f16 in the low half).
#pragma once

#include <cstdint>

#include "emulator/instructions/mma.h"

namespace tilewright::emulator {

inline constexpr int kRowBytes = 32;
inline constexpr int kMaxRows = 16;  // of A in one product

struct DenseOperand {
  MatrixType type = MatrixType::kF16;
  const uint8_t* rows = nullptr;  // [count][kRowBytes]
  int count = 0;
  bool negate = false;
};

// The width of the fused sum (MMA-Sim, arXiv 2511.10909 and its code).
struct HardwareSum {
  int fraction_bits = 25;         // F: of each aligned and truncated summand
  int result_fraction_bits = 23;  // of an f32 result
  int k_bytes = 32;  // one sum covers this much of a row; more is done one after another
};
HardwareSum hardware_sum(MatrixType type, int compute_capability, bool is_wgmma);

// accumulators[a.count][b.count] = A·B + accumulators, over the first k elements of each row. A has
// at most kMaxRows rows; b.count is a multiple of 8.
void hardware_product(const HardwareSum& sum, const DenseOperand& a, const DenseOperand& b, int k,
                      AccumulatorType d, uint32_t* accumulators);
void integer_product(const DenseOperand& a, const DenseOperand& b, int k, bool saturate,
                     uint32_t* accumulators);

}  // namespace tilewright::emulator
