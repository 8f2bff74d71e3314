#include "emulator/instructions/float16.h"

#include <cmath>

#include "emulator/instructions/convert.h"
#include "emulator/instructions/float.h"

namespace tilewright::emulator {
namespace {

// One rounding of a double to the format.
template <class T>
T narrow(double value);
template <>
Half narrow<Half>(double value) {
  return to_f16(value);
}
template <>
Bfloat16 narrow<Bfloat16>(double value) {
  return to_bf16(value);
}

template <class T>
constexpr uint16_t kOne = std::is_same_v<T, Half> ? 0x3c00 : 0x3f80;

template <class T>
double widen(T a, const FloatOptions& options) {
  return static_cast<double>(to_float(options.ftz ? flush(a) : a));
}

template <class T>
T finish(T a, const FloatOptions& options) {
  if (options.ftz) a = flush(a);
  const float value = to_float(a);
  if (options.saturate) {
    if (!(value > 0.0f)) return T{};
    return value > 1.0f ? T{kOne<T>} : a;
  }
  if (value != value) return T{kCanonicalNan16};
  return options.relu && std::signbit(value) ? T{} : a;
}

// Sums and products of two 11-bit (8-bit) significands are exact in double, save sums whose
// exponents are far apart; those are too close to the larger operand for a tie to be misjudged.
template <class T>
T add_16(T a, T b, const FloatOptions& options) {
  return finish(narrow<T>(widen(a, options) + widen(b, options)), options);
}
template <class T>
T mul_16(T a, T b, const FloatOptions& options) {
  return finish(narrow<T>(widen(a, options) * widen(b, options)), options);
}
// The sum of a double product and c may be inexact and look like a tie that it is not: rounding it
// to odd keeps which side it is on.
template <class T>
T fma_16(T a, T b, T c, const FloatOptions& options) {
  const double product = widen(a, options) * widen(b, options);
  const double addend = widen(c, options);
  double sum = product + addend;
  if (std::isfinite(sum)) {
    const double addend_part = sum - product;
    const double error = (product - (sum - addend_part)) + (addend - addend_part);
    const uint64_t bits = std::bit_cast<uint64_t>(sum);
    if (error != 0.0 && (bits & 1) == 0) {
      sum = std::bit_cast<double>((error > 0.0) == (sum > 0.0) ? bits + 1 : bits - 1);
    }
  }
  return finish(narrow<T>(sum), options);
}

template <class T>
T extreme_16(T a, T b, const FloatOptions& options, bool is_max) {
  if (options.ftz) {
    a = flush(a);
    b = flush(b);
  }
  FloatOptions f32 = options;
  f32.ftz = false;
  const float x = to_float(a);
  const float y = to_float(b);
  const float d = is_max ? max(x, y, f32) : min(x, y, f32);
  T result = narrow<T>(static_cast<double>(d));
  if (options.xorsign_abs && d == d) {  // a NaN operand's sign counts, and to_float drops it
    result = T{static_cast<uint16_t>((result.bits & 0x7fffu) | ((a.bits ^ b.bits) & 0x8000u))};
  }
  return finish(result, options);
}

template <class T>
T clear_sign(T a) {
  return T{static_cast<uint16_t>(a.bits & 0x7fffu)};
}
template <class T>
T flip_sign(T a) {
  return T{static_cast<uint16_t>(a.bits ^ 0x8000u)};
}

}  // namespace

Half add(Half a, Half b, const FloatOptions& options) { return add_16(a, b, options); }
Half sub(Half a, Half b, const FloatOptions& options) { return add_16(a, flip_sign(b), options); }
Half mul(Half a, Half b, const FloatOptions& options) { return mul_16(a, b, options); }
Half fma(Half a, Half b, Half c, const FloatOptions& options) { return fma_16(a, b, c, options); }
Half min(Half a, Half b, const FloatOptions& options) { return extreme_16(a, b, options, false); }
Half max(Half a, Half b, const FloatOptions& options) { return extreme_16(a, b, options, true); }
Half abs(Half a, bool ftz) { return clear_sign(ftz ? flush(a) : a); }
Half neg(Half a, bool ftz) { return flip_sign(ftz ? flush(a) : a); }
Half ex2_approx(Half a) { return to_f16(std::exp2(static_cast<double>(to_float(a)))); }
Half tanh_approx(Half a) { return to_f16(std::tanh(static_cast<double>(to_float(a)))); }

Bfloat16 add(Bfloat16 a, Bfloat16 b, const FloatOptions& options) { return add_16(a, b, options); }
Bfloat16 sub(Bfloat16 a, Bfloat16 b, const FloatOptions& options) {
  return add_16(a, flip_sign(b), options);
}
Bfloat16 mul(Bfloat16 a, Bfloat16 b, const FloatOptions& options) { return mul_16(a, b, options); }
Bfloat16 fma(Bfloat16 a, Bfloat16 b, Bfloat16 c, const FloatOptions& options) {
  return fma_16(a, b, c, options);
}
Bfloat16 min(Bfloat16 a, Bfloat16 b, const FloatOptions& options) {
  return extreme_16(a, b, options, false);
}
Bfloat16 max(Bfloat16 a, Bfloat16 b, const FloatOptions& options) {
  return extreme_16(a, b, options, true);
}
Bfloat16 abs(Bfloat16 a) { return clear_sign(a); }
Bfloat16 neg(Bfloat16 a) { return flip_sign(a); }
Bfloat16 ex2_approx(Bfloat16 a) {
  return flush(to_bf16(std::exp2(static_cast<double>(to_float(flush(a))))));
}
Bfloat16 tanh_approx(Bfloat16 a) { return to_bf16(std::tanh(static_cast<double>(to_float(a)))); }

}  // namespace tilewright::emulator
