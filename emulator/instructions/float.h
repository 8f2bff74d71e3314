// f32 and f64 arithmetic as PTX defines it: explicit rounding without the host's rounding state,
// ftz, saturation, NaN rules. Functions on the hot path are inlined so that a loop over lanes
// vectorises. Including files are compiled with -ffp-contract=off (the library's usage
// requirement): a contracted product would break exactness.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "emulator/instructions/types.h"

#define TW_EMULATOR_INLINE [[gnu::always_inline]] inline

namespace tilewright::emulator {

// Subnormals become zero of the same sign.
TW_EMULATOR_INLINE float flush(float a) {
  const uint32_t bits = std::bit_cast<uint32_t>(a);
  const uint32_t keep = (bits & 0x7f800000u) == 0 ? 0x80000000u : 0xffffffffu;
  return std::bit_cast<float>(bits & keep);
}

TW_EMULATOR_INLINE float canonical_nan(float a) {
  return a != a ? std::bit_cast<float>(kCanonicalNanF32) : a;
}

// .sat: [0, 1], NaN and −0 become +0.
TW_EMULATOR_INLINE float saturate(float a) {
  const float low = a > 0.0f ? a : 0.0f;
  return low < 1.0f ? low : 1.0f;
}

namespace detail {
// Rounding other than to nearest even, through exact integer arithmetic.
float add_directed(float a, float b, Rounding rounding);
float mul_directed(float a, float b, Rounding rounding);
float fma_directed(float a, float b, float c, Rounding rounding);
float div_directed(float a, float b, Rounding rounding);
float sqrt_directed(float a, Rounding rounding);
double add_directed(double a, double b, Rounding rounding);
double mul_directed(double a, double b, Rounding rounding);
double fma_directed(double a, double b, double c, Rounding rounding);
double div_directed(double a, double b, Rounding rounding);
double sqrt_directed(double a, Rounding rounding);

TW_EMULATOR_INLINE float input(float a, const FloatOptions& options) {
  return options.ftz ? flush(a) : a;
}
TW_EMULATOR_INLINE float finish(float a, const FloatOptions& options) {
  a = options.ftz ? flush(a) : a;
  return options.saturate ? saturate(a) : canonical_nan(a);
}
}  // namespace detail

TW_EMULATOR_INLINE float add(float a, float b, const FloatOptions& options = {}) {
  a = detail::input(a, options);
  b = detail::input(b, options);
  const float d = options.rounding == Rounding::kNearestEven
                      ? a + b
                      : detail::add_directed(a, b, options.rounding);
  return detail::finish(d, options);
}
TW_EMULATOR_INLINE float sub(float a, float b, const FloatOptions& options = {}) {
  return add(a, -b, options);
}
TW_EMULATOR_INLINE float mul(float a, float b, const FloatOptions& options = {}) {
  a = detail::input(a, options);
  b = detail::input(b, options);
  const float d = options.rounding == Rounding::kNearestEven
                      ? a * b
                      : detail::mul_directed(a, b, options.rounding);
  return detail::finish(d, options);
}
TW_EMULATOR_INLINE float fma(float a, float b, float c, const FloatOptions& options = {}) {
  a = detail::input(a, options);
  b = detail::input(b, options);
  c = detail::input(c, options);
  const float d = options.rounding == Rounding::kNearestEven
                      ? __builtin_fmaf(a, b, c)
                      : detail::fma_directed(a, b, c, options.rounding);
  return detail::finish(d, options);
}
TW_EMULATOR_INLINE float div(float a, float b, const FloatOptions& options = {}) {
  a = detail::input(a, options);
  b = detail::input(b, options);
  const float d = options.rounding == Rounding::kNearestEven
                      ? a / b
                      : detail::div_directed(a, b, options.rounding);
  return detail::finish(d, options);
}
TW_EMULATOR_INLINE float rcp(float a, const FloatOptions& options = {}) {
  return div(1.0f, a, options);
}
TW_EMULATOR_INLINE float sqrt(float a, const FloatOptions& options = {}) {
  a = detail::input(a, options);
  const float d = options.rounding == Rounding::kNearestEven
                      ? __builtin_sqrtf(a)
                      : detail::sqrt_directed(a, options.rounding);
  return detail::finish(d, options);
}

// min and max: a NaN operand is ignored unless both are NaN, or .NaN; −0 < +0.
TW_EMULATOR_INLINE float min(float a, float b, const FloatOptions& options = {});
TW_EMULATOR_INLINE float max(float a, float b, const FloatOptions& options = {});

// Sign operations keep a NaN's payload.
TW_EMULATOR_INLINE float abs(float a, bool ftz = false) {
  a = ftz ? flush(a) : a;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(a) & 0x7fffffffu);
}
TW_EMULATOR_INLINE float neg(float a, bool ftz = false) {
  a = ftz ? flush(a) : a;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(a) ^ 0x80000000u);
}

