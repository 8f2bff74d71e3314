// Conversions: exhaustively where the source is small, else on every boundary between neighbouring
// values of the destination and on random bits, against table search.
#include "emulator/instructions/convert.h"

#include <gtest/gtest.h>

#include "tests/emulator/instructions_reference.h"

namespace tilewright::emulator {
namespace {

using reference::bits_of;
using reference::Direction;
using reference::float_of;
using reference::FormatTable;
using reference::RandomBits;

struct Mode {
  Rounding rounding;
  Direction direction;
};
constexpr Mode kModes[] = {{Rounding::kNearestEven, Direction::kNearestEven},
                           {Rounding::kTowardZero, Direction::kTowardZero},
                           {Rounding::kDown, Direction::kDown},
                           {Rounding::kUp, Direction::kUp}};

TEST(ConvertInstructions, EveryF16WidensExactly) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float got = to_float(Half{static_cast<uint16_t>(bits)});
    const uint32_t magnitude = bits & 0x7fffu;
    if (magnitude > 0x7c00) {
      ASSERT_EQ(bits_of(got), 0x7fffffffu) << bits;
    } else if (magnitude == 0x7c00) {
      ASSERT_EQ(got, bits == 0x7c00 ? INFINITY : -INFINITY);
    } else {
      ASSERT_EQ(bits_of(got), bits_of(static_cast<float>(reference::f16().value(bits)))) << bits;
    }
    const float wide = to_float(Bfloat16{static_cast<uint16_t>(bits)});
    ASSERT_EQ(bits_of(wide), magnitude > 0x7f80 ? 0x7fffffffu : bits << 16) << bits;
  }
}

TEST(ConvertInstructions, EveryFp8WidensExactly) {
  for (uint32_t bits = 0; bits < 0x100; ++bits) {
    const uint32_t magnitude = bits & 0x7fu;
    const float four = to_float(E4m3{static_cast<uint8_t>(bits)});
    if (magnitude == 0x7f) {
      EXPECT_EQ(bits_of(four), 0x7fffffffu);
    } else {
      EXPECT_EQ(bits_of(four), bits_of(static_cast<float>(reference::e4m3().value(bits)))) << bits;
    }
    const float five = to_float(E5m2{static_cast<uint8_t>(bits)});
    if (magnitude > 0x7c) {
      EXPECT_EQ(bits_of(five), 0x7fffffffu);
    } else if (magnitude == 0x7c) {
      EXPECT_EQ(five, bits == 0x7c ? INFINITY : -INFINITY);
    } else {
      EXPECT_EQ(bits_of(five), bits_of(static_cast<float>(reference::e5m2().value(bits)))) << bits;
    }
  }
  EXPECT_EQ(to_float(E4m3{0x7e}), 448.0f);
  EXPECT_EQ(to_float(E5m2{0x7b}), 57344.0f);
}

// Around every value of the format, the midpoint to the next one and the floats beside both.
std::vector<float> boundaries(const FormatTable& table, int stride) {
  std::vector<float> result;
  const auto push_near = [&](double x) {
    const float f = static_cast<float>(x);
    for (const float y : {f, std::nextafter(f, 0.0f), std::nextafter(f, INFINITY)}) {
      if (!std::isfinite(y)) continue;
      result.push_back(y);
      result.push_back(-y);
    }
  };
  const std::vector<double>& values = table.values();
  for (size_t i = 0; i + 1 < values.size(); i += static_cast<size_t>(stride)) {
    push_near(values[i]);
    push_near((values[i] + values[i + 1]) / 2);
  }
  const double last = values.back();
  push_near(last);
  push_near(last + (last - values[values.size() - 2]) / 2);
  push_near(last * 1.5);
  RandomBits random(21);
  for (int i = 0; i < 100000; ++i) {
    const float x = random.f32();
    if (std::isfinite(x)) result.push_back(x);
  }
  return result;
}

TEST(ConvertInstructions, F32ToF16InEveryMode) {
  for (const float x : boundaries(reference::f16(), 1)) {
    for (const Mode mode : kModes) {
      const uint32_t want = reference::f16().round(static_cast<double>(x), mode.direction);
      ASSERT_EQ(to_f16(x, {.rounding = mode.rounding}).bits, want) << x;
    }
    ASSERT_EQ(round_to_f16(x).bits,
              reference::f16().round(static_cast<double>(x), Direction::kNearestEven))
        << x;
  }
}

