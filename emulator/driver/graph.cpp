// Graphs: structure, instantiation and launch. An executable graph is a copy of the nodes in an
// order that respects their dependencies.
#include <algorithm>
#include <unordered_map>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

CUresult find_graph(CUgraph handle, std::shared_ptr<Graph>* graph) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *graph = Driver::instance().graphs.find(handle);
  return *graph != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult find_exec(CUgraphExec handle, std::shared_ptr<GraphExec>* exec) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *exec = Driver::instance().graph_execs.find(handle);
  return *exec != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Nodes in dependency order, by creation where free; false if there is a cycle.
bool order_nodes(const Graph& graph, std::vector<std::shared_ptr<GraphNode>>* ordered) {
  std::unordered_map<CUgraphNode, bool> done;
  while (ordered->size() < graph.nodes.size()) {
    const size_t before = ordered->size();
    for (const auto& node : graph.nodes) {
      if (done[node->handle]) continue;
      const bool ready = std::all_of(node->dependencies.begin(), node->dependencies.end(),
                                     [&](CUgraphNode dependency) { return done[dependency]; });
      if (!ready) continue;
      done[node->handle] = true;
      ordered->push_back(node);
    }
    if (ordered->size() == before) return false;
  }
  return true;
}

CUgraphNodeType type_of(const Operation& operation) {
  constexpr CUgraphNodeType kTypes[] = {CU_GRAPH_NODE_TYPE_EMPTY,  CU_GRAPH_NODE_TYPE_KERNEL,
                                        CU_GRAPH_NODE_TYPE_MEMCPY, CU_GRAPH_NODE_TYPE_MEMSET,
                                        CU_GRAPH_NODE_TYPE_HOST,   CU_GRAPH_NODE_TYPE_HOST};
  static_assert(std::size(kTypes) == std::variant_size_v<Operation>);
  return kTypes[operation.index()];
}

// The usual pair of calls: a null array asks for the count.
template <class Handles>
CUresult put_handles(const Handles& handles, CUgraphNode* out, size_t* count) {
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (out == nullptr) {
    *count = handles.size();
    return CUDA_SUCCESS;
  }
  for (size_t i = 0; i < *count; ++i) out[i] = i < handles.size() ? handles[i] : nullptr;
  *count = std::min(*count, handles.size());
  return CUDA_SUCCESS;
}

CUresult instantiate(CUgraphExec* handle, CUgraph graph_handle, unsigned long long flags) {
  std::shared_ptr<Graph> graph;
  TW_DRIVER_TRY(find_graph(graph_handle, &graph));
  constexpr unsigned long long kKnown = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                        CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
  if ((flags & ~kKnown) != 0) return CUDA_ERROR_INVALID_VALUE;
  auto exec = std::make_shared<GraphExec>();
  exec->flags = flags;
  const std::lock_guard lock(Driver::instance().graph_mutex);
  std::vector<std::shared_ptr<GraphNode>> ordered;
  if (!order_nodes(*graph, &ordered)) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "the graph's dependencies form a cycle");
  }
  for (const auto& node : ordered) {
    exec->nodes.push_back({node->handle, node->context, node->operation});
  }
  *handle = Driver::instance().graph_execs.add(std::move(exec));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuGraphCreate(CUgraph* handle, unsigned flags) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = Driver::instance().graphs.add(std::make_shared<Graph>());
  return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph handle) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  const std::shared_ptr<Graph> graph = driver.graphs.remove(handle);
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(driver.graph_mutex);
  for (const auto& node : graph->nodes) driver.graph_nodes.remove(node->handle);
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph* handle, CUgraph original_handle) {
  std::shared_ptr<Graph> original;
  TW_DRIVER_TRY(find_graph(original_handle, &original));
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.graph_mutex);
  auto clone = std::make_shared<Graph>();
  std::unordered_map<CUgraphNode, CUgraphNode> renamed;
  for (const auto& node : original->nodes) {
    renamed[node->handle] = add_node(clone, node->context, node->operation, node->dependencies);
  }
  for (const auto& node : clone->nodes) {
    for (CUgraphNode& dependency : node->dependencies) dependency = renamed[dependency];
  }
  *handle = driver.graphs.add(std::move(clone));
  return CUDA_SUCCESS;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  return instantiate(exec, graph, flags);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec* exec, CUgraph graph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  params->hErrNode_out = nullptr;
  const CUresult result = instantiate(exec, graph, params->flags);
  params->result_out =
      result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
  return result;
}

