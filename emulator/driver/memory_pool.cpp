// Memory pools, to the extent that stream-ordered allocation needs: they keep attributes and
// nothing in reserve, since every free takes effect at once.
#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

CUresult find_device(CUdevice ordinal, Device** device) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *device = Driver::instance().device(ordinal);
  return *device != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult find_pool(CUmemoryPool handle, std::shared_ptr<MemoryPool>* pool) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *pool = Driver::instance().pools.find(handle);
  return *pool != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

bool is_64_bit(CUmemPool_attribute attribute) {
  return attribute >= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
}

bool is_known(CUmemPool_attribute attribute) {
  return attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
         attribute <= CU_MEMPOOL_ATTR_USED_MEM_HIGH;
}

uint64_t used_bytes(CUmemoryPool handle) {
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.allocation_mutex);
  uint64_t bytes = 0;
  for (const auto& [key, allocation] : driver.device_allocations) {
    if (allocation.pool == handle) bytes += allocation.bytes;
  }
  return bytes;
}

}  // namespace

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *pool = device->default_pool;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice ordinal) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(device->mutex);
  *pool = device->current_pool;
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(ordinal, &device));
  std::shared_ptr<MemoryPool> pool;
  TW_DRIVER_TRY(find_pool(handle, &pool));
  if (pool->device != device) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(device->mutex);
  device->current_pool = handle;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool* handle, const CUmemPoolProps* properties) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (properties->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
  Device* device = nullptr;
  TW_DRIVER_TRY(find_device(properties->location.id, &device));
  auto pool = std::make_shared<MemoryPool>();
  pool->device = device;
  *handle = Driver::instance().pools.add(std::move(pool));
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  std::shared_ptr<MemoryPool> pool;
  TW_DRIVER_TRY(find_pool(handle, &pool));
  if (pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  Driver::instance().pools.remove(handle);
  const std::lock_guard lock(pool->device->mutex);
  if (pool->device->current_pool == handle) pool->device->current_pool = pool->device->default_pool;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  std::shared_ptr<MemoryPool> pool;
  TW_DRIVER_TRY(find_pool(handle, &pool));
  if (value == nullptr || !is_known(attribute)) return CUDA_ERROR_INVALID_VALUE;
  uint64_t answer = 0;
  if (attribute == CU_MEMPOOL_ATTR_USED_MEM_CURRENT ||
      attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) {
    answer = used_bytes(handle);
  } else {
    const std::lock_guard lock(pool->mutex);
    const auto it = pool->attributes.find(attribute);
    answer = it != pool->attributes.end() ? it->second : is_64_bit(attribute) ? 0 : 1;
  }
  if (is_64_bit(attribute)) {
    *static_cast<cuuint64_t*>(value) = answer;
  } else {
    *static_cast<int*>(value) = static_cast<int>(answer);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void* value) {
  std::shared_ptr<MemoryPool> pool;
  TW_DRIVER_TRY(find_pool(handle, &pool));
  const bool settable = attribute <= CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
  if (value == nullptr || !is_known(attribute) || !settable) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(pool->mutex);
  pool->attributes[attribute] = is_64_bit(attribute)
                                    ? *static_cast<const cuuint64_t*>(value)
                                    : static_cast<uint64_t>(*static_cast<const int*>(value) != 0);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
  std::shared_ptr<MemoryPool> pool;
  return find_pool(handle, &pool);
}

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* access, size_t count) {
  std::shared_ptr<MemoryPool> pool;
  TW_DRIVER_TRY(find_pool(handle, &pool));
  if (access == nullptr && count != 0) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const bool own = access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                     access[i].location.id == pool->device->ordinal;
    if (own && access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_DEVICE;
    if (!own) return CUDA_ERROR_INVALID_DEVICE;  // no device reaches another one's memory
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                            CUmemLocation* location) {
  std::shared_ptr<MemoryPool> pool;
  TW_DRIVER_TRY(find_pool(handle, &pool));
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool own =
      location->type == CU_MEM_LOCATION_TYPE_DEVICE && location->id == pool->device->ordinal;
  *flags = own ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

}  // namespace tilewright::emulator::driver
