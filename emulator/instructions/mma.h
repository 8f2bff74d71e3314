// Matrix products of mma.sync and wgmma on register fragments, one warp (warpgroup) per call. Both
// instructions share one core, in two numerics: `fast`, an fp32 fused multiply-add chain in
// ascending k, bit-equal on every host; `hardware`, the fused truncated sum of one instruction.
// Sparse, f64, b1 and s4 forms are not built: is_legal answers false.
#pragma once

#include <cstdint>

#include "emulator/instructions/types.h"

namespace tilewright::emulator {

enum class MatrixType : uint8_t { kF16, kBf16, kTf32, kE4m3, kE5m2, kS8, kU8 };
enum class AccumulatorType : uint8_t { kF32, kF16, kS32 };

enum class Numerics : uint8_t { kFast, kHardware };

// compute_capability (80, 86, 89, 90) chooses the width of the hardware sum.
struct ProductNumerics {
  Numerics mode = Numerics::kFast;
  int compute_capability = 90;
};

// One operand's element size in bytes; tf32 takes 4.
constexpr int element_bytes(MatrixType type) {
  switch (type) {
    case MatrixType::kF16:
    case MatrixType::kBf16:
      return 2;
    case MatrixType::kTf32:
      return 4;
    default:
      return 1;
  }
}

// mma.sync.aligned.m{m}n{n}k{k}.row.col.D.A.B.D
struct MmaForm {
  int m = 16, n = 8, k = 16;
  MatrixType a = MatrixType::kF16, b = MatrixType::kF16;
  AccumulatorType d = AccumulatorType::kF32;  // also C's
  bool saturate = false;                      // .satfinite, s32 only
  bool operator==(const MmaForm&) const = default;
};

bool is_legal(const MmaForm& form);
// 32-bit registers per lane of each operand of a legal form.
constexpr int a_registers(const MmaForm& form) {
  return form.m * form.k * element_bytes(form.a) / 128;
}
constexpr int b_registers(const MmaForm& form) {
  return form.n * form.k * element_bytes(form.b) / 128;
}
constexpr int d_registers(const MmaForm& form) {
  return form.m * form.n * (form.d == AccumulatorType::kF16 ? 2 : 4) / 128;
}

// D = A·B + C for a legal form. Each operand is a list of pointers, one per register, each to that
// register's 32 lanes. D may alias A, B or C register by register.
void mma_sync(const MmaForm& form, const ProductNumerics& numerics, const uint32_t* const* a,
              const uint32_t* const* b, const uint32_t* const* c, uint32_t* const* d);

// wgmma.mma_async.sync.aligned.m64n{n}k{k}: k follows from the type (32 bytes of a row).
struct WgmmaForm {
  int n = 8;
  MatrixType a = MatrixType::kF16, b = MatrixType::kF16;
  AccumulatorType d = AccumulatorType::kF32;
  bool saturate = false;
  bool operator==(const WgmmaForm&) const = default;
};

bool is_legal(const WgmmaForm& form);
constexpr int wgmma_k(const WgmmaForm& form) { return 32 / element_bytes(form.a); }
// Registers per lane: A from registers always has 4.
constexpr int d_registers(const WgmmaForm& form) {
  return form.d == AccumulatorType::kF16 ? form.n / 4 : form.n / 2;
}

// A from shared memory is a tile of 64 rows, B one of n rows, each row the 32 bytes of k
// consecutive elements (gather_tile of wgmma_descriptor.h makes them); A from registers is a list
// of 4 register pointers per warp. d: d_registers pointers per warp.
struct WgmmaOperands {
  const uint8_t* a_tile = nullptr;  // null: a_registers holds A
  const uint32_t* const* a_registers[4] = {};
  const uint8_t* b_tile = nullptr;
  uint32_t* const* d[4] = {};
  bool scale_d = true;  // false: D = A·B, the old D is not read
  bool negate_a = false, negate_b = false;
};

void wgmma(const WgmmaForm& form, const ProductNumerics& numerics, const WgmmaOperands& operands);

// "avx512", "avx2" or "scalar": the variant of the fast core that this host runs.
const char* matrix_core_name();

}  // namespace tilewright::emulator
