// Floating-point arithmetic that is exact to the bit.
#include "core/check.h"
#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Flag;
using ptx::Opcode;
using ptx::Type;

// The element `bits`. f16 and bf16 give the canonical NaN; of f32 and f64 the ISA leaves the
// NaN's bits open.
Part element(Type type, int offset, uint64_t bits) {
  Part part = exactly(0, format_of(type).bits(), bits);
  part.offset = offset;
  part.format = format_of(type);
  const bool open = type == Type::kF32 || type == Type::kF64;
  if (open && is_nan(part.format, bits)) part.check = Check::kNan;
  return part;
}

uint64_t saturate(Format format, uint64_t bits) {
  if (is_nan(format, bits) || (bits & format.sign_mask()) != 0) return 0;
  return compare(decode(format, bits), decode(format, format.one())) > 0 ? format.one() : bits;
}

uint64_t clamp_negative(Format format, uint64_t bits) {
  if (is_nan(format, bits)) return format.canonical_nan();
  return (bits & format.sign_mask()) != 0 ? 0 : bits;
}

uint64_t extremum(const Tuple& t, Format format, uint64_t a, uint64_t b) {
  const bool sign = ((a ^ b) & format.sign_mask()) != 0;
  const bool xorsign = t.has(Flag::kXorsign);
  if (t.has(Flag::kAbs)) {
    a &= ~format.sign_mask();
    b &= ~format.sign_mask();
  }
  const bool a_nan = is_nan(format, a);
  const bool b_nan = is_nan(format, b);
  if ((a_nan && b_nan) || (t.has(Flag::kNanPropagate) && (a_nan || b_nan))) {
    return format.canonical_nan();
  }
  uint64_t d = 0;
  if (a_nan || b_nan) {
    d = a_nan ? b : a;
  } else {
    int order = compare(decode(format, a), decode(format, b));
    if (order == 0) {  // -0 < +0
      order = (a & format.sign_mask()) != 0 ? -1 : 1;
    }
    d = (order < 0) == (t.opcode() == Opcode::kMin) ? a : b;
  }
  if (xorsign) d = sign ? d | format.sign_mask() : d & ~format.sign_mask();
  return d;
}

uint64_t arithmetic(const Tuple& t, Format format, uint64_t a, uint64_t b, uint64_t c) {
  const Round round = to_round(t.modifiers.rounding);
  switch (t.opcode()) {
    case Opcode::kAdd:
      return add(format, round, a, b);
    case Opcode::kSub:
      return add(format, round, a, is_nan(format, b) ? b : b ^ format.sign_mask());
    case Opcode::kMul:
      return multiply(format, round, a, b);
    case Opcode::kFma:
    case Opcode::kMad:
      if (t.has(Flag::kOob)) {  // the out-of-bounds NaN of a tensor copy gives zero
        for (const uint64_t x : {a, b, c}) {
          if (x == format.canonical_nan()) return 0;
        }
      }
      return fused_multiply_add(format, round, a, b, c);
    case Opcode::kDiv:
      return divide(format, round, a, b);
    case Opcode::kRcp:
      return divide(format, round, format.one(), a);
    case Opcode::kSqrt:
      return square_root(format, round, a);
    case Opcode::kMin:
    case Opcode::kMax:
      return extremum(t, format, a, b);
    default:
      TW_CHECK(false, "no reference for {}", t.mnemonic);
  }
}

uint64_t whole(const Tuple& t, Format format, uint64_t a, uint64_t b, uint64_t c) {
  const bool ftz = t.has(Flag::kFtz);
  if (ftz) {
    a = flush(format, a);
    b = flush(format, b);
    c = flush(format, c);
  }
  uint64_t d = arithmetic(t, format, a, b, c);
  if (ftz) d = flush(format, d);
  if (t.has(Flag::kSat)) d = saturate(format, d);
  if (t.has(Flag::kRelu)) d = clamp_negative(format, d);
  return d;
}

// abs, neg: a NaN stays some NaN.
Part sign_change(const Tuple& t, int offset, uint64_t a) {
  const Format format = format_of(t.type());
  if (t.has(Flag::kFtz)) a = flush(format, a);
  const uint64_t d = t.opcode() == Opcode::kAbs ? a & ~format.sign_mask() : a ^ format.sign_mask();
  Part part = exactly(0, format.bits(), d);
  part.offset = offset;
  part.format = format;
  if (is_nan(format, a)) part.check = Check::kNan;
  return part;
}

}  // namespace

Expected evaluate_float(const Tuple& t, const Sources& s) {
  const Type type = t.type();
  const Format format = format_of(type);
  if (t.opcode() == Opcode::kCopysign) {
    const uint64_t d = (s.value[0] & format.sign_mask()) | (s.value[1] & (format.sign_mask() - 1));
    return {exactly(0, format.bits(), d)};
  }
  Expected expected;
  for (int i = 0; i < (is_packed(type) ? 2 : 1); ++i) {
    const int offset = i * format.bits();
    const auto source = [&](size_t n) { return low_bits(s.value[n] >> offset, format.bits()); };
    if (t.opcode() == Opcode::kAbs || t.opcode() == Opcode::kNeg) {
      expected.push_back(sign_change(t, offset, source(0)));
      continue;
    }
    const uint64_t d = whole(t, format, source(0), source(1), source(2));
    Part part = element(type, offset, d);
    // min and max name the canonical NaN for f32 too.
    const bool extreme = t.opcode() == Opcode::kMin || t.opcode() == Opcode::kMax;
    if (extreme && type == Type::kF32) part.check = Check::kBits;
    expected.push_back(part);
  }
  return expected;
}

}  // namespace tilewright::emulator::slow
