#include "emulator/instructions/mma.h"

#include <cstring>

#include "emulator/instructions/matrix_core.h"
#include "emulator/instructions/matrix_dense.h"

namespace tilewright::emulator {
namespace {

bool is_integer(MatrixType type) { return type == MatrixType::kS8 || type == MatrixType::kU8; }
bool is_fp8(MatrixType type) { return type == MatrixType::kE4m3 || type == MatrixType::kE5m2; }

// Fragments ↔ dense rows; the rule is stated in matrix_core.h.
void gather_rows(int registers, int halves, const uint32_t* const* fragment, uint8_t* rows) {
  for (int r = 0; r < registers; ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = (lane >> 2) + 8 * (r % halves);
      const int word = (lane & 3) + 4 * (r / halves);
      std::memcpy(rows + row * kRowBytes + word * 4, &fragment[r][lane], 4);
    }
  }
}

// accumulators[m][8]; row = g + 8·(i/2), column = 2t + i%2 for element i.
void gather_accumulators(const MmaForm& form, const uint32_t* const* c, uint32_t* accumulators) {
  for (int i = 0; i < form.m / 4; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = (lane >> 2) + 8 * (i >> 1);
      const uint32_t bits = form.d == AccumulatorType::kF16
                                ? c[i >> 1][lane] >> (16 * (i & 1)) & 0xffffu
                                : c[i][lane];
      accumulators[row * 8 + 2 * (lane & 3) + (i & 1)] = bits;
    }
  }
}
void scatter_accumulators(const MmaForm& form, const uint32_t* accumulators, uint32_t* const* d) {
  for (int lane = 0; lane < kLanes; ++lane) {
    for (int i = 0; i < form.m / 8; ++i) {
      const uint32_t* pair = accumulators + ((lane >> 2) + 8 * i) * 8 + 2 * (lane & 3);
      if (form.d == AccumulatorType::kF16) {
        d[i][lane] = pair[0] | pair[1] << 16;
      } else {
        d[2 * i][lane] = pair[0];
        d[2 * i + 1][lane] = pair[1];
      }
    }
  }
}

void mma_dense(const MmaForm& form, const ProductNumerics& numerics, const uint32_t* const* a,
               const uint32_t* const* b, const uint32_t* const* c, uint32_t* const* d) {
  uint8_t a_rows[16 * kRowBytes] = {};
  uint8_t b_rows[8 * kRowBytes] = {};
  uint32_t accumulators[16 * 8];
  gather_rows(a_registers(form), form.m / 8, a, a_rows);
  gather_rows(b_registers(form), 1, b, b_rows);
  gather_accumulators(form, c, accumulators);
  const DenseOperand a_operand = {form.a, a_rows, form.m};
  const DenseOperand b_operand = {form.b, b_rows, form.n};
  if (form.d == AccumulatorType::kS32) {
    integer_product(a_operand, b_operand, form.k, form.saturate, accumulators);
  } else {
    const HardwareSum sum = hardware_sum(form.a, numerics.compute_capability, false);
    hardware_product(sum, a_operand, b_operand, form.k, form.d, accumulators);
  }
  scatter_accumulators(form, accumulators, d);
}

// f16 accumulators: widened, summed in f32, rounded once at the end of the instruction.
void mma_f16(const MmaForm& form, const uint32_t* const* a, const uint32_t* const* b,
             const uint32_t* const* c, uint32_t* const* d) {
  alignas(64) uint32_t wide[4][kLanes];
  uint32_t* const lists[4] = {wide[0], wide[1], wide[2], wide[3]};
  widen_f16_accumulators(2, c, lists);
  matrix_core().mma(form.a, form.b, form.k * element_bytes(form.a) == 32, a, b, lists, lists);
  narrow_f16_accumulators(2, lists, d);
}

}  // namespace

bool is_legal(const MmaForm& form) {
  if (form.n != 8) return false;
  if (is_integer(form.a)) {
    if (!is_integer(form.b) || form.d != AccumulatorType::kS32) return false;
    return form.m == 8 ? form.k == 16 : form.m == 16 && (form.k == 16 || form.k == 32);
  }
  if (form.m != 16 || form.saturate || form.d == AccumulatorType::kS32) return false;
  if (is_fp8(form.a)) return is_fp8(form.b) && (form.k == 16 || form.k == 32);
  if (form.a != form.b) return false;
  if (form.a == MatrixType::kTf32) {
    return form.d == AccumulatorType::kF32 && (form.k == 4 || form.k == 8);
  }
  if (form.a == MatrixType::kBf16 && form.d != AccumulatorType::kF32) return false;
  return form.k == 8 || form.k == 16;
}

void mma_sync(const MmaForm& form, const ProductNumerics& numerics, const uint32_t* const* a,
              const uint32_t* const* b, const uint32_t* const* c, uint32_t* const* d) {
  if (form.d == AccumulatorType::kS32 || numerics.mode == Numerics::kHardware) {
    mma_dense(form, numerics, a, b, c, d);
  } else if (form.d == AccumulatorType::kF16) {
    mma_f16(form, a, b, c, d);
  } else {
    matrix_core().mma(form.a, form.b, form.k * element_bytes(form.a) == 32, a, b, c, d);
  }
}

}  // namespace tilewright::emulator
