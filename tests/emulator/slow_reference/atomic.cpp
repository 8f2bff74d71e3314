#include "tests/emulator/slow_reference/atomic.h"

#include <algorithm>

#include "core/check.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Op;
using ptx::Type;

uint64_t float_element(Op op, Format format, bool flushes, uint64_t a, uint64_t b) {
  if (op == Op::kAdd) {
    if (flushes) {
      a = flush(format, a);
      b = flush(format, b);
    }
    const uint64_t sum = add(format, Round::kNearestEven, a, b);
    return flushes ? flush(format, sum) : sum;
  }
  const bool a_nan = is_nan(format, a);
  const bool b_nan = is_nan(format, b);
  if (a_nan && b_nan) return format.canonical_nan();
  if (a_nan || b_nan) return a_nan ? b : a;
  int order = compare(decode(format, a), decode(format, b));
  if (order == 0) order = (a & format.sign_mask()) != 0 ? -1 : 1;  // -0 < +0
  return (order < 0) == (op == Op::kMin) ? a : b;
}

}  // namespace

Part atomic_result(Op op, Type type, bool flushes, uint64_t old, uint64_t b, uint64_t c) {
  const int width = ptx::type_bits(type);
  Part part = exactly(0, width, 0);
  if (is_packed(type)) {
    const Type half = type == Type::kF16x2 ? Type::kF16 : Type::kBf16;
    for (int i = 0; i < 2; ++i) {
      const uint64_t d = float_element(op, format_of(half), false, low_bits(old >> (16 * i), 16),
                                       low_bits(b >> (16 * i), 16));
      part.bits |= d << (16 * i);
    }
    return part;
  }
  if (ptx::is_float(type)) {
    part.format = format_of(type);
    part.bits = float_element(op, part.format, flushes && type == Type::kF32, old, b);
    if (width > 16 && is_nan(part.format, part.bits)) part.check = Check::kNan;
    return part;
  }
  const __int128 x = integer_value(type, old);
  const __int128 y = integer_value(type, b);
  __int128 r = 0;
  switch (op) {
    case Op::kAdd:
      r = x + y;
      break;
    case Op::kMin:
      r = std::min(x, y);
      break;
    case Op::kMax:
      r = std::max(x, y);
      break;
    case Op::kInc:
      r = x >= y ? 0 : x + 1;
      break;
    case Op::kDec:
      r = x == 0 || x > y ? y : x - 1;
      break;
    case Op::kAnd:
      r = x & y;
      break;
    case Op::kOr:
      r = x | y;
      break;
    case Op::kXor:
      r = x ^ y;
      break;
    case Op::kExch:
      r = y;
      break;
    case Op::kCas:
      r = x == y ? integer_value(type, c) : x;
      break;
    default:
      TW_CHECK(false, "no atomic operation");
  }
  part.bits = low_bits(static_cast<uint64_t>(r), width);
  return part;
}

}  // namespace tilewright::emulator::slow
