// The multiply core for AVX-512 (F, BW, DQ, VL): accumulators stay in fragment order, so that C and
// D need no shuffle; a 128-bit lane is one row's four columns.
#include "emulator/instructions/matrix_core.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>

namespace tilewright::emulator {
namespace {

// Which quad and which place in it hold k.
template <MatrixType kType>
constexpr int quad_of(int k) {
  switch (kType) {
    case MatrixType::kBf16:
      return (k >> 3) * 2 + (k & 1);
    case MatrixType::kE4m3:
    case MatrixType::kE5m2:
      return (k >> 4) * 4 + (k & 3);
    default:
      return k >> 2;
  }
}
template <MatrixType kType>
constexpr int place_of(int k) {
  switch (kType) {
    case MatrixType::kBf16:
      return (k >> 1) & 3;
    case MatrixType::kE4m3:
    case MatrixType::kE5m2:
      return (k >> 2) & 3;
    default:
      return k & 3;
  }
}

template <MatrixType kType>
constexpr int kBytes = element_bytes(kType);
template <MatrixType kType, int kK>
constexpr int kChunks = kK* kBytes<kType> / 16;
template <MatrixType kType>
constexpr int kPerChunk = 16 / kBytes<kType>;

// The float value of byte `index` of each 32-bit word: a normal's exponent is re-biased in place, a
// subnormal is an integer multiple of the least one. (Scaling the shifted bits by a float product
// would take a microcode assist for every subnormal.)
template <MatrixType kType>
__m512 byte_to_float(__m512i words, int index) {
  constexpr bool kE4 = kType == MatrixType::kE4m3;
  const __m512i byte = _mm512_and_si512(_mm512_srl_epi32(words, _mm_cvtsi32_si128(8 * index)),
                                        _mm512_set1_epi32(0xff));
  const __m512i magnitude = _mm512_and_si512(byte, _mm512_set1_epi32(0x7f));
  const __m512i sign = _mm512_slli_epi32(_mm512_andnot_si512(_mm512_set1_epi32(0x7f), byte), 24);
  const __m512i shifted = _mm512_slli_epi32(magnitude, kE4 ? 20 : 21);
  __m512i value = _mm512_add_epi32(shifted, _mm512_set1_epi32((kE4 ? 120 : 112) << 23));
  const __m512 multiple =
      _mm512_mul_ps(_mm512_cvtepi32_ps(magnitude), _mm512_set1_ps(kE4 ? 0x1p-9f : 0x1p-16f));
  const __mmask16 subnormal = _mm512_cmplt_epi32_mask(magnitude, _mm512_set1_epi32(kE4 ? 8 : 4));
  value = _mm512_mask_mov_epi32(value, subnormal, _mm512_castps_si512(multiple));
  // 0x7f of e4m3 is NaN; from 0x7c on e5m2 has an all-ones exponent.
  const __mmask16 special =
      _mm512_cmpgt_epi32_mask(magnitude, _mm512_set1_epi32(kE4 ? 0x7e : 0x7b));
  value = _mm512_mask_or_epi32(value, special, shifted, _mm512_set1_epi32(0x7f800000));
  return _mm512_castsi512_ps(_mm512_or_si512(value, sign));
}

// One 16-byte chunk of four rows (16 lanes) into its quads, 64 floats apart.
template <MatrixType kType>
void unpack_a(__m512i words, float* quads) {
  if constexpr (kType == MatrixType::kTf32) {
    const __m512i kept = _mm512_and_si512(words, _mm512_set1_epi32(~0x1fff));
    _mm512_store_ps(quads, _mm512_castsi512_ps(kept));
  } else if constexpr (kType == MatrixType::kBf16) {
    _mm512_store_si512(quads, _mm512_slli_epi32(words, 16));
    _mm512_store_si512(quads + 64, _mm512_and_si512(words, _mm512_set1_epi32(~0xffff)));
  } else if constexpr (kType == MatrixType::kF16) {
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const __m512i split = _mm512_permutexvar_epi64(order, words);
    _mm512_store_ps(quads, _mm512_cvtph_ps(_mm512_castsi512_si256(split)));
    _mm512_store_ps(quads + 64, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(split, 1)));
  } else {
    for (int i = 0; i < 4; ++i) _mm512_store_ps(quads + 64 * i, byte_to_float<kType>(words, i));
  }
}

template <MatrixType kType, int kK>
void prepare_a(const uint32_t* const* a, float* quads) {
  for (int r = 0; r < 2 * kChunks<kType, kK>; ++r) {
    float* target = quads + (r >> 1) * kPerChunk<kType> * 16 + (r & 1) * 32;
    unpack_a<kType>(_mm512_loadu_si512(a[r]), target);
    unpack_a<kType>(_mm512_loadu_si512(a[r] + 16), target + 16);
  }
}

template <MatrixType kType, int kK>
void prepare_b_typed(const uint32_t* const* b, float* columns) {
  // Words of one chunk: lanes 4·n + t; out: [t][0 2 4 6 1 3 5 7].
  const __m512i first = _mm512_setr_epi32(0, 8, 16, 24, 4, 12, 20, 28, 1, 9, 17, 25, 5, 13, 21, 29);
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(2));
  for (int c = 0; c < kChunks<kType, kK>; ++c) {
    const __m512i low = _mm512_loadu_si512(b[c]);
    const __m512i high = _mm512_loadu_si512(b[c] + 16);
    float* target = columns + c * kPerChunk<kType> * 8;
    for (int half = 0; half < 2; ++half) {
      const __m512i words = _mm512_permutex2var_epi32(low, half == 0 ? first : second, high);
      if constexpr (kType == MatrixType::kTf32) {
        const __m512i kept = _mm512_and_si512(words, _mm512_set1_epi32(~0x1fff));
        _mm512_storeu_si512(target + half * 16, kept);
      } else if constexpr (kType == MatrixType::kBf16) {
        const __m512 even = _mm512_castsi512_ps(_mm512_slli_epi32(words, 16));
        const __m512 odd = _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(~0xffff)));
        _mm512_storeu_ps(target + half * 32, _mm512_shuffle_f32x4(even, odd, 0x44));
        _mm512_storeu_ps(target + half * 32 + 16, _mm512_shuffle_f32x4(even, odd, 0xee));
      } else if constexpr (kType == MatrixType::kF16) {
        // Within 256 bits (one t): the low halves (even k), then the high ones.
        const __m512i gather_halves =
            _mm512_set_epi16(31, 29, 27, 25, 23, 21, 19, 17, 30, 28, 26, 24, 22, 20, 18, 16, 15, 13,
                             11, 9, 7, 5, 3, 1, 14, 12, 10, 8, 6, 4, 2, 0);
        const __m512i halves = _mm512_permutexvar_epi16(gather_halves, words);
        _mm512_storeu_ps(target + half * 32, _mm512_cvtph_ps(_mm512_castsi512_si256(halves)));
        _mm512_storeu_ps(target + half * 32 + 16,
                         _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)));
      } else {
        for (int i = 0; i < 4; ++i) {
          const __m512 values = byte_to_float<kType>(words, i);
          _mm256_storeu_ps(target + half * 64 + i * 8, _mm512_castps512_ps256(values));
          _mm256_storeu_ps(target + half * 64 + 32 + i * 8, _mm512_extractf32x8_ps(values, 1));
        }
      }
    }
  }
}

