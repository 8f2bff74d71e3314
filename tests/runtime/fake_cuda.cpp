#include "tests/runtime/fake_cuda.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/driver_table.h"

#define TW_DECLARE_FUNCTION(member, name, parameters) \
  extern "C" CUresult fake_##member parameters __asm__(name);
TW_DRIVER_SYMBOLS(TW_DECLARE_FUNCTION)
#undef TW_DECLARE_FUNCTION

namespace {

FakeCuda state;
CUcontext saved = nullptr;  // a stack of depth one is all the tests need

CUcontext primary() { return reinterpret_cast<CUcontext>(uintptr_t{0x1000}); }

}  // namespace

extern "C" FakeCuda* fake_cuda_control() { return &state; }

CUresult fake_driver_get_version(int* version) {
  *version = state.driver_version;
  return CUDA_SUCCESS;
}
CUresult fake_get_error_name(CUresult, const char** text) {
  *text = "FAKE_ERROR";
  return CUDA_SUCCESS;
}
CUresult fake_get_error_string(CUresult, const char** text) {
  *text = "a fake error";
  return CUDA_SUCCESS;
}
CUresult fake_device_get_count(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult fake_device_get_name(char* name, int length, CUdevice) {
  std::snprintf(name, static_cast<size_t>(length), "Fake GPU");
  return CUDA_SUCCESS;
}
CUresult fake_device_get_attribute(int* value, CUdevice_attribute attribute, CUdevice) {
  // An A100's.
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 8;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 108;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
      *value = 2048;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
      *value = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
      *value = 65536;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
      *value = 164 * 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 163 * 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
      *value = 1024;
      break;
    default:
      *value = 0;
  }
  return CUDA_SUCCESS;
}
CUresult fake_primary_ctx_retain(CUcontext* context, CUdevice) {
  ++state.contexts_retained;
  *context = primary();
  return CUDA_SUCCESS;
}
CUresult fake_primary_ctx_release(CUdevice) {
  ++state.contexts_released;
  return CUDA_SUCCESS;
}
CUresult fake_ctx_get_current(CUcontext* context) {
  *context = state.current;
  return CUDA_SUCCESS;
}
CUresult fake_ctx_push_current(CUcontext context) {
  saved = std::exchange(state.current, context);
  return CUDA_SUCCESS;
}
CUresult fake_ctx_pop_current(CUcontext* context) {
  *context = std::exchange(state.current, saved);
  return CUDA_SUCCESS;
}
CUresult fake_ctx_synchronize() { return state.sync_result; }
CUresult fake_module_load_data_ex(CUmodule* module, const void* image, unsigned int, CUjit_option*,
                                  void**) {
  if (state.current != primary()) return CUDA_ERROR_INVALID_CONTEXT;
  const bool is_cubin = std::memcmp(image,
                                    "\x7f"
                                    "ELF",
                                    4) == 0;
  ++(is_cubin ? state.cubins_loaded : state.ptx_loaded);
  *module = reinterpret_cast<CUmodule>(uintptr_t{0x2000});
  return is_cubin ? state.cubin_result : state.ptx_result;
}
CUresult fake_module_unload(CUmodule) {
  ++state.modules_unloaded;
  return CUDA_SUCCESS;
}
CUresult fake_func_set_attribute(CUfunction, CUfunction_attribute, int value) {
  state.largest_shared_bytes = value;
  return CUDA_SUCCESS;
}
CUresult fake_mem_alloc(CUdeviceptr* pointer, size_t) {
  *pointer = 0x3000;
  return state.alloc_result;
}
