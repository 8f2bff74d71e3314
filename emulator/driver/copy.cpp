// cuMemcpy*: every form is a case of one three-dimensional region; execute.cpp moves the bytes.
#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

enum class Wait { kNo, kYes };

CUresult copy_on(CUstream stream_handle, const CUDA_MEMCPY3D& region, Wait wait,
                 Device* source = nullptr, Device* target = nullptr) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(stream_handle, &stream));
  if (wait == Wait::kYes) TW_DRIVER_TRY(check_unsafe_call());
  return enqueue(*stream, Copy{.region = region,
                               .source_device = source != nullptr ? source : context->device,
                               .target_device = target != nullptr ? target : context->device});
}

void set_source(CUDA_MEMCPY3D& region, CUmemorytype type, CUdeviceptr address) {
  region.srcMemoryType = type;
  region.srcDevice = address;
}
void set_target(CUDA_MEMCPY3D& region, CUmemorytype type, CUdeviceptr address) {
  region.dstMemoryType = type;
  region.dstDevice = address;
}

CUDA_MEMCPY3D row(size_t bytes) {
  CUDA_MEMCPY3D region{};
  region.WidthInBytes = bytes;
  region.Height = region.Depth = 1;
  return region;
}

CUDA_MEMCPY3D host_to_device(CUdeviceptr to, const void* from, size_t bytes) {
  CUDA_MEMCPY3D region = row(bytes);
  region.srcMemoryType = CU_MEMORYTYPE_HOST;
  region.srcHost = from;
  set_target(region, CU_MEMORYTYPE_DEVICE, to);
  return region;
}

CUDA_MEMCPY3D device_to_host(void* to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D region = row(bytes);
  region.dstMemoryType = CU_MEMORYTYPE_HOST;
  region.dstHost = to;
  set_source(region, CU_MEMORYTYPE_DEVICE, from);
  return region;
}

CUDA_MEMCPY3D between(CUmemorytype type, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  CUDA_MEMCPY3D region = row(bytes);
  set_source(region, type, from);
  set_target(region, type, to);
  return region;
}

CUDA_MEMCPY3D widen(const CUDA_MEMCPY2D& flat) {
  CUDA_MEMCPY3D region = row(flat.WidthInBytes);
  region.Height = flat.Height;
  region.srcXInBytes = flat.srcXInBytes;
  region.srcY = flat.srcY;
  region.srcMemoryType = flat.srcMemoryType;
  region.srcHost = flat.srcHost;
  region.srcDevice = flat.srcDevice;
  region.srcPitch = flat.srcPitch;
  region.dstXInBytes = flat.dstXInBytes;
  region.dstY = flat.dstY;
  region.dstMemoryType = flat.dstMemoryType;
  region.dstHost = flat.dstHost;
  region.dstDevice = flat.dstDevice;
  region.dstPitch = flat.dstPitch;
  return region;
}

CUresult copy_peers(CUstream stream, CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                    CUcontext from_context, size_t bytes, Wait wait) {
  const auto target = Driver::instance().contexts.find(to_context);
  const auto source = Driver::instance().contexts.find(from_context);
  if (target == nullptr || source == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  return copy_on(stream, between(CU_MEMORYTYPE_DEVICE, to, from, bytes), wait, source->device,
                 target->device);
}

}  // namespace

CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_on(nullptr, between(CU_MEMORYTYPE_UNIFIED, to, from, bytes), Wait::kYes);
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_on(stream, between(CU_MEMORYTYPE_UNIFIED, to, from, bytes), Wait::kNo);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void* from, size_t bytes) {
  return copy_on(nullptr, host_to_device(to, from, bytes), Wait::kYes);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return copy_on(stream, host_to_device(to, from, bytes), Wait::kNo);
}

CUresult cuMemcpyDtoH_v2(void* to, CUdeviceptr from, size_t bytes) {
  return copy_on(nullptr, device_to_host(to, from, bytes), Wait::kYes);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_on(stream, device_to_host(to, from, bytes), Wait::kNo);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return copy_on(nullptr, between(CU_MEMORYTYPE_DEVICE, to, from, bytes), Wait::kYes);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return copy_on(stream, between(CU_MEMORYTYPE_DEVICE, to, from, bytes), Wait::kNo);
}

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t bytes) {
  return copy_peers(nullptr, to, to_context, from, from_context, bytes, Wait::kYes);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t bytes, CUstream stream) {
  return copy_peers(stream, to, to_context, from, from_context, bytes, Wait::kNo);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D* region) {
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_on(nullptr, widen(*region), Wait::kYes);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D* region) {
  return driver::cuMemcpy2D_v2(region);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D* region, CUstream stream) {
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_on(stream, widen(*region), Wait::kNo);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D* region) {
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_on(nullptr, *region, Wait::kYes);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D* region, CUstream stream) {
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return copy_on(stream, *region, Wait::kNo);
}

}  // namespace tilewright::emulator::driver
