// mma.sync against a naive triple loop. The fragment formulas are typed anew from the ISA's
// figures, one per operand and shape, and share nothing with the code under test.
#include "emulator/instructions/mma.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "emulator/instructions/matrix_core.h"
#include "tests/emulator/instructions_fragments.h"
#include "tests/emulator/instructions_reference.h"

namespace tilewright::emulator {
namespace {

using reference::a_position;
using reference::accumulator_bytes;
using reference::b_position;
using reference::c_position;
using reference::decode;
using reference::Fragments;
using reference::get;
using reference::Lists;
using reference::Matrices;
using reference::Position;
using reference::random_element;
using reference::RandomBits;
using reference::to_fragments;

const char* name(MatrixType type) {
  constexpr const char* kNames[] = {"f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8"};
  return kNames[static_cast<int>(type)];
}

std::vector<MmaForm> all_forms() {
  using enum MatrixType;
  std::vector<MmaForm> forms;
  for (const int k : {8, 16}) {
    forms.push_back({16, 8, k, kF16, kF16, AccumulatorType::kF32});
    forms.push_back({16, 8, k, kF16, kF16, AccumulatorType::kF16});
    forms.push_back({16, 8, k, kBf16, kBf16, AccumulatorType::kF32});
  }
  for (const int k : {4, 8}) forms.push_back({16, 8, k, kTf32, kTf32, AccumulatorType::kF32});
  for (const int k : {16, 32}) {
    for (const MatrixType a : {kE4m3, kE5m2}) {
      for (const MatrixType b : {kE4m3, kE5m2}) {
        forms.push_back({16, 8, k, a, b, AccumulatorType::kF32});
        forms.push_back({16, 8, k, a, b, AccumulatorType::kF16});
      }
    }
    for (const MatrixType a : {kS8, kU8}) {
      for (const MatrixType b : {kS8, kU8}) {
        for (const bool saturate : {false, true}) {
          forms.push_back({16, 8, k, a, b, AccumulatorType::kS32, saturate});
          if (k == 16) forms.push_back({8, 8, k, a, b, AccumulatorType::kS32, saturate});
        }
      }
    }
  }
  return forms;
}

class Mma : public testing::TestWithParam<MmaForm> {};
class HardwareMma : public testing::TestWithParam<MmaForm> {};

std::vector<MmaForm> float_forms() {
  std::vector<MmaForm> forms = all_forms();
  std::erase_if(forms, [](const MmaForm& form) { return form.d == AccumulatorType::kS32; });
  return forms;
}

std::string form_name(const testing::TestParamInfo<MmaForm>& info) {
  const MmaForm& f = info.param;
  constexpr const char* kAccumulators[] = {"f32", "f16", "s32"};
  return fmt::format("m{}n8k{}_{}_{}_{}{}", f.m, f.k, kAccumulators[static_cast<int>(f.d)],
                     name(f.a), name(f.b), f.saturate ? "_satfinite" : "");
}

Matrices random_matrices(const MmaForm& form, RandomBits& random) {
  Matrices m;
  for (auto& row : m.a) {
    for (uint32_t& x : row) x = random_element(form.a, random);
  }
  for (auto& row : m.b) {
    for (uint32_t& x : row) x = random_element(form.b, random);
  }
  for (auto& row : m.c) {
    for (uint32_t& x : row) {
      x = form.d == AccumulatorType::kF16 ? random_element(MatrixType::kF16, random)
          : form.d == AccumulatorType::kF32
              ? reference::bits_of(std::ldexp(static_cast<float>(random.below(2001) - 1000), -8))
              : random.u32() >> (random.below(2) == 0 ? 0 : 12);
    }
  }
  return m;
}

void expect_result(const MmaForm& form, const Fragments& f,
                   const std::function<uint32_t(int, int)>& want) {
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < form.m * form.n / 32; ++i) {
      const Position p = c_position(form, lane, i);
      ASSERT_EQ(get(f.d, lane, i, accumulator_bytes(form)), want(p.row, p.column))
          << "row " << p.row << " column " << p.column;
    }
  }
}

uint32_t integer_sum(const MmaForm& form, const Matrices& m, int row, int column) {
  int64_t sum = static_cast<int32_t>(m.c[row][column]);
  for (int k = 0; k < form.k; ++k) {
    sum += static_cast<int64_t>(decode(form.a, m.a[row][k]) * decode(form.b, m.b[k][column]));
  }
  if (form.saturate) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
  return static_cast<uint32_t>(sum);
}

