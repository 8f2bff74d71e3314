// The multiply core for AVX2, FMA and F16C: as the AVX-512 one, at half the width, rows 0-7 and
// 8-15 one after the other because 16 registers hold only one half's accumulators.
#include "emulator/instructions/matrix_core.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#include <immintrin.h>

namespace tilewright::emulator {
namespace {

template <MatrixType kType>
constexpr int kBytes = element_bytes(kType);
template <MatrixType kType>
constexpr int kPerChunk = 16 / kBytes<kType>;

__m256 load_lanes(const uint32_t* lanes) {
  return _mm256_loadu_ps(reinterpret_cast<const float*>(lanes));
}
void store_lanes(uint32_t* lanes, __m256 value) {
  _mm256_storeu_ps(reinterpret_cast<float*>(lanes), value);
}

// The float value of byte `index` of each 32-bit word, as in the AVX-512 core.
template <MatrixType kType>
__m256 byte_to_float(__m256i words, int index) {
  constexpr bool kE4 = kType == MatrixType::kE4m3;
  const __m256i byte = _mm256_and_si256(_mm256_srl_epi32(words, _mm_cvtsi32_si128(8 * index)),
                                        _mm256_set1_epi32(0xff));
  const __m256i magnitude = _mm256_and_si256(byte, _mm256_set1_epi32(0x7f));
  const __m256i sign = _mm256_slli_epi32(_mm256_andnot_si256(_mm256_set1_epi32(0x7f), byte), 24);
  const __m256i shifted = _mm256_slli_epi32(magnitude, kE4 ? 20 : 21);
  const __m256i normal = _mm256_add_epi32(shifted, _mm256_set1_epi32((kE4 ? 120 : 112) << 23));
  const __m256 multiple =
      _mm256_mul_ps(_mm256_cvtepi32_ps(magnitude), _mm256_set1_ps(kE4 ? 0x1p-9f : 0x1p-16f));
  const __m256i is_subnormal = _mm256_cmpgt_epi32(_mm256_set1_epi32(kE4 ? 8 : 4), magnitude);
  const __m256i is_special = _mm256_cmpgt_epi32(magnitude, _mm256_set1_epi32(kE4 ? 0x7e : 0x7b));
  const __m256i special = _mm256_or_si256(shifted, _mm256_set1_epi32(0x7f800000));
  __m256i value = _mm256_blendv_epi8(normal, _mm256_castps_si256(multiple), is_subnormal);
  value = _mm256_blendv_epi8(value, special, is_special);
  return _mm256_castsi256_ps(_mm256_or_si256(value, sign));
}

// Two rows' chunk (8 lanes) into `kPerChunk / 4` vectors: members of each, by place, are the k that
// k_order says.
template <MatrixType kType>
void unpack_words(__m256i words, __m256* out) {
  if constexpr (kType == MatrixType::kTf32) {
    out[0] = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(~0x1fff)));
  } else if constexpr (kType == MatrixType::kBf16) {
    out[0] = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
    out[1] = _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(~0xffff)));
  } else if constexpr (kType == MatrixType::kF16) {
    // Both low halves of a row's words, then both high ones: as bf16's order.
    const __m256i low = _mm256_and_si256(words, _mm256_set1_epi32(0xffff));
    const __m256i high = _mm256_srli_epi32(words, 16);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xd8);
    out[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(packed));
    out[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(packed, 1));
  } else {
    for (int i = 0; i < 4; ++i) out[i] = byte_to_float<kType>(words, i);
  }
}

// quads: [vector][16 rows][4]; vector and place of k are k % n + n·(k / 4n) and k / n % 4, where n
// elements fill a word.
template <MatrixType kType>
void prepare_a(int chunks, const uint32_t* const* a, float* quads) {
  constexpr int kVectors = kPerChunk<kType> / 4;
  for (int r = 0; r < 2 * chunks; ++r) {
    for (int pair = 0; pair < 4; ++pair) {
      __m256 out[kVectors];
      unpack_words<kType>(_mm256_castps_si256(load_lanes(a[r] + 8 * pair)), out);
      for (int v = 0; v < kVectors; ++v) {
        _mm256_store_ps(quads + ((r >> 1) * kVectors + v) * 64 + (r & 1) * 32 + pair * 8, out[v]);
      }
    }
  }
}