TEST(ConvertInstructions, F32ToBf16InEveryMode) {
  for (const float x : boundaries(reference::bf16(), 1)) {
    for (const Mode mode : kModes) {
      const uint32_t want = reference::bf16().round(static_cast<double>(x), mode.direction);
      ASSERT_EQ(to_bf16(x, {.rounding = mode.rounding}).bits, want) << x;
    }
    ASSERT_EQ(round_to_bf16(x).bits,
              reference::bf16().round(static_cast<double>(x), Direction::kNearestEven))
        << x;
  }
  EXPECT_EQ(to_bf16(float_of(0x3f808000u)).bits, 0x3f80);  // a tie goes to even
}

TEST(ConvertInstructions, F32ToTf32) {
  constexpr Mode kTf32Modes[] = {{Rounding::kNearestEven, Direction::kNearestEven},
                                 {Rounding::kTowardZero, Direction::kTowardZero},
                                 {Rounding::kNearestAway, Direction::kNearestAway}};
  for (const float x : boundaries(reference::tf32(), 17)) {
    for (const Mode mode : kTf32Modes) {
      const uint32_t want = reference::tf32().round(static_cast<double>(x), mode.direction) << 13;
      ASSERT_EQ(to_tf32(x, {.rounding = mode.rounding}), want) << x;
    }
  }
}

TEST(ConvertInstructions, F64NarrowsWithOneRounding) {
  RandomBits random(22);
  for (int i = 0; i < 100000; ++i) {
    const double x = std::ldexp(1.0 + std::ldexp(static_cast<double>(random.u64() >> 12), -52),
                                random.below(60) - 40);
    for (const Mode mode : kModes) {
      const ConvertOptions options = {.rounding = mode.rounding};
      ASSERT_EQ(to_f16(x, options).bits, reference::f16().round(x, mode.direction)) << x;
      ASSERT_EQ(to_bf16(-x, options).bits, reference::bf16().round(-x, mode.direction)) << x;
    }
    ASSERT_EQ(to_f32(x), static_cast<float>(x));
    const float toward_zero = to_f32(x, {.rounding = Rounding::kTowardZero});
    ASSERT_LE(static_cast<double>(toward_zero), x);
    ASSERT_GT(static_cast<double>(std::nextafter(toward_zero, INFINITY)), x);
  }
  // Rounding to f32 first would make a tie of it.
  EXPECT_EQ(to_f16(1.0 + 0x1p-11 + 0x1p-40).bits, 0x3c01);
  EXPECT_EQ(to_f32(0x1p-150, {.rounding = Rounding::kUp}), 0x1p-149f);
  EXPECT_EQ(to_f32(1e300, {.rounding = Rounding::kTowardZero}), 0x1.fffffep127f);
  EXPECT_EQ(to_f32(0x1p-130, {.ftz = true}), 0.0f);
}

TEST(ConvertInstructions, ModifiersOfNarrowing) {
  const ConvertOptions satfinite = {.satfinite = true};
  EXPECT_EQ(to_f16(1e6f, satfinite).bits, 0x7bff);
  EXPECT_EQ(to_f16(-INFINITY, satfinite).bits, 0xfbff);
  EXPECT_EQ(to_f16(NAN, satfinite).bits, 0x7fff);
  EXPECT_EQ(to_bf16(INFINITY, satfinite).bits, 0x7f7f);
  EXPECT_EQ(to_tf32(INFINITY, satfinite), 0x7f7fe000u);
  EXPECT_EQ(to_f16(-3.0f, {.relu = true}).bits, 0);
  EXPECT_EQ(to_f16(3.0f, {.relu = true}).bits, 0x4200);
  EXPECT_EQ(to_f16(NAN, {.relu = true}).bits, 0x7fff);
  EXPECT_EQ(to_f16(3.0f, {.saturate = true}).bits, 0x3c00);
  EXPECT_EQ(to_f16(NAN, {.saturate = true}).bits, 0);
  EXPECT_EQ(to_bf16(float_of(0x007fffffu), {.ftz = true}).bits, 0);
  EXPECT_EQ(convert_same(3.0f, {.saturate = true}), 1.0f);
  EXPECT_EQ(bits_of(convert_same(NAN, {.saturate = true})), 0u);
}

