// The one context per device that the runtime API and libraries share.
#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

CUresult find_device(CUdevice ordinal, Device** device) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *device = driver.device(ordinal);
  return *device != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

void end_primary(Device& device) {
  const auto context = Driver::instance().contexts.remove(device.primary_handle);
  if (context != nullptr) end_context(*context);
}

// Retains and resets of all primary contexts, one at a time: making and ending a context takes the
// device's own mutex.
std::mutex& primary_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

CUresult cuDevicePrimaryCtxRetain(CUcontext* handle, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(primary_mutex());
  if (device->primary_handle == nullptr) {
    device->primary_handle = reinterpret_cast<CUcontext>(next_handle_value());
  }
  if (Driver::instance().contexts.find(device->primary_handle) == nullptr) {
    CUcontext made = nullptr;
    TW_DRIVER_TRY(
        make_context(*device, device->primary_flags, 3020, true, device->primary_handle, &made));
  }
  ++device->primary_retained;
  *handle = device->primary_handle;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  const std::lock_guard lock(primary_mutex());
  if (device->primary_retained == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--device->primary_retained == 0) end_primary(*device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  const std::lock_guard lock(primary_mutex());
  if (device->primary_handle == nullptr) return CUDA_SUCCESS;
  const bool active = Driver::instance().contexts.find(device->primary_handle) != nullptr;
  if (active) {
    // All it held goes, and a fault with it; who retained it keeps a working handle.
    end_primary(*device);
    CUcontext made = nullptr;
    TW_DRIVER_TRY(
        make_context(*device, device->primary_flags, 3020, true, device->primary_handle, &made));
  }
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned* flags, int* active) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(primary_mutex());
  *flags = device->primary_flags;
  *active = device->primary_retained > 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned flags) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if ((flags & ~unsigned{CU_CTX_FLAGS_MASK}) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(primary_mutex());
  device->primary_flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return driver::cuDevicePrimaryCtxRelease_v2(device);
}

CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return driver::cuDevicePrimaryCtxReset_v2(device);
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned flags) {
  return driver::cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

}  // namespace tilewright::emulator::driver
