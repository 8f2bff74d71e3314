// wgmma on the multiply core: A is spread once per 16-row slab, B converted once per instruction.
#include <cstring>

#include "emulator/instructions/matrix_core.h"
#include "emulator/instructions/matrix_dense.h"
#include "emulator/instructions/mma.h"

namespace tilewright::emulator {
namespace {

constexpr int kWarps = 4;
constexpr int kMaxN = 256;
constexpr int kMaxRegisters = kMaxN / 2;

// Eight rows of a tile as the 16-byte chunk `chunk` of a fragment register: four lanes per row.
void chunk_to_register(const uint8_t* rows, int chunk, uint32_t* lanes) {
  for (int g = 0; g < 8; ++g) std::memcpy(lanes + 4 * g, rows + g * kRowBytes + 16 * chunk, 16);
}
void register_to_chunk(const uint32_t* lanes, int chunk, uint8_t* rows) {
  for (int g = 0; g < 8; ++g) std::memcpy(rows + g * kRowBytes + 16 * chunk, lanes + 4 * g, 16);
}

void spread_warp(const WgmmaForm& form, const WgmmaOperands& operands, int warp, float* spread) {
  if (operands.a_tile == nullptr) {
    matrix_core().spread_a(form.a, operands.a_registers[warp], operands.negate_a, spread);
    return;
  }
  alignas(64) uint32_t lanes[4][kLanes];
  const uint32_t* const lists[4] = {lanes[0], lanes[1], lanes[2], lanes[3]};
  const uint8_t* slab = operands.a_tile + 16 * warp * kRowBytes;
  for (int r = 0; r < 4; ++r) chunk_to_register(slab + (r & 1) * 8 * kRowBytes, r >> 1, lanes[r]);
  matrix_core().spread_a(form.a, lists, operands.negate_a, spread);
}

void prepare_columns(const WgmmaForm& form, const WgmmaOperands& operands, float* columns) {
  alignas(64) uint32_t lanes[2][kLanes];
  const uint32_t* const lists[2] = {lanes[0], lanes[1]};
  for (int block = 0; block < form.n / 8; ++block) {
    const uint8_t* rows = operands.b_tile + block * 8 * kRowBytes;
    for (int c = 0; c < 2; ++c) chunk_to_register(rows, c, lanes[c]);
    matrix_core().prepare_b(form.b, lists, columns + block * wgmma_k(form) * 8);
  }
}

void wgmma_fast(const WgmmaForm& form, const WgmmaOperands& operands) {
  alignas(64) float columns[kMaxK * kMaxN];
  alignas(64) float spread[kMaxK * 64];
  prepare_columns(form, operands, columns);
  // −A·B for either sign alone; both cancel.
  WgmmaOperands signed_operands = operands;
  signed_operands.negate_a = operands.negate_a != operands.negate_b;
  const int blocks = form.n / 8;
  for (int warp = 0; warp < kWarps; ++warp) {
    spread_warp(form, signed_operands, warp, spread);
    if (form.d == AccumulatorType::kF32) {
      matrix_core().multiply(wgmma_k(form), blocks, spread, columns, operands.scale_d,
                             operands.d[warp]);
      continue;
    }
    alignas(64) uint32_t wide[kMaxRegisters][kLanes];
    uint32_t* lists[kMaxRegisters];
    for (int i = 0; i < form.n / 2; ++i) lists[i] = wide[i];
    if (operands.scale_d) widen_f16_accumulators(form.n / 4, operands.d[warp], lists);
    matrix_core().multiply(wgmma_k(form), blocks, spread, columns, operands.scale_d, lists);
    narrow_f16_accumulators(form.n / 4, lists, operands.d[warp]);
  }
}

struct SlabRows {
  uint8_t bytes[16 * kRowBytes];
};
SlabRows dense_slab(const WgmmaOperands& operands, int warp) {
  SlabRows rows;
  if (operands.a_tile != nullptr) {
    std::memcpy(rows.bytes, operands.a_tile + 16 * warp * kRowBytes, sizeof(rows.bytes));
  } else {
    for (int r = 0; r < 4; ++r) {
      register_to_chunk(operands.a_registers[warp][r], r >> 1,
                        rows.bytes + (r & 1) * 8 * kRowBytes);
    }
  }
  return rows;
}

// accumulators[16][n]; element i of a lane: row g + 8·(i/2 % 2), column 8·(i/4) + 2t + i%2.
void transfer(const WgmmaForm& form, bool load, uint32_t* const* d, uint32_t* accumulators) {
  const bool is_f16 = form.d == AccumulatorType::kF16;
  for (int i = 0; i < form.n / 2; i += 2) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = (lane >> 2) + 8 * (i >> 1 & 1);
      uint32_t* pair = accumulators + row * form.n + 8 * (i >> 2) + 2 * (lane & 3);
      if (load) {
        pair[0] = is_f16 ? d[i / 2][lane] & 0xffffu : d[i][lane];
        pair[1] = is_f16 ? d[i / 2][lane] >> 16 : d[i + 1][lane];
      } else if (is_f16) {
        d[i / 2][lane] = pair[0] | pair[1] << 16;
      } else {
        d[i][lane] = pair[0];
        d[i + 1][lane] = pair[1];
      }
    }
  }
}

void wgmma_dense(const WgmmaForm& form, const ProductNumerics& numerics,
                 const WgmmaOperands& operands) {
  uint32_t accumulators[16 * kMaxN];
  const DenseOperand b = {form.b, operands.b_tile, form.n, operands.negate_b};
  for (int warp = 0; warp < kWarps; ++warp) {
    const SlabRows rows = dense_slab(operands, warp);
    const DenseOperand a = {form.a, rows.bytes, 16, operands.negate_a};
    std::memset(accumulators, 0, sizeof(accumulators));
    if (operands.scale_d) transfer(form, true, operands.d[warp], accumulators);
    if (form.d == AccumulatorType::kS32) {
      integer_product(a, b, wgmma_k(form), form.saturate, accumulators);
    } else {
      const HardwareSum sum = hardware_sum(form.a, numerics.compute_capability, true);
      hardware_product(sum, a, b, wgmma_k(form), form.d, accumulators);
    }
    transfer(form, false, operands.d[warp], accumulators);
  }
}

}  // namespace

bool is_legal(const WgmmaForm& form) {
  if (form.n < 8 || form.n > kMaxN || form.n % 8 != 0) return false;
  switch (form.a) {
    case MatrixType::kF16:
      return form.b == form.a && form.d != AccumulatorType::kS32 && !form.saturate;
    case MatrixType::kBf16:
    case MatrixType::kTf32:
      return form.b == form.a && form.d == AccumulatorType::kF32 && !form.saturate;
    case MatrixType::kE4m3:
    case MatrixType::kE5m2:
      return (form.b == MatrixType::kE4m3 || form.b == MatrixType::kE5m2) &&
             form.d != AccumulatorType::kS32 && !form.saturate;
    default:
      return (form.b == MatrixType::kS8 || form.b == MatrixType::kU8) &&
             form.d == AccumulatorType::kS32 && (form.n <= 32 || form.n % 16 == 0);
  }
}

void wgmma(const WgmmaForm& form, const ProductNumerics& numerics, const WgmmaOperands& operands) {
  if (form.d == AccumulatorType::kS32 || numerics.mode == Numerics::kHardware) {
    wgmma_dense(form, numerics, operands);
  } else {
    wgmma_fast(form, operands);
  }
}

}  // namespace tilewright::emulator
