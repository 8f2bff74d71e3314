// Declares every implemented entry point in the emulator's own namespace, with exactly the type
// that cuda.h gives the name. The linker names are prefixed, so that the emulator can live in a
// process beside a real libcuda; only the stand-alone library exports the cu* names
// (libcuda_exports.cmake).
#pragma once

#include "emulator/driver/cuda_api.h"

namespace tilewright::emulator::driver {

#define TW_SYMBOL(name, version) decltype(::name) name __asm__("tw_emulated_" #name);
#include "emulator/driver/symbols.def"
#undef TW_SYMBOL

// Stands for every name of cuda.h that is not implemented. It reads no argument, so a caller may
// pass any (the C calling conventions of Linux let the caller clean up).
CUresult not_supported() __asm__("tw_emulated_not_supported");

}  // namespace tilewright::emulator::driver
