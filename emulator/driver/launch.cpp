// Kernel launches: checked as a driver checks them before anything runs.
#include <algorithm>
#include <cstring>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

constexpr uint32_t kMaxGridX = 0x7fffffff;
constexpr uint32_t kMaxGridYZ = 65535;
constexpr uint64_t kMaxThreads = 1024;

CUresult check_shape(const LaunchShape& shape, const KernelAttributes& attributes) {
  const Dim3& grid = shape.grid;
  const Dim3& block = shape.block;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "grid {}x{}x{}, block {}x{}x{}: a dimension is zero",
                  grid.x, grid.y, grid.z, block.x, block.y, block.z);
  }
  if (grid.x > kMaxGridX || grid.y > kMaxGridYZ || grid.z > kMaxGridYZ) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "grid {}x{}x{} is beyond {}x{}x{}", grid.x, grid.y,
                  grid.z, kMaxGridX, kMaxGridYZ, kMaxGridYZ);
  }
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || block.count() > kMaxThreads) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "block {}x{}x{} is beyond 1024x1024x64 or {} threads",
                  block.x, block.y, block.z, kMaxThreads);
  }
  const auto& required = attributes.required_threads;
  if (required[0] != 0 &&
      Dim3{required[0], std::max(required[1], 1u), std::max(required[2], 1u)} != block) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "block {}x{}x{}, but .reqntid asks for {}x{}x{}",
                  block.x, block.y, block.z, required[0], required[1], required[2]);
  }
  const auto& most = attributes.max_threads;
  const uint64_t bound = uint64_t{most[0]} * std::max(most[1], 1u) * std::max(most[2], 1u);
  if (bound != 0 && block.count() > bound) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "{} threads, but .maxntid allows {}", block.count(),
                  bound);
  }
  return CUDA_SUCCESS;
}

CUresult check_shared(Function& function, size_t dynamic_bytes, const Arch& arch) {
  int allowed = 0;
  get_function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &allowed);
  const uint64_t fixed = function.attributes().static_shared_bytes;
  const auto most = static_cast<uint64_t>(arch.shared_bytes_per_block);
  if (dynamic_bytes > static_cast<uint64_t>(allowed) || dynamic_bytes > most ||
      fixed > most - dynamic_bytes) {
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  "{} bytes of dynamic and {} of static shared memory: the function allows {} "
                  "dynamic, a block {} in all",
                  dynamic_bytes, fixed, allowed, most);
  }
  return CUDA_SUCCESS;
}

// The cluster shape of the launch: given, compiled in, or none.
CUresult check_cluster(Function& function, LaunchShape* shape, const Arch& arch) {
  std::array<int, 3> required{};
  for (int i = 0; i < 3; ++i) {
    const auto attribute =
        static_cast<CUfunction_attribute>(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i);
    get_function_attribute(function, attribute, &required[static_cast<size_t>(i)]);
  }
  if (required[0] != 0) {
    const Dim3 compiled{static_cast<uint32_t>(required[0]),
                        static_cast<uint32_t>(std::max(required[1], 1)),
                        static_cast<uint32_t>(std::max(required[2], 1))};
    if (shape->cluster_given && shape->cluster != compiled) {
      return refuse(CUDA_ERROR_INVALID_VALUE, "the kernel's own cluster is {}x{}x{}", compiled.x,
                    compiled.y, compiled.z);
    }
    shape->cluster = compiled;
  } else if (!shape->cluster_given) {
    shape->cluster = {1, 1, 1};
    if (function.attributes().explicit_cluster) {
      return refuse(CUDA_ERROR_INVALID_VALUE, "an .explicitcluster kernel needs a cluster shape");
    }
    return CUDA_SUCCESS;
  }
  const Dim3& cluster = shape->cluster;
  if (cluster.x == 0 || cluster.y == 0 || cluster.z == 0) return CUDA_ERROR_INVALID_VALUE;
  int non_portable = 0;
  get_function_attribute(function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                         &non_portable);
  const uint64_t size_limit = non_portable != 0 ? 16 : 8;
  if (cluster.x > 16 || cluster.y > 16 || cluster.z > 16 || cluster.count() > size_limit) {
    return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, "cluster {}x{}x{} is beyond {} blocks",
                  cluster.x, cluster.y, cluster.z, size_limit);
  }
  if (arch.compute_major < 9 && cluster.count() > 1) {
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "sm_{} has no clusters", arch.compute_capability());
  }
  if (shape->grid.x % cluster.x != 0 || shape->grid.y % cluster.y != 0 ||
      shape->grid.z % cluster.z != 0) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "grid {}x{}x{} is no multiple of cluster {}x{}x{}",
                  shape->grid.x, shape->grid.y, shape->grid.z, cluster.x, cluster.y, cluster.z);
  }
  return CUDA_SUCCESS;
}