// ---- approximate f32; each within the ISA's stated error ----

// Correct to 1 ulp; a polynomial that vectorises over lanes.
TW_EMULATOR_INLINE float ex2_approx(float a, bool ftz = false);
// The others round a double result to nearest.
float lg2_approx(float a, bool ftz = false);
float sin_approx(float a, bool ftz = false);
float cos_approx(float a, bool ftz = false);
float tanh_approx(float a);
TW_EMULATOR_INLINE float rcp_approx(float a, bool ftz = false) { return rcp(a, {.ftz = ftz}); }
TW_EMULATOR_INLINE float sqrt_approx(float a, bool ftz = false) { return sqrt(a, {.ftz = ftz}); }
TW_EMULATOR_INLINE float rsqrt_approx(float a, bool ftz = false) {
  a = ftz ? flush(a) : a;
  return canonical_nan(static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(a))));
}
// div.approx: for |b| in (2^126, 2^128) the result is 0, or NaN when a is infinite.
float div_approx(float a, float b, bool ftz = false);
TW_EMULATOR_INLINE float div_full(float a, float b, bool ftz = false) {
  return div(a, b, {.ftz = ftz});
}

// ---- f64; a NaN operand's payload is kept ----

TW_EMULATOR_INLINE double add(double a, double b, Rounding rounding = Rounding::kNearestEven) {
  return rounding == Rounding::kNearestEven ? a + b : detail::add_directed(a, b, rounding);
}
TW_EMULATOR_INLINE double sub(double a, double b, Rounding rounding = Rounding::kNearestEven) {
  return add(a, -b, rounding);
}
TW_EMULATOR_INLINE double mul(double a, double b, Rounding rounding = Rounding::kNearestEven) {
  return rounding == Rounding::kNearestEven ? a * b : detail::mul_directed(a, b, rounding);
}
TW_EMULATOR_INLINE double fma(double a, double b, double c,
                              Rounding rounding = Rounding::kNearestEven) {
  return rounding == Rounding::kNearestEven ? __builtin_fma(a, b, c)
                                            : detail::fma_directed(a, b, c, rounding);
}
TW_EMULATOR_INLINE double div(double a, double b, Rounding rounding = Rounding::kNearestEven) {
  return rounding == Rounding::kNearestEven ? a / b : detail::div_directed(a, b, rounding);
}
TW_EMULATOR_INLINE double rcp(double a, Rounding rounding = Rounding::kNearestEven) {
  return div(1.0, a, rounding);
}
TW_EMULATOR_INLINE double sqrt(double a, Rounding rounding = Rounding::kNearestEven) {
  return rounding == Rounding::kNearestEven ? __builtin_sqrt(a)
                                            : detail::sqrt_directed(a, rounding);
}
double min(double a, double b);
double max(double a, double b);
inline double abs(double a) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(a) & ~(uint64_t{1} << 63));
}
inline double neg(double a) {
  return std::bit_cast<double>(std::bit_cast<uint64_t>(a) ^ uint64_t{1} << 63);
}
// rcp.approx.ftz.f64, rsqrt.approx.ftz.f64: 20 mantissa bits, low word 0.
double rcp_approx_ftz(double a);
double rsqrt_approx_ftz(double a);
// rsqrt.approx.f64: no such cut, and subnormals count.
double rsqrt_approx(double a);

// ---- bodies that the header needs for inlining ----

