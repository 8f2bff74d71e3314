// The multiply core in portable C++, and the choice among the variants.
#include <bit>

#include "emulator/instructions/convert.h"
#include "emulator/instructions/matrix_core.h"

namespace tilewright::emulator {
namespace {

// Element `index` of a 32-bit word of fragment register.
float element(MatrixType type, uint32_t word, int index) {
  switch (type) {
    case MatrixType::kF16:
      return to_float(Half{static_cast<uint16_t>(word >> (16 * index))});
    case MatrixType::kBf16:
      return to_float(Bfloat16{static_cast<uint16_t>(word >> (16 * index))});
    case MatrixType::kE4m3:
      return to_float(E4m3{static_cast<uint8_t>(word >> (8 * index))});
    case MatrixType::kE5m2:
      return to_float(E5m2{static_cast<uint8_t>(word >> (8 * index))});
    default:
      return std::bit_cast<float>(word & ~0x1fffu);
  }
}

int column_place(int column) { return (column >> 1) + 4 * (column & 1); }

void unpack_a(MatrixType type, int chunks, const uint32_t* const* a, bool negate, float* spread) {
  const int per_word = 4 / element_bytes(type);
  for (int r = 0; r < 2 * chunks; ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = (lane >> 2) + 8 * (r & 1);
      for (int i = 0; i < per_word; ++i) {
        const int k = (4 * (r >> 1) + (lane & 3)) * per_word + i;
        const float value = element(type, a[r][lane], i);
        for (int copy = 0; copy < 4; ++copy) {
          spread[k * 64 + row * 4 + copy] = negate ? -value : value;
        }
      }
    }
  }
}

void unpack_b(MatrixType type, int chunks, const uint32_t* const* b, float* columns) {
  const int per_word = 4 / element_bytes(type);
  for (int r = 0; r < chunks; ++r) {
    for (int lane = 0; lane < kLanes; ++lane) {
      for (int i = 0; i < per_word; ++i) {
        const int k = (4 * r + (lane & 3)) * per_word + i;
        columns[k * 8 + column_place(lane >> 2)] = element(type, b[r][lane], i);
      }
    }
  }
}

void multiply_block(int k, const float* spread, const float* columns, const uint32_t* const* c,
                    uint32_t* const* d) {
  for (int i = 0; i < 4; ++i) {
    float tile[kLanes];
    for (int lane = 0; lane < kLanes; ++lane)
      tile[lane] = c == nullptr ? 0.0f : std::bit_cast<float>(c[i][lane]);
    for (int step = 0; step < k; ++step) {
      const float* a = spread + step * 64 + (i >> 1) * kLanes;
      const float* b = columns + step * 8 + (i & 1) * 4;
      for (int lane = 0; lane < kLanes; ++lane) {
        tile[lane] = __builtin_fmaf(a[lane], b[lane & 3], tile[lane]);
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      d[i][lane] = std::bit_cast<uint32_t>(canonical_nan(tile[lane]));
    }
  }
}

void mma(MatrixType a_type, MatrixType b_type, bool full, const uint32_t* const* a,
         const uint32_t* const* b, const uint32_t* const* c, uint32_t* const* d) {
  float spread[kMaxK * 64];
  float columns[kMaxK * 8];
  const int chunks = full ? 2 : 1;
  unpack_a(a_type, chunks, a, false, spread);
  unpack_b(b_type, chunks, b, columns);
  multiply_block(16 * chunks / element_bytes(a_type), spread, columns, c, d);
}

void spread_a(MatrixType type, const uint32_t* const* a, bool negate, float* spread) {
  unpack_a(type, 2, a, negate, spread);
}

void prepare_b(MatrixType type, const uint32_t* const* b, float* columns) {
  unpack_b(type, 2, b, columns);
}

void multiply(int k, int blocks, const float* spread, const float* columns, bool accumulate,
              uint32_t* const* d) {
  for (int i = 0; i < blocks; ++i) {
    multiply_block(k, spread, columns + i * k * 8,
                   accumulate ? const_cast<const uint32_t* const*>(d + 4 * i) : nullptr, d + 4 * i);
  }
}

constexpr MatrixCore kCore = {"scalar", mma, spread_a, prepare_b, multiply, fused_sum_portable};

const MatrixCore& choose() {
  if (const MatrixCore* core = matrix_core_avx512()) return *core;
  if (const MatrixCore* core = matrix_core_avx2()) return *core;
  return kCore;
}

}  // namespace

const MatrixCore* matrix_core_scalar() { return &kCore; }

const MatrixCore& matrix_core() {
  static const MatrixCore& core = choose();
  return core;
}

void widen_f16_accumulators(int count, const uint32_t* const* f16, uint32_t* const* f32) {
  for (int i = 0; i < count; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint32_t pair = f16[i][lane];
      f32[2 * i][lane] = std::bit_cast<uint32_t>(to_float(low_half<Half>(pair)));
      f32[2 * i + 1][lane] = std::bit_cast<uint32_t>(to_float(high_half<Half>(pair)));
    }
  }
}

void narrow_f16_accumulators(int count, const uint32_t* const* f32, uint32_t* const* f16) {
  for (int i = 0; i < count; ++i) {
    for (int lane = 0; lane < kLanes; ++lane) {
      f16[i][lane] = pack_halves(round_to_f16(std::bit_cast<float>(f32[2 * i][lane])),
                                 round_to_f16(std::bit_cast<float>(f32[2 * i + 1][lane])));
    }
  }
}

const char* matrix_core_name() { return matrix_core().name; }

}  // namespace tilewright::emulator
