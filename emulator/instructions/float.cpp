#include "emulator/instructions/float.h"

namespace tilewright::emulator {
namespace {

float finish_approx(double value, bool ftz) {
  const float rounded = static_cast<float>(value);
  return canonical_nan(ftz ? flush(rounded) : rounded);
}

constexpr uint64_t kLowWord = 0xffffffffu;
constexpr uint64_t kCanonicalNanGross = 0x7fffffff00000000u;

bool is_subnormal_or_zero(double a) {
  return (std::bit_cast<uint64_t>(a) & 0x7ff0000000000000u) == 0;
}

// To 20 fraction bits, nearest; subnormal results become zero.
double round_gross(double value) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  if (value != value) return std::bit_cast<double>(kCanonicalNanGross);
  if (is_subnormal_or_zero(value)) return std::bit_cast<double>(bits & uint64_t{1} << 63);
  return std::bit_cast<double>((bits + (kLowWord >> 1)) & ~kLowWord);
}

// The operand as the gross approximations see it: the high word only, no subnormals.
double gross_operand(double a) {
  const uint64_t bits = std::bit_cast<uint64_t>(a);
  return std::bit_cast<double>(is_subnormal_or_zero(a) ? bits & uint64_t{1} << 63
                                                       : bits & ~kLowWord);
}

template <bool kMax>
double extreme(double a, double b) {
  if (a != a && b != b) return std::bit_cast<double>(uint64_t{0x7fffffffffffffffu});
  if (a != a) return b;
  if (b != b) return a;
  if (a == b) return std::signbit(a) == kMax ? b : a;  // −0 < +0
  return (a < b) == kMax ? b : a;
}

}  // namespace

float lg2_approx(float a, bool ftz) {
  return finish_approx(std::log2(static_cast<double>(ftz ? flush(a) : a)), ftz);
}
float sin_approx(float a, bool ftz) {
  return finish_approx(std::sin(static_cast<double>(ftz ? flush(a) : a)), ftz);
}
float cos_approx(float a, bool ftz) {
  return finish_approx(std::cos(static_cast<double>(ftz ? flush(a) : a)), ftz);
}
float tanh_approx(float a) { return finish_approx(std::tanh(static_cast<double>(a)), false); }

float div_approx(float a, float b, bool ftz) {
  if (std::fabs(b) > 0x1p126f && std::isfinite(b)) {
    if (std::isinf(a) || a != a) return std::bit_cast<float>(kCanonicalNanF32);
    return std::copysign(1.0f, a) * std::copysign(1.0f, b) * 0.0f;
  }
  return div(a, b, {.ftz = ftz});
}

double min(double a, double b) { return extreme<false>(a, b); }
double max(double a, double b) { return extreme<true>(a, b); }

double rcp_approx_ftz(double a) { return round_gross(1.0 / gross_operand(a)); }
double rsqrt_approx_ftz(double a) { return round_gross(1.0 / std::sqrt(gross_operand(a))); }
double rsqrt_approx(double a) { return 1.0 / std::sqrt(a); }

}  // namespace tilewright::emulator
