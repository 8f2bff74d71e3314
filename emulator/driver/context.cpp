// Contexts: creation, the current one, limits and settings.
#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

constexpr unsigned kApiVersion = 3020;  // what contexts of cuCtxCreate_v2 and later report
constexpr unsigned kKnownFlags = CU_CTX_FLAGS_MASK;

bool flags_valid(unsigned flags) {
  const unsigned schedule = flags & CU_CTX_SCHED_MASK;
  const bool one_schedule = (schedule & (schedule - 1)) == 0;
  return (flags & ~kKnownFlags) == 0 && one_schedule;
}

CUresult create(CUcontext* context, unsigned flags, CUdevice ordinal) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (context == nullptr || !flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  Device* device = driver.device(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  TW_DRIVER_TRY(make_context(*device, flags, kApiVersion, false, nullptr, context));
  push_current(*context);
  return CUDA_SUCCESS;
}

// What the context's limits are before anybody sets them.
std::map<CUlimit, size_t> default_limits() {
  return {{CU_LIMIT_STACK_SIZE, 1024},
          {CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20},
          {CU_LIMIT_MALLOC_HEAP_SIZE, 8 << 20},
          {CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2},
          {CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, 2048},
          {CU_LIMIT_MAX_L2_FETCH_GRANULARITY, 64},
          {CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0}};
}

// The named context, or the current one if null.
CUresult context_or_current(CUcontext handle, std::shared_ptr<Context>* context) {
  if (handle == nullptr) return current_context(context);
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *context = Driver::instance().contexts.find(handle);
  return *context == nullptr ? CUDA_ERROR_INVALID_CONTEXT : (*context)->fault.load();
}

}  // namespace

CUresult make_context(Device& device, unsigned flags, unsigned api_version, bool primary,
                      CUcontext fixed_handle, CUcontext* handle) {
  Driver& driver = Driver::instance();
  {
    const std::lock_guard lock(device.mutex);
    if (device.memory == nullptr) {
      const auto ordinal = static_cast<uint64_t>(device.ordinal);
      auto memory = DeviceMemory::create(device.profile.memory_bytes, 0,
                                         kGlobalBase + ordinal * kDeviceStride);
      if (!memory.ok()) return refuse(CUDA_ERROR_OUT_OF_MEMORY, "{}", memory.error().message);
      device.memory = *std::move(memory);
      device.has_memory = true;
    }
  }
  auto context = std::make_shared<Context>();
  context->device = &device;
  context->flags = flags;
  context->api_version = api_version;
  context->is_primary = primary;
  context->id = driver.next_id++;
  context->limits = default_limits();
  context->legacy_stream = std::make_shared<Stream>();
  context->legacy_stream->context = context;
  context->legacy_stream->id = driver.next_id++;
  if (fixed_handle != nullptr) {
    driver.contexts.add_as(fixed_handle, context);
  } else {
    driver.contexts.add(context);
  }
  context->legacy_stream->owner = context->handle;
  *handle = context->handle;
  return CUDA_SUCCESS;
}

void end_context(Context& context) {
  Driver& driver = Driver::instance();
  finish_held(*context.device);
  context.alive = false;
  const auto owned = [&](const auto& object) { return object.owner == context.handle; };
  for (const auto& module : driver.modules.remove_if(owned)) unload_module(*module);
  driver.streams.remove_if(owned);
  driver.events.remove_if(owned);
  release_allocations_of(context.handle);
}

CUresult cuCtxCreate_v2(CUcontext* context, unsigned flags, CUdevice device) {
  return create(context, flags, device);
}

CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam* affinity, int count,
                        unsigned flags, CUdevice device) {
  if (count < 0 || (affinity == nullptr && count != 0)) return CUDA_ERROR_INVALID_VALUE;
  if (count != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(context, flags, device);
}

CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params, unsigned flags,
                        CUdevice device) {
  if (params != nullptr && params->numExecAffinityParams != 0) {
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  }
  if (params != nullptr && params->cigParams != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return create(context, flags, device);
}

CUresult cuCtxDestroy_v2(CUcontext handle) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  std::shared_ptr<Context> context = driver.contexts.find(handle);
  if (context == nullptr || context->is_primary) return CUDA_ERROR_INVALID_CONTEXT;
  context = driver.contexts.remove(handle);
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  end_context(*context);
  if (current_handle() == handle) pop_current();
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (Driver::instance().contexts.find(handle) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  push_current(handle);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext* handle) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (current_handle() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const CUcontext popped = pop_current();
  if (handle != nullptr) *handle = popped;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext handle) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle != nullptr && Driver::instance().contexts.find(handle) == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  set_current(handle);
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* handle) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *handle = current_handle();
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(context_or_current(handle, &context));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice* device) { return driver::cuCtxGetDevice_v2(device, nullptr); }

CUresult cuCtxSynchronize_v2(CUcontext handle) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(context_or_current(handle, &context));
  return check_unsafe_call();
}

CUresult cuCtxSynchronize() { return driver::cuCtxSynchronize_v2(nullptr); }

CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(context->mutex);
  const auto it = context->limits.find(limit);
  if (it == context->limits.end()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = it->second;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  const std::lock_guard lock(context->mutex);
  const auto it = context->limits.find(limit);
  if (it == context->limits.end()) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  it->second = value;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext handle, unsigned* version) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(context_or_current(handle, &context));
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = context->api_version;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned* flags) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(context->mutex);
  *flags = context->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned flags) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (!flags_valid(flags)) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(context->mutex);
  context->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(context_or_current(handle, &context));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = context->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(context->mutex);
  *config = context->cache_config;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(context->mutex);
  context->cache_config = config;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig* config) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(context->mutex);
  *config = context->shared_config;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE ||
      config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;  // banks have been four bytes wide since 5.x; a driver ignores the wish
}

CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache() {
  std::shared_ptr<Context> context;
  return current_context(&context);
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (Driver::instance().contexts.find(peer) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (Driver::instance().contexts.find(peer) == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

}  // namespace tilewright::emulator::driver
