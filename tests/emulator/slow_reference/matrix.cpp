#include "tests/emulator/slow_reference/matrix.h"

#include <algorithm>
#include <cmath>

#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Type;

bool is_fp8(Type type) { return type == Type::kE4m3 || type == Type::kE5m2; }

// tf32 operands: the container's low 13 bits do not count.
Number decode_operand(Type type, uint64_t bits) {
  return decode(format_of(type), type == Type::kTf32 ? bits >> 13 : bits);
}

struct Term {
  bool negative = false;
  Wide significand = 0;  // integer
  int exponent = 0;      // of its lowest bit
  int scale = 0;         // the exponent it is aligned by
};

// The exponent of a number as its format writes it; a subnormal has the smallest.
int written_exponent(Format format, const Number& number) {
  return number.exponent + format.fraction_bits;
}

uint64_t finish(Type result, const SumModel& model, bool negative, Wide magnitude, int exponent) {
  const Format format = format_of(result);
  if (result != Type::kF32)
    return round_to(format, Round::kNearestEven, {negative, magnitude, exponent});
  // The model leaves overflow open; here it is an infinity, as for every other sum.
  if (std::ldexp(static_cast<long double>(magnitude), exponent) >= std::ldexp(1.0L, 128)) {
    return negative ? format.infinity() | format.sign_mask() : format.infinity();
  }
  if (!model.short_result) return round_to(format, Round::kZero, {negative, magnitude, exponent});
  Format cut = format;
  cut.fraction_bits = model.fraction_bits;
  return round_to(cut, Round::kZero, {negative, magnitude, exponent})
         << (format.fraction_bits - model.fraction_bits);
}

// One fused sum of the terms from `first` on, and c.
uint64_t fused_sum(const SumModel& model, Type result, Type a_type, Type b_type,
                   const std::vector<uint64_t>& a, const std::vector<uint64_t>& b, size_t first,
                   size_t count, uint64_t c) {
  const Format a_format = format_of(a_type);
  const Format b_format = format_of(b_type);
  const Format format = format_of(result);
  bool nan = false;
  bool infinite[2] = {};
  std::vector<Term> terms;
  const auto classify = [&](Kind kind, bool negative) {
    if (kind == Kind::kNan) nan = true;
    if (kind == Kind::kInfinity) infinite[negative ? 1 : 0] = true;
  };
  for (size_t i = first; i < first + count; ++i) {
    const Number x = decode_operand(a_type, a[i]);
    const Number y = decode_operand(b_type, b[i]);
    const bool negative = x.negative != y.negative;
    if (x.is_nan() || y.is_nan()) {
      nan = true;
    } else if (x.kind == Kind::kInfinity || y.kind == Kind::kInfinity) {
      if (x.is_zero() || y.is_zero()) nan = true;
      infinite[negative ? 1 : 0] = true;
    } else if (!x.is_zero() && !y.is_zero()) {
      terms.push_back({negative, Wide{x.significand} * y.significand, x.exponent + y.exponent,
                       written_exponent(a_format, x) + written_exponent(b_format, y)});
    }
  }
  const Number z = decode(format, c);
  classify(z.kind, z.negative);
  if (z.kind == Kind::kFinite) {
    terms.push_back({z.negative, z.significand, z.exponent, written_exponent(format, z)});
  }
  if (nan || (infinite[0] && infinite[1])) return format.canonical_nan();
  if (infinite[0]) return format.infinity();
  if (infinite[1]) return format.infinity() | format.sign_mask();
  if (terms.empty()) return 0;
  int scale = terms[0].scale;
  for (const Term& term : terms) scale = std::max(scale, term.scale);
  // Everything below the last kept bit is cut off each term.
  const int last = scale - model.fraction_bits;
  __int128 sum = 0;
  for (const Term& term : terms) {
    Wide significand = term.significand;
    const int drop = last - term.exponent;
    significand = drop >= 128 ? 0 : drop >= 0 ? significand >> drop : significand << -drop;
    sum += term.negative ? -static_cast<__int128>(significand) : static_cast<__int128>(significand);
  }
  if (sum == 0) return 0;
  return finish(result, model, sum < 0, static_cast<Wide>(sum < 0 ? -sum : sum), last);
}

}  // namespace

