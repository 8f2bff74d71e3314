// Graph nodes: adding them by hand, reading and changing their parameters, also in an executable
// graph.
#include <algorithm>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

CUresult add(CUgraphNode* out, CUgraph handle, const CUgraphNode* dependencies, size_t count,
             CUcontext context_handle, Operation operation) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  const std::shared_ptr<Graph> graph = driver.graphs.find(handle);
  if (out == nullptr || graph == nullptr || (dependencies == nullptr && count != 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::shared_ptr<Context> context;
  if (context_handle == nullptr) {
    TW_DRIVER_TRY(current_context(&context));
  } else if ((context = driver.contexts.find(context_handle)) == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  const std::lock_guard lock(driver.graph_mutex);
  std::vector<CUgraphNode> needed;
  for (size_t i = 0; i < count; ++i) {
    const auto node = driver.graph_nodes.find(dependencies[i]);
    if (node == nullptr || node->graph.lock() != graph) return CUDA_ERROR_INVALID_VALUE;
    if (std::find(needed.begin(), needed.end(), dependencies[i]) != needed.end()) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    needed.push_back(dependencies[i]);
  }
  *out = add_node(graph, std::move(context), std::move(operation), std::move(needed));
  return CUDA_SUCCESS;
}

CUresult make_launch(const CUDA_KERNEL_NODE_PARAMS* params, KernelLaunch* launch) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Either a function, or a kernel of a library.
  const auto handle =
      params->func != nullptr ? params->func : reinterpret_cast<CUfunction>(params->kern);
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find_function(handle, &function));
  LaunchShape shape;
  shape.grid = {params->gridDimX, params->gridDimY, params->gridDimZ};
  shape.block = {params->blockDimX, params->blockDimY, params->blockDimZ};
  shape.dynamic_shared_bytes = params->sharedMemBytes;
  return prepare_launch(function, shape, params->kernelParams, params->extra, launch);
}

// The copy on the device of the given context, or of the node's own.
CUresult make_copy(const CUDA_MEMCPY3D* region, CUcontext context_handle, Copy* copy) {
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Context> context;
  if (context_handle == nullptr) {
    TW_DRIVER_TRY(current_context(&context));
  } else if ((context = Driver::instance().contexts.find(context_handle)) == nullptr) {
    return CUDA_ERROR_INVALID_CONTEXT;
  }
  *copy = {*region, context->device, context->device};
  return CUDA_SUCCESS;
}

// Calls `use` with the node's operation if that is a T. graph_mutex is held meanwhile.
template <class T, class Use>
CUresult with_node(CUgraphNode handle, Use&& use) {
  const auto node = Driver::instance().graph_nodes.find(handle);
  if (node == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(Driver::instance().graph_mutex);
  T* operation = std::get_if<T>(&node->operation);
  if (operation == nullptr) return CUDA_ERROR_INVALID_VALUE;
  use(*node, *operation);
  return CUDA_SUCCESS;
}

template <class T>
CUresult set_in_exec(CUgraphExec handle, CUgraphNode original, T operation) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  const auto exec = Driver::instance().graph_execs.find(handle);
  if (exec == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(exec->mutex);
  for (ExecNode& node : exec->nodes) {
    if (node.original != original) continue;
    if (!std::holds_alternative<T>(node.operation)) return CUDA_ERROR_INVALID_VALUE;
    node.operation = std::move(operation);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult cuGraphAddKernelNode_v2(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                                 size_t count, const CUDA_KERNEL_NODE_PARAMS* params) {
  KernelLaunch launch;
  TW_DRIVER_TRY(make_launch(params, &launch));
  const CUcontext context = launch.function->module->owner;
  return add(node, graph, dependencies, count, context, std::move(launch));
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMCPY3D* region, CUcontext context) {
  Copy copy;
  TW_DRIVER_TRY(make_copy(region, context, &copy));
  return add(node, graph, dependencies, count, context, copy);
}

CUresult cuGraphAddMemsetNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                              size_t count, const CUDA_MEMSET_NODE_PARAMS* params,
                              CUcontext context) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(node, graph, dependencies, count, context, Fill{*params});
}

CUresult cuGraphAddHostNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                            size_t count, const CUDA_HOST_NODE_PARAMS* params) {
  if (params == nullptr || params->fn == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return add(node, graph, dependencies, count, nullptr, HostCall{params->fn, params->userData});
}

CUresult cuGraphAddEmptyNode(CUgraphNode* node, CUgraph graph, const CUgraphNode* dependencies,
                             size_t count) {
  return add(node, graph, dependencies, count, nullptr, Nothing{});
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode handle, CUDA_KERNEL_NODE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_node<KernelLaunch>(handle, [&](GraphNode& node, KernelLaunch& launch) {
    node.parameter_pointers.clear();
    for (const ParameterInfo& parameter : launch.function->attributes().parameters) {
      node.parameter_pointers.push_back(launch.parameters.data() + parameter.offset);
    }
    *params = {};
    params->func = launch.function->handle;
    params->gridDimX = launch.grid.x;
    params->gridDimY = launch.grid.y;
    params->gridDimZ = launch.grid.z;
    params->blockDimX = launch.block.x;
    params->blockDimY = launch.block.y;
    params->blockDimZ = launch.block.z;
    params->sharedMemBytes = launch.dynamic_shared_bytes;
    params->kernelParams = node.parameter_pointers.data();
    params->ctx = node.context->handle;
  });
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode handle, const CUDA_KERNEL_NODE_PARAMS* params) {
  KernelLaunch launch;
  TW_DRIVER_TRY(make_launch(params, &launch));
  return with_node<KernelLaunch>(handle,
                                 [&](GraphNode&, KernelLaunch& old) { old = std::move(launch); });
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec exec, CUgraphNode node,
                                           const CUDA_KERNEL_NODE_PARAMS* params) {
  KernelLaunch launch;
  TW_DRIVER_TRY(make_launch(params, &launch));
  return set_in_exec(exec, node, std::move(launch));
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode handle, CUDA_MEMCPY3D* region) {
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_node<Copy>(handle, [&](GraphNode&, Copy& copy) { *region = copy.region; });
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode handle, const CUDA_MEMCPY3D* region) {
  if (region == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_node<Copy>(handle, [&](GraphNode&, Copy& copy) { copy.region = *region; });
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMCPY3D* region, CUcontext context) {
  Copy copy;
  TW_DRIVER_TRY(make_copy(region, context, &copy));
  return set_in_exec(exec, node, copy);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode handle, CUDA_MEMSET_NODE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_node<Fill>(handle, [&](GraphNode&, Fill& fill) { *params = fill.params; });
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode handle, const CUDA_MEMSET_NODE_PARAMS* params) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return with_node<Fill>(handle, [&](GraphNode&, Fill& fill) { fill.params = *params; });
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS* params, CUcontext) {
  if (params == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_in_exec(exec, node, Fill{*params});
}

}  // namespace tilewright::emulator::driver
