// Integer, logic, bit field and move instructions.
#include <algorithm>

#include "core/check.h"
#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Flag;
using ptx::MulPart;
using ptx::Opcode;
using ptx::Type;
using Signed = __int128;

bool bit(uint64_t value, int64_t i) { return i >= 0 && i < 64 && ((value >> i) & 1) != 0; }

uint64_t bit_field_extract(bool is_signed, int width, uint64_t a, uint64_t pos, uint64_t len) {
  pos &= 0xff;
  len &= 0xff;
  const auto msb = static_cast<uint64_t>(width - 1);
  const bool fill =
      is_signed && len != 0 && bit(a, static_cast<int64_t>(std::min(pos + len - 1, msb)));
  uint64_t d = 0;
  for (uint64_t i = 0; i <= msb; ++i) {
    const bool inside = i < len && pos + i <= msb;
    if (inside ? bit(a, static_cast<int64_t>(pos + i)) : fill) d |= uint64_t{1} << i;
  }
  return d;
}

uint64_t bit_field_insert(int width, uint64_t a, uint64_t b, uint64_t pos, uint64_t len) {
  pos &= 0xff;
  len &= 0xff;
  uint64_t f = b;
  for (uint64_t i = 0; i < len && pos + i < static_cast<uint64_t>(width); ++i) {
    f &= ~(uint64_t{1} << (pos + i));
    if (bit(a, static_cast<int64_t>(i))) f |= uint64_t{1} << (pos + i);
  }
  return f;
}

uint64_t find_bit(bool is_signed, bool shift_amount, int width, uint64_t a) {
  if (is_signed && bit(a, width - 1)) a = low_bits(~a, width);
  for (int i = width - 1; i >= 0; --i) {
    if (bit(a, i)) return static_cast<uint64_t>(shift_amount ? width - 1 - i : i);
  }
  return 0xffffffff;
}

uint64_t bit_mask(bool clamp, uint64_t pos, uint64_t width) {
  if (!clamp) {
    pos &= 31;
    width &= 31;
  }
  uint64_t d = 0;
  for (uint64_t i = 0; i < 32; ++i) {
    if (i >= pos && i - pos < width) d |= uint64_t{1} << i;
  }
  return d;
}

uint64_t extend(bool clamp, bool is_signed, uint64_t a, uint64_t n) {
  if (clamp && n >= 32) return a;
  n &= 31;
  if (n == 0) return 0;
  uint64_t d = 0;
  for (uint64_t i = 0; i < 32; ++i) {
    const bool one =
        i < n ? bit(a, static_cast<int64_t>(i)) : is_signed && bit(a, static_cast<int64_t>(n - 1));
    if (one) d |= uint64_t{1} << i;
  }
  return d;
}

uint64_t find_nth_set(uint64_t mask, int64_t base, int64_t offset) {
  if (offset == 0) return bit(mask, base) ? static_cast<uint64_t>(base) : 0xffffffff;
  int64_t count = (offset < 0 ? -offset : offset) - 1;
  for (int64_t pos = base; pos >= 0 && pos < 32; pos += offset < 0 ? -1 : 1) {
    if (!bit(mask, pos)) continue;
    if (count-- == 0) return static_cast<uint64_t>(pos);
  }
  return 0xffffffff;
}

uint64_t permute(ptx::PermuteMode mode, uint64_t a, uint64_t b, uint64_t c) {
  const int s = static_cast<int>(c & 3);
  int selector[4] = {};
  for (int n = 0; n < 4; ++n) {
    switch (mode) {
      case ptx::PermuteMode::kNone:
        selector[n] = static_cast<int>(c >> (4 * n)) & 15;
        break;
      case ptx::PermuteMode::kF4e:
        selector[n] = s + n;
        break;
      case ptx::PermuteMode::kB4e:
        selector[n] = (s - n + 8) % 8;
        break;
      case ptx::PermuteMode::kRc8:
        selector[n] = s;
        break;
      case ptx::PermuteMode::kEcl:
        selector[n] = std::max(n, s);
        break;
      case ptx::PermuteMode::kEcr:
        selector[n] = std::min(n, s);
        break;
      case ptx::PermuteMode::kRc16:
        selector[n] = (s & 1) * 2 + (n & 1);
        break;
    }
  }
  uint64_t d = 0;
  for (int n = 0; n < 4; ++n) {
    const int from = selector[n] & 7;
    uint64_t byte = ((from < 4 ? a >> (8 * from) : b >> (8 * (from - 4)))) & 0xff;
    if ((selector[n] & 8) != 0) byte = (byte & 0x80) != 0 ? 0xff : 0;
    d |= byte << (8 * n);
  }
  return d;
}