SumModel hardware_model(int target, Type a, bool is_wgmma, int k) {
  SumModel model;
  model.fraction_bits = target >= 90 ? 25 : 24;
  if (is_fp8(a) && (is_wgmma || target < 90)) {
    model.fraction_bits = 13;
    model.short_result = true;
  }
  const int whole = is_fp8(a) ? 32 : a == Type::kTf32 ? 8 : 16;
  if (target < 90 && k == whole) model.chunks = 2;
  return model;
}

uint64_t float_dot(const SumModel& model, Type result, Type a_type, Type b_type,
                   const std::vector<uint64_t>& a, const std::vector<uint64_t>& b, uint64_t c) {
  if (model.fused) {
    const size_t step = a.size() / static_cast<size_t>(model.chunks);
    for (size_t first = 0; first < a.size(); first += step) {
      c = fused_sum(model, result, a_type, b_type, a, b, first, step, c);
    }
    return c;
  }
  const auto widen = [](Type type, uint64_t bits) {
    return convert(kSingle, format_of(type), Round::kZero, type == Type::kTf32 ? bits >> 13 : bits);
  };
  uint64_t sum = convert(kSingle, format_of(result), Round::kZero, c);
  for (size_t i = 0; i < a.size(); ++i) {
    sum = fused_multiply_add(kSingle, Round::kNearestEven, widen(a_type, a[i]), widen(b_type, b[i]),
                             sum);
  }
  return convert(format_of(result), kSingle, Round::kNearestEven, sum);
}

uint64_t integer_dot(Type a_type, Type b_type, bool satfinite, const std::vector<uint64_t>& a,
                     const std::vector<uint64_t>& b, uint64_t c) {
  __int128 sum = signed_value(c, 32);
  for (size_t i = 0; i < a.size(); ++i) {
    sum += integer_value(a_type, a[i]) * integer_value(b_type, b[i]);
  }
  if (satfinite) sum = clamp_to(Type::kS32, sum);
  return low_bits(static_cast<uint64_t>(sum), 32);
}

Cell a_fragment(int bits, int lane, int i) {
  const int g = lane >> 2;
  const int t = lane & 3;
  switch (bits) {
    case 8:
      return {g + 8 * ((i >> 2) & 1), 4 * t + (i & 3) + 16 * (i >> 3)};
    case 16:
      return {g + 8 * ((i >> 1) & 1), 2 * t + (i & 1) + 8 * (i >> 2)};
    default:
      return {g + 8 * (i & 1), t + 4 * (i >> 1)};
  }
}

Cell b_fragment(int bits, int lane, int i) {
  const int g = lane >> 2;
  const int t = lane & 3;
  switch (bits) {
    case 8:
      return {4 * t + (i & 3) + 16 * (i >> 2), g};
    case 16:
      return {2 * t + (i & 1) + 8 * (i >> 1), g};
    default:
      return {t + 4 * i, g};
  }
}

Cell d_fragment(int lane, int i) { return {(lane >> 2) + 8 * (i >> 1), 2 * (lane & 3) + (i & 1)}; }

std::vector<uint64_t> row_of(const Matrix& a, int row) {
  std::vector<uint64_t> values;
  for (int k = 0; k < a.columns; ++k) values.push_back(a.at(row, k));
  return values;
}

std::vector<uint64_t> column_of(const Matrix& b, int column) {
  std::vector<uint64_t> values;
  for (int k = 0; k < b.rows; ++k) values.push_back(b.at(k, column));
  return values;
}

}  // namespace tilewright::emulator::slow