// `fast`: fma in ascending k, an f16 result rounded once.
uint32_t fast_sum(const MmaForm& form, const Matrices& m, int row, int column) {
  const bool is_f16 = form.d == AccumulatorType::kF16;
  float sum = is_f16 ? static_cast<float>(reference::f16().value(m.c[row][column]))
                     : reference::float_of(m.c[row][column]);
  for (int k = 0; k < form.k; ++k) {
    sum = std::fma(static_cast<float>(decode(form.a, m.a[row][k])),
                   static_cast<float>(decode(form.b, m.b[k][column])), sum);
  }
  return is_f16
             ? reference::f16().round(static_cast<double>(sum), reference::Direction::kNearestEven)
             : reference::bits_of(sum);
}

// `hardware`, after the published description, in doubles: every summand scaled so that its last
// kept place is 1, truncated, added.
struct Width {
  int fraction_bits, result_bits, chunk;
};
Width width_of(const MmaForm& form, int capability) {
  const bool is_fp8 = element_bytes(form.a) == 1;
  const int bytes = capability >= 90 ? 32 : 16;
  const Width full = {capability >= 90 ? 25 : 24, 23, bytes / element_bytes(form.a)};
  return is_fp8 && capability < 90 ? Width{13, 13, full.chunk} : full;
}
struct Scaled {
  double significand;  // 1 ≤ |significand| < 2, smaller for a subnormal
  int exponent;
};
Scaled scaled(double x, int least_exponent) {
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);
  if (x == 0) return {0, least_exponent};
  if (exponent - 1 < least_exponent) return {std::ldexp(x, -least_exponent), least_exponent};
  return {2 * fraction, exponent - 1};
}
int least_exponent(MatrixType type) {
  switch (type) {
    case MatrixType::kF16:
    case MatrixType::kE5m2:
      return -14;
    case MatrixType::kE4m3:
      return -6;
    default:
      return -126;
  }
}
uint32_t hardware_sum_reference(const MmaForm& form, int capability, const Matrices& m, int row,
                                int column) {
  const Width width = width_of(form, capability);
  const bool is_f16 = form.d == AccumulatorType::kF16;
  uint32_t bits = m.c[row][column];
  for (int begin = 0; begin < form.k; begin += width.chunk) {
    if (is_f16 && (bits & 0x7fffu) == 0x7c00u) break;  // finite products leave an infinity as it is
    const double c =
        is_f16 ? reference::f16().value(bits) : static_cast<double>(reference::float_of(bits));
    std::vector<Scaled> summands = {scaled(c, is_f16 ? -14 : -126)};
    for (int k = begin; k < std::min(begin + width.chunk, form.k); ++k) {
      const Scaled x = scaled(decode(form.a, m.a[row][k]), least_exponent(form.a));
      const Scaled y = scaled(decode(form.b, m.b[k][column]), least_exponent(form.b));
      summands.push_back({x.significand * y.significand, x.exponent + y.exponent});
    }
    int largest = -100000;
    for (Scaled& s : summands) {
      if (s.significand == 0) s.exponent = -126;
      largest = std::max(largest, s.exponent);
    }
    double sum = 0;
    for (const Scaled& s : summands) {
      sum += std::trunc(std::ldexp(s.significand, s.exponent - largest + width.fraction_bits));
    }
    const double value = std::ldexp(sum, largest - width.fraction_bits);
    if (is_f16) {
      bits = reference::f16().round(value + 0.0, reference::Direction::kNearestEven);
    } else {
      const Scaled r = scaled(value, -126);
      const double kept = std::trunc(std::ldexp(r.significand, width.result_bits));
      bits =
          reference::bits_of(static_cast<float>(std::ldexp(kept, r.exponent - width.result_bits)));
    }
  }
  return bits;
}

TEST_P(Mma, MatchesTheNaiveLoop) {
  const MmaForm form = GetParam();
  ASSERT_TRUE(is_legal(form));
  RandomBits random(41);
  for (int repeat = 0; repeat < 20; ++repeat) {
    const Matrices m = random_matrices(form, random);
    Fragments f = to_fragments(form, m);
    const Lists lists(f);
    mma_sync(form, {Numerics::kFast, 90}, lists.a, lists.b, lists.c, lists.d);
    expect_result(form, f, [&](int row, int column) {
      return form.d == AccumulatorType::kS32 ? integer_sum(form, m, row, column)
                                             : fast_sum(form, m, row, column);
    });
    if (HasFatalFailure()) return;
  }
}