template <class T>
void check_fp8(const FormatTable& table, uint32_t largest, T (*convert)(float, bool)) {
  for (const float x : boundaries(table, 1)) {
    uint32_t want = table.round(static_cast<double>(x), Direction::kNearestEven);
    if ((want & 0x7fu) > largest) want = (want & 0x80u) | largest;
    ASSERT_EQ(convert(x, false).bits, want) << x;
    ASSERT_EQ(convert(x, true).bits, std::signbit(x) ? 0u : want) << x;
  }
  EXPECT_EQ(convert(INFINITY, false).bits, largest);
  EXPECT_EQ(convert(-INFINITY, false).bits, 0x80u | largest);
  EXPECT_EQ(convert(NAN, false).bits, 0x7f);
  EXPECT_EQ(convert(-NAN, true).bits, 0x7f);
}
TEST(ConvertInstructions, F32ToE4m3) { check_fp8<E4m3>(reference::e4m3(), 0x7e, to_e4m3); }
TEST(ConvertInstructions, F32ToE5m2) { check_fp8<E5m2>(reference::e5m2(), 0x7b, to_e5m2); }

TEST(ConvertInstructions, PackedOperandOrder) {
  EXPECT_EQ(to_f16x2(1.0f, 2.0f), 0x3c004000u);
  EXPECT_EQ(to_bf16x2(1.0f, 2.0f), 0x3f804000u);
  EXPECT_EQ(to_e4m3x2(1000.0f, -0.3f), 0x7eaau);
  EXPECT_EQ(to_e5m2x2(1.0f, -2.0f), 0x3cc0u);
  EXPECT_EQ(f16x2_to_e4m3x2(0x3c00c000u), 0x38c0u);
  EXPECT_EQ(f16x2_to_e5m2x2(0x3c00c000u), 0x3cc0u);
  EXPECT_EQ(e4m3x2_to_f16x2(0x38c0u), 0x3c00c000u);
  EXPECT_EQ(e4m3x2_to_f16x2(0x7fc0u, true), 0x7fff0000u);
  EXPECT_EQ(e5m2x2_to_f16x2(0x3cfcu), 0x3c00fc00u);
}

// Rounding to an integral value by the definition, then clamping, in long double.
template <class T>
T obvious_to_integer(double a, Rounding rounding, bool zero_for_nan) {
  if (a != a) {
    return zero_for_nan ? T{0} : static_cast<T>(std::make_unsigned_t<T>{1} << (8 * sizeof(T) - 1));
  }
  long double x = static_cast<long double>(a);
  switch (rounding) {
    case Rounding::kTowardZero:
      x = truncl(x);
      break;
    case Rounding::kDown:
      x = floorl(x);
      break;
    case Rounding::kUp:
      x = ceill(x);
      break;
    default:
      x = rintl(x);  // the host rounds to nearest even
  }
  if (x >= static_cast<long double>(std::numeric_limits<T>::max())) {
    return std::numeric_limits<T>::max();
  }
  if (x <= static_cast<long double>(std::numeric_limits<T>::min())) {
    return std::numeric_limits<T>::min();
  }
  return static_cast<T>(x);
}

template <class T>
void check_to_integer() {
  RandomBits random(23);
  std::vector<float> values = reference::f32_edges();
  for (int i = 0; i < 20000; ++i) {
    values.push_back(
        std::ldexp(static_cast<float>(random.below(4001) - 2000), random.below(70) - 8));
  }
  for (const float a : values) {
    for (const Mode mode : kModes) {
      ASSERT_EQ(to_integer<T>(a, mode.rounding),
                obvious_to_integer<T>(static_cast<double>(a), mode.rounding, sizeof(T) < 8))
          << a;
      const double d = static_cast<double>(a) + 0.25;
      ASSERT_EQ(to_integer<T>(d, mode.rounding), obvious_to_integer<T>(d, mode.rounding, false))
          << d;
    }
  }
}
TEST(ConvertInstructions, FloatToInteger) {
  check_to_integer<int8_t>();
  check_to_integer<uint8_t>();
  check_to_integer<int16_t>();
  check_to_integer<uint16_t>();
  check_to_integer<int32_t>();
  check_to_integer<uint32_t>();
  check_to_integer<int64_t>();
  check_to_integer<uint64_t>();
  EXPECT_EQ(to_integer<int32_t>(Half{0xc500}, Rounding::kTowardZero), -5);
  EXPECT_EQ(to_integer<int32_t>(Bfloat16{0x40f0}, Rounding::kNearestEven), 8);
  EXPECT_EQ(to_integer<int32_t>(float_of(1), Rounding::kUp), 1);
  EXPECT_EQ(to_integer<int32_t>(float_of(1), Rounding::kUp, true), 0);
}

