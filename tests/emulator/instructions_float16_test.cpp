// f16 and bf16 arithmetic against exact fixed-point sums and products, rounded by table search.
#include "emulator/instructions/float16.h"

#include <gtest/gtest.h>

#include "emulator/instructions/convert.h"
#include "tests/emulator/instructions_reference.h"

namespace tilewright::emulator {
namespace {

using reference::Direction;
using reference::FormatTable;
using reference::RandomBits;

template <class T>
const FormatTable& table();
template <>
const FormatTable& table<Half>() {
  return reference::f16();
}
template <>
const FormatTable& table<Bfloat16>() {
  return reference::bf16();
}

template <class T>
bool is_nan(T a) {
  return (a.bits & 0x7fffu) > table<T>().infinity();
}
template <class T>
bool is_infinite(T a) {
  return (a.bits & 0x7fffu) == table<T>().infinity();
}
template <class T>
bool is_finite(T a) {
  return (a.bits & 0x7fffu) < table<T>().infinity();
}
template <class T>
double value(T a) {
  return is_nan(a)        ? std::nan("")
         : is_infinite(a) ? std::copysign(INFINITY, (a.bits & 0x8000u) != 0 ? -1.0 : 1.0)
                          : table<T>().value(a.bits);
}

// The format's rounding of a double that is exact (or of an infinity or NaN).
template <class T>
uint16_t rounded(double exact) {
  if (exact != exact) return 0x7fff;
  if (std::isinf(exact)) {
    return static_cast<uint16_t>(table<T>().infinity() | (exact < 0 ? 0x8000u : 0u));
  }
  return static_cast<uint16_t>(table<T>().round(exact, Direction::kNearestEven));
}

// Operands that meet every exponent: zeros, subnormals, ones, ties, the largest, infinities, NaNs.
template <class T>
std::vector<T> edges() {
  std::vector<T> result;
  const uint32_t one = std::is_same_v<T, Half> ? 0x3c00 : 0x3f80;
  for (const uint32_t bits :
       {0u, 1u, 2u, 3u, table<T>().infinity() / 31, one - 1, one, one + 1, one + 0x155,
        one + 2 * 0x80u, table<T>().largest() - 1, table<T>().largest(), table<T>().infinity(),
        table<T>().infinity() + 1, 0x7fffu}) {
    result.push_back(T{static_cast<uint16_t>(bits)});
    result.push_back(T{static_cast<uint16_t>(bits | 0x8000u)});
  }
  return result;
}

template <class T>
void check_all_against_edges() {
  for (const T b : edges<T>()) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const T a{static_cast<uint16_t>(bits)};
      // Exact in double for f16; for bf16 an inexact sum is far from any tie.
      ASSERT_EQ(add(a, b).bits, rounded<T>(value(a) + value(b))) << bits << " " << b.bits;
      ASSERT_EQ(sub(a, b).bits, rounded<T>(value(a) - value(b))) << bits << " " << b.bits;
      ASSERT_EQ(mul(a, b).bits, rounded<T>(value(a) * value(b))) << bits << " " << b.bits;
    }
  }
}
TEST(Float16Instructions, AllF16AgainstEdges) { check_all_against_edges<Half>(); }
TEST(Float16Instructions, AllBf16AgainstEdges) { check_all_against_edges<Bfloat16>(); }

__extension__ using Int128 = __int128;

