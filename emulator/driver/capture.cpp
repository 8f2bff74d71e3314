// Stream capture: operations become graph nodes instead of being executed.
#include <algorithm>
#include <unordered_set>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

// How this thread's unsafe calls treat captures; cuThreadExchangeStreamCaptureMode sets it.
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

bool forbids_unsafe_call(const Capture& capture) {
  const bool own = capture.thread == std::this_thread::get_id();
  if (capture.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
  if (thread_mode == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) return own;
  return own || capture.mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
}

// All nodes that `last` depends on, itself included.
std::unordered_set<CUgraphNode> ancestors(const std::vector<CUgraphNode>& last) {
  std::unordered_set<CUgraphNode> seen;
  std::vector<CUgraphNode> open = last;
  while (!open.empty()) {
    const CUgraphNode handle = open.back();
    open.pop_back();
    if (!seen.insert(handle).second) continue;
    const auto node = Driver::instance().graph_nodes.find(handle);
    if (node == nullptr) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return seen;
}

// Whether all that other streams captured flows back into the origin.
bool all_joined(const Capture& capture, const Stream& origin) {
  const std::unordered_set<CUgraphNode> reached = ancestors(origin.last_nodes);
  for (const auto& weak : capture.streams) {
    const std::shared_ptr<Stream> stream = weak.lock();
    if (stream == nullptr || stream.get() == &origin) continue;
    const bool joined = std::all_of(stream->last_nodes.begin(), stream->last_nodes.end(),
                                    [&](CUgraphNode node) { return reached.contains(node); });
    if (!joined) return false;
  }
  return true;
}

void finish(const std::shared_ptr<Capture>& capture) {
  for (const auto& weak : capture->streams) {
    if (const std::shared_ptr<Stream> stream = weak.lock()) {
      stream->capture = nullptr;
      stream->last_nodes.clear();
    }
  }
  std::erase(Driver::instance().captures, capture);
}

void discard(const std::shared_ptr<Graph>& graph) {
  for (const auto& node : graph->nodes) Driver::instance().graph_nodes.remove(node->handle);
  graph->nodes.clear();
}

CUstreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) return CU_STREAM_CAPTURE_STATUS_NONE;
  return stream.capture->invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                     : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

}  // namespace

CUgraphNode add_node(const std::shared_ptr<Graph>& graph, std::shared_ptr<Context> context,
                     Operation operation, std::vector<CUgraphNode> dependencies) {
  auto node = std::make_shared<GraphNode>();
  node->graph = graph;
  node->context = std::move(context);
  node->operation = std::move(operation);
  node->dependencies = std::move(dependencies);
  graph->nodes.push_back(node);
  return Driver::instance().graph_nodes.add(std::move(node));
}

bool is_capturing(const Stream& stream) {
  const std::lock_guard lock(Driver::instance().graph_mutex);
  return stream.capture != nullptr;
}

CUresult refuse_in_capture(Stream& stream) {
  const std::lock_guard lock(Driver::instance().graph_mutex);
  if (stream.capture == nullptr) return CUDA_SUCCESS;
  stream.capture->invalidated = true;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

void leave_capture(const std::shared_ptr<Stream>& stream) {
  const std::lock_guard lock(Driver::instance().graph_mutex);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return;
  capture->invalidated = true;
  stream->capture = nullptr;
  if (capture->streams.front().lock() != stream) return;
  finish(capture);
  discard(capture->graph);
}

CUresult check_unsafe_call() {
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.graph_mutex);
  CUresult result = CUDA_SUCCESS;
  for (const auto& capture : driver.captures) {
    if (!forbids_unsafe_call(*capture)) continue;
    capture->invalidated = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}

CUresult enqueue(Stream& stream, Operation operation) {
  const std::shared_ptr<Context> context = stream.context.lock();
  if (context == nullptr || !context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  {
    const std::lock_guard lock(Driver::instance().graph_mutex);
    if (stream.capture != nullptr) {
      if (stream.capture->invalidated) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
      stream.last_nodes = {add_node(stream.capture->graph, context, std::move(operation),
                                    std::move(stream.last_nodes))};
      return CUDA_SUCCESS;
    }
  }
  return execute(*context, operation);
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(handle, &stream));
  if (mode < CU_STREAM_CAPTURE_MODE_GLOBAL || mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream->handle == nullptr) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;  // legacy
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.graph_mutex);
  if (stream->capture != nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  auto capture = std::make_shared<Capture>();
  capture->graph = std::make_shared<Graph>();
  capture->id = driver.next_id++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->context = stream->owner;
  capture->blocking = (stream->flags & CU_STREAM_NON_BLOCKING) == 0;
  capture->streams.push_back(stream);
  stream->capture = capture;
  stream->last_nodes.clear();
  driver.captures.push_back(std::move(capture));
  return CUDA_SUCCESS;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(handle, &stream));
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *graph = nullptr;
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.graph_mutex);
  const std::shared_ptr<Capture> capture = stream->capture;
  if (capture == nullptr) return CUDA_ERROR_ILLEGAL_STATE;
  if (capture->streams.front().lock() != stream) return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
      capture->thread != std::this_thread::get_id()) {
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  }
  const bool joined = all_joined(*capture, *stream);
  finish(capture);
  if (capture->invalidated || !joined) {
    discard(capture->graph);
    return capture->invalidated ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  }
  *graph = driver.graphs.add(capture->graph);
  return CUDA_SUCCESS;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus* status) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(peek_stream(handle, &stream));
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(Driver::instance().graph_mutex);
  *status = status_of(*stream);
  return CUDA_SUCCESS;
}

// The graph of a capture in progress has no handle before it ends, so none is given; nor are the
// last nodes, whose array would have to outlive the call.
CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** dependencies,
                                   size_t* count) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(peek_stream(handle, &stream));
  if (status == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (graph != nullptr || dependencies != nullptr || count != nullptr) {
    return CUDA_ERROR_NOT_SUPPORTED;
  }
  const std::lock_guard lock(Driver::instance().graph_mutex);
  *status = status_of(*stream);
  if (id != nullptr) *id = stream->capture != nullptr ? stream->capture->id : 0;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo_v3(CUstream handle, CUstreamCaptureStatus* status, cuuint64_t* id,
                                   CUgraph* graph, const CUgraphNode** dependencies,
                                   const CUgraphEdgeData** edges, size_t* count) {
  if (edges != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
  return driver::cuStreamGetCaptureInfo_v2(handle, status, id, graph, dependencies, count);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

}  // namespace tilewright::emulator::driver