CUresult check_resources(Function& function, const LaunchShape& shape, const Arch& arch) {
  const auto threads = static_cast<int>(shape.block.count());
  int most = 0;
  get_function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &most);
  const int blocks = blocks_per_sm(function, threads, shape.dynamic_shared_bytes);
  if (threads > most || blocks == 0) {
    return refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
                  "an SM cannot hold a block of {} threads of '{}' with its registers", threads,
                  function.attributes().name);
  }
  const uint64_t resident = static_cast<uint64_t>(blocks) * static_cast<uint64_t>(arch.num_sms);
  if (shape.cooperative && shape.grid.count() > resident) {
    return refuse(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
                  "{} blocks in a cooperative launch, {} can be resident", shape.grid.count(),
                  resident);
  }
  return CUDA_SUCCESS;
}

CUresult pack_pointers(const KernelAttributes& attributes, void** values,
                       std::vector<std::byte>* block) {
  if (values == nullptr && !attributes.parameters.empty()) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "'{}' has {} parameters, none given", attributes.name,
                  attributes.parameters.size());
  }
  for (size_t i = 0; i < attributes.parameters.size(); ++i) {
    const ParameterInfo& parameter = attributes.parameters[i];
    if (values[i] == nullptr) {
      return refuse(CUDA_ERROR_INVALID_VALUE, "parameter {} of '{}' is a null pointer", i,
                    attributes.name);
    }
    std::memcpy(block->data() + parameter.offset, values[i], parameter.bytes);
  }
  return CUDA_SUCCESS;
}

CUresult pack_buffer(const KernelAttributes& attributes, void** extra,
                     std::vector<std::byte>* block) {
  const void* buffer = nullptr;
  const size_t* size = nullptr;
  for (int i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) {
      buffer = extra[i + 1];
    } else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) {
      size = static_cast<const size_t*>(extra[i + 1]);
    } else {
      return refuse(CUDA_ERROR_INVALID_VALUE, "unknown entry in the launch's extra list");
    }
  }
  if (buffer == nullptr || size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // A C struct of the parameters may end in padding, up to its alignment.
  constexpr size_t kMostPadding = 127;
  if (*size < block->size() || *size > block->size() + kMostPadding) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "a parameter buffer of {} bytes, '{}' takes {}", *size,
                  attributes.name, block->size());
  }
  if (!block->empty()) std::memcpy(block->data(), buffer, block->size());
  return CUDA_SUCCESS;
}

CUresult read_attribute(const CUlaunchAttribute& attribute, LaunchShape* shape) {
  switch (attribute.id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      shape->cooperative = attribute.value.cooperative != 0;
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      shape->cluster_given = true;
      shape->cluster = {attribute.value.clusterDim.x, attribute.value.clusterDim.y,
                        attribute.value.clusterDim.z};
      return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      return Driver::instance().events.find(attribute.value.programmaticEvent.event) != nullptr
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_HANDLE;
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      return Driver::instance().events.find(attribute.value.launchCompletionEvent.event) != nullptr
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_HANDLE;
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      return CUDA_ERROR_NOT_SUPPORTED;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      shape->is_dependent = attribute.value.programmaticStreamSerializationAllowed != 0;
      return CUDA_SUCCESS;
    // Hints, or what is not modelled.
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      return CUDA_SUCCESS;
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "unknown launch attribute {}",
                    static_cast<int>(attribute.id));
  }
}