TEST(ConvertInstructions, IntegralFloats) {
  for (const Mode mode : kModes) {
    const ConvertOptions options = {.rounding = mode.rounding};
    for (const float a : {-2.5f, -1.5f, -0.5f, -0.25f, 0.5f, 1.5f, 2.5f, 8388607.5f, 1e30f}) {
      const double want = mode.direction == Direction::kNearestEven  ? std::nearbyint(a)
                          : mode.direction == Direction::kTowardZero ? std::trunc(a)
                          : mode.direction == Direction::kDown       ? std::floor(a)
                                                                     : std::ceil(a);
      EXPECT_EQ(bits_of(round_to_integral(a, options)), bits_of(static_cast<float>(want))) << a;
      EXPECT_EQ(bits_of(round_to_integral(static_cast<double>(a), mode.rounding)), bits_of(want));
    }
  }
  EXPECT_EQ(bits_of(round_to_integral(NAN)), 0x7fffffffu);
  EXPECT_EQ(round_to_integral(INFINITY), INFINITY);
}

TEST(ConvertInstructions, IntegerToFloat) {
  RandomBits random(24);
  for (int i = 0; i < 50000; ++i) {
    const uint64_t u = random.u64() >> random.below(64);
    const int64_t s = static_cast<int64_t>(random.u64()) >> random.below(63);
    ASSERT_EQ(integer_to_f32(u), static_cast<float>(u));
    ASSERT_EQ(integer_to_f32(s), static_cast<float>(s));
    ASSERT_EQ(integer_to_f64(u), static_cast<double>(u));
    ASSERT_EQ(integer_to_f64(s), static_cast<double>(s));
    for (const Mode mode : kModes) {
      const int32_t small = static_cast<int32_t>(s);
      const double exact = small;
      ASSERT_EQ(integer_to_f16(int64_t{small}, mode.rounding).bits,
                reference::f16().round(exact, mode.direction));
      ASSERT_EQ(integer_to_bf16(int64_t{small}, mode.rounding).bits,
                reference::bf16().round(exact, mode.direction));
      const float f = integer_to_f32(int64_t{small}, mode.rounding);
      if (mode.direction == Direction::kDown) {
        ASSERT_LE(static_cast<double>(f), exact);
        ASSERT_GT(static_cast<double>(std::nextafter(f, INFINITY)), exact);
      }
    }
  }
  EXPECT_EQ(integer_to_f16(uint64_t{70000}).bits, 0x7c00);
  EXPECT_EQ(integer_to_f32(uint64_t{0}), 0.0f);
}

TEST(ConvertInstructions, IntegerToInteger) {
  EXPECT_EQ((convert_integer<int8_t>(int32_t{300}, true)), 127);
  EXPECT_EQ((convert_integer<uint8_t>(int32_t{-1}, true)), 0);
  EXPECT_EQ((convert_integer<uint8_t>(int32_t{300})), 44);
  EXPECT_EQ((convert_integer<int64_t>(int32_t{-1})), -1);
  EXPECT_EQ((convert_integer<uint64_t>(uint32_t{0xffffffffu})), 0xffffffffu);
  EXPECT_EQ((convert_integer<int32_t>(uint32_t{0xffffffffu}, true)), 0x7fffffff);
  EXPECT_EQ((convert_integer<uint32_t>(int64_t{-5}, true)), 0u);
  EXPECT_EQ((convert_pack<int16_t>(70000, -70000)), 0x7fff8000u);
  EXPECT_EQ((convert_pack<uint16_t>(5, -1)), 0x00050000u);
  EXPECT_EQ((convert_pack<uint8_t>(1, 300, 0xabcdu)), 0xabcd01ffu);
}

}  // namespace
}  // namespace tilewright::emulator
