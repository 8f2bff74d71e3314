#include <type_traits>

#include "emulator/instructions/compare.h"
#include "emulator/instructions/integer.h"
#include "emulator/machine/scalar_kernels.h"

namespace tilewright::emulator {
namespace {

using ptx::Flag;
using ptx::Modifiers;
using ptx::MulPart;
using ptx::Opcode;
using ptx::Type;

template <class T>
LaneKernel multiply(Opcode opcode, const Modifiers& m) {
  const bool is_mad = opcode == Opcode::kMad;
  switch (m.part) {
    case MulPart::kLo:
      if (is_mad)
        return ternary<T, T, T, T>([](T x, T y, T z, uint32_t) { return mad_lo(x, y, z); });
      return binary<T, T, T>([](T x, T y, uint32_t) { return mul_lo(x, y); });
    case MulPart::kHi:
      if (is_mad)
        return ternary<T, T, T, T>([](T x, T y, T z, uint32_t) { return mad_hi(x, y, z); });
      return binary<T, T, T>([](T x, T y, uint32_t) { return mul_hi(x, y); });
    case MulPart::kWide:
      if constexpr (sizeof(T) < 8) {
        if (is_mad)
          return ternary<Wide<T>, T, T, Wide<T>>(
              [](T x, T y, Wide<T> z, uint32_t) { return mad_wide(x, y, z); });
        return binary<Wide<T>, T, T>([](T x, T y, uint32_t) { return mul_wide(x, y); });
      }
      return nullptr;
    case MulPart::kNone:
      break;
  }
  return nullptr;
}

template <class T>
LaneKernel arithmetic(Opcode opcode, const Modifiers& m) {
  switch (opcode) {
    case Opcode::kAdd:
      return binary<T, T, T>([](T x, T y, uint32_t) { return add_wrapping(x, y); });
    case Opcode::kSub:
      return binary<T, T, T>([](T x, T y, uint32_t) { return sub_wrapping(x, y); });
    case Opcode::kMul:
    case Opcode::kMad:
      return multiply<T>(opcode, m);
    case Opcode::kDiv:
      return binary<T, T, T>([](T x, T y, uint32_t) { return div(x, y); });
    case Opcode::kRem:
      return binary<T, T, T>([](T x, T y, uint32_t) { return rem(x, y); });
    case Opcode::kMin:
      return binary<T, T, T>([](T x, T y, uint32_t) { return min(x, y); });
    case Opcode::kMax:
      return binary<T, T, T>([](T x, T y, uint32_t) { return max(x, y); });
    case Opcode::kSad:
      return ternary<T, T, T, T>([](T x, T y, T z, uint32_t) { return sad(x, y, z); });
    case Opcode::kShr:
      return binary<T, T, uint32_t>([](T x, uint32_t y, uint32_t) { return shr(x, y); });
    case Opcode::kNeg:
      if constexpr (std::is_signed_v<T>) return unary<T, T>([](T x, uint32_t) { return neg(x); });
      return nullptr;
    case Opcode::kAbs:
      if constexpr (std::is_signed_v<T>) return unary<T, T>([](T x, uint32_t) { return abs(x); });
      return nullptr;
    case Opcode::kBfe:
      if constexpr (sizeof(T) >= 4) {
        return ternary<T, T, uint32_t, uint32_t>(
            [](T x, uint32_t y, uint32_t z, uint32_t) { return bfe(x, y, z); });
      }
      return nullptr;
    case Opcode::kBfind:
      if constexpr (sizeof(T) >= 4)
        return unary<uint32_t, T>([](T x, uint32_t o) { return bfind(x, (o & 1) != 0); });
      return nullptr;
    case Opcode::kMul24:
      if constexpr (sizeof(T) == 4) {
        if (m.part == MulPart::kHi)
          return binary<T, T, T>([](T x, T y, uint32_t) { return mul24_hi(x, y); });
        return binary<T, T, T>([](T x, T y, uint32_t) { return mul24_lo(x, y); });
      }
      return nullptr;
    case Opcode::kMad24:
      if constexpr (sizeof(T) == 4) {
        if (m.part == MulPart::kHi)
          return ternary<T, T, T, T>(
              [](T x, T y, T z, uint32_t) { return add_wrapping(mul24_hi(x, y), z); });
        return ternary<T, T, T, T>(
            [](T x, T y, T z, uint32_t) { return add_wrapping(mul24_lo(x, y), z); });
      }
      return nullptr;
    case Opcode::kSzext:
      if constexpr (sizeof(T) == 4)
        return binary<T, T, uint32_t>(
            [](T x, uint32_t y, uint32_t o) { return szext(x, y, (o & 1) != 0); });
      return nullptr;
    default:
      return nullptr;
  }
}

template <class T>
LaneKernel bits(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAnd:
      return binary<T, T, T>([](T x, T y, uint32_t) { return static_cast<T>(x & y); });
    case Opcode::kOr:
      return binary<T, T, T>([](T x, T y, uint32_t) { return static_cast<T>(x | y); });
    case Opcode::kXor:
      return binary<T, T, T>([](T x, T y, uint32_t) { return static_cast<T>(x ^ y); });
    case Opcode::kNot:
      return unary<T, T>([](T x, uint32_t) { return static_cast<T>(~x); });
    case Opcode::kCnot:
      return unary<T, T>([](T x, uint32_t) { return static_cast<T>(x == 0 ? 1 : 0); });
    case Opcode::kShl:
      return binary<T, T, uint32_t>([](T x, uint32_t y, uint32_t) { return shl(x, y); });
    case Opcode::kShr:
      return binary<T, T, uint32_t>([](T x, uint32_t y, uint32_t) { return shr(x, y); });
    default:
      break;
  }
  if constexpr (sizeof(T) >= 4) {
    switch (opcode) {
      case Opcode::kPopc:
        return unary<uint32_t, T>([](T x, uint32_t) { return popc(x); });
      case Opcode::kClz:
        return unary<uint32_t, T>([](T x, uint32_t) { return clz(x); });
      case Opcode::kBrev:
        return unary<T, T>([](T x, uint32_t) { return brev(x); });
      default:
        break;
    }
  }
  return nullptr;
}

KernelChoice saturating(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAdd:
      return {binary<int32_t, int32_t, int32_t>(
          [](int32_t x, int32_t y, uint32_t) { return add_saturating(x, y); })};
    case Opcode::kSub:
      return {binary<int32_t, int32_t, int32_t>(
          [](int32_t x, int32_t y, uint32_t) { return sub_saturating(x, y); })};
    case Opcode::kMad:
      return {ternary<int32_t, int32_t, int32_t, int32_t>(
          [](int32_t x, int32_t y, int32_t z, uint32_t) { return mad_hi_saturating(x, y, z); })};
    case Opcode::kMad24:
      return {ternary<int32_t, int32_t, int32_t, int32_t>(
          [](int32_t x, int32_t y, int32_t z, uint32_t) { return mad24_hi_saturating(x, y, z); })};
    default:
      return {};
  }
}