CUresult launch_on(CUstream stream_handle, CUfunction handle, const LaunchShape& shape,
                   void** kernel_params, void** extra) {
  const KeepHeld keep;
  std::shared_ptr<Stream> stream;
  TW_DRIVER_TRY(find_stream(stream_handle, &stream));
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find_function(handle, &function));
  if (function->module->owner != stream->owner) {
    return refuse(CUDA_ERROR_INVALID_HANDLE, "'{}' belongs to another context than the stream",
                  function->attributes().name);
  }
  KernelLaunch launch;
  TW_DRIVER_TRY(prepare_launch(function, shape, kernel_params, extra, &launch));
  launch.stream_id = stream->id;
  return enqueue(*stream, std::move(launch));
}

}  // namespace

CUresult prepare_launch(const std::shared_ptr<Function>& function, const LaunchShape& asked,
                        void** kernel_params, void** extra, KernelLaunch* launch) {
  const KernelAttributes& attributes = function->attributes();
  const Arch& arch = function->module->loaded->arch();
  LaunchShape shape = asked;
  if (kernel_params != nullptr && extra != nullptr) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "both kernelParams and extra are given");
  }
  TW_DRIVER_TRY(check_shape(shape, attributes));
  TW_DRIVER_TRY(check_shared(*function, shape.dynamic_shared_bytes, arch));
  TW_DRIVER_TRY(check_cluster(*function, &shape, arch));
  TW_DRIVER_TRY(check_resources(*function, shape, arch));
  launch->function = function;
  launch->grid = shape.grid;
  launch->block = shape.block;
  launch->cluster = shape.cluster;
  launch->dynamic_shared_bytes = static_cast<uint32_t>(shape.dynamic_shared_bytes);
  launch->cooperative = shape.cooperative;
  launch->is_dependent = shape.is_dependent;
  launch->parameters.resize(attributes.parameter_bytes);
  return extra != nullptr ? pack_buffer(attributes, extra, &launch->parameters)
                          : pack_pointers(attributes, kernel_params, &launch->parameters);
}

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                        unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                        CUstream stream, void** kernel_params, void** extra) {
  LaunchShape shape;
  shape.grid = {grid_x, grid_y, grid_z};
  shape.block = {block_x, block_y, block_z};
  shape.dynamic_shared_bytes = shared_bytes;
  return launch_on(stream, function, shape, kernel_params, extra);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** kernel_params,
                          void** extra) {
  if (config == nullptr || (config->attrs == nullptr && config->numAttrs != 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  LaunchShape shape;
  shape.grid = {config->gridDimX, config->gridDimY, config->gridDimZ};
  shape.block = {config->blockDimX, config->blockDimY, config->blockDimZ};
  shape.dynamic_shared_bytes = config->sharedMemBytes;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    TW_DRIVER_TRY(read_attribute(config->attrs[i], &shape));
  }
  return launch_on(config->hStream, function, shape, kernel_params, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                   unsigned grid_z, unsigned block_x, unsigned block_y,
                                   unsigned block_z, unsigned shared_bytes, CUstream stream,
                                   void** kernel_params) {
  LaunchShape shape;
  shape.grid = {grid_x, grid_y, grid_z};
  shape.block = {block_x, block_y, block_z};
  shape.dynamic_shared_bytes = shared_bytes;
  shape.cooperative = true;
  return launch_on(stream, function, shape, kernel_params, nullptr);
}

}  // namespace tilewright::emulator::driver
