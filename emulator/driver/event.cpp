// Events. Work is complete when it has been enqueued, so an event is always complete; in a capture
// it carries dependencies from one stream to another.
#include <algorithm>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

CUresult find_event(CUevent handle, std::shared_ptr<Event>* event) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *event = driver.events.find(handle);
  if (*event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto context = driver.contexts.find((*event)->owner);
  return context == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context->fault.load();
}

// An event recorded in a capture has no state of its own; asking for it breaks the capture.
CUresult check_complete(CUevent handle) {
  std::shared_ptr<Event> event;
  TW_DRIVER_TRY(find_event(handle, &event));
  const std::lock_guard lock(Driver::instance().graph_mutex);
  if (const std::shared_ptr<Capture> capture = event->capture.lock()) {
    capture->invalidated = true;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return CUDA_SUCCESS;
}

void add_dependencies(Stream& stream, const Event& event) {
  for (const CUgraphNode node : event.captured_nodes) {
    if (std::find(stream.last_nodes.begin(), stream.last_nodes.end(), node) ==
        stream.last_nodes.end()) {
      stream.last_nodes.push_back(node);
    }
  }
}

}  // namespace

CUresult cuEventCreate(CUevent* handle, unsigned flags) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  constexpr unsigned kKnown =
      CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;
  if (handle == nullptr || (flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CU_EVENT_INTERPROCESS) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  auto event = std::make_shared<Event>();
  event->owner = context->handle;
  event->flags = flags;
  *handle = Driver::instance().events.add(std::move(event));
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent handle) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  return Driver::instance().events.remove(handle) != nullptr ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecordWithFlags(CUevent handle, CUstream stream_handle, unsigned flags) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(stream_handle, &stream));
  std::shared_ptr<Event> event;
  TW_DRIVER_TRY(find_event(handle, &event));
  if ((flags & ~unsigned{CU_EVENT_RECORD_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (event->owner != stream->owner) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(Driver::instance().graph_mutex);
  event->capture.reset();
  event->captured_nodes.clear();
  if (stream->capture == nullptr) return CUDA_SUCCESS;
  if (stream->capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (flags == CU_EVENT_RECORD_EXTERNAL) {
    // A node that will complete the event; a complete event needs no work.
    stream->last_nodes = {add_node(stream->capture->graph, stream->context.lock(), Nothing{},
                                   std::move(stream->last_nodes))};
    return CUDA_SUCCESS;
  }
  event->capture = stream->capture;
  event->captured_nodes = stream->last_nodes;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return driver::cuEventRecordWithFlags(event, stream, CU_EVENT_RECORD_DEFAULT);
}

CUresult cuEventQuery(CUevent event) { return check_complete(event); }

CUresult cuEventSynchronize(CUevent event) { return check_complete(event); }

CUresult cuStreamWaitEvent(CUstream stream_handle, CUevent handle, unsigned flags) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(stream_handle, &stream));
  std::shared_ptr<Event> event;
  TW_DRIVER_TRY(find_event(handle, &event));
  if ((flags & ~unsigned{CU_EVENT_WAIT_EXTERNAL}) != 0) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(Driver::instance().graph_mutex);
  const std::shared_ptr<Capture> from = event->capture.lock();
  const std::shared_ptr<Capture> into = stream->capture;
  if (from == nullptr) {
    if (into == nullptr || flags == CU_EVENT_WAIT_EXTERNAL) return CUDA_SUCCESS;
    into->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  }
  if (into != nullptr && into != from) {
    from->invalidated = into->invalidated = true;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (into == nullptr) {
    if (stream->handle == nullptr) return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    stream->capture = from;
    stream->last_nodes.clear();
    from->streams.push_back(stream);
  }
  add_dependencies(*stream, *event);
  return CUDA_SUCCESS;
}

// A time would have to come from the cycle model; there is none yet, and an invented one would end
// up in somebody's table.
CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  std::shared_ptr<Event> first, last;
  TW_DRIVER_TRY(find_event(start, &first));
  TW_DRIVER_TRY(find_event(end, &last));
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (((first->flags | last->flags) & CU_EVENT_DISABLE_TIMING) != 0) {
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return refuse(CUDA_ERROR_NOT_SUPPORTED, "cuEventElapsedTime: simulated time is not modelled yet");
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return driver::cuEventElapsedTime_v2(milliseconds, start, end);
}

}  // namespace tilewright::emulator::driver
