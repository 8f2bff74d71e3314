// Inside of mma.cpp and wgmma.cpp: the fp32 multiply core in variants by instruction set, and the
// layouts they share. A variant's translation unit is compiled with its own flags, so this header
// holds no inline function (the linker could pick a copy that the host cannot run).
//
// An operand's fragment registers of every type up to 32 bytes of k obey one rule: register r of
// lane 4·g + t is the 32-bit word t + 4·c of a row, c = r/2 and row = g + 8·(r%2) for A, c = r and
// column g for B. A row's 16 bytes are thus four consecutive lanes.
//
// `quads`: A as float [k/4][16 rows][4], the k of a quad's members in the order of KOrder.
// `columns`: B as float [k][8], the columns in the order 0 2 4 6 1 3 5 7 of the accumulators.
// `spread`: A as float [k][16 rows][4 copies].
#pragma once

#include <cstdint>

#include "emulator/instructions/mma.h"

namespace tilewright::emulator {

inline constexpr int kMaxK = 32;

inline constexpr int kFusedColumns = 8;

// One row of A times eight columns of B, as the hardware numerics see it: every finite value is
// significand · 2^(exponent − fraction bits of its format).
struct FusedRow {
  int k;
  const int32_t* a_significand;  // [k]
  const int32_t* a_exponent;
  const int32_t (*b_significand)[kFusedColumns];  // [k][…]
  const int32_t (*b_exponent)[kFusedColumns];
  const int32_t* c_significand;  // [kFusedColumns]
  const int32_t* c_exponent;
  int product_fraction_bits;
  int c_fraction_bits;
  int kept_bits;  // F: fraction bits of every summand once aligned to the largest exponent
};
// A zero summand takes part in the alignment with this exponent.
inline constexpr int kZeroExponent = -126;

struct MatrixCore {
  const char* name;
  // D = A·B + C for one 16×8 tile out of fragments: d[i] = fma(a[k], b[k], …) in ascending k.
  // full: k spans 32 bytes, else 16. c and d: four lists of 32 lanes.
  void (*mma)(MatrixType a_type, MatrixType b_type, bool full, const uint32_t* const* a,
              const uint32_t* const* b, const uint32_t* const* c, uint32_t* const* d);
  // For many tiles that share A, always 32 bytes of k: a row slab once, then 8-column blocks.
  void (*spread_a)(MatrixType type, const uint32_t* const* a, bool negate, float* spread);
  void (*prepare_b)(MatrixType type, const uint32_t* const* b, float* columns);
  // d: 4·blocks lists; block i uses columns + i·k·8. accumulate false: the old d is not read.
  void (*multiply)(int k, int blocks, const float* spread, const float* columns, bool accumulate,
                   uint32_t* const* d);
  // The sum for each column is sums[j] · 2^(largest[j] − kept_bits).
  void (*fused_sum)(const FusedRow& row, int64_t* sums, int32_t* largest);
};

// Null where the build or the host lacks the instruction set.
const MatrixCore* matrix_core_avx512();
const MatrixCore* matrix_core_avx2();
const MatrixCore* matrix_core_scalar();

// count registers of f16 pairs ↔ 2·count registers of f32; rounding to nearest even.
void widen_f16_accumulators(int count, const uint32_t* const* f16, uint32_t* const* f32);
void narrow_f16_accumulators(int count, const uint32_t* const* f32, uint32_t* const* f16);

// fused_sum in portable C++.
void fused_sum_portable(const FusedRow& row, int64_t* sums, int32_t* largest);

// The fastest that this host runs.
const MatrixCore& matrix_core();

}  // namespace tilewright::emulator