// The nearest value of the format to fixed·2^-scale, by comparing integers; exact values only.
template <class T>
uint16_t round_fixed(Int128 fixed, int scale) {
  const bool negative = fixed < 0;
  const Int128 magnitude = negative ? -fixed : fixed;
  const auto fixed_value = [&](uint32_t bits) {
    int exponent = 0;
    const double fraction = std::frexp(table<T>().values()[bits], &exponent);
    const Int128 digits = static_cast<Int128>(std::ldexp(fraction, 40));
    const int shift = exponent - 40 + scale;
    return shift >= 0 ? digits << shift : digits >> -shift;
  };
  uint32_t low = 0;
  uint32_t high = table<T>().largest();
  while (low < high) {  // the last value that is not above
    const uint32_t middle = (low + high + 1) / 2;
    if (fixed_value(middle) <= magnitude) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  const Int128 below = fixed_value(low);
  const Int128 place =
      low == table<T>().largest() ? below - fixed_value(low - 1) : fixed_value(low + 1) - below;
  const Int128 twice = 2 * (magnitude - below);
  if (twice > place || (twice == place && (low & 1) != 0)) ++low;
  return static_cast<uint16_t>(low | (negative ? 0x8000u : 0u));
}

TEST(Float16Instructions, F16FmaRoundsTheExactSumOnce) {
  RandomBits random(11);
  const auto units = [](Half a) { return static_cast<Int128>(std::ldexp(value(a), 24)); };
  for (int i = 0; i < 200000; ++i) {
    const Half a{static_cast<uint16_t>(random.u32())};
    const Half b{static_cast<uint16_t>(random.u32())};
    // Every third c nearly cancels the product.
    const Half c = i % 3 == 0 ? neg(mul(a, b)) : Half{static_cast<uint16_t>(random.u32())};
    if (!is_finite(a) || !is_finite(b) || !is_finite(c)) continue;
    const Int128 exact = units(a) * units(b) + (units(c) << 24);
    if (exact == 0) continue;  // the sign of zero is tested below
    ASSERT_EQ(fma(a, b, c).bits, round_fixed<Half>(exact, 48))
        << a.bits << " " << b.bits << " " << c.bits;
  }
}

TEST(Float16Instructions, Bf16FmaIsNotFooledByADoubleTie) {
  RandomBits random(12);
  const auto units = [](Bfloat16 a) { return static_cast<Int128>(std::ldexp(value(a), 60)); };
  for (int i = 0; i < 200000; ++i) {
    const auto with_exponent = [&](int exponent) {
      return Bfloat16{static_cast<uint16_t>((random.u32() & 0x807fu) |
                                            static_cast<uint32_t>(exponent + 127) << 7)};
    };
    const Bfloat16 a = with_exponent(random.below(6) - 3);
    const Bfloat16 b = i % 2 == 0 ? with_exponent(0) : Bfloat16{0x3f81};
    const Bfloat16 c = with_exponent(-random.below(53));
    const Int128 exact = (units(a) >> 30) * (units(b) >> 30) + units(c);
    if (exact == 0) continue;
    ASSERT_EQ(fma(a, b, c).bits, round_fixed<Bfloat16>(exact, 60))
        << a.bits << " " << b.bits << " " << c.bits;
  }
  // (1 + 2^-4)(1 + 2^-4) is 1 + 2^-3 + 2^-8, a tie; a c below the double's last place breaks it.
  const Bfloat16 tie{0x3f88};
  EXPECT_EQ(fma(tie, tie, Bfloat16{0x0000}).bits, 0x3f90);
  EXPECT_EQ(fma(tie, tie, Bfloat16{0x2000}).bits, 0x3f91);
  EXPECT_EQ(fma(tie, tie, Bfloat16{0xa000}).bits, 0x3f90);
}

TEST(Float16Instructions, SpecialValues) {
  const Half inf{0x7c00}, zero{0}, minus_zero{0x8000}, one{0x3c00}, nan{0x7e01};
  EXPECT_EQ(add(inf, Half{0xfc00}).bits, 0x7fff);
  EXPECT_EQ(mul(inf, zero).bits, 0x7fff);
  EXPECT_EQ(fma(one, nan, one).bits, 0x7fff);
  EXPECT_EQ(fma(one, one, Half{0xbc00}).bits, 0);
  EXPECT_EQ(add(minus_zero, minus_zero).bits, 0x8000);
  EXPECT_EQ(min(zero, minus_zero).bits, 0x8000);
  EXPECT_EQ(max(minus_zero, zero).bits, 0);
  EXPECT_EQ(max(nan, one).bits, 0x3c00);
  EXPECT_EQ(max(nan, one, {.nan = true}).bits, 0x7fff);
  EXPECT_EQ(max(Half{0xc000}, one, {.xorsign_abs = true}).bits, 0xc000);
  EXPECT_EQ(fma(one, Half{0xbc00}, zero, {.relu = true}).bits, 0);
  EXPECT_EQ(fma(nan, one, zero, {.relu = true}).bits, 0x7fff);
  EXPECT_EQ(add(one, one, {.saturate = true}).bits, 0x3c00);
  EXPECT_EQ(add(nan, one, {.saturate = true}).bits, 0);
  EXPECT_EQ(add(Half{0x8400}, Half{0x0401}, {.ftz = true}).bits, 0);
  EXPECT_EQ(mul(Half{0x03ff}, Half{0x7800}, {.ftz = true}).bits, 0);
  EXPECT_EQ(neg(nan).bits, 0xfe01);
  EXPECT_EQ(abs(Half{0xbc00}).bits, 0x3c00);
  EXPECT_EQ(abs(Half{0x8001}, true).bits, 0);
  EXPECT_EQ(max(Bfloat16{0xff81}, Bfloat16{0x3f80}).bits, 0x3f80);
  EXPECT_EQ(ex2_approx(Bfloat16{0x0001}).bits, 0x3f80);
  EXPECT_EQ(ex2_approx(Bfloat16{0xc2fe}).bits, 0);  // 2^-127 is subnormal: flushed
}

TEST(Float16Instructions, PackedFormsWorkOnBothHalves) {
  const uint32_t packed =
      map_halves<Half>([](Half a, Half b) { return add(a, b); }, 0x3c004000u, 0x40003c00u);
  EXPECT_EQ(packed, 0x42004200u);
  const uint32_t low_only =
      map_halves<Half>([](Half a, Half b) { return mul(a, b); }, 0x00004000u, 0x3c004200u);
  EXPECT_EQ(low_only, 0x00004600u);
}

TEST(Float16Instructions, ApproximationsAreWithinTheStatedError) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Half a{static_cast<uint16_t>(bits)};
    const Bfloat16 b{static_cast<uint16_t>(bits)};
    if (is_finite(a)) {
      const double tanh_error = value(tanh_approx(a)) - std::tanh(value(a));
      ASSERT_LE(std::fabs(tanh_error), std::exp2(-10.987)) << bits;
      const double want = std::exp2(value(a));
      const double got = value(ex2_approx(a));
      if (want < 65504 && want >= 0x1p-14) {
        ASSERT_LE(std::fabs(got / want - 1), std::exp2(-9.9)) << bits;
      }
    }
    if (is_finite(b)) {
      ASSERT_LE(std::fabs(value(tanh_approx(b)) - std::tanh(value(b))), 0x1p-8) << bits;
      const double want = std::exp2(value(b));
      if (want < 0x1p127 && want >= 0x1p-126) {
        ASSERT_LE(std::fabs(value(ex2_approx(b)) / want - 1), 0x1p-7) << bits;
      }
    }
  }
  EXPECT_EQ(ex2_approx(Half{0xfc00}).bits, 0);
  EXPECT_EQ(ex2_approx(Half{0x7c00}).bits, 0x7c00);
  EXPECT_EQ(tanh_approx(Half{0xfc00}).bits, 0xbc00);
  EXPECT_EQ(tanh_approx(Half{0x8000}).bits, 0x8000);
}

}  // namespace
}  // namespace tilewright::emulator
