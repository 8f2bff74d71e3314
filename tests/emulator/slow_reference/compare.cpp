// setp, set, slct, testp, and what the families share.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::CompareOp;
using ptx::Flag;
using ptx::Opcode;
using ptx::Type;

// sign: of a - b; unordered if a NaN is among them.
bool holds(CompareOp op, int sign, bool unordered) {
  switch (op) {
    case CompareOp::kEq:
      return !unordered && sign == 0;
    case CompareOp::kNe:
      return !unordered && sign != 0;
    case CompareOp::kLt:
    case CompareOp::kLo:
      return !unordered && sign < 0;
    case CompareOp::kLe:
    case CompareOp::kLs:
      return !unordered && sign <= 0;
    case CompareOp::kGt:
    case CompareOp::kHi:
      return !unordered && sign > 0;
    case CompareOp::kGe:
    case CompareOp::kHs:
      return !unordered && sign >= 0;
    case CompareOp::kEqu:
      return unordered || sign == 0;
    case CompareOp::kNeu:
      return unordered || sign != 0;
    case CompareOp::kLtu:
      return unordered || sign < 0;
    case CompareOp::kLeu:
      return unordered || sign <= 0;
    case CompareOp::kGtu:
      return unordered || sign > 0;
    case CompareOp::kGeu:
      return unordered || sign >= 0;
    case CompareOp::kNum:
      return !unordered;
    case CompareOp::kNan:
      return unordered;
    case CompareOp::kNone:
      break;
  }
  TW_CHECK(false, "a comparison without an operator");
}

// "True" of set's destination type.
uint64_t true_of(Type type) {
  if (ptx::is_float(type)) return format_of(type).one();
  return low_bits(~uint64_t{0}, ptx::type_bits(type));
}

Type half_of(Type type) { return type == Type::kF16x2 ? Type::kF16 : Type::kBf16; }

bool has_property(ptx::TestProperty property, Format format, uint64_t bits) {
  const Number number = decode(format, bits);
  const bool subnormal = is_subnormal(format, bits);
  switch (property) {
    case ptx::TestProperty::kFinite:
      return number.kind == Kind::kFinite || number.kind == Kind::kZero;
    case ptx::TestProperty::kInfinite:
      return number.kind == Kind::kInfinity;
    case ptx::TestProperty::kNumber:
      return !number.is_nan();
    case ptx::TestProperty::kNotANumber:
      return number.is_nan();
    case ptx::TestProperty::kNormal:  // zero counts as normal
      return number.is_zero() || (number.kind == Kind::kFinite && !subnormal);
    case ptx::TestProperty::kSubnormal:
      return subnormal;
    case ptx::TestProperty::kNone:
      break;
  }
  TW_CHECK(false, "testp without a property");
}

Expected set_predicates(const Tuple& t, const Sources& s) {
  const bool has_op = t.modifiers.op != ptx::Op::kNone;
  const bool third = s.value[2] != 0;
  const auto finish = [&](bool value) {
    return has_op ? combine(t.modifiers.op, value, third) : value;
  };
  const bool ftz = t.has(Flag::kFtz);
  const Type type = t.type();
  if (is_packed(type)) {
    Expected expected;
    for (int i = 0; i < 2; ++i) {
      const bool r = compare_values(half_of(type), t.modifiers.compare, ftz,
                                    low_bits(s.value[0] >> (16 * i), 16),
                                    low_bits(s.value[1] >> (16 * i), 16));
      expected.push_back(exactly(i, 1, finish(r)));
    }
    return expected;
  }
  const bool r = compare_values(type, t.modifiers.compare, ftz, s.value[0], s.value[1]);
  return {exactly(0, 1, finish(r)), exactly(1, 1, finish(!r))};
}

Expected set_value(const Tuple& t, const Sources& s) {
  const bool has_op = t.modifiers.op != ptx::Op::kNone;
  const bool third = s.value[2] != 0;
  const bool ftz = t.has(Flag::kFtz);
  const Type to = t.type(0);
  const Type from = t.type(1);
  const bool two = is_packed(from);
  Part part = exactly(0, ptx::type_bits(to), 0);
  for (int i = 0; i < (two ? 2 : 1); ++i) {
    const Type type = two ? half_of(from) : from;
    const int width = ptx::type_bits(type);
    bool r = compare_values(type, t.modifiers.compare, ftz, low_bits(s.value[0] >> (16 * i), width),
                            low_bits(s.value[1] >> (16 * i), width));
    if (has_op) r = combine(t.modifiers.op, r, third);
    if (r) part.bits |= true_of(two ? half_of(to) : to) << (16 * i);
  }
  return {part};
}

}  // namespace

