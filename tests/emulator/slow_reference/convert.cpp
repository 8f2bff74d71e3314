// cvt and cvt.pack.
#include "core/check.h"
#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Flag;
using ptx::Opcode;
using ptx::Type;

bool is_pair(Type type) {
  return type == Type::kF16x2 || type == Type::kBf16x2 || type == Type::kE4m3x2 ||
         type == Type::kE5m2x2;
}

// Integer to integer: truncates, or clamps with .sat.
uint64_t between_integers(const Tuple& t, uint64_t a) {
  const __int128 x = integer_value(t.type(1), a);
  return static_cast<uint64_t>(t.has(Flag::kSat) ? clamp_to(t.type(0), x) : x);
}

uint64_t to_integer(const Tuple& t, uint64_t a) {
  const Type to = t.type(0);
  const Type from = t.type(1);
  const Format format = format_of(from);
  if (t.has(Flag::kFtz)) a = flush(format, a);
  const Number x = decode(format, a);
  const int width = ptx::type_bits(to);
  if (x.is_nan()) {
    const bool middle = from == Type::kF64 || width == 64;
    return middle ? uint64_t{1} << (width - 1) : 0;
  }
  __int128 value = 0;
  if (x.kind == Kind::kInfinity) {
    value = __int128{1} << 100;
  } else if (x.kind == Kind::kFinite) {
    value = static_cast<__int128>(to_integral(to_round(t.modifiers.rounding), x).magnitude);
  }
  return static_cast<uint64_t>(clamp_to(to, x.negative ? -value : value));
}

uint64_t integer_to_float(const Tuple& t, uint64_t a) {
  const __int128 x = integer_value(t.type(1), a);
  const Format format = format_of(t.type(0));
  const bool negative = x < 0;
  uint64_t d = from_integer(format, to_round(t.modifiers.rounding), negative,
                            static_cast<uint64_t>(negative ? -x : x));
  if (t.has(Flag::kSat)) {
    if (negative) d = 0;
    if (x > 1) d = format.one();
  }
  return d;
}

bool rounds_to_integral(ptx::Rounding rounding) {
  return rounding == ptx::Rounding::kRni || rounding == ptx::Rounding::kRzi ||
         rounding == ptx::Rounding::kRmi || rounding == ptx::Rounding::kRpi;
}

// To an integral value that stays in the format; the sign of zero is kept.
uint64_t to_integral_float(Format format, Round round, uint64_t a) {
  const Number x = decode(format, a);
  if (x.kind != Kind::kFinite || x.exponent >= 0) return a;
  const Integral r = to_integral(round, x);
  const uint64_t sign = a & format.sign_mask();
  if (r.magnitude == 0) return sign;
  return from_integer(format, Round::kNearestEven, false, static_cast<uint64_t>(r.magnitude)) |
         sign;
}

// One value, with the modifiers that work on the result.
uint64_t float_to_float(const Tuple& t, Format to, Format from, uint64_t a) {
  const bool ftz = t.has(Flag::kFtz);  // of f32 values only
  const auto is_single = [](Format format) { return format.bits() == 32; };
  if (ftz && is_single(from)) a = flush(from, a);
  const Round round = to_round(t.modifiers.rounding);
  uint64_t d = 0;
  if (rounds_to_integral(t.modifiers.rounding)) {
    d = is_nan(from, a) ? to.canonical_nan() : to_integral_float(to, round, a);
  } else {
    d = convert(to, from, round, a);
  }
  const bool satfinite = t.has(Flag::kSatfinite);
  const bool nan_input = is_nan(from, a);
  const uint64_t magnitude = d & (to.sign_mask() - 1);
  if (satfinite && !nan_input && magnitude > to.max_finite()) {
    d = (d & to.sign_mask()) | to.max_finite();
  }
  if (ftz && is_single(to)) d = flush(to, d);
  if (t.has(Flag::kSat)) {
    if (nan_input || (d & to.sign_mask()) != 0) return 0;
    if (d > to.one()) return to.one();
  }
  if (t.has(Flag::kRelu)) {
    if (nan_input) return to.canonical_nan();
    if ((d & to.sign_mask()) != 0) return 0;
  }
  return nan_input ? to.canonical_nan() : d;
}

// `open`: a NaN of any bits, which f32 and f64 are always.
Part float_part(Type to, int offset, uint64_t d, bool open) {
  const Format format = format_of(to);
  Part part = exactly(0, format.bits(), d);
  part.offset = offset;
  part.format = format;
  if ((open || to == Type::kF32 || to == Type::kF64) && is_nan(format, d)) part.check = Check::kNan;
  return part;
}

// Results of two elements: from two f32 (the first is the upper), or from a pair.
Expected packed(const Tuple& t, const Sources& s) {
  const Type to = t.type(0);
  const Type from = t.type(1);
  const Format to_format = format_of(to);
  const Format from_format = format_of(from);
  Expected expected;
  for (int i = 0; i < 2; ++i) {
    const uint64_t a = from == Type::kF32
                           ? s.value[i == 0 ? 1 : 0]
                           : low_bits(s.value[0] >> (i * from_format.bits()), from_format.bits());
    expected.push_back(
        float_part(to, i * to_format.bits(), float_to_float(t, to_format, from_format, a), false));
  }
  return expected;
}

Expected pack(const Tuple& t, const Sources& s) {
  const Type to = t.type(0);
  const int width = ptx::type_bits(to);
  const auto field = [&](uint64_t value) {
    return low_bits(static_cast<uint64_t>(clamp_to(to, signed_value(value, 32))), width);
  };
  uint64_t d = field(s.value[0]) << width | field(s.value[1]);
  if (t.type(2) == Type::kB32) d |= s.value[2] << (2 * width);
  return {exactly(0, 32, low_bits(d, 32))};
}

}  // namespace

Expected evaluate_convert(const Tuple& t, const Sources& s) {
  if (t.opcode() == Opcode::kCvtPack) return pack(t, s);
  const Type to = t.type(0);
  const Type from = t.type(1);
  const uint64_t a = s.value[0];
  if (is_pair(to)) return packed(t, s);
  const bool to_float = ptx::is_float(to);
  const bool from_float = ptx::is_float(from);
  if (!to_float) {
    const uint64_t d = from_float ? to_integer(t, a) : between_integers(t, a);
    // A wider register takes the extension of the type's value.
    return {exactly(0, 64, static_cast<uint64_t>(integer_value(to, d)))};
  }
  if (!from_float) return {float_part(to, 0, integer_to_float(t, a), false)};
  if (to == Type::kTf32) {
    // 19 bits that stand at the top of 32; what is below them is not specified.
    const uint64_t d = float_to_float(t, kTensorFloat, kSingle, a);
    return {float_part(to, 13, d, true)};
  }
  return {float_part(to, 0, float_to_float(t, format_of(to), format_of(from), a), to == from)};
}

}  // namespace tilewright::emulator::slow
