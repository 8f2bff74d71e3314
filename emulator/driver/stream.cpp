// Streams: creation, queries, callbacks. Work is done by the time a call that enqueues it returns,
// so waiting and querying find nothing outstanding.
#include <algorithm>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

constexpr int kGreatestPriority = -5;

std::shared_ptr<Stream> per_thread_stream(const std::shared_ptr<Context>& context) {
  const std::lock_guard lock(context->mutex);
  std::shared_ptr<Stream>& stream = context->per_thread_streams[std::this_thread::get_id()];
  if (stream == nullptr) {
    stream = std::make_shared<Stream>();
    stream->handle = CU_STREAM_PER_THREAD;
    stream->context = context;
    stream->owner = context->handle;
    stream->id = Driver::instance().next_id++;
  }
  return stream;
}

// The sticky fault of the stream's own context.
CUresult fault_of(const Stream& stream) {
  const std::shared_ptr<Context> context = stream.context.lock();
  return context == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context->fault.load();
}

CUresult resolve(CUstream handle, std::shared_ptr<Stream>* stream, bool breaks_captures) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  Driver& driver = Driver::instance();
  if (handle == CU_STREAM_PER_THREAD) {
    *stream = per_thread_stream(context);
    return CUDA_SUCCESS;
  }
  if (handle != nullptr && handle != CU_STREAM_LEGACY) {
    *stream = driver.streams.find(handle);
    if (*stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    return fault_of(**stream);
  }
  *stream = context->legacy_stream;
  const std::lock_guard lock(driver.graph_mutex);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : driver.captures) {
    if (!capture->blocking || capture->context != context->handle) continue;
    capture->invalidated |= breaks_captures;
    result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  }
  return result;
}

}  // namespace

CUresult find_stream(CUstream handle, std::shared_ptr<Stream>* stream) {
  return resolve(handle, stream, true);
}

CUresult peek_stream(CUstream handle, std::shared_ptr<Stream>* stream) {
  return resolve(handle, stream, false);
}

CUresult cuStreamCreateWithPriority(CUstream* handle, unsigned flags, int priority) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (handle == nullptr || (flags & ~unsigned{CU_STREAM_NON_BLOCKING}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto stream = std::make_shared<Stream>();
  stream->context = context;
  stream->owner = context->handle;
  stream->flags = flags;
  stream->priority = std::clamp(priority, kGreatestPriority, 0);
  stream->id = Driver::instance().next_id++;
  *handle = Driver::instance().streams.add(std::move(stream));
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream* handle, unsigned flags) {
  return driver::cuStreamCreateWithPriority(handle, flags, 0);
}

CUresult cuStreamDestroy_v2(CUstream handle) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  const std::shared_ptr<Stream> stream = driver.streams.remove(handle);
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  leave_capture(stream);
  return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream handle) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(handle, &stream));
  return refuse_in_capture(*stream);
}

CUresult cuStreamQuery(CUstream handle) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(handle, &stream));
  return refuse_in_capture(*stream);
}

CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(peek_stream(handle, &stream));
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = stream->priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream handle, unsigned* flags) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(peek_stream(handle, &stream));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = stream->flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(peek_stream(handle, &stream));
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = stream->id;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(peek_stream(handle, &stream));
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = stream->owner;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(peek_stream(handle, &stream));
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::shared_ptr<Context> context = stream->context.lock();
  if (context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  *device = context->device->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data,
                             unsigned flags) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(handle, &stream));
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  TW_DRIVER_TRY(refuse_in_capture(*stream));
  return enqueue(*stream, StreamCallback{callback, data, handle});
}

CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(handle, &stream));
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return enqueue(*stream, HostCall{function, data});
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr, size_t, unsigned) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(handle, &stream));
  return CUDA_ERROR_INVALID_VALUE;  // valid for managed memory alone
}

CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue* value) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(peek_stream(handle, &stream));
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *value = {};
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = stream->priority;
  return CUDA_SUCCESS;
}

// Hints of caching and placement: taken, without effect on results.
CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID, const CUstreamAttrValue* value) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(peek_stream(handle, &stream));
  return value != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamCopyAttributes(CUstream to, CUstream from) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(peek_stream(to, &stream));
  return peek_stream(from, &stream);
}

}  // namespace tilewright::emulator::driver