template <class T>
KernelChoice halfwords(Opcode opcode, const Modifiers& m) {
  const uint32_t with_relu = m.has(Flag::kRelu) ? 1 : 0;
  switch (opcode) {
    case Opcode::kAdd:
      return {binary<uint32_t, uint32_t, uint32_t>([](uint32_t x, uint32_t y, uint32_t) {
        return map_halfwords<T>([](T p, T q) { return add_wrapping(p, q); }, x, y);
      })};
    case Opcode::kMin:
      if (with_relu != 0) {
        return {binary<uint32_t, uint32_t, uint32_t>([](uint32_t x, uint32_t y, uint32_t) {
          return map_halfwords<T>([](T p, T q) { return max(min(p, q), T{0}); }, x, y);
        })};
      }
      return {binary<uint32_t, uint32_t, uint32_t>([](uint32_t x, uint32_t y, uint32_t) {
        return map_halfwords<T>([](T p, T q) { return min(p, q); }, x, y);
      })};
    case Opcode::kMax:
      if (with_relu != 0) {
        return {binary<uint32_t, uint32_t, uint32_t>([](uint32_t x, uint32_t y, uint32_t) {
          return map_halfwords<T>([](T p, T q) { return max(max(p, q), T{0}); }, x, y);
        })};
      }
      return {binary<uint32_t, uint32_t, uint32_t>([](uint32_t x, uint32_t y, uint32_t) {
        return map_halfwords<T>([](T p, T q) { return max(p, q); }, x, y);
      })};
    default:
      return {};
  }
}

KernelChoice by_type(Opcode opcode, const Modifiers& m) {
  switch (m.type()) {
    case Type::kU16:
      return {arithmetic<uint16_t>(opcode, m)};
    case Type::kS16:
      return {arithmetic<int16_t>(opcode, m)};
    case Type::kU32:
      return {arithmetic<uint32_t>(opcode, m)};
    case Type::kS32:
      return {arithmetic<int32_t>(opcode, m)};
    case Type::kU64:
      return {arithmetic<uint64_t>(opcode, m)};
    case Type::kS64:
      return {arithmetic<int64_t>(opcode, m)};
    case Type::kU16x2:
      return halfwords<uint16_t>(opcode, m);
    case Type::kS16x2:
      return halfwords<int16_t>(opcode, m);
    case Type::kB16:
      return {bits<uint16_t>(opcode)};
    case Type::kB32:
      return {bits<uint32_t>(opcode)};
    case Type::kB64:
      return {bits<uint64_t>(opcode)};
    default:
      return {};
  }
}