template <MatrixType kType>
void prepare_b_typed(int chunks, const uint32_t* const* b, float* columns) {
  constexpr int kVectors = kPerChunk<kType> / 4;
  for (int c = 0; c < chunks; ++c) {
    // Pairs of rows 2p | 2p + 1, one per 128-bit lane; transposed: word t of rows 0 2 4 6 | 1 3
    // 5 7.
    __m256 rows[4];
    for (int p = 0; p < 4; ++p) {
      rows[p] = load_lanes(b[c] + 8 * p);
    }
    const __m256 low01 = _mm256_unpacklo_ps(rows[0], rows[1]);
    const __m256 high01 = _mm256_unpackhi_ps(rows[0], rows[1]);
    const __m256 low23 = _mm256_unpacklo_ps(rows[2], rows[3]);
    const __m256 high23 = _mm256_unpackhi_ps(rows[2], rows[3]);
    const __m256 words[4] = {
        _mm256_shuffle_ps(low01, low23, 0x44), _mm256_shuffle_ps(low01, low23, 0xee),
        _mm256_shuffle_ps(high01, high23, 0x44), _mm256_shuffle_ps(high01, high23, 0xee)};
    for (int t = 0; t < 4; ++t) {
      __m256 out[kVectors];
      unpack_words<kType>(_mm256_castps_si256(words[t]), out);
      for (int v = 0; v < kVectors; ++v) {
        _mm256_store_ps(columns + ((c * 4 + t) * kVectors + v) * 8, out[v]);
      }
    }
  }
}

__m256 canonical(__m256 value) {
  const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  return _mm256_blendv_ps(value, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)), nan);
}

// Eight rows of the tile: [rows 2·j …][even, odd columns].
struct HalfTile {
  __m256 rows[4][2];
};

HalfTile load_half(const uint32_t* const* c) {
  HalfTile tile;
  for (int j = 0; j < 4; ++j) {
    for (int p = 0; p < 2; ++p) {
      tile.rows[j][p] = c == nullptr ? _mm256_setzero_ps() : load_lanes(c[p] + j * 8);
    }
  }
  return tile;
}
void store_half(const HalfTile& tile, uint32_t* const* d) {
  for (int j = 0; j < 4; ++j) {
    for (int p = 0; p < 2; ++p) store_lanes(d[p] + j * 8, canonical(tile.rows[j][p]));
  }
}

[[gnu::always_inline]] inline void multiply_step(const float* rows, const float* row_of_b,
                                                 HalfTile& tile) {
  const __m256 even = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(row_of_b));
  const __m256 odd = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(row_of_b + 4));
  for (int j = 0; j < 4; ++j) {
    const __m256 a = _mm256_load_ps(rows + j * 8);
    tile.rows[j][0] = _mm256_fmadd_ps(a, even, tile.rows[j][0]);
    tile.rows[j][1] = _mm256_fmadd_ps(a, odd, tile.rows[j][1]);
  }
}

void multiply_block(int k, const float* spread, const float* columns, const uint32_t* const* c,
                    uint32_t* const* d) {
  for (int half = 0; half < 2; ++half) {
    HalfTile tile = load_half(c == nullptr ? nullptr : c + 2 * half);
    for (int step = 0; step < k; ++step) {
      multiply_step(spread + step * 64 + half * 32, columns + step * 8, tile);
    }
    store_half(tile, d + 2 * half);
  }
}

template <int kPlace>
void spread_place(const float* quads, __m256 sign, float* spread) {
  for (int j = 0; j < 8; ++j) {
    const __m256 copies = _mm256_permute_ps(_mm256_load_ps(quads + j * 8), kPlace * 0x55);
    _mm256_store_ps(spread + j * 8, _mm256_xor_ps(copies, sign));
  }
}

