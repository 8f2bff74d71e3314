#include "core/half.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "core/check.h"

namespace tilewright {
namespace {

// A small binary floating-point format: 1 sign bit, then exponent, then mantissa.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint32_t largest;   // bits of the largest finite value
  uint32_t overflow;  // bits that a too large value becomes
  uint32_t nan;
};

constexpr Format kHalf = {5, 10, 15, 0x7bff, 0x7c00, 0x7fff};
constexpr Format kE4M3 = {4, 3, 7, 0x7e, 0x7e, 0x7f};
constexpr Format kE5M2 = {5, 2, 15, 0x7b, 0x7b, 0x7f};

constexpr uint32_t kFloatSign = 0x80000000u;
constexpr uint32_t kFloatInfinity = 0x7f800000u;
constexpr int kFloatMantissaBits = 23;
constexpr int kFloatBias = 127;

// Drops the low `shift` bits (0 < shift < 32), to nearest, ties to even.
constexpr uint32_t shift_right_rounding(uint32_t value, int shift) {
  const uint32_t kept = value >> shift;
  const uint32_t rest = value & ((1u << shift) - 1);
  const uint32_t tie = 1u << (shift - 1);
  return kept + ((rest > tie || (rest == tie && (kept & 1) != 0)) ? 1 : 0);
}

uint32_t encode(const Format& format, float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits & kFloatSign) >> (31 - format.exponent_bits - format.mantissa_bits);
  const uint32_t magnitude = bits & ~kFloatSign;
  if (magnitude > kFloatInfinity) return sign | format.nan;

  const int exponent = static_cast<int>(magnitude >> kFloatMantissaBits) - kFloatBias;
  const int shift = kFloatMantissaBits - format.mantissa_bits;
  uint32_t result = 0;
  if (exponent >= 1 - format.bias) {
    // Normal: a carry out of the mantissa lands in the exponent, as it should.
    const auto rebias = static_cast<uint32_t>(kFloatBias - format.bias) << kFloatMantissaBits;
    result = shift_right_rounding(magnitude - rebias, shift);
  } else {
    // Subnormal. A value under half the smallest rounds to zero; so do float's own subnormals.
    const int extra = 1 - format.bias - exponent;
    if (shift + extra > kFloatMantissaBits + 1) return sign;
    const uint32_t mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    result = shift_right_rounding(mantissa, shift + extra);
  }
  return sign | (result > format.largest ? format.overflow : result);
}

// For formats whose all-ones exponent is reserved when `ieee`, and an ordinary one otherwise.
float decode(const Format& format, uint32_t bits, bool ieee) {
  const uint32_t exponent_mask = (1u << format.exponent_bits) - 1;
  const uint32_t mantissa = bits & ((1u << format.mantissa_bits) - 1);
  const uint32_t exponent = (bits >> format.mantissa_bits) & exponent_mask;
  const bool negative = ((bits >> (format.exponent_bits + format.mantissa_bits)) & 1) != 0;
  float magnitude = 0;
  if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa_bits);
  } else if (ieee && exponent == exponent_mask) {
    magnitude = std::bit_cast<float>(kFloatInfinity |
                                     (mantissa << (kFloatMantissaBits - format.mantissa_bits)));
  } else {
    const uint32_t float_exponent = exponent + static_cast<uint32_t>(kFloatBias - format.bias);
    magnitude = std::bit_cast<float>((float_exponent << kFloatMantissaBits) |
                                     (mantissa << (kFloatMantissaBits - format.mantissa_bits)));
  }
  return negative ? -magnitude : magnitude;
}

template <class T>
T load(const std::byte* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof value, sizeof value);
  return value;
}

template <class T, class Convert>
void load_all(const std::byte* bytes, std::span<float> values, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = convert(load<T>(bytes, i));
}

template <class T, class Convert>
void store_all(std::span<const float> values, std::byte* bytes, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    const T value = convert(values[i]);
    std::memcpy(bytes + i * sizeof value, &value, sizeof value);
  }
}

}  // namespace

float half_to_float(uint16_t bits) { return decode(kHalf, bits, /*ieee=*/true); }
uint16_t float_to_half(float value) { return static_cast<uint16_t>(encode(kHalf, value)); }

float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits & kFloatSign) >> 16 | 0x7fff);
  return static_cast<uint16_t>((bits & kFloatSign) >> 16 |
                               shift_right_rounding(bits & ~kFloatSign, 16));
}

float e4m3_to_float(uint8_t bits) {
  if ((bits & 0x7f) == kE4M3.nan) return std::bit_cast<float>(kFloatInfinity | 0x400000u);
  return decode(kE4M3, bits, /*ieee=*/false);
}
uint8_t float_to_e4m3(float value) { return static_cast<uint8_t>(encode(kE4M3, value)); }
float e5m2_to_float(uint8_t bits) { return decode(kE5M2, bits, /*ieee=*/true); }
uint8_t float_to_e5m2(float value) { return static_cast<uint8_t>(encode(kE5M2, value)); }

void to_float(Dtype dtype, const std::byte* bytes, std::span<float> values) {
  switch (dtype) {
    case Dtype::kFloat16:
      return load_all<uint16_t>(bytes, values, half_to_float);
    case Dtype::kBFloat16:
      return load_all<uint16_t>(bytes, values, bfloat16_to_float);
    case Dtype::kFloat8E4M3:
      return load_all<uint8_t>(bytes, values, e4m3_to_float);
    case Dtype::kFloat8E5M2:
      return load_all<uint8_t>(bytes, values, e5m2_to_float);
    case Dtype::kFloat32:
      return load_all<float>(bytes, values, [](float value) { return value; });
    case Dtype::kInt32:
      return load_all<int32_t>(bytes, values, [](int32_t v) { return static_cast<float>(v); });
  }
}

void from_float(Dtype dtype, std::span<const float> values, std::byte* bytes) {
  switch (dtype) {
    case Dtype::kFloat16:
      return store_all<uint16_t>(values, bytes, float_to_half);
    case Dtype::kBFloat16:
      return store_all<uint16_t>(values, bytes, float_to_bfloat16);
    case Dtype::kFloat8E4M3:
      return store_all<uint8_t>(values, bytes, float_to_e4m3);
    case Dtype::kFloat8E5M2:
      return store_all<uint8_t>(values, bytes, float_to_e5m2);
    case Dtype::kFloat32:
      return store_all<float>(values, bytes, [](float value) { return value; });
    case Dtype::kInt32:
      TW_CHECK(false, "no rounding from float to int32 is defined");
  }
}

}  // namespace tilewright
