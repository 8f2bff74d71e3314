#include "tests/emulator/slow_reference/exact.h"

#include <cmath>

#include "core/check.h"

namespace tilewright::emulator::slow {
namespace {

constexpr int kLowestExponent = -2240;

int top_bit(Wide value) {
  int top = -1;
  for (; value != 0; value >>= 1) ++top;
  return top;
}

uint64_t with_sign(Format format, bool negative, uint64_t magnitude) {
  return negative ? magnitude | format.sign_mask() : magnitude;
}

// Whether the magnitude goes up, from what was cut off: `half` its first bit, `rest` any below.
bool rounds_up(Round round, bool negative, bool odd, bool half, bool rest) {
  switch (round) {
    case Round::kNearestEven:
      return half && (rest || odd);
    case Round::kNearestAway:
      return half;
    case Round::kZero:
      return false;
    case Round::kDown:
      return negative && (half || rest);
    case Round::kUp:
      return !negative && (half || rest);
  }
  return false;
}

// The lowest `count` bits cut off.
struct Cut {
  Wide kept = 0;
  bool half = false;
  bool rest = false;
};
Cut cut(Wide value, int count) {
  Cut result;
  for (int i = 0; i < count && i < 400; ++i) {
    result.rest |= result.half;
    result.half = (value & 1) != 0;
    value >>= 1;
  }
  result.kept = value;
  return result;
}

}  // namespace

Round to_round(ptx::Rounding rounding) {
  switch (rounding) {
    case ptx::Rounding::kRz:
    case ptx::Rounding::kRzi:
      return Round::kZero;
    case ptx::Rounding::kRm:
    case ptx::Rounding::kRmi:
      return Round::kDown;
    case ptx::Rounding::kRp:
    case ptx::Rounding::kRpi:
      return Round::kUp;
    case ptx::Rounding::kRna:
      return Round::kNearestAway;
    default:
      return Round::kNearestEven;
  }
}

Format format_of(ptx::Type type) {
  switch (type) {
    case ptx::Type::kF16:
    case ptx::Type::kF16x2:
      return kHalf;
    case ptx::Type::kBf16:
    case ptx::Type::kBf16x2:
      return kBfloat;
    case ptx::Type::kF32:
      return kSingle;
    case ptx::Type::kTf32:
      return kTensorFloat;
    case ptx::Type::kF64:
      return kDouble;
    case ptx::Type::kE4m3:
    case ptx::Type::kE4m3x2:
      return kE4m3;
    case ptx::Type::kE5m2:
    case ptx::Type::kE5m2x2:
      return kE5m2;
    default:
      TW_CHECK(false, "{} is no floating type", ptx::to_string(type));
  }
}

Number decode(Format format, uint64_t bits) {
  Number number;
  number.negative = (bits & format.sign_mask()) != 0;
  const uint64_t fraction = bits & ((uint64_t{1} << format.fraction_bits) - 1);
  const int biased = static_cast<int>((bits & (format.sign_mask() - 1)) >> format.fraction_bits);
  const int top = (1 << format.exponent_bits) - 1;
  if (format.has_infinity ? biased == top && fraction != 0
                          : (bits & (format.sign_mask() - 1)) == format.canonical_nan()) {
    number.kind = Kind::kNan;
  } else if (format.has_infinity && biased == top) {
    number.kind = Kind::kInfinity;
  } else if (biased == 0 && fraction == 0) {
    number.kind = Kind::kZero;
  } else {
    number.kind = Kind::kFinite;
    number.significand = biased == 0 ? fraction : fraction | uint64_t{1} << format.fraction_bits;
    number.exponent = (biased == 0 ? 1 : biased) - format.bias() - format.fraction_bits;
  }
  return number;
}

bool is_nan(Format format, uint64_t bits) { return decode(format, bits).is_nan(); }

bool is_subnormal(Format format, uint64_t bits) {
  const uint64_t magnitude = bits & (format.sign_mask() - 1);
  return magnitude != 0 && magnitude >> format.fraction_bits == 0;
}

uint64_t flush(Format format, uint64_t bits) {
  return is_subnormal(format, bits) ? bits & format.sign_mask() : bits;
}

long double to_long_double(const Number& number) {
  if (number.kind == Kind::kInfinity) return number.negative ? -INFINITY : INFINITY;
  const long double magnitude =
      std::ldexp(static_cast<long double>(number.significand), number.exponent);
  return number.negative ? -magnitude : magnitude;
}

int compare(const Number& a, const Number& b) {
  // Every finite value of every format here is exact in long double's 64-bit significand.
  const long double left = to_long_double(a);
  const long double right = to_long_double(b);
  return left < right ? -1 : left > right ? 1 : 0;
}

uint64_t round_to(Format format, Round round, const Unrounded& value) {
  const int top = top_bit(value.significand) + value.exponent;  // weight of the leading bit
  int last = top - format.fraction_bits;                        // weight of the last bit kept
  const int lowest = format.min_exponent() - format.fraction_bits;
  if (last < lowest) last = lowest;
  Wide kept = value.significand;
  if (last > value.exponent) {
    const Cut part = cut(kept, last - value.exponent);
    kept = part.kept;
    if (rounds_up(round, value.negative, (kept & 1) != 0, part.half, part.rest)) ++kept;
  } else {
    kept <<= value.exponent - last;
  }
  if (top_bit(kept) > format.fraction_bits) {  // carried into one more bit, a power of two
    kept >>= 1;
    ++last;
  }
  const bool normal = top_bit(kept) == format.fraction_bits;
  const int biased = normal ? last + format.fraction_bits + format.bias() : 0;
  const uint64_t fraction =
      static_cast<uint64_t>(kept) & ((uint64_t{1} << format.fraction_bits) - 1);
  const uint64_t magnitude = (static_cast<uint64_t>(biased) << format.fraction_bits) + fraction;
  if (biased >= (1 << format.exponent_bits) || magnitude > format.max_finite()) {
    const bool to_infinity = round == Round::kNearestEven || round == Round::kNearestAway ||
                             round == (value.negative ? Round::kDown : Round::kUp);
    const uint64_t overflow = format.has_infinity ? format.infinity() : format.canonical_nan();
    return with_sign(format, value.negative, to_infinity ? overflow : format.max_finite());
  }
  return with_sign(format, value.negative, magnitude);
}

void Accumulator::add(bool negative, Wide significand, int exponent) {
  const int shift = exponent - kLowestExponent;
  TW_CHECK(shift >= 0, "2^{} is below the accumulator", exponent);
  uint64_t carry = negative ? 1 : 0;  // minus x is the complement of x, plus one
  for (int i = 0; i < kLimbs; ++i) {
    uint64_t part = 0;
    const int low = i * 64 - shift;  // bit of the significand that stands at this limb's bit 0
    if (low >= 0 && low < 128) part = static_cast<uint64_t>(significand >> low);
    if (low < 0 && low > -64) part = static_cast<uint64_t>(significand) << -low;
    if (negative) part = ~part;
    const Wide sum = Wide{limbs_[i]} + part + carry;
    limbs_[i] = static_cast<uint64_t>(sum);
    carry = static_cast<uint64_t>(sum >> 64);
  }
}

bool Accumulator::is_zero() const {
  for (const uint64_t limb : limbs_) {
    if (limb != 0) return false;
  }
  return true;
}

Unrounded Accumulator::get() const {
  Unrounded value;
  std::array<uint64_t, kLimbs> magnitude = limbs_;
  value.negative = (limbs_.back() >> 63) != 0;
  if (value.negative) {
    uint64_t carry = 1;
    for (uint64_t& limb : magnitude) {
      const Wide sum = Wide{~limb} + carry;
      limb = static_cast<uint64_t>(sum);
      carry = static_cast<uint64_t>(sum >> 64);
    }
  }
  int top = kLimbs - 1;
  while (magnitude[static_cast<size_t>(top)] == 0) --top;
  const auto limb = [&](int i) { return i < 0 ? uint64_t{0} : magnitude[static_cast<size_t>(i)]; };
  value.significand = Wide{limb(top)} << 64 | limb(top - 1);
  value.exponent = kLowestExponent + 64 * (top - 1);
  bool more = false;
  for (int i = 0; i < top - 1; ++i) more |= limb(i) != 0;
  if (more) value.significand |= 1;
  return value;
}

uint64_t add(Format format, Round round, uint64_t a, uint64_t b) {
  return fused_multiply_add(format, round, a, format.one(), b);
}

uint64_t multiply(Format format, Round round, uint64_t a, uint64_t b) {
  const Number x = decode(format, a);
  const Number y = decode(format, b);
  const bool negative = x.negative != y.negative;
  if (x.is_nan() || y.is_nan()) return format.canonical_nan();
  if (x.kind == Kind::kInfinity || y.kind == Kind::kInfinity) {
    if (x.is_zero() || y.is_zero()) return format.canonical_nan();
    return with_sign(format, negative, format.infinity());
  }
  if (x.is_zero() || y.is_zero()) return with_sign(format, negative, 0);
  return round_to(format, round,
                  {negative, Wide{x.significand} * y.significand, x.exponent + y.exponent});
}

uint64_t fused_multiply_add(Format format, Round round, uint64_t a, uint64_t b, uint64_t c) {
  const Number x = decode(format, a);
  const Number y = decode(format, b);
  const Number z = decode(format, c);
  const bool negative = x.negative != y.negative;
  if (x.is_nan() || y.is_nan() || z.is_nan()) return format.canonical_nan();
  if (x.kind == Kind::kInfinity || y.kind == Kind::kInfinity) {
    if (x.is_zero() || y.is_zero()) return format.canonical_nan();
    if (z.kind == Kind::kInfinity && z.negative != negative) return format.canonical_nan();
    return with_sign(format, negative, format.infinity());
  }
  if (z.kind == Kind::kInfinity) return c;
  const bool zero_product = x.is_zero() || y.is_zero();
  if (zero_product && z.is_zero()) {
    if (negative == z.negative) return with_sign(format, negative, 0);
    return with_sign(format, round == Round::kDown, 0);
  }
  if (zero_product) return c;
  Accumulator sum;
  sum.add(negative, Wide{x.significand} * y.significand, x.exponent + y.exponent);
  if (!z.is_zero()) sum.add(z.negative, z.significand, z.exponent);
  if (sum.is_zero()) return with_sign(format, round == Round::kDown, 0);
  return round_to(format, round, sum.get());
}

uint64_t divide(Format format, Round round, uint64_t a, uint64_t b) {
  const Number x = decode(format, a);
  const Number y = decode(format, b);
  const bool negative = x.negative != y.negative;
  if (x.is_nan() || y.is_nan()) return format.canonical_nan();
  if (x.kind == y.kind && x.kind != Kind::kFinite) return format.canonical_nan();
  if (x.kind == Kind::kInfinity || y.is_zero()) {
    return with_sign(format, negative, format.infinity());
  }
  if (x.is_zero() || y.kind == Kind::kInfinity) return with_sign(format, negative, 0);
  // 64 bits or more of quotient (x has at most 53), then "and a bit more".
  const int spread = 120 - top_bit(x.significand);
  const Wide dividend = Wide{x.significand} << spread;
  Wide quotient = dividend / y.significand;
  if (dividend % y.significand != 0) quotient |= 1;
  return round_to(format, round, {negative, quotient, x.exponent - spread - y.exponent});
}

uint64_t square_root(Format format, Round round, uint64_t a) {
  const Number x = decode(format, a);
  if (x.is_nan()) return format.canonical_nan();
  if (x.is_zero()) return a;
  if (x.negative) return format.canonical_nan();
  if (x.kind == Kind::kInfinity) return a;
  int spread = 120 - top_bit(x.significand);
  if ((x.exponent - spread) % 2 != 0) ++spread;
  const Wide radicand = Wide{x.significand} << spread;
  Wide root = 0;  // the largest integer whose square is not above, bit by bit
  for (int bit = 62; bit >= 0; --bit) {
    const Wide tried = root | Wide{1} << bit;
    if (tried * tried <= radicand) root = tried;
  }
  const bool more = root * root != radicand;
  const Wide significand = root << 1 | (more ? 1 : 0);
  return round_to(format, round, {false, significand, (x.exponent - spread) / 2 - 1});
}

uint64_t convert(Format to, Format from, Round round, uint64_t bits) {
  const Number x = decode(from, bits);
  switch (x.kind) {
    case Kind::kNan:
      return to.canonical_nan();
    case Kind::kZero:
      return with_sign(to, x.negative, 0);
    case Kind::kInfinity:
      return with_sign(to, x.negative, to.has_infinity ? to.infinity() : to.canonical_nan());
    case Kind::kFinite:
      break;
  }
  return round_to(to, round, {x.negative, x.significand, x.exponent});
}

uint64_t from_integer(Format to, Round round, bool negative, uint64_t magnitude) {
  if (magnitude == 0) return 0;
  return round_to(to, round, {negative, magnitude, 0});
}

Integral to_integral(Round round, const Number& number) {
  Integral result{number.negative, number.significand};
  if (number.exponent > 70) {
    result.magnitude = Wide{1} << 126;
  } else if (number.exponent >= 0) {
    result.magnitude <<= number.exponent;
  } else {
    const Cut part = cut(result.magnitude, -number.exponent);
    result.magnitude = part.kept;
    if (rounds_up(round, number.negative, (part.kept & 1) != 0, part.half, part.rest)) {
      ++result.magnitude;
    }
  }
  return result;
}

}  // namespace tilewright::emulator::slow
