#include "emulator/instructions/compare.h"
#include "emulator/instructions/convert.h"
#include "emulator/instructions/float.h"
#include "emulator/instructions/float16.h"
#include "emulator/machine/scalar_kernels.h"

namespace tilewright::emulator {
namespace {

using ptx::Flag;
using ptx::Modifiers;
using ptx::Opcode;
using ptx::Type;

#define TW_UNARY(D, A, expression)                                                    \
  [](void* d, const void* a, const void*, const void*, [[maybe_unused]] uint32_t o) { \
    lanes1<D, A>(d, a, [&](A x) { return expression; });                              \
  }
#define TW_BINARY(D, A, B, expression)                                                  \
  [](void* d, const void* a, const void* b, const void*, [[maybe_unused]] uint32_t o) { \
    lanes2<D, A, B>(d, a, b, [&](A x, B y) { return expression; });                     \
  }
#define TW_TERNARY(D, A, B, C, expression)                                                \
  [](void* d, const void* a, const void* b, const void* c, [[maybe_unused]] uint32_t o) { \
    lanes3<D, A, B, C>(d, a, b, c, [&](A x, B y, C z) { return expression; });            \
  }

bool flushes(uint32_t o) { return float_options(o).ftz; }

LaneKernel f32_approximate(Opcode opcode) {
  switch (opcode) {
    case Opcode::kRcp:
      return TW_UNARY(float, float, rcp_approx(x, flushes(o)));
    case Opcode::kSqrt:
      return TW_UNARY(float, float, sqrt_approx(x, flushes(o)));
    case Opcode::kRsqrt:
      return TW_UNARY(float, float, rsqrt_approx(x, flushes(o)));
    case Opcode::kSin:
      return TW_UNARY(float, float, sin_approx(x, flushes(o)));
    case Opcode::kCos:
      return TW_UNARY(float, float, cos_approx(x, flushes(o)));
    case Opcode::kLg2:
      return TW_UNARY(float, float, lg2_approx(x, flushes(o)));
    case Opcode::kEx2:
      return TW_UNARY(float, float, ex2_approx(x, flushes(o)));
    case Opcode::kTanh:
      return TW_UNARY(float, float, tanh_approx(x));
    case Opcode::kDiv:
      return TW_BINARY(float, float, float, div_approx(x, y, flushes(o)));
    default:
      return nullptr;
  }
}

LaneKernel f32_exact(Opcode opcode, const Modifiers& m) {
  switch (opcode) {
    case Opcode::kAdd:
      return TW_BINARY(float, float, float, add(x, y, float_options(o)));
    case Opcode::kSub:
      return TW_BINARY(float, float, float, sub(x, y, float_options(o)));
    case Opcode::kMul:
      return TW_BINARY(float, float, float, mul(x, y, float_options(o)));
    case Opcode::kFma:
    case Opcode::kMad:
      return TW_TERNARY(float, float, float, float, fma(x, y, z, float_options(o)));
    case Opcode::kDiv:
      if (m.has(Flag::kFull)) return TW_BINARY(float, float, float, div_full(x, y, flushes(o)));
      return TW_BINARY(float, float, float, div(x, y, float_options(o)));
    case Opcode::kRcp:
      return TW_UNARY(float, float, rcp(x, float_options(o)));
    case Opcode::kSqrt:
      return TW_UNARY(float, float, sqrt(x, float_options(o)));
    case Opcode::kMin:
      return TW_BINARY(float, float, float, min(x, y, float_options(o)));
    case Opcode::kMax:
      return TW_BINARY(float, float, float, max(x, y, float_options(o)));
    case Opcode::kAbs:
      return TW_UNARY(float, float, abs(x, flushes(o)));
    case Opcode::kNeg:
      return TW_UNARY(float, float, neg(x, flushes(o)));
    case Opcode::kCopysign:
      return TW_BINARY(float, float, float, copysign(x, y));
    default:
      return nullptr;
  }
}

LaneKernel f64_kernel(Opcode opcode, const Modifiers& m) {
  switch (opcode) {
    case Opcode::kAdd:
      return TW_BINARY(double, double, double, add(x, y, float_options(o).rounding));
    case Opcode::kSub:
      return TW_BINARY(double, double, double, sub(x, y, float_options(o).rounding));
    case Opcode::kMul:
      return TW_BINARY(double, double, double, mul(x, y, float_options(o).rounding));
    case Opcode::kFma:
    case Opcode::kMad:
      return TW_TERNARY(double, double, double, double, fma(x, y, z, float_options(o).rounding));
    case Opcode::kDiv:
      return TW_BINARY(double, double, double, div(x, y, float_options(o).rounding));
    case Opcode::kRcp:
      if (m.has(Flag::kApprox)) return TW_UNARY(double, double, rcp_approx_ftz(x));
      return TW_UNARY(double, double, rcp(x, float_options(o).rounding));
    case Opcode::kRsqrt:
      return TW_UNARY(double, double, rsqrt_approx_ftz(x));
    case Opcode::kSqrt:
      return TW_UNARY(double, double, sqrt(x, float_options(o).rounding));
    case Opcode::kMin:
      return TW_BINARY(double, double, double, min(x, y));
    case Opcode::kMax:
      return TW_BINARY(double, double, double, max(x, y));
    case Opcode::kAbs:
      return TW_UNARY(double, double, abs(x));
    case Opcode::kNeg:
      return TW_UNARY(double, double, neg(x));
    case Opcode::kCopysign:
      return TW_BINARY(double, double, double, copysign(x, y));
    default:
      return nullptr;
  }
}

Half negate(Half a, bool ftz) { return neg(a, ftz); }
Half magnitude(Half a, bool ftz) { return abs(a, ftz); }
Bfloat16 negate(Bfloat16 a, bool) { return neg(a); }
Bfloat16 magnitude(Bfloat16 a, bool) { return abs(a); }

// fma.oob: +0 when an operand is the NaN that a bulk copy fills with.
inline constexpr uint16_t kOutOfBoundsNan = 0x7fff;
template <class T>
T fma_oob(T a, T b, T c, const FloatOptions& options) {
  if (a.bits == kOutOfBoundsNan || b.bits == kOutOfBoundsNan || c.bits == kOutOfBoundsNan)
    return {};
  return fma(a, b, c, options);
}

template <class T>
LaneKernel narrow_kernel(Opcode opcode, const Modifiers& m) {
  switch (opcode) {
    case Opcode::kAdd:
      return TW_BINARY(T, T, T, add(x, y, float_options(o)));
    case Opcode::kSub:
      return TW_BINARY(T, T, T, sub(x, y, float_options(o)));
    case Opcode::kMul:
      return TW_BINARY(T, T, T, mul(x, y, float_options(o)));
    case Opcode::kFma:
      if (m.has(Flag::kOob)) return TW_TERNARY(T, T, T, T, fma_oob(x, y, z, float_options(o)));
      return TW_TERNARY(T, T, T, T, fma(x, y, z, float_options(o)));
    case Opcode::kMin:
      return TW_BINARY(T, T, T, min(x, y, float_options(o)));
    case Opcode::kMax:
      return TW_BINARY(T, T, T, max(x, y, float_options(o)));
    case Opcode::kNeg:
      return TW_UNARY(T, T, negate(x, flushes(o)));
    case Opcode::kAbs:
      return TW_UNARY(T, T, magnitude(x, flushes(o)));
    case Opcode::kEx2:
      return TW_UNARY(T, T, ex2_approx(x));
    case Opcode::kTanh:
      return TW_UNARY(T, T, tanh_approx(x));
    default:
      return nullptr;
  }
}

#define TW_HALVES2(expression) \
  TW_BINARY(uint32_t, uint32_t, uint32_t, map_halves<T>([&](T p, T q) { return expression; }, x, y))
#define TW_HALVES1(expression) \
  TW_UNARY(uint32_t, uint32_t, map_halves<T>([&](T p) { return expression; }, x))

template <class T>
LaneKernel packed_kernel(Opcode opcode, const Modifiers& m) {
  switch (opcode) {
    case Opcode::kAdd:
      return TW_HALVES2(add(p, q, float_options(o)));
    case Opcode::kSub:
      return TW_HALVES2(sub(p, q, float_options(o)));
    case Opcode::kMul:
      return TW_HALVES2(mul(p, q, float_options(o)));
    case Opcode::kFma:
      if (m.has(Flag::kOob)) {
        return TW_TERNARY(
            uint32_t, uint32_t, uint32_t, uint32_t,
            map_halves<T>([&](T p, T q, T r) { return fma_oob(p, q, r, float_options(o)); }, x, y,
                          z));
      }
      return TW_TERNARY(
          uint32_t, uint32_t, uint32_t, uint32_t,
          map_halves<T>([&](T p, T q, T r) { return fma(p, q, r, float_options(o)); }, x, y, z));
    case Opcode::kMin:
      return TW_HALVES2(min(p, q, float_options(o)));
    case Opcode::kMax:
      return TW_HALVES2(max(p, q, float_options(o)));
    case Opcode::kNeg:
      return TW_HALVES1(negate(p, flushes(o)));
    case Opcode::kAbs:
      return TW_HALVES1(magnitude(p, flushes(o)));
    case Opcode::kEx2:
      return TW_HALVES1(ex2_approx(p));
    case Opcode::kTanh:
      return TW_HALVES1(tanh_approx(p));
    default:
      return nullptr;
  }
}

LaneKernel choose(Opcode opcode, const Modifiers& m) {
  switch (m.type()) {
    case Type::kF32:
      if (m.has(Flag::kApprox)) return f32_approximate(opcode);
      return f32_exact(opcode, m);
    case Type::kF64:
      return f64_kernel(opcode, m);
    case Type::kF16:
      return narrow_kernel<Half>(opcode, m);
    case Type::kBf16:
      return narrow_kernel<Bfloat16>(opcode, m);
    case Type::kF16x2:
      return packed_kernel<Half>(opcode, m);
    case Type::kBf16x2:
      return packed_kernel<Bfloat16>(opcode, m);
    default:
      return nullptr;
  }
}

}  // namespace

uint32_t pack_options(const Modifiers& m) {
  uint32_t rounding = 0;
  switch (m.rounding) {
    case ptx::Rounding::kRz:
    case ptx::Rounding::kRzi:
      rounding = static_cast<uint32_t>(Rounding::kTowardZero);
      break;
    case ptx::Rounding::kRm:
    case ptx::Rounding::kRmi:
      rounding = static_cast<uint32_t>(Rounding::kDown);
      break;
    case ptx::Rounding::kRp:
    case ptx::Rounding::kRpi:
      rounding = static_cast<uint32_t>(Rounding::kUp);
      break;
    case ptx::Rounding::kRna:
      rounding = static_cast<uint32_t>(Rounding::kNearestAway);
      break;
    default:
      break;
  }
  const auto bit = [&](Flag flag, int position) { return m.has(flag) ? 1u << position : 0u; };
  return rounding | bit(Flag::kFtz, 3) | bit(Flag::kSat, 4) | bit(Flag::kRelu, 5) |
         bit(Flag::kNanPropagate, 6) | bit(Flag::kXorsign, 7) | bit(Flag::kSatfinite, 8);
}

FloatOptions float_options(uint32_t o) {
  return {.rounding = static_cast<Rounding>(o & 7),
          .ftz = (o & 8) != 0,
          .saturate = (o & 16) != 0,
          .relu = (o & 32) != 0,
          .nan = (o & 64) != 0,
          .xorsign_abs = (o & 128) != 0};
}

bool has_satfinite(uint32_t o) { return (o & 256) != 0; }

KernelChoice float_scalar_kernel(Opcode opcode, const Modifiers& m) {
  return {choose(opcode, m), pack_options(m)};
}

}  // namespace tilewright::emulator
