// DriverTable: the CUDA Driver API as function pointers under explicit versioned names, filled from
// libcuda.so.1 by dlopen or from the embedded emulator. Nothing newer than driver 12.0 is required,
// and nothing above this table knows which of the two it speaks to.
#pragma once

#include <cuda.h>

#include <string>
#include <string_view>

#include "tilewright/emulator.h"
#include "tilewright/result.h"

namespace tilewright {

// X(member, exported name, parameters). Signatures stand here, because newer editions of cuda.h
// rename some of these to versions that a 12.0 driver lacks.
// clang-format off
#define TW_DRIVER_SYMBOLS(X)                                                                       \
  X(init, "cuInit", (unsigned int flags))                                                          \
  X(driver_get_version, "cuDriverGetVersion", (int* version))                                      \
  X(get_error_name, "cuGetErrorName", (CUresult error, const char** text))                         \
  X(get_error_string, "cuGetErrorString", (CUresult error, const char** text))                     \
  X(device_get_count, "cuDeviceGetCount", (int* count))                                            \
  X(device_get, "cuDeviceGet", (CUdevice* device, int ordinal))                                    \
  X(device_get_name, "cuDeviceGetName", (char* name, int length, CUdevice device))                 \
  X(device_get_attribute, "cuDeviceGetAttribute",                                                  \
    (int* value, CUdevice_attribute attribute, CUdevice device))                                   \
  X(device_total_mem, "cuDeviceTotalMem_v2", (size_t* bytes, CUdevice device))                     \
  X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", (CUcontext* context, CUdevice device))         \
  X(primary_ctx_release, "cuDevicePrimaryCtxRelease_v2", (CUdevice device))                        \
  X(ctx_get_current, "cuCtxGetCurrent", (CUcontext* context))                                      \
  X(ctx_push_current, "cuCtxPushCurrent_v2", (CUcontext context))                                  \
  X(ctx_pop_current, "cuCtxPopCurrent_v2", (CUcontext* context))                                   \
  X(ctx_synchronize, "cuCtxSynchronize", (void))                                                   \
  X(module_load_data_ex, "cuModuleLoadDataEx",                                                     \
    (CUmodule* module, const void* image, unsigned int count, CUjit_option* options,               \
     void** values))                                                                               \
  X(module_unload, "cuModuleUnload", (CUmodule module))                                            \
  X(module_get_function, "cuModuleGetFunction",                                                    \
    (CUfunction* function, CUmodule module, const char* name))                                     \
  X(func_set_attribute, "cuFuncSetAttribute",                                                      \
    (CUfunction function, CUfunction_attribute attribute, int value))                              \
  X(tensor_map_encode_tiled, "cuTensorMapEncodeTiled",                                             \
    (CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,                   \
     const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,                  \
     const cuuint32_t* element_strides, CUtensorMapInterleave interleave,                          \
     CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2_promotion,                              \
     CUtensorMapFloatOOBfill fill))                                                                \
  X(launch_kernel_ex, "cuLaunchKernelEx",                                                          \
    (const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra))          \
  X(mem_alloc, "cuMemAlloc_v2", (CUdeviceptr* pointer, size_t bytes))                              \
  X(mem_free, "cuMemFree_v2", (CUdeviceptr pointer))                                               \
  X(memcpy_htod, "cuMemcpyHtoD_v2", (CUdeviceptr to, const void* from, size_t bytes))              \
  X(memcpy_dtoh, "cuMemcpyDtoH_v2", (void* to, CUdeviceptr from, size_t bytes))                    \
  X(memset_d8_async, "cuMemsetD8Async",                                                            \
    (CUdeviceptr pointer, unsigned char value, size_t count, CUstream stream))                     \
  X(stream_create, "cuStreamCreate", (CUstream* stream, unsigned int flags))                       \
  X(stream_destroy, "cuStreamDestroy_v2", (CUstream stream))                                       \
  X(stream_synchronize, "cuStreamSynchronize", (CUstream stream))                                  \
  X(event_create, "cuEventCreate", (CUevent* event, unsigned int flags))                           \
  X(event_destroy, "cuEventDestroy_v2", (CUevent event))                                           \
  X(event_record, "cuEventRecord", (CUevent event, CUstream stream))                               \
  X(event_synchronize, "cuEventSynchronize", (CUevent event))                                      \
  X(event_elapsed_time, "cuEventElapsedTime", (float* milliseconds, CUevent start, CUevent end))
// clang-format on

class DriverTable {
 public:
#define TW_DECLARE_MEMBER(member, name, parameters) CUresult(CUDAAPI* member) parameters = nullptr;
  TW_DRIVER_SYMBOLS(TW_DECLARE_MEMBER)
#undef TW_DECLARE_MEMBER

  // Null on a driver without the emulator's extension: the device is real.
  TwEmulatorVersionFn emulator_version = nullptr;
  TwEmulatorSetResourcesFn emulator_set_resources = nullptr;
  TwEmulatorGetLastReportFn emulator_last_report = nullptr;

  // "libcuda.so.1", or the path of a library of that interface. kNoDevice if it cannot be opened;
  // kDriverError names every symbol that it lacks. The library stays loaded.
  static Result<DriverTable> from_library(const std::string& library);
  static Result<DriverTable> from_emulator();

  bool simulated() const { return emulator_version != nullptr; }

  // Success, or an Error that says what was tried and the driver's name and words for `result`
  // (out of memory, device faults and absent devices get their own codes). On a simulated device a
  // fault's report becomes the reasons.
  Status check(CUresult result, std::string_view action) const;
};

}  // namespace tilewright
