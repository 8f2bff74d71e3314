#include "emulator/instructions/convert.h"

#include <cmath>

#include "emulator/instructions/soft_float.h"

namespace tilewright::emulator {
namespace {

// A finite or infinite value of the format, its NaN all ones: overflow to the largest finite
// number, .sat and .relu. One is the format's 1.0.
uint64_t finish(uint64_t bits, FloatSpec spec, const ConvertOptions& options) {
  const int sign_bit = spec.exponent_bits + spec.fraction_bits;
  const uint64_t sign = uint64_t{1} << sign_bit;
  const uint64_t infinity = ((uint64_t{1} << spec.exponent_bits) - 1) << spec.fraction_bits;
  const uint64_t one = ((uint64_t{1} << (spec.exponent_bits - 1)) - 1) << spec.fraction_bits;
  const uint64_t magnitude = bits & (sign - 1);
  const bool negative = (bits & sign) != 0;
  if (magnitude > infinity) return options.saturate ? 0 : sign - 1;
  if (options.saturate) return negative ? 0 : std::min(magnitude, one);
  if (options.relu && negative) return 0;
  if (options.satfinite && magnitude == infinity) return (bits & sign) | (infinity - 1);
  return bits;
}

double operand(float a, const ConvertOptions& options) {
  return static_cast<double>(options.ftz ? flush(a) : a);
}

// Magnitudes of fp8: exponent re-biased in place with the significand rounded to nearest even;
// below the least normal an addition aligns the last place with a subnormal's.
template <int kFractionBits, int kBias, int kMaxBits>
uint8_t round_to_fp8(float a, bool relu) {
  const uint32_t bits = std::bit_cast<uint32_t>(a);
  const uint32_t sign = bits >> 24 & 0x80u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0x7f;
  if (relu && sign != 0) return 0;
  constexpr int kShift = 23 - kFractionBits;
  constexpr uint32_t kLeastNormal = static_cast<uint32_t>(128 - kBias) << 23;
  // Its last place is a subnormal's: 2^(1 − bias − fraction bits).
  constexpr uint32_t kAligner = static_cast<uint32_t>(127 + 1 - kBias - kFractionBits + 23) << 23;
  uint32_t d = 0;
  if (magnitude < kLeastNormal) {
    const float aligned = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kAligner);
    d = std::bit_cast<uint32_t>(aligned) - kAligner;
  } else {
    const uint32_t odd = magnitude >> kShift & 1u;
    const uint32_t rebiased = magnitude - (static_cast<uint32_t>(127 - kBias) << 23);
    d = (rebiased + (1u << (kShift - 1)) - 1u + odd) >> kShift;
  }
  return static_cast<uint8_t>(sign | std::min(d, uint32_t{kMaxBits}));
}

Exact exact_of(uint64_t magnitude, bool negative) { return {negative, 0, magnitude, false}; }
Exact exact_of(int64_t a) {
  const uint64_t bits = static_cast<uint64_t>(a);
  return exact_of(a < 0 ? uint64_t{0} - bits : bits, a < 0);
}

float f32_of(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }

template <class T>
T integral_value(T a, Rounding rounding) {
  switch (rounding) {
    case Rounding::kTowardZero:
      return std::trunc(a);
    case Rounding::kDown:
      return std::floor(a);
    case Rounding::kUp:
      return std::ceil(a);
    case Rounding::kNearestAway:
      return std::round(a);
    case Rounding::kNearestEven:
      break;
  }
  // The fraction is exact, so that comparing it with a half decides, whatever the host's mode.
  const T below = std::floor(a);
  const T fraction = a - below;
  const bool odd = std::fmod(below, T{2}) != 0;
  const T nearest = fraction > T{0.5} || (fraction == T{0.5} && odd) ? below + 1 : below;
  return std::copysign(nearest, a);
}

}  // namespace

float to_float(E4m3 a) {
  const uint32_t magnitude = a.bits & 0x7fu;
  if (magnitude == 0x7f) return std::bit_cast<float>(kCanonicalNanF32);
  const float value = magnitude < 8 ? static_cast<float>(magnitude) * 0x1p-9f
                                    : std::bit_cast<float>((magnitude << 20) + 0x3c000000u);
  return (a.bits & 0x80u) != 0 ? -value : value;
}
float to_float(E5m2 a) { return to_float(Half{static_cast<uint16_t>(a.bits << 8)}); }

