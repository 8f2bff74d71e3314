// Device memory: allocation, freeing, queries, stream-ordered allocation.
#include <algorithm>

#include "core/check.h"
#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

constexpr size_t kPitchAlignment = 512;

// What all allocations of the device may sum to now.
uint64_t capacity_of(const Device& device) {
  const uint64_t cap = Driver::instance().settings().memory_cap_bytes;
  const auto size = static_cast<uint64_t>(device.profile.memory_bytes);
  return cap == 0 ? size : std::min(cap, size);
}

// Takes the allocation that starts at `address` out of the books and frees it.
CUresult free_at(Device& device, CUdeviceptr address) {
  Driver& driver = Driver::instance();
  {
    const std::lock_guard lock(driver.allocation_mutex);
    const auto it = driver.device_allocations.find({&device, address});
    if (it == driver.device_allocations.end() || it->second.module_variable) {
      return refuse(CUDA_ERROR_INVALID_VALUE, "free of {:#x}: {}", address,
                    describe_address(device, address));
    }
    driver.device_allocations.erase(it);
  }
  const Status released = device.memory->release(address);
  return released.ok() ? CUDA_SUCCESS
                       : refuse(CUDA_ERROR_INVALID_VALUE, "{}", released.error().message);
}

}  // namespace

std::string foreign_owner(const Device& device, CUdeviceptr address) {
  const Device* owner = Driver::instance().device_of(address);
  if (owner == nullptr || owner == &device) return {};
  return fmt::format("an address of device {} ({}), used on device {}", owner->ordinal,
                     owner->profile.name, device.ordinal);
}

std::string describe_address(const Device& device, CUdeviceptr address) {
  std::string foreign = foreign_owner(device, address);
  return foreign.empty() ? device.memory->describe(address) : foreign;
}

CUresult allocate(Context& context, size_t bytes, CUmemoryPool pool, CUdeviceptr* address) {
  Driver& driver = Driver::instance();
  Device& device = *context.device;
  const uint64_t capacity = capacity_of(device);
  const std::lock_guard lock(driver.allocation_mutex);
  const uint64_t used = device.memory->allocated_bytes();
  if (bytes > capacity || used > capacity - bytes) {
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, "{} bytes asked, {} of {} in use", bytes, used,
                  capacity);
  }
  auto made = device.memory->allocate(bytes);
  if (!made.ok()) return refuse(CUDA_ERROR_OUT_OF_MEMORY, "{}", made.error().message);
  *address = *made;
  driver.device_allocations[{&device, *made}] = {
      .bytes = bytes, .owner = context.handle, .pool = pool, .id = driver.next_id++};
  return CUDA_SUCCESS;
}

void release_allocations_of(CUcontext owner) {
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.allocation_mutex);
  for (auto it = driver.device_allocations.begin(); it != driver.device_allocations.end();) {
    if (it->second.owner != owner || it->second.module_variable) {
      ++it;
      continue;
    }
    const Status released = it->first.first->memory->release(it->first.second);
    TW_CHECK(released.ok(), "releasing a context's memory: {}", released.error().message);
    it = driver.device_allocations.erase(it);
  }
  std::erase_if(driver.host_allocations,
                [&](const auto& entry) { return entry.second.owner == owner; });
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  TW_DRIVER_TRY(check_unsafe_call());
  return allocate(*context, bytes, nullptr, address);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (address == 0) return CUDA_SUCCESS;
  TW_DRIVER_TRY(check_unsafe_call());
  const std::lock_guard lock(context->device->execution);
  return free_at(*context->device, address);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr* address, size_t* pitch, size_t width, size_t height,
                            unsigned element_bytes) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  const bool element_ok = element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
  if (address == nullptr || pitch == nullptr || width == 0 || height == 0 || !element_ok) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t row = 0, bytes = 0;
  if (__builtin_add_overflow(width, kPitchAlignment - 1, &row)) return CUDA_ERROR_OUT_OF_MEMORY;
  row -= row % kPitchAlignment;
  if (__builtin_mul_overflow(row, height, &bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  TW_DRIVER_TRY(check_unsafe_call());
  TW_DRIVER_TRY(allocate(*context, bytes, nullptr, address));
  *pitch = row;
  return CUDA_SUCCESS;
}

// Managed memory is one address for host and device; the emulator's device addresses are not host
// addresses, and CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY says so.
CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (address == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  return refuse(CUDA_ERROR_NOT_SUPPORTED, "managed memory: the emulated device has none");
}

CUresult cuMemAdvise(CUdeviceptr, size_t, CUmem_advise, CUdevice) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  return CUDA_ERROR_INVALID_VALUE;  // valid for managed memory alone
}

CUresult cuMemAdvise_v2(CUdeviceptr, size_t, CUmem_advise, CUmemLocation) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPrefetchAsync(CUdeviceptr, size_t, CUdevice, CUstream) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr, size_t, CUmemLocation, unsigned, CUstream) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (free == nullptr || total == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t capacity = capacity_of(*context->device);
  const uint64_t used = context->device->memory->allocated_bytes();
  *total = capacity;
  *free = used < capacity ? capacity - used : 0;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  const std::optional<Allocation> found = context->device->memory->find(address);
  if (!found) {
    return refuse(CUDA_ERROR_NOT_FOUND, "{:#x}: {}", address,
                  describe_address(*context->device, address));
  }
  if (base != nullptr) *base = found->base;
  if (bytes != nullptr) *bytes = found->bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool handle,
                                 CUstream stream_handle) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(stream_handle, &stream));
  const std::shared_ptr<MemoryPool> pool = Driver::instance().pools.find(handle);
  if (address == nullptr || bytes == 0 || pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (pool->device != context->device) return CUDA_ERROR_INVALID_VALUE;
  if (is_capturing(*stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return allocate(*context, bytes, handle, address);
}

CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream stream) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  CUmemoryPool pool = nullptr;
  {
    const std::lock_guard lock(context->device->mutex);
    pool = context->device->current_pool;
  }
  return driver::cuMemAllocFromPoolAsync(address, bytes, pool, stream);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream_handle) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(stream_handle, &stream));
  if (address == 0) return CUDA_ERROR_INVALID_VALUE;
  if (is_capturing(*stream)) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard lock(context->device->execution);
  return free_at(*context->device, address);
}

}  // namespace tilewright::emulator::driver