template <class T, class S>
KernelChoice select_by_sign() {
  return {ternary<T, T, T, S>([](T x, T y, S z, uint32_t) { return slct(x, y, z); })};
}

KernelChoice slct_kernel(const Modifiers& m) {
  const bool wide = ptx::type_bits(m.types[0]) == 64;
  if (m.types[1] == Type::kS32) {
    return wide ? select_by_sign<uint64_t, int32_t>() : select_by_sign<uint32_t, int32_t>();
  }
  const uint32_t ftz = m.has(Flag::kFtz) ? 1 : 0;
  if (wide)
    return {ternary<uint64_t, uint64_t, uint64_t, float>(
                [](uint64_t x, uint64_t y, float z, uint32_t o) { return slct(x, y, z, o != 0); }),
            ftz};
  return {ternary<uint32_t, uint32_t, uint32_t, float>(
              [](uint32_t x, uint32_t y, float z, uint32_t o) { return slct(x, y, z, o != 0); }),
          ftz};
}

KernelChoice prmt_kernel(const Modifiers& m) {
  static constexpr PrmtMode kModes[] = {PrmtMode::kIndex, PrmtMode::kF4e, PrmtMode::kB4e,
                                        PrmtMode::kRc8,   PrmtMode::kEcl, PrmtMode::kEcr,
                                        PrmtMode::kRc16};
  return {
      ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
          [](uint32_t x, uint32_t y, uint32_t z, uint32_t o) { return prmt(x, y, z, kModes[o]); }),
      static_cast<uint32_t>(m.permute)};
}

KernelChoice dot_kernel(Opcode opcode, const Modifiers& m) {
  const uint32_t options = (m.types[0] == Type::kS32 ? 1u : 0u) |
                           (m.types[1] == Type::kS32 ? 2u : 0u) |
                           (m.part == MulPart::kHi ? 4u : 0u);
  if (opcode == Opcode::kDp4a) {
    return {ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
                [](uint32_t x, uint32_t y, uint32_t z, uint32_t o) {
                  return dp4a(x, y, z, (o & 1) != 0, (o & 2) != 0);
                }),
            options};
  }
  return {ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
              [](uint32_t x, uint32_t y, uint32_t z, uint32_t o) {
                return dp2a(x, y, z, (o & 1) != 0, (o & 2) != 0, (o & 4) != 0);
              }),
          options};
}

}  // namespace

KernelChoice integer_scalar_kernel(Opcode opcode, const Modifiers& m) {
  const uint32_t wrap = m.range == ptx::RangeMode::kWrap ? 1 : 0;
  switch (opcode) {
    case Opcode::kShf:
      if (m.direction == ptx::ShiftDirection::kLeft) {
        return {ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
                    [](uint32_t x, uint32_t y, uint32_t z, uint32_t o) {
                      return shf_left(x, y, z, o != 0);
                    }),
                wrap};
      }
      return {ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
                  [](uint32_t x, uint32_t y, uint32_t z, uint32_t o) {
                    return shf_right(x, y, z, o != 0);
                  }),
              wrap};
    case Opcode::kBmsk:
      return {binary<uint32_t, uint32_t, uint32_t>(
                  [](uint32_t x, uint32_t y, uint32_t o) { return bmsk(x, y, o != 0); }),
              wrap};
    case Opcode::kFns:
      return {ternary<uint32_t, uint32_t, uint32_t, int32_t>(
          [](uint32_t x, uint32_t y, int32_t z, uint32_t) { return fns(x, y, z); })};
    case Opcode::kPrmt:
      return prmt_kernel(m);
    case Opcode::kSlct:
      return slct_kernel(m);
    case Opcode::kDp4a:
    case Opcode::kDp2a:
      return dot_kernel(opcode, m);
    case Opcode::kMin:
    case Opcode::kMax:
      if (m.has(Flag::kRelu) && m.type() == Type::kS32) {
        if (opcode == Opcode::kMin) {
          return {binary<int32_t, int32_t, int32_t>(
              [](int32_t x, int32_t y, uint32_t) { return relu(min(x, y)); })};
        }
        return {binary<int32_t, int32_t, int32_t>(
            [](int32_t x, int32_t y, uint32_t) { return relu(max(x, y)); })};
      }
      return by_type(opcode, m);
    case Opcode::kBfind: {
      KernelChoice choice = by_type(opcode, m);
      choice.options = m.has(Flag::kShiftamt) ? 1 : 0;
      return choice;
    }
    case Opcode::kSzext: {
      KernelChoice choice = by_type(opcode, m);
      choice.options = wrap;
      return choice;
    }
    default:
      if (m.has(Flag::kCarry)) return {};
      return m.has(Flag::kSat) && m.type() == Type::kS32 ? saturating(opcode) : by_type(opcode, m);
  }
}

}  // namespace tilewright::emulator
