#include "core/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>

namespace tilewright {
namespace {

// A value by its definition, computed in double, independent of the code under test.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;

  double value(uint32_t bits) const {
    const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
    const uint32_t top = (1u << exponent_bits) - 1;
    const uint32_t exponent = (bits >> mantissa_bits) & top;
    const double sign = (bits >> (exponent_bits + mantissa_bits)) != 0 ? -1 : 1;
    if (has_infinity && exponent == top) return mantissa == 0 ? sign * INFINITY : NAN;
    if (!has_infinity && exponent == top && mantissa == (1u << mantissa_bits) - 1) return NAN;
    const double scale = std::pow(2.0, -mantissa_bits);
    if (exponent == 0) return sign * mantissa * scale * std::pow(2.0, 1 - bias);
    return sign * (1 + mantissa * scale) * std::pow(2.0, static_cast<int>(exponent) - bias);
  }
};

constexpr SmallFloat kHalf{5, 10, 15, true};
constexpr SmallFloat kBFloat16{8, 7, 127, true};
constexpr SmallFloat kE4M3{4, 3, 7, false};
constexpr SmallFloat kE5M2{5, 2, 15, true};

using Decode = std::function<float(uint32_t)>;
using Encode = std::function<uint32_t(float)>;

void check_every_code(const SmallFloat& format, const Decode& decode, const Encode& encode) {
  const int bits = 1 + format.exponent_bits + format.mantissa_bits;
  for (uint32_t code = 0; code < (1u << bits); ++code) {
    const double expected = format.value(code);
    const float actual = decode(code);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(actual)) << code;
      ASSERT_TRUE(std::isnan(decode(encode(actual)))) << code;
      continue;
    }
    ASSERT_EQ(static_cast<double>(actual), expected) << code;
    ASSERT_EQ(std::signbit(actual), std::signbit(expected)) << code;
    if (std::isfinite(expected)) {
      ASSERT_EQ(encode(actual), code);
    }
  }
}

// Rounding is monotone, so the boundaries between neighbours decide it everywhere.
void check_every_boundary(const SmallFloat& format, uint32_t largest, const Encode& encode) {
  const uint32_t sign = 1u << (format.exponent_bits + format.mantissa_bits);
  for (uint32_t code = 0; code < largest; ++code) {
    const float middle = static_cast<float>((format.value(code) + format.value(code + 1)) / 2);
    const uint32_t even = (code & 1) == 0 ? code : code + 1;
    ASSERT_EQ(encode(middle), even) << code;
    ASSERT_EQ(encode(std::nextafter(middle, 0.0f)), code);
    ASSERT_EQ(encode(std::nextafter(middle, INFINITY)), code + 1);
    ASSERT_EQ(encode(-middle), even | sign);
  }
}

TEST(Half, EveryCode) {
  check_every_code(
      kHalf, [](uint32_t c) { return half_to_float(static_cast<uint16_t>(c)); }, float_to_half);
  check_every_boundary(kHalf, 0x7bff, float_to_half);
  EXPECT_EQ(float_to_half(65519.99f), 0x7bff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(float_to_half(-INFINITY), 0xfc00);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::denorm_min()), 0);
}

TEST(Half, AgreesWithTheCompiler) {
  constexpr uint32_t kStride = 4099;  // prime: meets every exponent with many mantissas
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += kStride) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_half(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
}

TEST(BFloat16, EveryCode) {
  check_every_code(
      kBFloat16, [](uint32_t c) { return bfloat16_to_float(static_cast<uint16_t>(c)); },
      float_to_bfloat16);
  check_every_boundary(kBFloat16, 0x7f7f, float_to_bfloat16);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Fp8, EveryCodeOfE4M3) {
  check_every_code(
      kE4M3, [](uint32_t c) { return e4m3_to_float(static_cast<uint8_t>(c)); }, float_to_e4m3);
  check_every_boundary(kE4M3, 0x7e, float_to_e4m3);
  EXPECT_EQ(float_to_e4m3(1e9f), 0x7e);
  EXPECT_EQ(float_to_e4m3(INFINITY), 0x7e);
  EXPECT_EQ(float_to_e4m3(-1e9f), 0xfe);
  EXPECT_EQ(e4m3_to_float(0x7e), 448.0f);
}

TEST(Fp8, EveryCodeOfE5M2) {
  check_every_code(
      kE5M2, [](uint32_t c) { return e5m2_to_float(static_cast<uint8_t>(c)); }, float_to_e5m2);
  check_every_boundary(kE5M2, 0x7b, float_to_e5m2);
  EXPECT_EQ(float_to_e5m2(INFINITY), 0x7b);
  EXPECT_EQ(e5m2_to_float(0x7b), 57344.0f);
}

TEST(Arrays, ConvertElementByElement) {
  const std::vector<float> values = {0.0f, 1.0f, -2.5f, 0.33333f};
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBFloat16, Dtype::kFloat8E4M3,
                            Dtype::kFloat8E5M2, Dtype::kFloat32}) {
    std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size_in_bytes(dtype)));
    from_float(dtype, values, bytes.data());
    std::vector<float> back(values.size());
    to_float(dtype, bytes.data(), back);
    EXPECT_EQ(back[1], 1.0f) << to_string(dtype);
    EXPECT_EQ(back[2], -2.5f) << to_string(dtype);
    EXPECT_NEAR(back[3], 0.33333f, 0.05f) << to_string(dtype);
  }
}

}  // namespace
}  // namespace tilewright