__m512 canonical(__m512 value) {
  const __mmask16 nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_mov_ps(value, nan, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff)));
}

struct Tile {
  __m512 rows[4][2];  // [rows 4·j …][even, odd columns]
};

Tile load_tile(const uint32_t* const* c) {
  Tile tile;
  for (int j = 0; j < 4; ++j) {
    for (int p = 0; p < 2; ++p) {
      tile.rows[j][p] =
          c == nullptr ? _mm512_setzero_ps() : _mm512_loadu_ps(c[(j >> 1) * 2 + p] + (j & 1) * 16);
    }
  }
  return tile;
}
void store_tile(const Tile& tile, uint32_t* const* d) {
  for (int j = 0; j < 4; ++j) {
    for (int p = 0; p < 2; ++p) {
      _mm512_storeu_ps(d[(j >> 1) * 2 + p] + (j & 1) * 16, canonical(tile.rows[j][p]));
    }
  }
}

template <MatrixType kType, int kK, int kStep>
[[gnu::always_inline]] inline void multiply_steps(const float* quads, const float* columns,
                                                  Tile& tile) {
  if constexpr (kStep < kK) {
    constexpr int kPlace = place_of<kType>(kStep) * 0x55;
    const float* quad = quads + quad_of<kType>(kStep) * 64;
    const __m512 even = _mm512_broadcast_f32x4(_mm_load_ps(columns + kStep * 8));
    const __m512 odd = _mm512_broadcast_f32x4(_mm_load_ps(columns + kStep * 8 + 4));
    for (int j = 0; j < 4; ++j) {
      const __m512 a = _mm512_permute_ps(_mm512_load_ps(quad + j * 16), kPlace);
      tile.rows[j][0] = _mm512_fmadd_ps(a, even, tile.rows[j][0]);
      tile.rows[j][1] = _mm512_fmadd_ps(a, odd, tile.rows[j][1]);
    }
    multiply_steps<kType, kK, kStep + 1>(quads, columns, tile);
  }
}