float to_f32(double a, const ConvertOptions& options) {
  const float d = f32_of(finish(round_double(a, kSpecF32, options.rounding), kSpecF32, options));
  return options.ftz ? flush(d) : d;
}
Half to_f16(double a, const ConvertOptions& options) {
  const uint64_t bits = round_double(a, kSpecF16, options.rounding);
  return {static_cast<uint16_t>(finish(bits, kSpecF16, options))};
}
Half to_f16(float a, const ConvertOptions& options) { return to_f16(operand(a, options), options); }
Bfloat16 to_bf16(double a, const ConvertOptions& options) {
  const uint64_t bits = round_double(a, kSpecBf16, options.rounding);
  return {static_cast<uint16_t>(finish(bits, kSpecBf16, options))};
}
Bfloat16 to_bf16(float a, const ConvertOptions& options) {
  return to_bf16(operand(a, options), options);
}
uint32_t to_tf32(float a, const ConvertOptions& options) {
  const uint64_t bits = round_double(operand(a, options), kSpecTf32, options.rounding);
  return static_cast<uint32_t>(finish(bits, kSpecTf32, options)) << 13;
}
E4m3 to_e4m3(float a, bool relu) { return {round_to_fp8<3, 7, 0x7e>(a, relu)}; }
E5m2 to_e5m2(float a, bool relu) { return {round_to_fp8<2, 15, 0x7b>(a, relu)}; }

uint32_t to_f16x2(float a, float b, const ConvertOptions& options) {
  return pack_halves(to_f16(b, options), to_f16(a, options));
}
uint32_t to_bf16x2(float a, float b, const ConvertOptions& options) {
  return pack_halves(to_bf16(b, options), to_bf16(a, options));
}
uint16_t to_e4m3x2(float a, float b, bool relu) {
  return static_cast<uint16_t>(to_e4m3(a, relu).bits << 8 | to_e4m3(b, relu).bits);
}
uint16_t to_e5m2x2(float a, float b, bool relu) {
  return static_cast<uint16_t>(to_e5m2(a, relu).bits << 8 | to_e5m2(b, relu).bits);
}
uint16_t f16x2_to_e4m3x2(uint32_t a, bool relu) {
  return to_e4m3x2(to_float(high_half<Half>(a)), to_float(low_half<Half>(a)), relu);
}
uint16_t f16x2_to_e5m2x2(uint32_t a, bool relu) {
  return to_e5m2x2(to_float(high_half<Half>(a)), to_float(low_half<Half>(a)), relu);
}
uint32_t e4m3x2_to_f16x2(uint16_t a, bool relu) {
  const float high = to_float(E4m3{static_cast<uint8_t>(a >> 8)});
  const float low = to_float(E4m3{static_cast<uint8_t>(a & 0xff)});
  return to_f16x2(high, low, {.relu = relu});
}
uint32_t e5m2x2_to_f16x2(uint16_t a, bool relu) {
  const float high = to_float(E5m2{static_cast<uint8_t>(a >> 8)});
  const float low = to_float(E5m2{static_cast<uint8_t>(a & 0xff)});
  return to_f16x2(high, low, {.relu = relu});
}

float round_to_integral(float a, const ConvertOptions& options) {
  const float value = integral_value(options.ftz ? flush(a) : a, options.rounding);
  return options.saturate ? saturate(value) : canonical_nan(value);
}
double round_to_integral(double a, Rounding rounding) { return integral_value(a, rounding); }
Half round_to_integral(Half a, Rounding rounding) {
  return round_to_f16(integral_value(to_float(a), rounding));
}
float convert_same(float a, const ConvertOptions& options) {
  const float value = options.ftz ? flush(a) : a;
  return options.saturate ? saturate(value) : canonical_nan(value);
}

float integer_to_f32(int64_t a, Rounding rounding) {
  return f32_of(round_exact(exact_of(a), kSpecF32, rounding));
}
float integer_to_f32(uint64_t a, Rounding rounding) {
  return f32_of(round_exact(exact_of(a, false), kSpecF32, rounding));
}
double integer_to_f64(int64_t a, Rounding rounding) {
  return std::bit_cast<double>(round_exact(exact_of(a), kSpecF64, rounding));
}
double integer_to_f64(uint64_t a, Rounding rounding) {
  return std::bit_cast<double>(round_exact(exact_of(a, false), kSpecF64, rounding));
}
Half integer_to_f16(int64_t a, Rounding rounding) {
  return {static_cast<uint16_t>(round_exact(exact_of(a), kSpecF16, rounding))};
}
Half integer_to_f16(uint64_t a, Rounding rounding) {
  return {static_cast<uint16_t>(round_exact(exact_of(a, false), kSpecF16, rounding))};
}
Bfloat16 integer_to_bf16(int64_t a, Rounding rounding) {
  return {static_cast<uint16_t>(round_exact(exact_of(a), kSpecBf16, rounding))};
}
Bfloat16 integer_to_bf16(uint64_t a, Rounding rounding) {
  return {static_cast<uint16_t>(round_exact(exact_of(a, false), kSpecBf16, rounding))};
}

}  // namespace tilewright::emulator
