// Functions: attributes and parameters.
#include <algorithm>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

constexpr int kMaxThreadsPerBlock = 1024;

// What a function may use in all until its dynamic bytes are set.
constexpr int kDefaultSharedBytes = 48 * 1024;

int registers_of(const Function& function) {
  return function.registers > 0 ? function.registers
                                : static_cast<int>(function.attributes().registers);
}

// What launch bounds and registers allow: registers come 256 per warp, a quarter to each of the
// SM's four parts.
int max_threads(const Function& function) {
  const KernelAttributes& attributes = function.attributes();
  int threads = kMaxThreadsPerBlock;
  for (const auto& bound : {attributes.max_threads, attributes.required_threads}) {
    if (bound[0] == 0) continue;
    const uint64_t product = uint64_t{bound[0]} * std::max(bound[1], 1u) * std::max(bound[2], 1u);
    threads = static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(threads), product));
  }
  const int registers = registers_of(function);
  if (registers > 0) {
    const int per_warp = (registers * 32 + 255) / 256 * 256;
    const int warps = 4 * (function.module->loaded->arch().registers_per_sm / 4 / per_warp);
    threads = std::min(threads, warps * 32);
  }
  return threads;
}

int required_cluster(const Function& function, int dimension) {
  const auto compiled = function.attributes().required_cluster[static_cast<size_t>(dimension)];
  return compiled != 0 ? static_cast<int>(compiled)
                       : function.required_cluster[static_cast<size_t>(dimension)];
}

CUresult set_required_cluster(Function& function, int dimension, int value) {
  if (function.attributes().required_cluster[0] != 0) return CUDA_ERROR_NOT_PERMITTED;
  if (value < 0 || value > 16) return CUDA_ERROR_INVALID_VALUE;
  function.required_cluster[static_cast<size_t>(dimension)] = value;
  return CUDA_SUCCESS;
}

CUresult parameter_info(const Function& function, size_t index, size_t* offset, size_t* bytes) {
  const auto& parameters = function.attributes().parameters;
  if (offset == nullptr || index >= parameters.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = parameters[index].offset;
  if (bytes != nullptr) *bytes = parameters[index].bytes;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult get_function_attribute(Function& function, CUfunction_attribute attribute, int* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const KernelAttributes& attributes = function.attributes();
  const std::lock_guard lock(function.mutex);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = max_threads(function);
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(attributes.static_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(function.local_bytes >= 0 ? function.local_bytes
                                                          : int64_t{attributes.local_bytes});
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = registers_of(function);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = function.module->ptx_version;
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = function.module->loaded->arch().compute_capability();
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value =
          function.max_dynamic_shared >= 0
              ? function.max_dynamic_shared
              : std::max(0, kDefaultSharedBytes - static_cast<int>(attributes.static_shared_bytes));
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = function.carveout;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *value = attributes.explicit_cluster ? 1 : 0;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      *value = required_cluster(function, attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH);
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = function.non_portable_cluster ? 1 : 0;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *value = function.cluster_policy;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult set_function_attribute(Function& function, CUfunction_attribute attribute, int value) {
  const std::lock_guard lock(function.mutex);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const int64_t most = function.module->loaded->arch().shared_bytes_per_block -
                           int64_t{function.attributes().static_shared_bytes};
      if (value < 0 || value > most) {
        return refuse(CUDA_ERROR_INVALID_VALUE,
                      "{} bytes of dynamic shared memory asked for '{}', at most {} possible",
                      value, function.attributes().name, most);
      }
      function.max_dynamic_shared = value;
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      function.carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
      return set_required_cluster(function, attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
                                  value);
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      if (value != 0 && value != 1) return CUDA_ERROR_INVALID_VALUE;
      function.non_portable_cluster = value == 1;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      if (value < CU_CLUSTER_SCHEDULING_POLICY_DEFAULT ||
          value > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING) {
        return CUDA_ERROR_INVALID_VALUE;
      }
      function.cluster_policy = value;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction handle) {
  const KeepHeld keep;
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find_function(handle, &function));
  return get_function_attribute(*function, attribute, value);
}

CUresult cuFuncSetAttribute(CUfunction handle, CUfunction_attribute attribute, int value) {
  const KeepHeld keep;
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find_function(handle, &function));
  return set_function_attribute(*function, attribute, value);
}

CUresult cuFuncSetCacheConfig(CUfunction handle, CUfunc_cache config) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find_function(handle, &function));
  const bool known = config >= CU_FUNC_CACHE_PREFER_NONE && config <= CU_FUNC_CACHE_PREFER_EQUAL;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetSharedMemConfig(CUfunction handle, CUsharedconfig config) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find_function(handle, &function));
  const bool known = config >= CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE &&
                     config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE;
  return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetModule(CUmodule* module, CUfunction handle) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find_function(handle, &function));
  if (module == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *module = function->module->handle;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char** name, CUfunction handle) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find_function(handle, &function));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = function->attributes().name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction handle, size_t index, size_t* offset, size_t* bytes) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find_function(handle, &function));
  return parameter_info(*function, index, offset, bytes);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* state, CUfunction handle) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find_function(handle, &function));
  if (state == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction handle) {
  std::shared_ptr<Function> function;
  return find_function(handle, &function);
}

}  // namespace tilewright::emulator::driver