uint64_t dot(bool halves, int first, Type a_type, Type b_type, uint64_t a, uint64_t b, uint64_t c) {
  Signed sum = static_cast<Signed>(c);
  const int a_bits = halves ? 16 : 8;
  for (int i = 0; i < (halves ? 2 : 4); ++i) {
    const uint64_t x = low_bits(a >> (a_bits * i), a_bits);
    const uint64_t y = low_bits(b >> (8 * (i + first)), 8);
    sum += (ptx::is_signed(a_type) ? signed_value(x, a_bits) : static_cast<Signed>(x)) *
           (ptx::is_signed(b_type) ? signed_value(y, 8) : static_cast<Signed>(y));
  }
  return low_bits(static_cast<uint64_t>(sum), 32);
}

uint64_t shift(Opcode opcode, Type type, uint64_t a, uint64_t amount) {
  const int width = ptx::type_bits(type);
  uint64_t d = 0;
  for (int i = 0; i < width; ++i) {
    const Signed from = opcode == Opcode::kShl ? Signed{i} - static_cast<Signed>(amount)
                                               : Signed{i} + static_cast<Signed>(amount);
    bool one = false;
    if (from >= 0 && from < width) {
      one = bit(a, static_cast<int64_t>(from));
    } else if (opcode == Opcode::kShr && ptx::is_signed(type)) {
      one = bit(a, width - 1);
    }
    if (one) d |= uint64_t{1} << i;
  }
  return d;
}

uint64_t funnel(const Tuple& t, uint64_t a, uint64_t b, uint64_t c) {
  const uint64_t n =
      t.modifiers.range == ptx::RangeMode::kClamp ? std::min<uint64_t>(c, 32) : c & 31;
  const Wide both = Wide{b} << 32 | a;
  return low_bits(
      static_cast<uint64_t>(t.modifiers.direction == ptx::ShiftDirection::kLeft ? (both << n) >> 32
                                                                                : both >> n),
      32);
}

// Both halves apart; min and max with .relu.
uint64_t packed(const Tuple& t, uint64_t a, uint64_t b) {
  const Type half = t.type() == Type::kS16x2 ? Type::kS16 : Type::kU16;
  uint64_t d = 0;
  for (int i = 0; i < 2; ++i) {
    const Signed x = integer_value(half, a >> (16 * i));
    const Signed y = integer_value(half, b >> (16 * i));
    Signed r = x + y;
    if (t.opcode() == Opcode::kMin) r = std::min(x, y);
    if (t.opcode() == Opcode::kMax) r = std::max(x, y);
    if (t.has(Flag::kRelu)) r = std::max<Signed>(r, 0);
    d |= low_bits(static_cast<uint64_t>(r), 16) << (16 * i);
  }
  return d;
}

// Multiplied as unsigned: two 64-bit values fill all 128 bits.
Signed product(const Tuple& t, Signed a, Signed b, int width) {
  const Wide all = static_cast<Wide>(a) * static_cast<Wide>(b);
  if (t.modifiers.part != MulPart::kHi) return static_cast<Signed>(all);
  return ptx::is_signed(t.type()) ? static_cast<Signed>(all) >> width
                                  : static_cast<Signed>(all >> width);
}

Signed product24(const Tuple& t, uint64_t a, uint64_t b) {
  const bool is_signed = ptx::is_signed(t.type());
  const Signed x = is_signed ? signed_value(a, 24) : static_cast<Signed>(low_bits(a, 24));
  const Signed y = is_signed ? signed_value(b, 24) : static_cast<Signed>(low_bits(b, 24));
  const uint64_t all = low_bits(static_cast<uint64_t>(x * y), 48);
  const uint64_t half = low_bits(t.modifiers.part == MulPart::kLo ? all : all >> 16, 32);
  return is_signed ? signed_value(half, 32) : static_cast<Signed>(half);
}