namespace detail {
// The smaller (kMax: larger) of two floats without NaN rules, −0 < +0, as an integer comparison.
template <bool kMax>
TW_EMULATOR_INLINE float select_extreme(float a, float b) {
  const int32_t x = std::bit_cast<int32_t>(a);
  const int32_t y = std::bit_cast<int32_t>(b);
  const int32_t x_order = x ^ ((x >> 31) & 0x7fffffff);  // monotone in the float's value
  const int32_t y_order = y ^ ((y >> 31) & 0x7fffffff);
  return (kMax ? x_order > y_order : x_order < y_order) ? a : b;
}

template <bool kMax>
TW_EMULATOR_INLINE float extreme(float a, float b, const FloatOptions& options) {
  a = input(a, options);
  b = input(b, options);
  const uint32_t sign = (std::bit_cast<uint32_t>(a) ^ std::bit_cast<uint32_t>(b)) & 0x80000000u;
  const bool a_is_nan = a != a;
  const bool b_is_nan = b != b;
  if (options.xorsign_abs) {
    a = std::bit_cast<float>(std::bit_cast<uint32_t>(a) & 0x7fffffffu);
    b = std::bit_cast<float>(std::bit_cast<uint32_t>(b) & 0x7fffffffu);
  }
  float d = select_extreme<kMax>(a, b);
  d = a_is_nan ? b : d;
  d = b_is_nan ? a : d;
  const bool to_nan = options.nan ? (a_is_nan | b_is_nan) : (a_is_nan & b_is_nan);
  if (options.xorsign_abs) {
    d = std::bit_cast<float>((std::bit_cast<uint32_t>(d) & 0x7fffffffu) | sign);
  }
  return to_nan ? std::bit_cast<float>(kCanonicalNanF32) : d;
}
}  // namespace detail

TW_EMULATOR_INLINE float min(float a, float b, const FloatOptions& options) {
  return detail::extreme<false>(a, b, options);
}
TW_EMULATOR_INLINE float max(float a, float b, const FloatOptions& options) {
  return detail::extreme<true>(a, b, options);
}

// 2^a = 2^n · 2^f with n = round(a), f in [−1/2, 1/2]: a Taylor polynomial of degree 7 (truncation
// 5e-9 relative, 0.04 ulp) in f32, below 1 ulp in all; 2^n is added to the exponent field.
// Subnormal results are made as integers: host arithmetic would take a microcode assist for each.
TW_EMULATOR_INLINE float ex2_approx(float a, bool ftz) {
  a = ftz ? flush(a) : a;
  const float above = a > -151.0f ? a : -151.0f;  // NaN: −151, replaced at the end
  const float clamped = above < 128.0f ? above : 128.0f;
  const float shifted = clamped + 12582912.0f;  // 1.5 · 2^23: the sum's low bits are round(a)
  const int32_t n = std::bit_cast<int32_t>(shifted) - 0x4b400000;
  const float f = clamped - (shifted - 12582912.0f);
  float p = 1.52527338e-5f;    // ln(2)^7 / 7!
  p = p * f + 1.54035304e-4f;  // ln(2)^6 / 6!
  p = p * f + 1.33335581e-3f;  // ln(2)^5 / 5!
  p = p * f + 9.61812911e-3f;  // ln(2)^4 / 4!
  p = p * f + 5.55041087e-2f;  // ln(2)^3 / 3!
  p = p * f + 2.40226507e-1f;  // ln(2)^2 / 2!
  p = p * f + 6.93147181e-1f;  // ln(2)
  p = p * f + 1.0f;
  const int32_t significand = std::bit_cast<int32_t>(p);
  const bool tiny = clamped < -126.0f;
  // In units of the least subnormal, 2^-149, at most 2^23; rounded by the cast.
  const float units = std::bit_cast<float>(significand + ((tiny ? n + 149 : 0) << 23));
  const int32_t subnormal = ftz ? 0 : static_cast<int32_t>(units + 0.5f);
  int32_t d = significand + ((tiny ? 0 : n) << 23);
  d = tiny ? subnormal : d;
  d = clamped >= 128.0f ? 0x7f800000 : d;
  return std::bit_cast<float>(a != a ? static_cast<int32_t>(kCanonicalNanF32) : d);
}

}  // namespace tilewright::emulator
