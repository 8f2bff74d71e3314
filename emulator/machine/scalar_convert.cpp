// cvt and cvt.pack, lane by lane.
#include "emulator/instructions/convert.h"
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
      return TW_UNARY(To, uint8_t, convert_integer<To>(x, saturates(o)));
    case Type::kS8:
      return TW_UNARY(To, int8_t, convert_integer<To>(x, saturates(o)));
    case Type::kU16:
      return TW_UNARY(To, uint16_t, convert_integer<To>(x, saturates(o)));
    case Type::kS16:
      return TW_UNARY(To, int16_t, convert_integer<To>(x, saturates(o)));
    case Type::kU32:
      return TW_UNARY(To, uint32_t, convert_integer<To>(x, saturates(o)));
    case Type::kS32:
      return TW_UNARY(To, int32_t, convert_integer<To>(x, saturates(o)));
    case Type::kU64:
      return TW_UNARY(To, uint64_t, convert_integer<To>(x, saturates(o)));
    case Type::kS64:
      return TW_UNARY(To, int64_t, convert_integer<To>(x, saturates(o)));
    case Type::kF32:
      return TW_UNARY(To, float, to_integer<To>(x, rounding_of(o), float_options(o).ftz));
    case Type::kF64:
      return TW_UNARY(To, double, to_integer<To>(x, rounding_of(o)));
    case Type::kF16:
      return TW_UNARY(To, Half, to_integer<To>(x, rounding_of(o)));
    case Type::kBf16:
      return TW_UNARY(To, Bfloat16, to_integer<To>(x, rounding_of(o)));
    default:
      return nullptr;
  }
}

// From an integer type to a float type, through the widest integer of its sign.
template <class From, class Wide64>
LaneKernel integer_to_float_kernel(Type to) {
  switch (to) {
    case Type::kF32:
      return TW_UNARY(float, From, clamp_if(integer_to_f32(Wide64{x}, rounding_of(o)), o));
    case Type::kF64:
      return TW_UNARY(double, From, clamp_if(integer_to_f64(Wide64{x}, rounding_of(o)), o));
    case Type::kF16:
      return TW_UNARY(Half, From, clamp_if(integer_to_f16(Wide64{x}, rounding_of(o)), o));
    case Type::kBf16:
      return TW_UNARY(Bfloat16, From, integer_to_bf16(Wide64{x}, rounding_of(o)));
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
      if (integral) return TW_UNARY(float, float, round_to_integral(x, convert_options(o)));
      return TW_UNARY(float, float, convert_same(x, convert_options(o)));
    case Type::kF64:
      return TW_UNARY(double, float, clamp_if(static_cast<double>(flush_if(x, o)), o));
    case Type::kF16:
      return TW_UNARY(Half, float, to_f16(x, convert_options(o)));
    case Type::kBf16:
      return TW_UNARY(Bfloat16, float, to_bf16(x, convert_options(o)));
    case Type::kTf32:
      return TW_UNARY(uint32_t, float, to_tf32(x, convert_options(o)));
    case Type::kF16x2:
      return TW_BINARY(uint32_t, float, float, to_f16x2(x, y, convert_options(o)));
    case Type::kBf16x2:
      return TW_BINARY(uint32_t, float, float, to_bf16x2(x, y, convert_options(o)));
    case Type::kE4m3x2:
      return TW_BINARY(uint16_t, float, float, to_e4m3x2(x, y, relu_of(o)));
    case Type::kE5m2x2:
      return TW_BINARY(uint16_t, float, float, to_e5m2x2(x, y, relu_of(o)));
    default:
      return nullptr;
  }
}

LaneKernel from_f64(Type to, bool integral) {
  switch (to) {
    case Type::kF32:
      return TW_UNARY(float, double, to_f32(x, convert_options(o)));
    case Type::kF16:
      return TW_UNARY(Half, double, to_f16(x, convert_options(o)));
    case Type::kBf16:
      return TW_UNARY(Bfloat16, double, to_bf16(x, convert_options(o)));
    case Type::kF64:
      if (integral)
        return TW_UNARY(double, double, clamp_if(round_to_integral(x, rounding_of(o)), o));
      return TW_UNARY(double, double, clamp_if(x, o));
    default:
      return nullptr;
  }
}

LaneKernel from_f16(Type to, bool integral) {
  switch (to) {
    case Type::kF32:
      return TW_UNARY(float, Half, clamp_if(flush_if(to_float(x), o), o));
    case Type::kF64:
      return TW_UNARY(double, Half, clamp_if(static_cast<double>(to_float(x)), o));
    case Type::kBf16:
      return TW_UNARY(Bfloat16, Half, to_bf16(to_float(x), convert_options(o)));
    case Type::kF16:
      if (integral) return TW_UNARY(Half, Half, clamp_if(round_to_integral(x, rounding_of(o)), o));
      return TW_UNARY(Half, Half, clamp_if(float_options(o).ftz ? flush(x) : x, o));
    default:
      return nullptr;
  }
}

LaneKernel from_bf16(Type to) {
  switch (to) {
    case Type::kF32:
      return TW_UNARY(float, Bfloat16, clamp_if(flush_if(to_float(x), o), o));
    case Type::kF64:
      return TW_UNARY(double, Bfloat16, static_cast<double>(to_float(x)));
    case Type::kF16:
      return TW_UNARY(Half, Bfloat16, to_f16(to_float(x), convert_options(o)));
    case Type::kBf16:
      // An integral value of 8 significant bits is exact in bf16.
      return TW_UNARY(Bfloat16, Bfloat16,
                      to_bf16(round_to_integral(to_float(x), convert_options(o))));
    default:
      return nullptr;
  }
}

LaneKernel packed_fp8(Type to, Type from) {
  if (from == Type::kF16x2) {
    if (to == Type::kE4m3x2) return TW_UNARY(uint16_t, uint32_t, f16x2_to_e4m3x2(x, relu_of(o)));
    if (to == Type::kE5m2x2) return TW_UNARY(uint16_t, uint32_t, f16x2_to_e5m2x2(x, relu_of(o)));
  }
  if (to == Type::kF16x2) {
    if (from == Type::kE4m3x2) return TW_UNARY(uint32_t, uint16_t, e4m3x2_to_f16x2(x, relu_of(o)));
    if (from == Type::kE5m2x2) return TW_UNARY(uint32_t, uint16_t, e5m2x2_to_f16x2(x, relu_of(o)));
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
      return {TW_BINARY(uint32_t, int32_t, int32_t, convert_pack<uint16_t>(x, y))};
    case Type::kS16:
      return {TW_BINARY(uint32_t, int32_t, int32_t, convert_pack<int16_t>(x, y))};
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
