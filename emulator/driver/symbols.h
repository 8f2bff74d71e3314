// The embedded CUDA driver's front door. runtime/ fills its driver table either from here or from
// dlsym of libcuda.so.1; nothing above that table knows which.
#pragma once

#include <string_view>

namespace tilewright::emulator {

// The entry point with this exact exported name: "cuMemAlloc_v2", "cuLaunchKernel",
// "cuLaunchKernel_ptsz", "cuMemcpyHtoD_v2_ptds", or one of <tilewright/emulator.h>'s, such as
// "twEmulatorVersion". The function has cuda.h's signature for that name and may be called from any
// thread. A name of cuda.h that the emulator does not implement gives a function that answers
// CUDA_ERROR_NOT_SUPPORTED; any other name gives nullptr.
void* emulated_driver_symbol(std::string_view versioned_name);

}  // namespace tilewright::emulator
