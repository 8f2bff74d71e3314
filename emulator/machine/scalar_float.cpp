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

bool flushes(uint32_t o) { return float_options(o).ftz; }

LaneKernel f32_approximate(Opcode opcode) {
  switch (opcode) {
    case Opcode::kRcp:
      return unary<float, float>([](float x, uint32_t o) { return rcp_approx(x, flushes(o)); });
    case Opcode::kSqrt:
      return unary<float, float>([](float x, uint32_t o) { return sqrt_approx(x, flushes(o)); });
    case Opcode::kRsqrt:
      return unary<float, float>([](float x, uint32_t o) { return rsqrt_approx(x, flushes(o)); });
    case Opcode::kSin:
      return unary<float, float>([](float x, uint32_t o) { return sin_approx(x, flushes(o)); });
    case Opcode::kCos:
      return unary<float, float>([](float x, uint32_t o) { return cos_approx(x, flushes(o)); });
    case Opcode::kLg2:
      return unary<float, float>([](float x, uint32_t o) { return lg2_approx(x, flushes(o)); });
    case Opcode::kEx2:
      return unary<float, float>([](float x, uint32_t o) { return ex2_approx(x, flushes(o)); });
    case Opcode::kTanh:
      return unary<float, float>([](float x, uint32_t) { return tanh_approx(x); });
    case Opcode::kDiv:
      return binary<float, float, float>(
          [](float x, float y, uint32_t o) { return div_approx(x, y, flushes(o)); });
    default:
      return nullptr;
  }
}

LaneKernel f32_exact(Opcode opcode, const Modifiers& m) {
  switch (opcode) {
    case Opcode::kAdd:
      return binary<float, float, float>(
          [](float x, float y, uint32_t o) { return add(x, y, float_options(o)); });
    case Opcode::kSub:
      return binary<float, float, float>(
          [](float x, float y, uint32_t o) { return sub(x, y, float_options(o)); });
    case Opcode::kMul:
      return binary<float, float, float>(
          [](float x, float y, uint32_t o) { return mul(x, y, float_options(o)); });
    case Opcode::kFma:
    case Opcode::kMad:
      return ternary<float, float, float, float>(
          [](float x, float y, float z, uint32_t o) { return fma(x, y, z, float_options(o)); });
    case Opcode::kDiv:
      if (m.has(Flag::kFull))
        return binary<float, float, float>(
            [](float x, float y, uint32_t o) { return div_full(x, y, flushes(o)); });
      return binary<float, float, float>(
          [](float x, float y, uint32_t o) { return div(x, y, float_options(o)); });
    case Opcode::kRcp:
      return unary<float, float>([](float x, uint32_t o) { return rcp(x, float_options(o)); });
    case Opcode::kSqrt:
      return unary<float, float>([](float x, uint32_t o) { return sqrt(x, float_options(o)); });
    case Opcode::kMin:
      return binary<float, float, float>(
          [](float x, float y, uint32_t o) { return min(x, y, float_options(o)); });
    case Opcode::kMax:
      return binary<float, float, float>(
          [](float x, float y, uint32_t o) { return max(x, y, float_options(o)); });
    case Opcode::kAbs:
      return unary<float, float>([](float x, uint32_t o) { return abs(x, flushes(o)); });
    case Opcode::kNeg:
      return unary<float, float>([](float x, uint32_t o) { return neg(x, flushes(o)); });
    case Opcode::kCopysign:
      return binary<float, float, float>([](float x, float y, uint32_t) { return copysign(x, y); });
    default:
      return nullptr;
  }
}

