// cvt and cvt.pack, lane by lane.
#include "emulator/instructions/convert.h"
#include "emulator/machine/scalar_kernels.h"

namespace tilewright::emulator {
namespace {

using ptx::Flag;
using ptx::Modifiers;
using ptx::Opcode;
using ptx::Type;

ConvertOptions convert_options(uint32_t o) {
  const FloatOptions options = float_options(o);
  return {.rounding = options.rounding,
          .ftz = options.ftz,
          .saturate = options.saturate,
          .satfinite = has_satfinite(o),
          .relu = options.relu};
}
Rounding rounding_of(uint32_t o) { return float_options(o).rounding; }
bool relu_of(uint32_t o) { return float_options(o).relu; }
bool saturates(uint32_t o) { return float_options(o).saturate; }

// Float results in [0, 1] with .sat, for the forms whose function has no such option.
float clamp_if(float a, uint32_t o) { return saturates(o) ? saturate(a) : a; }
double clamp_if(double a, uint32_t o) {
  if (!saturates(o)) return a;
  return a > 0.0 ? (a < 1.0 ? a : 1.0) : 0.0;
}
Half clamp_if(Half a, uint32_t o) { return saturates(o) ? to_f16(saturate(to_float(a))) : a; }
float flush_if(float a, uint32_t o) { return float_options(o).ftz ? flush(a) : a; }

template <class To>
LaneKernel to_integer_kernel(Type from) {
  switch (from) {
    case Type::kU8:
      return unary<To, uint8_t>(
          [](uint8_t x, uint32_t o) { return convert_integer<To>(x, saturates(o)); });
    case Type::kS8:
      return unary<To, int8_t>(
          [](int8_t x, uint32_t o) { return convert_integer<To>(x, saturates(o)); });
    case Type::kU16:
      return unary<To, uint16_t>(
          [](uint16_t x, uint32_t o) { return convert_integer<To>(x, saturates(o)); });
    case Type::kS16:
      return unary<To, int16_t>(
          [](int16_t x, uint32_t o) { return convert_integer<To>(x, saturates(o)); });
    case Type::kU32:
      return unary<To, uint32_t>(
          [](uint32_t x, uint32_t o) { return convert_integer<To>(x, saturates(o)); });
    case Type::kS32:
      return unary<To, int32_t>(
          [](int32_t x, uint32_t o) { return convert_integer<To>(x, saturates(o)); });
    case Type::kU64:
      return unary<To, uint64_t>(
          [](uint64_t x, uint32_t o) { return convert_integer<To>(x, saturates(o)); });
    case Type::kS64:
      return unary<To, int64_t>(
          [](int64_t x, uint32_t o) { return convert_integer<To>(x, saturates(o)); });
    case Type::kF32:
      return unary<To, float>([](float x, uint32_t o) {
        return to_integer<To>(x, rounding_of(o), float_options(o).ftz);
      });
    case Type::kF64:
      return unary<To, double>(
          [](double x, uint32_t o) { return to_integer<To>(x, rounding_of(o)); });
    case Type::kF16:
      return unary<To, Half>([](Half x, uint32_t o) { return to_integer<To>(x, rounding_of(o)); });
    case Type::kBf16:
      return unary<To, Bfloat16>(
          [](Bfloat16 x, uint32_t o) { return to_integer<To>(x, rounding_of(o)); });
    default:
      return nullptr;
  }
}

// From an integer type to a float type, through the widest integer of its sign.
template <class From, class Wide64>
LaneKernel integer_to_float_kernel(Type to) {
  switch (to) {
    case Type::kF32:
      return unary<float, From>([](From x, uint32_t o) {
        return clamp_if(integer_to_f32(Wide64{x}, rounding_of(o)), o);
      });
    case Type::kF64:
      return unary<double, From>([](From x, uint32_t o) {
        return clamp_if(integer_to_f64(Wide64{x}, rounding_of(o)), o);
      });
    case Type::kF16:
      return unary<Half, From>([](From x, uint32_t o) {
        return clamp_if(integer_to_f16(Wide64{x}, rounding_of(o)), o);
      });
    case Type::kBf16:
      return unary<Bfloat16, From>(
          [](From x, uint32_t o) { return integer_to_bf16(Wide64{x}, rounding_of(o)); });
    default:
      return nullptr;
  }
}

LaneKernel from_integer(Type to, Type from) {
  switch (from) {
    case Type::kU8:
      return integer_to_float_kernel<uint8_t, uint64_t>(to);
    case Type::kS8:
      return integer_to_float_kernel<int8_t, int64_t>(to);
    case Type::kU16:
      return integer_to_float_kernel<uint16_t, uint64_t>(to);
    case Type::kS16:
      return integer_to_float_kernel<int16_t, int64_t>(to);
    case Type::kU32:
      return integer_to_float_kernel<uint32_t, uint64_t>(to);
    case Type::kS32:
      return integer_to_float_kernel<int32_t, int64_t>(to);
    case Type::kU64:
      return integer_to_float_kernel<uint64_t, uint64_t>(to);
    case Type::kS64:
      return integer_to_float_kernel<int64_t, int64_t>(to);
    default:
      return nullptr;
  }
}

LaneKernel from_f32(Type to, bool integral) {
  switch (to) {
    case Type::kF32:
      if (integral)
        return unary<float, float>(
            [](float x, uint32_t o) { return round_to_integral(x, convert_options(o)); });
      return unary<float, float>(
          [](float x, uint32_t o) { return convert_same(x, convert_options(o)); });
    case Type::kF64:
      return unary<double, float>(
          [](float x, uint32_t o) { return clamp_if(static_cast<double>(flush_if(x, o)), o); });
    case Type::kF16:
      return unary<Half, float>([](float x, uint32_t o) { return to_f16(x, convert_options(o)); });
    case Type::kBf16:
      return unary<Bfloat16, float>(
          [](float x, uint32_t o) { return to_bf16(x, convert_options(o)); });
    case Type::kTf32:
      return unary<uint32_t, float>(
          [](float x, uint32_t o) { return to_tf32(x, convert_options(o)); });
    case Type::kF16x2:
      return binary<uint32_t, float, float>(
          [](float x, float y, uint32_t o) { return to_f16x2(x, y, convert_options(o)); });
    case Type::kBf16x2:
      return binary<uint32_t, float, float>(
          [](float x, float y, uint32_t o) { return to_bf16x2(x, y, convert_options(o)); });
    case Type::kE4m3x2:
      return binary<uint16_t, float, float>(
          [](float x, float y, uint32_t o) { return to_e4m3x2(x, y, relu_of(o)); });
    case Type::kE5m2x2:
      return binary<uint16_t, float, float>(
          [](float x, float y, uint32_t o) { return to_e5m2x2(x, y, relu_of(o)); });
    default:
      return nullptr;
  }
}

LaneKernel from_f64(Type to, bool integral) {
  switch (to) {
    case Type::kF32:
      return unary<float, double>(
          [](double x, uint32_t o) { return to_f32(x, convert_options(o)); });
    case Type::kF16:
      return unary<Half, double>(
          [](double x, uint32_t o) { return to_f16(x, convert_options(o)); });
    case Type::kBf16:
      return unary<Bfloat16, double>(
          [](double x, uint32_t o) { return to_bf16(x, convert_options(o)); });
    case Type::kF64:
      if (integral)
        return unary<double, double>(
            [](double x, uint32_t o) { return clamp_if(round_to_integral(x, rounding_of(o)), o); });
      return unary<double, double>([](double x, uint32_t o) { return clamp_if(x, o); });
    default:
      return nullptr;
  }
}

LaneKernel from_f16(Type to, bool integral) {
  switch (to) {
    case Type::kF32:
      return unary<float, Half>(
          [](Half x, uint32_t o) { return clamp_if(flush_if(to_float(x), o), o); });
    case Type::kF64:
      return unary<double, Half>(
          [](Half x, uint32_t o) { return clamp_if(static_cast<double>(to_float(x)), o); });
    case Type::kBf16:
      return unary<Bfloat16, Half>(
          [](Half x, uint32_t o) { return to_bf16(to_float(x), convert_options(o)); });
    case Type::kF16:
      if (integral)
        return unary<Half, Half>(
            [](Half x, uint32_t o) { return clamp_if(round_to_integral(x, rounding_of(o)), o); });
      return unary<Half, Half>(
          [](Half x, uint32_t o) { return clamp_if(float_options(o).ftz ? flush(x) : x, o); });
    default:
      return nullptr;
  }
}

LaneKernel from_bf16(Type to) {
  switch (to) {
    case Type::kF32:
      return unary<float, Bfloat16>(
          [](Bfloat16 x, uint32_t o) { return clamp_if(flush_if(to_float(x), o), o); });
    case Type::kF64:
      return unary<double, Bfloat16>(
          [](Bfloat16 x, uint32_t) { return static_cast<double>(to_float(x)); });
    case Type::kF16:
      return unary<Half, Bfloat16>(
          [](Bfloat16 x, uint32_t o) { return to_f16(to_float(x), convert_options(o)); });
    case Type::kBf16:
      // An integral value of 8 significant bits is exact in bf16.
      return unary<Bfloat16, Bfloat16>([](Bfloat16 x, uint32_t o) {
        return to_bf16(round_to_integral(to_float(x), convert_options(o)));
      });
    default:
      return nullptr;
  }
}

LaneKernel packed_fp8(Type to, Type from) {
  if (from == Type::kF16x2) {
    if (to == Type::kE4m3x2)
      return unary<uint16_t, uint32_t>(
          [](uint32_t x, uint32_t o) { return f16x2_to_e4m3x2(x, relu_of(o)); });
    if (to == Type::kE5m2x2)
      return unary<uint16_t, uint32_t>(
          [](uint32_t x, uint32_t o) { return f16x2_to_e5m2x2(x, relu_of(o)); });
  }
  if (to == Type::kF16x2) {
    if (from == Type::kE4m3x2)
      return unary<uint32_t, uint16_t>(
          [](uint16_t x, uint32_t o) { return e4m3x2_to_f16x2(x, relu_of(o)); });
    if (from == Type::kE5m2x2)
      return unary<uint32_t, uint16_t>(
          [](uint16_t x, uint32_t o) { return e5m2x2_to_f16x2(x, relu_of(o)); });
  }
  return nullptr;
}

LaneKernel to_integer_type(Type to, Type from) {
  switch (to) {
    case Type::kU8:
      return to_integer_kernel<uint8_t>(from);
    case Type::kS8:
      return to_integer_kernel<int8_t>(from);
    case Type::kU16:
      return to_integer_kernel<uint16_t>(from);
    case Type::kS16:
      return to_integer_kernel<int16_t>(from);
    case Type::kU32:
      return to_integer_kernel<uint32_t>(from);
    case Type::kS32:
      return to_integer_kernel<int32_t>(from);
    case Type::kU64:
      return to_integer_kernel<uint64_t>(from);
    case Type::kS64:
      return to_integer_kernel<int64_t>(from);
    default:
      return nullptr;
  }
}

LaneKernel choose(const Modifiers& m) {
  const Type to = m.types[0];
  const Type from = m.types[1];
  const bool integral = m.rounding == ptx::Rounding::kRni || m.rounding == ptx::Rounding::kRzi ||
                        m.rounding == ptx::Rounding::kRmi || m.rounding == ptx::Rounding::kRpi;
  if (LaneKernel kernel = to_integer_type(to, from)) return kernel;
  if (LaneKernel kernel = from_integer(to, from)) return kernel;
  if (LaneKernel kernel = packed_fp8(to, from)) return kernel;
  switch (from) {
    case Type::kF32:
      return from_f32(to, integral);
    case Type::kF64:
      return from_f64(to, integral);
    case Type::kF16:
      return from_f16(to, integral);
    case Type::kBf16:
      return from_bf16(to);
    default:
      return nullptr;
  }
}

KernelChoice pack_kernel(const Modifiers& m) {
  switch (m.type()) {
    case Type::kU16:
      return {binary<uint32_t, int32_t, int32_t>(
          [](int32_t x, int32_t y, uint32_t) { return convert_pack<uint16_t>(x, y); })};
    case Type::kS16:
      return {binary<uint32_t, int32_t, int32_t>(
          [](int32_t x, int32_t y, uint32_t) { return convert_pack<int16_t>(x, y); })};
    case Type::kU8:
      return {[](void* d, const void* a, const void* b, const void* c, uint32_t) {
        lanes3<uint32_t, int32_t, int32_t, uint32_t>(
            d, a, b, c,
            [](int32_t x, int32_t y, uint32_t z) { return convert_pack<uint8_t>(x, y, z); });
      }};
    case Type::kS8:
      return {[](void* d, const void* a, const void* b, const void* c, uint32_t) {
        lanes3<uint32_t, int32_t, int32_t, uint32_t>(
            d, a, b, c,
            [](int32_t x, int32_t y, uint32_t z) { return convert_pack<int8_t>(x, y, z); });
      }};
    default:
      return {};
  }
}

}  // namespace

KernelChoice convert_scalar_kernel(Opcode opcode, const Modifiers& m) {
  if (opcode == Opcode::kCvtPack) return pack_kernel(m);
  return {choose(m), pack_options(m)};
}

}  // namespace tilewright::emulator
