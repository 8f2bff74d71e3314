// .approx and .full: in long double, within the error that the ISA states, its tables of special
// values exactly.
#include <cmath>

#include "core/check.h"
#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Flag;
using ptx::Opcode;
using ptx::Type;
using Real = long double;

struct Target {
  Format format;
  int offset = 0;
  bool ftz = false;
};

Part make(const Target& target, Check check, uint64_t bits) {
  Part part = exactly(0, target.format.bits(), bits);
  part.offset = target.offset;
  part.format = target.format;
  part.check = check;
  return part;
}
Part nan(const Target& target) { return make(target, Check::kNan, 0); }
Part infinity(const Target& target, bool negative) {
  const uint64_t bits = target.format.infinity();
  return make(target, Check::kBits, negative ? bits | target.format.sign_mask() : bits);
}
Part zero(const Target& target, bool negative) {
  return make(target, Check::kBits, negative ? target.format.sign_mask() : 0);
}

Real smallest_normal(Format format) { return std::ldexp(Real{1}, format.min_exponent()); }
Real unit_in_last_place(Format format, Real value) {
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(Real{1}, std::max(exponent - 1, format.min_exponent()) - format.fraction_bits);
}

// Within `tolerance` of the nonzero finite real `value`; what lies near the ends of the format's
// range may fall on either side.
Part near(const Target& target, Real value, Real tolerance) {
  const Format format = target.format;
  const Real magnitude = std::fabs(value);
  const Real largest = to_long_double(decode(format, format.max_finite()));
  const bool negative = value < 0;
  if (magnitude - tolerance > largest + unit_in_last_place(format, largest)) {
    return infinity(target, negative);
  }
  if (magnitude + tolerance > largest) return make(target, Check::kAny, 0);
  if (target.ftz) {
    if (magnitude + tolerance < smallest_normal(format)) return zero(target, negative);
    if (magnitude - tolerance < smallest_normal(format)) return make(target, Check::kAny, 0);
  }
  Part part = make(target, Check::kNear, 0);
  part.value = value;
  part.tolerance = tolerance;
  return part;
}
// The relative error plus the rounding of a subnormal result.
Part relative(const Target& target, Real value, Real error) {
  const Real grain = std::ldexp(smallest_normal(target.format), -target.format.fraction_bits);
  return near(target, value, std::fabs(value) * error + (target.ftz ? 0 : grain));
}
Part in_last_place(const Target& target, Real value, int count) {
  return near(target, value, unit_in_last_place(target.format, value) * count);
}

Part power_of_two(const Target& target, Type type, const Number& x) {
  if (x.kind == Kind::kInfinity) {
    return x.negative ? zero(target, false) : infinity(target, false);
  }
  const Real value = std::exp2(to_long_double(x));
  if (value == 0 || std::isinf(value)) {
    return value == 0 ? zero(target, false) : infinity(target, false);
  }
  if (type == Type::kF32) return in_last_place(target, value, 2);
  return relative(target, value, std::exp2(target.format.fraction_bits == 7 ? -7.0L : -9.9L));
}

Part logarithm(const Target& target, const Number& x) {
  if (x.is_zero()) return infinity(target, true);
  if (x.negative) return nan(target);
  if (x.kind == Kind::kInfinity) return infinity(target, false);
  const Real value = std::log2(to_long_double(x));
  const Real error = std::exp2(-22.0L);
  if (value == 0) return near(target, value, error);
  const Real input = to_long_double(x);
  return near(target, value, input > 0.5L && input < 2 ? error : std::fabs(value) * error);
}

// f64: only the upper word counts, and only that is written.
Part reciprocal(const Target& target, Type type, const Number& x) {
  if (x.kind == Kind::kInfinity) return zero(target, x.negative);
  if (x.is_zero()) return infinity(target, x.negative);
  const Real value = 1 / to_long_double(x);
  return type == Type::kF32 ? in_last_place(target, value, 1)
                            : relative(target, value, std::exp2(-18.0L));
}

Part reciprocal_root(const Target& target, Type type, const Number& x) {
  if (x.is_zero()) return infinity(target, x.negative);
  if (x.negative) return nan(target);
  if (x.kind == Kind::kInfinity) return zero(target, false);
  return relative(target, 1 / std::sqrt(to_long_double(x)),
                  std::exp2(type == Type::kF32 ? -22.9L : -18.0L));
}

Part root(const Target& target, const Number& x) {
  if (x.is_zero()) return zero(target, x.negative);
  if (x.negative) return nan(target);
  if (x.kind == Kind::kInfinity) return infinity(target, false);
  return relative(target, std::sqrt(to_long_double(x)), std::exp2(-23.0L));
}