// d = a op b (+ carry), with CC.CF written where .cc asks for it.
Expected with_carry(const Tuple& t, uint64_t x, uint64_t y, bool subtract, bool carry_in) {
  const int width = ptx::type_bits(t.type());
  const Signed result = subtract ? static_cast<Signed>(x) - static_cast<Signed>(y) - carry_in
                                 : static_cast<Signed>(x) + static_cast<Signed>(y) + carry_in;
  Expected expected = {exactly(0, width, low_bits(static_cast<uint64_t>(result), width))};
  const bool carry_out = result < 0 || (result >> width) != 0;
  if (t.has(Flag::kCarry)) expected.push_back(exactly(kCarryOut, 32, carry_out ? 1 : 0));
  return expected;
}

Expected divide_integers(const Tuple& t, Signed a, Signed b, int width) {
  Part part = exactly(0, width, 0);
  if (b == 0) {
    part.check = Check::kAny;
  } else {
    part.bits = low_bits(static_cast<uint64_t>(t.opcode() == Opcode::kDiv ? a / b : a % b), width);
  }
  return {part};
}

uint64_t look_up(uint64_t a, uint64_t b, uint64_t c, uint64_t table) {
  uint64_t d = 0;
  for (int i = 0; i < 32; ++i) {
    const int row = bit(a, i) * 4 + bit(b, i) * 2 + bit(c, i);
    if (bit(table, row)) d |= uint64_t{1} << i;
  }
  return d;
}

uint64_t count_bits(Opcode opcode, int width, uint64_t a) {
  uint64_t n = 0;
  if (opcode == Opcode::kPopc) {
    for (int i = 0; i < width; ++i) n += bit(a, i);
    return n;
  }
  while (n < static_cast<uint64_t>(width) && !bit(a, width - 1 - static_cast<int>(n))) ++n;
  return n;
}

uint64_t reverse(int width, uint64_t a) {
  uint64_t d = 0;
  for (int i = 0; i < width; ++i) {
    if (bit(a, i)) d |= uint64_t{1} << (width - 1 - i);
  }
  return d;
}

Expected multiply_add(const Tuple& t, const Sources& s, int width) {
  const Signed a = integer_value(t.type(), s.value[0]);
  const Signed b = integer_value(t.type(), s.value[1]);
  const Signed p = product(t, a, b, width);
  if (t.opcode() == Opcode::kMadc || t.has(Flag::kCarry)) {
    return with_carry(t, low_bits(static_cast<uint64_t>(p), width), s.value[2], false,
                      t.opcode() == Opcode::kMadc && s.carry);
  }
  const int result_width = t.modifiers.part == MulPart::kWide ? 2 * width : width;
  // The addend as unsigned: the sum wraps either way, unless it saturates.
  if (t.has(Flag::kSat)) {
    const Signed sum = p + integer_value(t.type(), s.value[2]);
    return {exactly(0, 32, low_bits(static_cast<uint64_t>(clamp_to(Type::kS32, sum)), 32))};
  }
  return {exactly(0, result_width, low_bits(static_cast<uint64_t>(p) + s.value[2], result_width))};
}

}  // namespace