template <MatrixType kType, int kK>
void prepare_b_any(MatrixType type, const uint32_t* const* b, float* columns) {
  if (type == kType) {
    prepare_b_typed<kType, kK>(b, columns);
  } else if (type == MatrixType::kE4m3) {
    if constexpr (kBytes<kType> == 1) prepare_b_typed<MatrixType::kE4m3, kK>(b, columns);
  } else {
    if constexpr (kBytes<kType> == 1) prepare_b_typed<MatrixType::kE5m2, kK>(b, columns);
  }
}

template <MatrixType kType, int kK>
void mma_typed(MatrixType b_type, const uint32_t* const* a, const uint32_t* const* b,
               const uint32_t* const* c, uint32_t* const* d) {
  alignas(64) float quads[kK * 16];
  alignas(64) float columns[kK * 8];
  prepare_b_any<kType, kK>(b_type, b, columns);
  prepare_a<kType, kK>(a, quads);
  Tile tile = load_tile(c);
  multiply_steps<kType, kK, 0>(quads, columns, tile);
  store_tile(tile, d);
}

void mma(MatrixType a_type, MatrixType b_type, bool full, const uint32_t* const* a,
         const uint32_t* const* b, const uint32_t* const* c, uint32_t* const* d) {
  switch (a_type) {
    case MatrixType::kF16:
      return full ? mma_typed<MatrixType::kF16, 16>(b_type, a, b, c, d)
                  : mma_typed<MatrixType::kF16, 8>(b_type, a, b, c, d);
    case MatrixType::kBf16:
      return full ? mma_typed<MatrixType::kBf16, 16>(b_type, a, b, c, d)
                  : mma_typed<MatrixType::kBf16, 8>(b_type, a, b, c, d);
    case MatrixType::kTf32:
      return full ? mma_typed<MatrixType::kTf32, 8>(b_type, a, b, c, d)
                  : mma_typed<MatrixType::kTf32, 4>(b_type, a, b, c, d);
    case MatrixType::kE4m3:
      return full ? mma_typed<MatrixType::kE4m3, 32>(b_type, a, b, c, d)
                  : mma_typed<MatrixType::kE4m3, 16>(b_type, a, b, c, d);
    default:
      return full ? mma_typed<MatrixType::kE5m2, 32>(b_type, a, b, c, d)
                  : mma_typed<MatrixType::kE5m2, 16>(b_type, a, b, c, d);
  }
}

template <MatrixType kType, int kK, int kStep>
[[gnu::always_inline]] inline void spread_steps(const float* quads, __m512 sign, float* spread) {
  if constexpr (kStep < kK) {
    for (int j = 0; j < 4; ++j) {
      const __m512 rows = _mm512_load_ps(quads + quad_of<kType>(kStep) * 64 + j * 16);
      const __m512 copies = _mm512_permute_ps(rows, place_of<kType>(kStep) * 0x55);
      _mm512_store_ps(spread + kStep * 64 + j * 16, _mm512_xor_ps(copies, sign));
    }
    spread_steps<kType, kK, kStep + 1>(quads, sign, spread);
  }
}

template <MatrixType kType, int kK>
void spread_typed(const uint32_t* const* a, bool negate, float* spread) {
  alignas(64) float quads[kK * 16];
  prepare_a<kType, kK>(a, quads);
  spread_steps<kType, kK, 0>(quads, _mm512_set1_ps(negate ? -0.0f : 0.0f), spread);
}

void spread_a(MatrixType type, const uint32_t* const* a, bool negate, float* spread) {
  switch (type) {
    case MatrixType::kF16:
      return spread_typed<MatrixType::kF16, 16>(a, negate, spread);
    case MatrixType::kBf16:
      return spread_typed<MatrixType::kBf16, 16>(a, negate, spread);
    case MatrixType::kTf32:
      return spread_typed<MatrixType::kTf32, 8>(a, negate, spread);
    case MatrixType::kE4m3:
      return spread_typed<MatrixType::kE4m3, 32>(a, negate, spread);
    default:
      return spread_typed<MatrixType::kE5m2, 32>(a, negate, spread);
  }
}

void prepare_b(MatrixType type, const uint32_t* const* b, float* columns) {
  switch (type) {
    case MatrixType::kF16:
      return prepare_b_typed<MatrixType::kF16, 16>(b, columns);
    case MatrixType::kBf16:
      return prepare_b_typed<MatrixType::kBf16, 16>(b, columns);
    case MatrixType::kTf32:
      return prepare_b_typed<MatrixType::kTf32, 8>(b, columns);
    case MatrixType::kE4m3:
      return prepare_b_typed<MatrixType::kE4m3, 32>(b, columns);
    default:
      return prepare_b_typed<MatrixType::kE5m2, 32>(b, columns);
  }
}

