// Device queries.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "emulator/driver/device_attributes.h"
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

// Each emulated device has a bus of its own.
unsigned bus_of(const Device& device) { return 0xe0u + static_cast<unsigned>(device.ordinal); }

}  // namespace

CUresult cuDeviceGetCount(int* count) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(driver.devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  Device* found = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &found));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int length, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (name == nullptr || length <= 0) return CUDA_ERROR_INVALID_VALUE;
  const std::string text = fmt::format("{} (emulated)", device->profile.marketing);
  const size_t count = std::min(text.size(), static_cast<size_t>(length) - 1);
  std::memcpy(name, text.data(), count);
  name[count] = '\0';
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (value == nullptr || attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *value = attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID
               ? static_cast<int>(bus_of(*device))
               : device_attribute(device->profile, attribute);
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (bytes == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *bytes = static_cast<size_t>(device->profile.memory_bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (uuid == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // "tilewright-" and the profile: the same in every process.
  const std::string text = fmt::format("tw-{:<13}", device->profile.name);
  std::memcpy(uuid->bytes, text.data(), sizeof(uuid->bytes));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice ordinal) {
  return driver::cuDeviceGetUuid_v2(uuid, ordinal);
}

CUresult cuDeviceGetLuid(char*, unsigned*, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  return CUDA_ERROR_NOT_SUPPORTED;  // LUIDs belong to Windows
}

CUresult cuDeviceComputeCapability(int* major, int* minor, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (major == nullptr || minor == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *major = device->profile.arch.compute_major;
  *minor = device->profile.arch.compute_minor;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop* properties, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto get = [&](CUdevice_attribute attribute) {
    return device_attribute(device->profile, attribute);
  };
  *properties = {.maxThreadsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
                 .maxThreadsDim = {get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
                                   get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                                   get(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z)},
                 .maxGridSize = {get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
                                 get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                                 get(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)},
                 .sharedMemPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
                 .totalConstantMemory = get(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
                 .SIMDWidth = get(CU_DEVICE_ATTRIBUTE_WARP_SIZE),
                 .memPitch = get(CU_DEVICE_ATTRIBUTE_MAX_PITCH),
                 .regsPerBlock = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
                 .clockRate = get(CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
                 .textureAlign = get(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT)};
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int length, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (text == nullptr || length < 13) return CUDA_ERROR_INVALID_VALUE;
  std::snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0", bus_of(*device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice* ordinal, const char* text) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (ordinal == nullptr || text == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned bus = 0;
  if (std::sscanf(text, "%*4x:%2x:00.0", &bus) != 1 && std::sscanf(text, "%2x:00.0", &bus) != 1) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto& device : driver.devices) {
    if (bus_of(*device) != bus) continue;
    *ordinal = device->ordinal;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice from, CUdevice to) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(from, &device));
  TW_DRIVER_TRY(find_device(to, &device));
  if (can == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *can = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int* value, CUdevice_P2PAttribute attribute, CUdevice from,
                                 CUdevice to) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(from, &device));
  TW_DRIVER_TRY(find_device(to, &device));
  if (value == nullptr || attribute < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK || from == to) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *value = 0;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int* supported, CUexecAffinityType type, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (supported == nullptr || type != CU_EXEC_AFFINITY_TYPE_SM_COUNT) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *supported = 0;
  return CUDA_SUCCESS;
}

}  // namespace tilewright::emulator::driver