LaneKernel f64_kernel(Opcode opcode, const Modifiers& m) {
  switch (opcode) {
    case Opcode::kAdd:
      return binary<double, double, double>(
          [](double x, double y, uint32_t o) { return add(x, y, float_options(o).rounding); });
    case Opcode::kSub:
      return binary<double, double, double>(
          [](double x, double y, uint32_t o) { return sub(x, y, float_options(o).rounding); });
    case Opcode::kMul:
      return binary<double, double, double>(
          [](double x, double y, uint32_t o) { return mul(x, y, float_options(o).rounding); });
    case Opcode::kFma:
    case Opcode::kMad:
      return ternary<double, double, double, double>([](double x, double y, double z, uint32_t o) {
        return fma(x, y, z, float_options(o).rounding);
      });
    case Opcode::kDiv:
      return binary<double, double, double>(
          [](double x, double y, uint32_t o) { return div(x, y, float_options(o).rounding); });
    case Opcode::kRcp:
      if (m.has(Flag::kApprox))
        return unary<double, double>([](double x, uint32_t) { return rcp_approx_ftz(x); });
      return unary<double, double>(
          [](double x, uint32_t o) { return rcp(x, float_options(o).rounding); });
    case Opcode::kRsqrt:
      if (!m.has(Flag::kFtz))
        return unary<double, double>([](double x, uint32_t) { return rsqrt_approx(x); });
      return unary<double, double>([](double x, uint32_t) { return rsqrt_approx_ftz(x); });
    case Opcode::kSqrt:
      return unary<double, double>(
          [](double x, uint32_t o) { return sqrt(x, float_options(o).rounding); });
    case Opcode::kMin:
      return binary<double, double, double>([](double x, double y, uint32_t) { return min(x, y); });
    case Opcode::kMax:
      return binary<double, double, double>([](double x, double y, uint32_t) { return max(x, y); });
    case Opcode::kAbs:
      return unary<double, double>([](double x, uint32_t) { return abs(x); });
    case Opcode::kNeg:
      return unary<double, double>([](double x, uint32_t) { return neg(x); });
    case Opcode::kCopysign:
      return binary<double, double, double>(
          [](double x, double y, uint32_t) { return copysign(x, y); });
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
      return binary<T, T, T>([](T x, T y, uint32_t o) { return add(x, y, float_options(o)); });
    case Opcode::kSub:
      return binary<T, T, T>([](T x, T y, uint32_t o) { return sub(x, y, float_options(o)); });
    case Opcode::kMul:
      return binary<T, T, T>([](T x, T y, uint32_t o) { return mul(x, y, float_options(o)); });
    case Opcode::kFma:
      if (m.has(Flag::kOob))
        return ternary<T, T, T, T>(
            [](T x, T y, T z, uint32_t o) { return fma_oob(x, y, z, float_options(o)); });
      return ternary<T, T, T, T>(
          [](T x, T y, T z, uint32_t o) { return fma(x, y, z, float_options(o)); });
    case Opcode::kMin:
      return binary<T, T, T>([](T x, T y, uint32_t o) { return min(x, y, float_options(o)); });
    case Opcode::kMax:
      return binary<T, T, T>([](T x, T y, uint32_t o) { return max(x, y, float_options(o)); });
    case Opcode::kNeg:
      return unary<T, T>([](T x, uint32_t o) { return negate(x, flushes(o)); });
    case Opcode::kAbs:
      return unary<T, T>([](T x, uint32_t o) { return magnitude(x, flushes(o)); });
    case Opcode::kEx2:
      return unary<T, T>([](T x, uint32_t) { return ex2_approx(x); });
    case Opcode::kTanh:
      return unary<T, T>([](T x, uint32_t) { return tanh_approx(x); });
    default:
      return nullptr;
  }
}

// The same for both halves of a packed pair.
template <class T, class Function>
LaneKernel halves1(Function) {
  return unary<uint32_t, uint32_t>([](uint32_t x, uint32_t o) {
    return map_halves<T>([o](T p) { return Function{}(p, o); }, x);
  });
}
template <class T, class Function>
LaneKernel halves2(Function) {
  return binary<uint32_t, uint32_t, uint32_t>([](uint32_t x, uint32_t y, uint32_t o) {
    return map_halves<T>([o](T p, T q) { return Function{}(p, q, o); }, x, y);
  });
}

template <class T>
LaneKernel packed_kernel(Opcode opcode, const Modifiers& m) {
  switch (opcode) {
    case Opcode::kAdd:
      return halves2<T>([](T p, T q, uint32_t o) { return add(p, q, float_options(o)); });
    case Opcode::kSub:
      return halves2<T>([](T p, T q, uint32_t o) { return sub(p, q, float_options(o)); });
    case Opcode::kMul:
      return halves2<T>([](T p, T q, uint32_t o) { return mul(p, q, float_options(o)); });
    case Opcode::kFma:
      if (m.has(Flag::kOob)) {
        return ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
            [](uint32_t x, uint32_t y, uint32_t z, uint32_t o) {
              return map_halves<T>(
                  [&](T p, T q, T r) { return fma_oob(p, q, r, float_options(o)); }, x, y, z);
            });
      }
      return ternary<uint32_t, uint32_t, uint32_t, uint32_t>(
          [](uint32_t x, uint32_t y, uint32_t z, uint32_t o) {
            return map_halves<T>([&](T p, T q, T r) { return fma(p, q, r, float_options(o)); }, x,
                                 y, z);
          });
    case Opcode::kMin:
      return halves2<T>([](T p, T q, uint32_t o) { return min(p, q, float_options(o)); });
    case Opcode::kMax:
      return halves2<T>([](T p, T q, uint32_t o) { return max(p, q, float_options(o)); });
    case Opcode::kNeg:
      return halves1<T>([](T p, uint32_t o) { return negate(p, flushes(o)); });
    case Opcode::kAbs:
      return halves1<T>([](T p, uint32_t o) { return magnitude(p, flushes(o)); });
    case Opcode::kEx2:
      return halves1<T>([](T p, uint32_t) { return ex2_approx(p); });
    case Opcode::kTanh:
      return halves1<T>([](T p, uint32_t) { return tanh_approx(p); });
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
