// Page-locked host memory, and what is known of a pointer. Kernels cannot reach host memory here:
// CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY is 0.
#include <cstdlib>
#include <new>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

// Page-locked memory comes in pages; programs rely on the alignment.
constexpr std::align_val_t kPage{4096};

void free_pages(std::byte* bytes) { ::operator delete(bytes, kPage); }
void keep(std::byte*) {}

// The host allocation that holds the pointer; allocation_mutex held.
const std::pair<const void* const, HostAllocation>* find_host(const void* pointer) {
  const auto& all = Driver::instance().host_allocations;
  auto it = all.upper_bound(pointer);
  if (it == all.begin()) return nullptr;
  --it;
  const auto offset = reinterpret_cast<uintptr_t>(pointer) - reinterpret_cast<uintptr_t>(it->first);
  return offset < it->second.size ? &*it : nullptr;
}

struct PointerFacts {
  bool known = false;
  bool on_device = false;
  CUcontext context = nullptr;
  CUdeviceptr base = 0;
  uint64_t bytes = 0;
  uint64_t id = 0;
  CUmemoryPool pool = nullptr;
  int ordinal = 0;
};

// A device pointer is known on every device.
PointerFacts facts_of(Device& current, CUdeviceptr pointer) {
  Driver& driver = Driver::instance();
  Device* owner = driver.device_of(pointer);
  Device& device = owner != nullptr ? *owner : current;
  const std::lock_guard lock(driver.allocation_mutex);
  PointerFacts facts;
  facts.ordinal = device.ordinal;
  if (const std::optional<Allocation> found = device.memory->find(pointer)) {
    facts.known = facts.on_device = true;
    facts.base = found->base;
    facts.bytes = found->bytes;
    const auto it = driver.device_allocations.find({&device, found->base});
    if (it != driver.device_allocations.end()) {
      facts.context = it->second.owner;
      facts.id = it->second.id;
      facts.pool = it->second.pool;
    }
  } else if (const auto* host = find_host(reinterpret_cast<const void*>(pointer))) {
    facts.known = true;
    facts.context = host->second.owner;
    facts.base = reinterpret_cast<CUdeviceptr>(host->first);
    facts.bytes = host->second.size;
  }
  return facts;
}

template <class T>
CUresult put(void* out, T value) {
  *static_cast<T*>(out) = value;
  return CUDA_SUCCESS;
}

CUresult attribute_of(const PointerFacts& facts, CUdeviceptr pointer, CUpointer_attribute attribute,
                      void* out) {
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return put(out, facts.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return put<unsigned>(out, facts.on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return facts.on_device ? put(out, pointer) : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return facts.on_device ? CUDA_ERROR_INVALID_VALUE
                             : put(out, reinterpret_cast<void*>(pointer));
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return put<unsigned long long>(out, facts.id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return put(out, facts.ordinal);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return put(out, facts.base);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return put<size_t>(out, facts.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return put<int>(out, facts.on_device ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return put(out, facts.pool);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return put<int>(out, 0);
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

}  // namespace

CUresult cuMemHostAlloc(void** pointer, size_t bytes, unsigned flags) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  constexpr unsigned kKnown =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (pointer == nullptr || bytes == 0 || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  TW_DRIVER_TRY(check_unsafe_call());
  auto* made = static_cast<std::byte*>(::operator new(bytes, kPage, std::nothrow));
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.allocation_mutex);
  driver.host_allocations.emplace(
      made, HostAllocation{{made, free_pages}, bytes, flags, context->handle});
  *pointer = made;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocHost_v2(void** pointer, size_t bytes) {
  return driver::cuMemHostAlloc(pointer, bytes, 0);
}

CUresult cuMemFreeHost(void* pointer) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (pointer == nullptr) return CUDA_SUCCESS;
  TW_DRIVER_TRY(check_unsafe_call());
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.allocation_mutex);
  const auto it = driver.host_allocations.find(pointer);
  if (it == driver.host_allocations.end() || it->second.bytes.get_deleter() != free_pages) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "{} is no page-locked allocation", pointer);
  }
  driver.host_allocations.erase(it);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned flags) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.allocation_mutex);
  const void* last = static_cast<const std::byte*>(pointer) + (bytes - 1);
  if (find_host(pointer) != nullptr || find_host(last) != nullptr) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  driver.host_allocations.emplace(
      pointer,
      HostAllocation{{static_cast<std::byte*>(pointer), keep}, bytes, flags, context->handle});
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void* pointer) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.allocation_mutex);
  const auto it = driver.host_allocations.find(pointer);
  if (it == driver.host_allocations.end() || it->second.bytes.get_deleter() != keep) {
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  }
  driver.host_allocations.erase(it);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* address, void* pointer, unsigned flags) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (address == nullptr || pointer == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.allocation_mutex);
  if (find_host(pointer) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return refuse(CUDA_ERROR_NOT_SUPPORTED, "the emulated device cannot map host memory");
}

CUresult cuMemHostGetFlags(unsigned* flags, void* pointer) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.allocation_mutex);
  const auto* found = find_host(pointer);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = found->second.flags;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* out, CUpointer_attribute attribute, CUdeviceptr pointer) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const PointerFacts facts = facts_of(*context->device, pointer);
  if (!facts.known) return CUDA_ERROR_INVALID_VALUE;
  return attribute_of(facts, pointer, attribute, out);
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** out,
                                CUdeviceptr pointer) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (attributes == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const PointerFacts facts = facts_of(*context->device, pointer);
  for (unsigned i = 0; i < count; ++i) {
    if (out[i] == nullptr) return CUDA_ERROR_INVALID_VALUE;
    // A pointer that the driver does not know is no error here: its attributes are zero.
    if (!facts.known && attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE) {
      *static_cast<unsigned*>(out[i]) = 0;
      continue;
    }
    const CUresult result = attribute_of(facts, pointer, attributes[i], out[i]);
    if (result == CUDA_ERROR_NOT_SUPPORTED) return result;
    if (result != CUDA_SUCCESS) *static_cast<void**>(out[i]) = nullptr;
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                               CUdeviceptr pointer) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return facts_of(*context->device, pointer).on_device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace tilewright::emulator::driver