template <MatrixType kType>
void spread_typed(int chunks, const uint32_t* const* a, bool negate, float* spread) {
  constexpr int kVectors = kPerChunk<kType> / 4;
  alignas(32) float quads[kMaxK * 16];
  prepare_a<kType>(chunks, a, quads);
  const __m256 sign = _mm256_set1_ps(negate ? -0.0f : 0.0f);
  for (int c = 0; c < chunks; ++c) {
    for (int v = 0; v < kVectors; ++v) {
      const float* source = quads + (c * kVectors + v) * 64;
      float* target = spread + (c * 4 * kVectors + v) * 64;
      spread_place<0>(source, sign, target);
      spread_place<1>(source, sign, target + kVectors * 64);
      spread_place<2>(source, sign, target + 2 * kVectors * 64);
      spread_place<3>(source, sign, target + 3 * kVectors * 64);
    }
  }
}

void spread_chunks(MatrixType type, int chunks, const uint32_t* const* a, bool negate,
                   float* spread) {
  switch (type) {
    case MatrixType::kF16:
      return spread_typed<MatrixType::kF16>(chunks, a, negate, spread);
    case MatrixType::kBf16:
      return spread_typed<MatrixType::kBf16>(chunks, a, negate, spread);
    case MatrixType::kTf32:
      return spread_typed<MatrixType::kTf32>(chunks, a, negate, spread);
    case MatrixType::kE4m3:
      return spread_typed<MatrixType::kE4m3>(chunks, a, negate, spread);
    default:
      return spread_typed<MatrixType::kE5m2>(chunks, a, negate, spread);
  }
}

void prepare_b_chunks(MatrixType type, int chunks, const uint32_t* const* b, float* columns) {
  switch (type) {
    case MatrixType::kF16:
      return prepare_b_typed<MatrixType::kF16>(chunks, b, columns);
    case MatrixType::kBf16:
      return prepare_b_typed<MatrixType::kBf16>(chunks, b, columns);
    case MatrixType::kTf32:
      return prepare_b_typed<MatrixType::kTf32>(chunks, b, columns);
    case MatrixType::kE4m3:
      return prepare_b_typed<MatrixType::kE4m3>(chunks, b, columns);
    default:
      return prepare_b_typed<MatrixType::kE5m2>(chunks, b, columns);
  }
}

int k_of(MatrixType type, int chunks) {
  const int words = 4 * chunks;
  if (type == MatrixType::kTf32) return words;
  return type == MatrixType::kF16 || type == MatrixType::kBf16 ? 2 * words : 4 * words;
}

void mma(MatrixType a_type, MatrixType b_type, bool full, const uint32_t* const* a,
         const uint32_t* const* b, const uint32_t* const* c, uint32_t* const* d) {
  alignas(32) float spread[kMaxK * 64];
  alignas(32) float columns[kMaxK * 8];
  const int chunks = full ? 2 : 1;
  prepare_b_chunks(b_type, chunks, b, columns);
  spread_chunks(a_type, chunks, a, false, spread);
  multiply_block(k_of(a_type, chunks), spread, columns, c, d);
}

void spread_a(MatrixType type, const uint32_t* const* a, bool negate, float* spread) {
  spread_chunks(type, 2, a, negate, spread);
}

void prepare_b(MatrixType type, const uint32_t* const* b, float* columns) {
  prepare_b_chunks(type, 2, b, columns);
}

void multiply(int k, int blocks, const float* spread, const float* columns, bool accumulate,
              uint32_t* const* d) {
  for (int i = 0; i < blocks; ++i) {
    multiply_block(k, spread, columns + i * k * 8,
                   accumulate ? const_cast<const uint32_t* const*>(d + 4 * i) : nullptr, d + 4 * i);
  }
}

constexpr MatrixCore kCore = {"avx2", mma, spread_a, prepare_b, multiply, fused_sum_portable};

}  // namespace

const MatrixCore* matrix_core_avx2() {
  const bool supported = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                         __builtin_cpu_supports("f16c");
  return supported ? &kCore : nullptr;
}

}  // namespace tilewright::emulator

#else

namespace tilewright::emulator {
const MatrixCore* matrix_core_avx2() { return nullptr; }
}  // namespace tilewright::emulator

#endif
