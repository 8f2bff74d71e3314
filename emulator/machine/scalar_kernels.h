// Arithmetic that is not hot: each instruction lane by lane through the pure functions. Split by
// family so that each file stays small.
#pragma once

#include "emulator/machine/lane_cells.h"
#include "emulator/machine/lane_kernels.h"

namespace tilewright::emulator {

// Packing of LaneKernel options for float instructions.
uint32_t pack_options(const ptx::Modifiers& modifiers);
FloatOptions float_options(uint32_t options);
bool has_satfinite(uint32_t options);

KernelChoice integer_scalar_kernel(ptx::Opcode opcode, const ptx::Modifiers& modifiers);
KernelChoice float_scalar_kernel(ptx::Opcode opcode, const ptx::Modifiers& modifiers);
KernelChoice convert_scalar_kernel(ptx::Opcode opcode, const ptx::Modifiers& modifiers);

template <class D, class A, class Function>
void lanes1(void* d, const void* a, Function&& function) {
  for (int lane = 0; lane < 32; ++lane) {
    static_cast<Cell<D>*>(d)[lane] =
        put<D>(static_cast<D>(function(get<A>(static_cast<const Cell<A>*>(a)[lane]))));
  }
}
template <class D, class A, class B, class Function>
void lanes2(void* d, const void* a, const void* b, Function&& function) {
  for (int lane = 0; lane < 32; ++lane) {
    static_cast<Cell<D>*>(d)[lane] =
        put<D>(static_cast<D>(function(get<A>(static_cast<const Cell<A>*>(a)[lane]),
                                       get<B>(static_cast<const Cell<B>*>(b)[lane]))));
  }
}
template <class D, class A, class B, class C, class Function>
void lanes3(void* d, const void* a, const void* b, const void* c, Function&& function) {
  for (int lane = 0; lane < 32; ++lane) {
    static_cast<Cell<D>*>(d)[lane] = put<D>(static_cast<D>(function(
        get<A>(static_cast<const Cell<A>*>(a)[lane]), get<B>(static_cast<const Cell<B>*>(b)[lane]),
        get<C>(static_cast<const Cell<C>*>(c)[lane]))));
  }
}

// Kernels from captureless functions of one to three lane values and the options.
template <class D, class A, class Function>
LaneKernel unary(Function) {
  return [](void* d, const void* a, const void*, const void*, uint32_t o) {
    lanes1<D, A>(d, a, [o](A x) { return Function{}(x, o); });
  };
}
template <class D, class A, class B, class Function>
LaneKernel binary(Function) {
  return [](void* d, const void* a, const void* b, const void*, uint32_t o) {
    lanes2<D, A, B>(d, a, b, [o](A x, B y) { return Function{}(x, y, o); });
  };
}
template <class D, class A, class B, class C, class Function>
LaneKernel ternary(Function) {
  return [](void* d, const void* a, const void* b, const void* c, uint32_t o) {
    lanes3<D, A, B, C>(d, a, b, c, [o](A x, B y, C z) { return Function{}(x, y, z, o); });
  };
}

}  // namespace tilewright::emulator