Part circular(const Target& target, bool sine, const Number& x) {
  if (x.kind == Kind::kInfinity) return nan(target);
  if (x.is_zero() && sine) return zero(target, x.negative);
  const Real input = to_long_double(x);
  const Real value = sine ? std::sin(input) : std::cos(input);
  const Real pi = 3.14159265358979323846L;
  Target free = target;
  free.ftz = false;  // an absolute error covers a flushed result
  if (std::fabs(input) <= 2 * pi) return near(free, value, std::exp2(-20.5L));
  if (std::fabs(input) <= 100 * pi) return near(free, value, std::exp2(-14.7L));
  return near(free, 0, 1.001L);  // no accuracy is stated
}

Part hyperbolic_tangent(const Target& target, Type type, const Number& x) {
  if (x.is_zero()) return zero(target, x.negative);
  if (x.kind == Kind::kInfinity) {
    const uint64_t one = target.format.one();
    return make(target, Check::kBits, x.negative ? one | target.format.sign_mask() : one);
  }
  const Real value = std::tanh(to_long_double(x));
  if (type == Type::kF32) return relative(target, value, std::exp2(-11.0L));
  return near(target, value, std::exp2(target.format.fraction_bits == 7 ? -8.0L : -10.987L));
}

Part quotient(const Target& target, bool full, const Number& a, const Number& b) {
  const bool negative = a.negative != b.negative;
  if (a.kind == b.kind && a.kind != Kind::kFinite) return nan(target);
  const Real divisor = std::fabs(to_long_double(b));
  if (!full && b.kind == Kind::kFinite) {
    if (divisor > std::exp2(126.0L)) {
      Target either = target;  // a zero of either sign
      either.ftz = false;
      return a.kind == Kind::kInfinity ? nan(target) : near(either, 0, 0);
    }
    if (divisor < std::exp2(-126.0L)) return make(target, Check::kAny, 0);
  }
  if (a.kind == Kind::kInfinity || b.is_zero()) return infinity(target, negative);
  if (a.is_zero() || b.kind == Kind::kInfinity) return zero(target, negative);
  return in_last_place(target, to_long_double(a) / to_long_double(b), 2);
}

Part of_element(const Tuple& t, const Target& target, uint64_t a, uint64_t b) {
  const Number x = decode(target.format, a);
  if (x.is_nan()) return nan(target);
  switch (t.opcode()) {
    case Opcode::kEx2:
      return power_of_two(target, t.type(), x);
    case Opcode::kLg2:
      return logarithm(target, x);
    case Opcode::kRcp:
      return reciprocal(target, t.type(), x);
    case Opcode::kRsqrt:
      return reciprocal_root(target, t.type(), x);
    case Opcode::kSqrt:
      return root(target, x);
    case Opcode::kSin:
    case Opcode::kCos:
      return circular(target, t.opcode() == Opcode::kSin, x);
    case Opcode::kTanh:
      return hyperbolic_tangent(target, t.type(), x);
    case Opcode::kDiv: {
      const Number y = decode(target.format, b);
      return y.is_nan() ? nan(target) : quotient(target, t.has(Flag::kFull), x, y);
    }
    default:
      TW_CHECK(false, "no reference for {}", t.mnemonic);
  }
}

}  // namespace

Expected evaluate_approximate(const Tuple& t, const Sources& s) {
  const Format format = format_of(t.type());
  const bool ftz = t.has(Flag::kFtz);
  Expected expected;
  for (int i = 0; i < (is_packed(t.type()) ? 2 : 1); ++i) {
    const int offset = i * format.bits();
    uint64_t a = low_bits(s.value[0] >> offset, format.bits());
    uint64_t b = low_bits(s.value[1] >> offset, format.bits());
    const bool upper_word = t.type() == Type::kF64 && ftz;
    if (upper_word) a &= ~uint64_t{0xffffffff};  // a NaN down there is an infinity
    if (ftz) {
      a = flush(format, a);
      b = flush(format, b);
    }
    Part part = of_element(t, {format, offset, ftz}, a, b);
    if (upper_word && part.check == Check::kNan) {
      part = exactly(0, 64, 0x7fffffff00000000);
    }
    if (format.bits() == 16 && part.check == Check::kNan) {
      part.check = Check::kBits;
      part.bits = format.canonical_nan();
    }
    expected.push_back(part);
    if (upper_word) expected.push_back(exactly(0, 32, 0));
  }
  return expected;
}

}  // namespace tilewright::emulator::slow