Expected evaluate_integer(const Tuple& t, const Sources& s) {
  const Type type = t.type();
  const int width = ptx::type_bits(type);
  const uint64_t a = s.value[0];
  const uint64_t b = s.value[1];
  const uint64_t c = s.value[2];
  const bool number = type != Type::kPred && !is_packed(type);
  const Signed x = number ? integer_value(type, a) : 0;
  const Signed y = number ? integer_value(type, b) : 0;
  const auto whole = [&](Signed value) {
    return Expected{exactly(0, width, low_bits(static_cast<uint64_t>(value), width))};
  };
  const auto bits = [&](uint64_t value) {
    return Expected{exactly(0, width, low_bits(value, width))};
  };
  const auto word = [&](uint64_t value) { return Expected{exactly(0, 32, low_bits(value, 32))}; };
  switch (t.opcode()) {
    case Opcode::kAbs:
      return whole(x < 0 ? -x : x);
    case Opcode::kNeg:
      return whole(-x);
    case Opcode::kAdd:
    case Opcode::kSub: {
      if (is_packed(type)) return bits(packed(t, a, b));
      const bool subtract = t.opcode() == Opcode::kSub;
      if (t.has(Flag::kCarry)) return with_carry(t, a, b, subtract, false);
      const Signed r = subtract ? x - y : x + y;
      return whole(t.has(Flag::kSat) ? clamp_to(type, r) : r);
    }
    case Opcode::kAddc:
      return with_carry(t, a, b, false, s.carry);
    case Opcode::kSubc:
      return with_carry(t, a, b, true, s.carry);
    case Opcode::kMin:
    case Opcode::kMax: {
      if (is_packed(type)) return bits(packed(t, a, b));
      const Signed r = t.opcode() == Opcode::kMin ? std::min(x, y) : std::max(x, y);
      return whole(t.has(Flag::kRelu) ? std::max<Signed>(r, 0) : r);
    }
    case Opcode::kAnd:
      return bits(a & b);
    case Opcode::kOr:
      return bits(a | b);
    case Opcode::kXor:
      return bits(a ^ b);
    case Opcode::kNot:
      return bits(~a);
    case Opcode::kCnot:
      return bits(a == 0 ? 1 : 0);
    case Opcode::kMul:
      if (t.modifiers.part == MulPart::kWide) {
        return {exactly(0, 2 * width,
                        low_bits(static_cast<uint64_t>(product(t, x, y, width)), 2 * width))};
      }
      return whole(product(t, x, y, width));
    case Opcode::kMad:
    case Opcode::kMadc:
      return multiply_add(t, s, width);
    case Opcode::kMul24:
      return whole(product24(t, a, b));
    case Opcode::kMad24: {
      const Signed r = product24(t, a, b) + integer_value(type, c);
      return whole(t.has(Flag::kSat) ? clamp_to(type, r) : r);
    }
    case Opcode::kDiv:
    case Opcode::kRem:
      return divide_integers(t, x, y, width);
    case Opcode::kSad:
      return whole((x < y ? y - x : x - y) + integer_value(type, c));
    case Opcode::kBfe:
      return bits(bit_field_extract(ptx::is_signed(type), width, a, b, c));
    case Opcode::kBfi:
      return bits(bit_field_insert(width, a, b, c, s.value[3]));
    case Opcode::kBfind:
      return word(find_bit(ptx::is_signed(type), t.has(Flag::kShiftamt), width, a));
    case Opcode::kBmsk:
      return word(bit_mask(t.modifiers.range == ptx::RangeMode::kClamp, a, b));
    case Opcode::kSzext:
      return word(extend(t.modifiers.range == ptx::RangeMode::kClamp, ptx::is_signed(type), a, b));
    case Opcode::kFns: {
      Part part = exactly(0, 32, 0);
      if (b > 31) {
        part.check = Check::kAny;
      } else {
        part.bits =
            find_nth_set(a, static_cast<int64_t>(b), static_cast<int64_t>(signed_value(c, 32)));
      }
      return {part};
    }
    case Opcode::kBrev:
      return bits(reverse(width, a));
    case Opcode::kPopc:
    case Opcode::kClz:
      return word(count_bits(t.opcode(), width, a));
    case Opcode::kPrmt:
      return word(permute(t.modifiers.permute, a, b, c));
    case Opcode::kLop3: {
      const uint64_t d = look_up(a, b, c, s.value[3]);
      Expected expected = word(d);
      if (t.modifiers.op != ptx::Op::kNone) {
        expected.push_back(exactly(1, 1, combine(t.modifiers.op, d != 0, s.value[4] != 0)));
      }
      return expected;
    }
    case Opcode::kDp4a:
      return word(dot(false, 0, t.type(0), t.type(1), a, b, c));
    case Opcode::kDp2a:
      return word(
          dot(true, t.modifiers.part == MulPart::kHi ? 2 : 0, t.type(0), t.type(1), a, b, c));
    case Opcode::kShl:
    case Opcode::kShr:
      return bits(shift(t.opcode(), type, a, b));
    case Opcode::kShf:
      return word(funnel(t, a, b, c));
    case Opcode::kMov:
      if (type == Type::kB128) return {exactly(0, 64, a), exactly(1, 64, b)};
      return bits(a);
    case Opcode::kSelp:
      return bits(c != 0 ? a : b);
    default:
      TW_CHECK(false, "no reference for {}", t.mnemonic);
  }
}

}  // namespace tilewright::emulator::slow