TEST_P(HardwareMma, MatchesTheDescription) {
  const MmaForm form = GetParam();
  RandomBits random(42);
  for (const int capability : {80, 89, 90}) {
    for (int repeat = 0; repeat < 10; ++repeat) {
      const Matrices m = random_matrices(form, random);
      Fragments f = to_fragments(form, m);
      const Lists lists(f);
      mma_sync(form, {Numerics::kHardware, capability}, lists.a, lists.b, lists.c, lists.d);
      expect_result(form, f, [&](int row, int column) {
        return hardware_sum_reference(form, capability, m, row, column);
      });
      if (HasFatalFailure()) return;
    }
  }
}

// In place: D over C, and D over A's registers.
TEST_P(Mma, ResultMayOverwriteOperands) {
  const MmaForm form = GetParam();
  RandomBits random(43);
  const Matrices m = random_matrices(form, random);
  Fragments apart = to_fragments(form, m);
  const Lists lists(apart);
  mma_sync(form, {}, lists.a, lists.b, lists.c, lists.d);
  for (const bool over_c : {true, false}) {
    Fragments f = to_fragments(form, m);
    const Lists own(f);
    uint32_t* d[4];
    for (int i = 0; i < 4; ++i) d[i] = over_c ? f.c[i] : f.a[i];
    mma_sync(form, {}, own.a, own.b, own.c, d);
    for (int i = 0; i < d_registers(form); ++i) {
      for (int lane = 0; lane < 32; ++lane) ASSERT_EQ(d[i][lane], apart.d[i][lane]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllForms, Mma, testing::ValuesIn(all_forms()), form_name);
INSTANTIATE_TEST_SUITE_P(FloatForms, HardwareMma, testing::ValuesIn(float_forms()), form_name);

TEST(MmaForms, IllegalOnesAreRefused) {
  using enum MatrixType;
  EXPECT_FALSE(is_legal({16, 8, 16, kF16, kBf16}));
  EXPECT_FALSE(is_legal({16, 8, 16, kBf16, kBf16, AccumulatorType::kF16}));
  EXPECT_FALSE(is_legal({16, 8, 16, kTf32, kTf32}));
  EXPECT_FALSE(is_legal({16, 8, 32, kF16, kF16}));
  EXPECT_FALSE(is_legal({16, 16, 16, kF16, kF16}));
  EXPECT_FALSE(is_legal({8, 8, 32, kS8, kS8, AccumulatorType::kS32}));
  EXPECT_FALSE(is_legal({16, 8, 32, kS8, kS8, AccumulatorType::kF32}));
  EXPECT_FALSE(is_legal({16, 8, 16, kF16, kF16, AccumulatorType::kF32, true}));
}

// The reference text's worked fragments, checked against this file's own formulas.
TEST(MmaForms, WorkedFragmentExamples) {
  const MmaForm f16 = {16, 8, 16, MatrixType::kF16, MatrixType::kF16};
  EXPECT_EQ(c_position(f16, 13, 3).row, 11);
  EXPECT_EQ(c_position(f16, 13, 3).column, 3);
  EXPECT_EQ(a_position(f16, 13, 4).row, 3);
  EXPECT_EQ(a_position(f16, 13, 4).column, 10);
  EXPECT_EQ(a_position(f16, 13, 7).row, 11);
  EXPECT_EQ(b_position(f16, 30, 3).row, 13);
  EXPECT_EQ(b_position(f16, 30, 3).column, 7);
  const MmaForm s8 = {16, 8, 32, MatrixType::kS8, MatrixType::kS8, AccumulatorType::kS32};
  EXPECT_EQ(a_position(s8, 30, 14).row, 15);
  EXPECT_EQ(a_position(s8, 30, 14).column, 26);
  EXPECT_EQ(b_position(s8, 13, 4).row, 20);
}

std::vector<const MatrixCore*> cores() {
  std::vector<const MatrixCore*> result;
  for (const MatrixCore* core : {matrix_core_avx512(), matrix_core_avx2(), matrix_core_scalar()}) {
    if (core != nullptr) result.push_back(core);
  }
  return result;
}

// Every variant gives the scalar one's bits for arbitrary operands, infinities, NaNs and
// subnormals included.
TEST(MatrixCore, VariantsAgreeBitForBit) {
  RandomBits random(44);
  for (const MmaForm& form : all_forms()) {
    if (form.d != AccumulatorType::kF32) continue;
    for (int repeat = 0; repeat < 20; ++repeat) {
      Fragments f;
      for (auto& lanes : f.a) {
        for (uint32_t& x : lanes) x = random.u32();
      }
      for (auto& lanes : f.b) {
        for (uint32_t& x : lanes) x = random.u32();
      }
      for (auto& lanes : f.c) {
        for (uint32_t& x : lanes) x = random.u32();
      }
      const bool full = form.k * element_bytes(form.a) == 32;
      Fragments want = f;
      const Lists from(f);
      matrix_core_scalar()->mma(form.a, form.b, full, from.a, from.b, from.c, Lists(want).d);
      for (const MatrixCore* core : cores()) {
        Fragments got = f;
        core->mma(form.a, form.b, full, from.a, from.b, from.c, Lists(got).d);
        for (int i = 0; i < 4; ++i) {
          for (int lane = 0; lane < 32; ++lane) {
            ASSERT_EQ(got.d[i][lane], want.d[i][lane]) << core->name << " " << name(form.a);
          }
        }
      }
    }
  }
}

TEST(MatrixCore, SharedOperandPathAgreesWithOneTileAtATime) {
  RandomBits random(45);
  using enum MatrixType;
  for (const MatrixType type : {kF16, kBf16, kTf32, kE4m3, kE5m2}) {
    const int k = 32 / element_bytes(type);
    constexpr int kBlocks = 3;
    Fragments f[kBlocks];
    for (Fragments& block : f) {
      const Matrices m = random_matrices({16, 8, k, type, type}, random);
      block = to_fragments({16, 8, k, type, type}, m);
      std::copy(&f[0].a[0][0], &f[0].a[0][0] + 128, &block.a[0][0]);
    }
    for (const MatrixCore* core : cores()) {
      alignas(64) float spread[32 * 64];
      alignas(64) float columns[kBlocks * 32 * 8];
      core->spread_a(type, Lists(f[0]).a, false, spread);
      uint32_t* d[4 * kBlocks];
      Fragments got[kBlocks];
      for (int i = 0; i < kBlocks; ++i) {
        got[i] = f[i];
        core->prepare_b(type, Lists(f[i]).b, columns + i * k * 8);
        for (int r = 0; r < 4; ++r) d[4 * i + r] = got[i].c[r];
      }
      core->multiply(k, kBlocks, spread, columns, true, d);
      for (int i = 0; i < kBlocks; ++i) {
        const Lists lists(f[i]);
        core->mma(type, type, true, lists.a, lists.b, lists.c, lists.d);
        for (int r = 0; r < 4; ++r) {
          for (int lane = 0; lane < 32; ++lane) {
            ASSERT_EQ(got[i].c[r][lane], f[i].d[r][lane]) << core->name << " " << name(type);
          }
        }
      }
    }
  }
}

TEST(MatrixCore, FusedSumVariantsAgree) {
  RandomBits random(46);
  for (int repeat = 0; repeat < 2000; ++repeat) {
    int32_t a[2][kMaxK], b[2][kMaxK][kFusedColumns], c[2][kFusedColumns];
    const auto significand = [&] { return random.below(4) == 0 ? 0 : random.below(4096) - 2048; };
    const auto exponent = [&] { return random.below(repeat % 2 == 0 ? 12 : 160) - 80; };
    for (int k = 0; k < kMaxK; ++k) {
      a[0][k] = significand();
      a[1][k] = exponent();
      for (int j = 0; j < kFusedColumns; ++j) {
        b[0][k][j] = significand();
        b[1][k][j] = exponent();
      }
    }
    for (int j = 0; j < kFusedColumns; ++j) {
      c[0][j] = significand() << 12;
      c[1][j] = exponent();
    }
    const FusedRow row = {.k = 4 << (repeat % 4),
                          .a_significand = a[0],
                          .a_exponent = a[1],
                          .b_significand = b[0],
                          .b_exponent = b[1],
                          .c_significand = c[0],
                          .c_exponent = c[1],
                          .product_fraction_bits = 20,
                          .c_fraction_bits = 23,
                          .kept_bits = repeat % 3 == 0 ? 13 : 25};
    int64_t want[kFusedColumns];
    int32_t want_largest[kFusedColumns];
    fused_sum_portable(row, want, want_largest);
    for (const MatrixCore* core : cores()) {
      int64_t sums[kFusedColumns];
      int32_t largest[kFusedColumns];
      core->fused_sum(row, sums, largest);
      for (int j = 0; j < kFusedColumns; ++j) {
        ASSERT_EQ(sums[j], want[j]) << core->name;
        ASSERT_EQ(largest[j], want_largest[j]) << core->name;
      }
    }
  }
}

// One row times one column with chosen values, through the whole fragment path.
uint32_t single_product(const MmaForm& form, ProductNumerics numerics, std::vector<uint32_t> a,
                        std::vector<uint32_t> b, uint32_t c) {
  Matrices m;
  for (size_t k = 0; k < a.size(); ++k) {
    m.a[0][k] = a[k];
    m.b[k][0] = b[k];
  }
  m.c[0][0] = c;
  Fragments f = to_fragments(form, m);
  const Lists lists(f);
  mma_sync(form, numerics, lists.a, lists.b, lists.c, lists.d);
  return get(f.d, 0, 0, accumulator_bytes(form));
}

TEST(HardwareNumerics, TruncatesBelowTheLastKeptPlace) {
  const MmaForm form = {16, 8, 16, MatrixType::kF16, MatrixType::kF16};
  const ProductNumerics hopper = {Numerics::kHardware, 90};
  const ProductNumerics ampere = {Numerics::kHardware, 80};
  const uint32_t one = 0x3f800000u;
  // Two products of 2^-25 beside C = 1: kept with 25 fraction bits, their sum 2^-24 is then cut by
  // the f32; four make 2^-23. With 24 bits each is cut before the addition.
  const std::vector<uint32_t> small = {0x0800, 0x0800, 0x0800, 0x0800};   // 2^-13
  const std::vector<uint32_t> factor = {0x0c00, 0x0c00, 0x0c00, 0x0c00};  // 2^-12
  EXPECT_EQ(single_product(form, hopper, small, factor, one), one + 1);
  EXPECT_EQ(single_product(form, ampere, small, factor, one), one);
  EXPECT_EQ(single_product(form, {Numerics::kFast, 90}, small, factor, one), one);
}

TEST(HardwareNumerics, SpecialValues) {
  const MmaForm form = {16, 8, 16, MatrixType::kF16, MatrixType::kF16};
  for (const Numerics mode : {Numerics::kFast, Numerics::kHardware}) {
    const ProductNumerics numerics = {mode, 90};
    EXPECT_EQ(single_product(form, numerics, {0x7c00}, {0x3c00}, 0), 0x7f800000u);
    EXPECT_EQ(single_product(form, numerics, {0xfc00}, {0x3c00}, 0), 0xff800000u);
    EXPECT_EQ(single_product(form, numerics, {0x7c00}, {0x0000}, 0), 0x7fffffffu);
    EXPECT_EQ(single_product(form, numerics, {0x7c00, 0xfc00}, {0x3c00, 0x3c00}, 0), 0x7fffffffu);
    EXPECT_EQ(single_product(form, numerics, {0x7e00}, {0x3c00}, 0), 0x7fffffffu);
    EXPECT_EQ(single_product(form, numerics, {0x3c00}, {0x3c00}, 0x7fc00000u), 0x7fffffffu);
    EXPECT_EQ(single_product(form, numerics, {0xbc00}, {0x3c00}, 0x3f800000u), 0u);
  }
  // An infinity in the second half of k, which Ampere adds after a finite first half.
  std::vector<uint32_t> late(16, 0x3c00), ones(16, 0x3c00);
  late[12] = 0xfc00;
  for (const int capability : {80, 90}) {
    const ProductNumerics numerics = {Numerics::kHardware, capability};
    EXPECT_EQ(single_product(form, numerics, late, ones, 0), 0xff800000u);
  }
  MmaForm narrow = form;
  narrow.d = AccumulatorType::kF16;
  for (const Numerics mode : {Numerics::kFast, Numerics::kHardware}) {
    EXPECT_EQ(single_product(narrow, {mode, 90}, {0x7bff}, {0x7bff}, 0), 0x7c00u);
    EXPECT_EQ(single_product(narrow, {mode, 90}, {0x7e00}, {0x3c00}, 0), 0x7fffu);
  }
  // bf16 products beyond f32's range: infinity even though the rounding truncates.
  const MmaForm wide = {16, 8, 16, MatrixType::kBf16, MatrixType::kBf16};
  EXPECT_EQ(single_product(wide, {Numerics::kHardware, 90}, {0x7f00}, {0x7f00}, 0), 0x7f800000u);
}

}  // namespace
}  // namespace tilewright::emulator