// Two blocks at a time: 16 accumulators hide the latency of fma, and A's loads serve twice.
template <int kBlocks>
[[gnu::always_inline]] inline void multiply_blocks(int k, const float* spread, const float* columns,
                                                   bool accumulate, uint32_t* const* d) {
  Tile tiles[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    tiles[i] = load_tile(accumulate ? const_cast<const uint32_t* const*>(d + 4 * i) : nullptr);
  }
  for (int step = 0; step < k; ++step) {
    __m512 even[kBlocks];
    __m512 odd[kBlocks];
    for (int i = 0; i < kBlocks; ++i) {
      const float* row = columns + (i * k + step) * 8;
      even[i] = _mm512_broadcast_f32x4(_mm_load_ps(row));
      odd[i] = _mm512_broadcast_f32x4(_mm_load_ps(row + 4));
    }
    for (int j = 0; j < 4; ++j) {
      const __m512 a = _mm512_load_ps(spread + step * 64 + j * 16);
      for (int i = 0; i < kBlocks; ++i) {
        tiles[i].rows[j][0] = _mm512_fmadd_ps(a, even[i], tiles[i].rows[j][0]);
        tiles[i].rows[j][1] = _mm512_fmadd_ps(a, odd[i], tiles[i].rows[j][1]);
      }
    }
  }
  for (int i = 0; i < kBlocks; ++i) store_tile(tiles[i], d + 4 * i);
}

void multiply(int k, int blocks, const float* spread, const float* columns, bool accumulate,
              uint32_t* const* d) {
  int i = 0;
  for (; i + 2 <= blocks; i += 2) {
    multiply_blocks<2>(k, spread, columns + i * k * 8, accumulate, d + 4 * i);
  }
  if (i < blocks) multiply_blocks<1>(k, spread, columns + i * k * 8, accumulate, d + 4 * i);
}

// |significand| · 2^kept_bits shifted down to the common exponent: truncation toward zero, then the
// sign. The 64-bit shift gives 0 from 64 places on.
__m512i align(__m256i significand, __m256i distance, __m512i kept_bits, __m512i fraction_bits) {
  const __m512i wide = _mm512_cvtepi32_epi64(significand);
  const __m512i lifted = _mm512_sllv_epi64(_mm512_abs_epi64(wide), kept_bits);
  const __m512i drop = _mm512_add_epi64(_mm512_cvtepi32_epi64(distance), fraction_bits);
  const __m512i aligned = _mm512_srlv_epi64(lifted, drop);
  const __mmask8 negative = _mm512_movepi64_mask(wide);
  return _mm512_mask_sub_epi64(aligned, negative, _mm512_setzero_si512(), aligned);
}

__m256i load_columns(const int32_t* values) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
}

void fused_sum(const FusedRow& row, int64_t* sums, int32_t* largest) {
  __m256i products[kMaxK];
  __m256i exponents[kMaxK];
  const __m256i zero_exponent = _mm256_set1_epi32(kZeroExponent);
  const auto exponent_of = [&](__m256i significand, __m256i exponent) {
    const __mmask8 is_zero = _mm256_testn_epi32_mask(significand, significand);
    return _mm256_mask_mov_epi32(exponent, is_zero, zero_exponent);
  };
  const __m256i c = load_columns(row.c_significand);
  const __m256i c_exponent = exponent_of(c, load_columns(row.c_exponent));
  __m256i top = c_exponent;
  for (int k = 0; k < row.k; ++k) {
    products[k] = _mm256_mullo_epi32(_mm256_set1_epi32(row.a_significand[k]),
                                     load_columns(row.b_significand[k]));
    exponents[k] = exponent_of(products[k], _mm256_add_epi32(_mm256_set1_epi32(row.a_exponent[k]),
                                                             load_columns(row.b_exponent[k])));
    top = _mm256_max_epi32(top, exponents[k]);
  }
  const __m512i kept_bits = _mm512_set1_epi64(row.kept_bits);
  __m512i sum = align(c, _mm256_sub_epi32(top, c_exponent), kept_bits,
                      _mm512_set1_epi64(row.c_fraction_bits));
  const __m512i product_bits = _mm512_set1_epi64(row.product_fraction_bits);
  for (int k = 0; k < row.k; ++k) {
    const __m256i distance = _mm256_sub_epi32(top, exponents[k]);
    sum = _mm512_add_epi64(sum, align(products[k], distance, kept_bits, product_bits));
  }
  _mm512_storeu_si512(sums, sum);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(largest), top);
}

constexpr MatrixCore kCore = {"avx512", mma, spread_a, prepare_b, multiply, fused_sum};

}  // namespace

const MatrixCore* matrix_core_avx512() {
  const bool supported = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return supported ? &kCore : nullptr;
}

}  // namespace tilewright::emulator

#else

namespace tilewright::emulator {
const MatrixCore* matrix_core_avx512() { return nullptr; }
}  // namespace tilewright::emulator

#endif