bool combine(ptx::Op op, bool left, bool right) {
  switch (op) {
    case ptx::Op::kAnd:
      return left && right;
    case ptx::Op::kOr:
      return left || right;
    case ptx::Op::kXor:
      return left != right;
    default:
      TW_CHECK(false, "no boolean operation");
  }
}

bool compare_values(Type type, CompareOp op, bool ftz, uint64_t a, uint64_t b) {
  if (!ptx::is_float(type)) {
    const __int128 x = integer_value(type, a);
    const __int128 y = integer_value(type, b);
    return holds(op, x < y ? -1 : x > y ? 1 : 0, false);
  }
  const Format format = format_of(type);
  const Number x = decode(format, ftz ? flush(format, a) : a);
  const Number y = decode(format, ftz ? flush(format, b) : b);
  if (x.is_nan() || y.is_nan()) return holds(op, 0, true);
  return holds(op, compare(x, y), false);
}

Expected evaluate_compare(const Tuple& t, const Sources& s) {
  const int width = ptx::type_bits(t.type());
  switch (t.opcode()) {
    case Opcode::kSetp:
      return set_predicates(t, s);
    case Opcode::kSet:
      return set_value(t, s);
    case Opcode::kTestp:
      return {exactly(0, 1, has_property(t.modifiers.test, format_of(t.type()), s.value[0]))};
    case Opcode::kSlct: {
      bool first = false;
      if (t.type(1) == Type::kS32) {
        first = signed_value(s.value[2], 32) >= 0;
      } else {
        first = compare_values(Type::kF32, CompareOp::kGe, t.has(Flag::kFtz), s.value[2], 0);
      }
      return {exactly(0, width, first ? s.value[0] : s.value[1])};
    }
    default:
      TW_CHECK(false, "no reference for {}", t.mnemonic);
  }
}

__int128 signed_value(uint64_t value, int bits) {
  const __int128 low = static_cast<__int128>(low_bits(value, bits));
  return (low >> (bits - 1)) != 0 ? low - (__int128{1} << bits) : low;
}

uint64_t low_bits(uint64_t value, int bits) {
  return bits >= 64 ? value : value & ((uint64_t{1} << bits) - 1);
}

__int128 integer_value(Type type, uint64_t value) {
  const int bits = ptx::type_bits(type);
  return ptx::is_signed(type) ? signed_value(value, bits)
                              : static_cast<__int128>(low_bits(value, bits));
}

__int128 clamp_to(Type type, __int128 value) {
  const int bits = ptx::type_bits(type);
  const bool is_signed = ptx::is_signed(type);
  const __int128 low = is_signed ? -(__int128{1} << (bits - 1)) : 0;
  const __int128 high = (__int128{1} << (is_signed ? bits - 1 : bits)) - 1;
  return std::clamp(value, low, high);
}

bool is_packed(Type type) {
  return type == Type::kF16x2 || type == Type::kBf16x2 || type == Type::kU16x2 ||
         type == Type::kS16x2;
}

Part exactly(int index, int width, uint64_t bits) {
  Part part;
  part.index = index;
  part.width = width;
  part.bits = bits;
  return part;
}

bool satisfies(const Part& part, uint64_t actual) {
  const uint64_t bits = low_bits(actual >> part.offset, part.width);
  switch (part.check) {
    case Check::kBits:
      return bits == low_bits(part.bits, part.width);
    case Check::kNan:
      return is_nan(part.format, bits);
    case Check::kNear: {
      if (is_nan(part.format, bits)) return false;
      const long double value = to_long_double(decode(part.format, bits));
      if (std::isinf(value)) return value == part.value;
      return std::fabs(value - part.value) <= part.tolerance;
    }
    case Check::kAny:
      return true;
  }
  return false;
}

std::string to_string(const Part& part) {
  switch (part.check) {
    case Check::kBits:
      return fmt::format("{:#x}", low_bits(part.bits, part.width));
    case Check::kNan:
      return "NaN";
    case Check::kNear:
      return fmt::format("{} +- {}", static_cast<double>(part.value),
                         static_cast<double>(part.tolerance));
    case Check::kAny:
      return "anything";
  }
  return "";
}

Expected evaluate(const Tuple& t, const Sources& s) {
  switch (t.opcode()) {
    case Opcode::kSetp:
    case Opcode::kSet:
    case Opcode::kTestp:
    case Opcode::kSlct:
      return evaluate_compare(t, s);
    case Opcode::kCvt:
    case Opcode::kCvtPack:
      return evaluate_convert(t, s);
    case Opcode::kMov:
    case Opcode::kSelp:
      return evaluate_integer(t, s);
    default:
      break;
  }
  if (t.has(Flag::kApprox) || t.has(Flag::kFull)) return evaluate_approximate(t, s);
  return ptx::is_float(t.type()) ? evaluate_float(t, s) : evaluate_integer(t, s);
}

}  // namespace tilewright::emulator::slow
