// cuMemset*: every form is a two-dimensional fill; execute.cpp writes the bytes.
#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

CUresult fill_on(CUstream stream_handle, const CUDA_MEMSET_NODE_PARAMS& params, bool wait) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(stream_handle, &stream));
  if (wait) TW_DRIVER_TRY(check_unsafe_call());
  return enqueue(*stream, Fill{params});
}

CUDA_MEMSET_NODE_PARAMS plane(CUdeviceptr to, size_t pitch, unsigned value, unsigned element_bytes,
                              size_t width, size_t height) {
  return {.dst = to,
          .pitch = pitch,
          .value = value,
          .elementSize = element_bytes,
          .width = width,
          .height = height};
}

}  // namespace

CUresult cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count) {
  return fill_on(nullptr, plane(to, 0, value, 1, count, 1), true);
}

CUresult cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count) {
  return fill_on(nullptr, plane(to, 0, value, 2, count, 1), true);
}

CUresult cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count) {
  return fill_on(nullptr, plane(to, 0, value, 4, count, 1), true);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                         size_t height) {
  return fill_on(nullptr, plane(to, pitch, value, 1, width, height), true);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                          size_t height) {
  return fill_on(nullptr, plane(to, pitch, value, 2, width, height), true);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                          size_t height) {
  return fill_on(nullptr, plane(to, pitch, value, 4, width, height), true);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  return fill_on(stream, plane(to, 0, value, 1, count, 1), false);
}

CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  return fill_on(stream, plane(to, 0, value, 2, count, 1), false);
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  return fill_on(stream, plane(to, 0, value, 4, count, 1), false);
}

CUresult cuMemsetD2D8Async(CUdeviceptr to, size_t pitch, unsigned char value, size_t width,
                           size_t height, CUstream stream) {
  return fill_on(stream, plane(to, pitch, value, 1, width, height), false);
}

CUresult cuMemsetD2D16Async(CUdeviceptr to, size_t pitch, unsigned short value, size_t width,
                            size_t height, CUstream stream) {
  return fill_on(stream, plane(to, pitch, value, 2, width, height), false);
}

CUresult cuMemsetD2D32Async(CUdeviceptr to, size_t pitch, unsigned value, size_t width,
                            size_t height, CUstream stream) {
  return fill_on(stream, plane(to, pitch, value, 4, width, height), false);
}

}  // namespace tilewright::emulator::driver