CUresult cuGraphLaunch(CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(stream_handle, &stream));
  std::shared_ptr<GraphExec> exec;
  TW_DRIVER_TRY(find_exec(handle, &exec));
  const std::lock_guard lock(exec->mutex);
  const bool capturing = is_capturing(*stream);
  for (const ExecNode& node : exec->nodes) {
    if (capturing) {
      TW_DRIVER_TRY(enqueue(*stream, node.operation));
      continue;
    }
    if (!node.context->alive) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    const CUresult result = execute(*node.context, node.operation);
    // A kernel of this launch may have faulted: that shows at the next call, as on a device.
    if (result != CUDA_SUCCESS && result != node.context->fault) return result;
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream stream_handle) {
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(stream_handle, &stream));
  std::shared_ptr<GraphExec> exec;
  return find_exec(handle, &exec);
}

CUresult cuGraphExecDestroy(CUgraphExec handle) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  return Driver::instance().graph_execs.remove(handle) != nullptr ? CUDA_SUCCESS
                                                                  : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphExecGetFlags(CUgraphExec handle, cuuint64_t* flags) {
  std::shared_ptr<GraphExec> exec;
  TW_DRIVER_TRY(find_exec(handle, &exec));
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = exec->flags;
  return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  std::shared_ptr<Graph> graph;
  TW_DRIVER_TRY(find_graph(handle, &graph));
  const std::lock_guard lock(Driver::instance().graph_mutex);
  std::vector<CUgraphNode> handles;
  for (const auto& node : graph->nodes) handles.push_back(node->handle);
  return put_handles(handles, nodes, count);
}

CUresult cuGraphGetRootNodes(CUgraph handle, CUgraphNode* nodes, size_t* count) {
  std::shared_ptr<Graph> graph;
  TW_DRIVER_TRY(find_graph(handle, &graph));
  const std::lock_guard lock(Driver::instance().graph_mutex);
  std::vector<CUgraphNode> handles;
  for (const auto& node : graph->nodes) {
    if (node->dependencies.empty()) handles.push_back(node->handle);
  }
  return put_handles(handles, nodes, count);
}

CUresult cuGraphNodeGetType(CUgraphNode handle, CUgraphNodeType* type) {
  const auto node = Driver::instance().graph_nodes.find(handle);
  if (node == nullptr || type == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(Driver::instance().graph_mutex);
  *type = type_of(node->operation);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode handle, CUgraphNode* dependencies, size_t* count) {
  const auto node = Driver::instance().graph_nodes.find(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(Driver::instance().graph_mutex);
  return put_handles(node->dependencies, dependencies, count);
}

CUresult cuGraphDestroyNode(CUgraphNode handle) {
  Driver& driver = Driver::instance();
  const auto node = driver.graph_nodes.remove(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(driver.graph_mutex);
  const std::shared_ptr<Graph> graph = node->graph.lock();
  if (graph == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::erase(graph->nodes, node);
  for (const auto& other : graph->nodes) std::erase(other->dependencies, handle);
  return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                size_t count) {
  std::shared_ptr<Graph> graph;
  TW_DRIVER_TRY(find_graph(handle, &graph));
  if (count != 0 && (from == nullptr || to == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.graph_mutex);
  for (size_t i = 0; i < count; ++i) {
    const auto first = driver.graph_nodes.find(from[i]);
    const auto second = driver.graph_nodes.find(to[i]);
    if (first == nullptr || second == nullptr || first == second || first->graph.lock() != graph ||
        second->graph.lock() != graph) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    second->dependencies.push_back(from[i]);
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies_v2(CUgraph handle, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edges, size_t count) {
  for (size_t i = 0; edges != nullptr && i < count; ++i) {
    if (edges[i].type != CU_GRAPH_DEPENDENCY_TYPE_DEFAULT) return CUDA_ERROR_NOT_SUPPORTED;
  }
  return driver::cuGraphAddDependencies(handle, from, to, count);
}

}  // namespace tilewright::emulator::driver
