// Occupancy queries, over the machine's own count of resident blocks, so that what they say is what
// a launch gets.
#include <algorithm>
#include <array>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

constexpr int kNamedBarriersPerSm = 64;  // sm_90's pool
// Blocks of a cluster share one GPC; a full one has 16 SMs that every H100 and H200 offers.
constexpr int kSmsPerCluster = 16;

// The carve-out, in bytes, that a preference of `percent` selects: the smallest that holds it and
// one block.
int64_t carveout_bytes(const Arch& arch, int percent, int64_t block_bytes) {
  constexpr std::array<int64_t, 10> kLarge = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};
  const int64_t wanted =
      std::max(arch.shared_bytes_per_sm * percent / 100, block_bytes + arch.shared_bytes_reserved);
  for (const int64_t kilobytes : kLarge) {
    const int64_t bytes = kilobytes * 1024;
    if (bytes >= wanted && bytes <= arch.shared_bytes_per_sm) return bytes;
  }
  return arch.shared_bytes_per_sm;
}

CUresult find(CUfunction handle, std::shared_ptr<Function>* function) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  return find_function(handle, function);
}

int max_threads(Function& function) {
  int threads = 0;
  get_function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &threads);
  return threads;
}

struct ClusterRequest {
  int size = 1;
  int threads = 1;
  size_t dynamic_shared_bytes = 0;
};

CUresult read_cluster(const Function& function, const CUlaunchConfig* config,
                      ClusterRequest* request) {
  if (config == nullptr || (config->attrs == nullptr && config->numAttrs != 0)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (function.module->loaded->arch().compute_major < 9) return CUDA_ERROR_NOT_SUPPORTED;
  const uint64_t threads = uint64_t{config->blockDimX} * config->blockDimY * config->blockDimZ;
  if (threads == 0 || threads > 1024) return CUDA_ERROR_INVALID_VALUE;
  request->threads = static_cast<int>(threads);
  request->dynamic_shared_bytes = config->sharedMemBytes;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;
    const auto& dim = config->attrs[i].value.clusterDim;
    const uint64_t size = uint64_t{dim.x} * dim.y * dim.z;
    if (size == 0 || size > 16) return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    request->size = static_cast<int>(size);
  }
  return CUDA_SUCCESS;
}

}  // namespace

int blocks_per_sm(Function& function, int threads, size_t dynamic_shared_bytes) {
  KernelAttributes attributes = function.attributes();
  Arch arch = function.module->loaded->arch();
  int barriers = 0;
  {
    const std::lock_guard lock(function.mutex);
    if (function.registers > 0) attributes.registers = static_cast<uint32_t>(function.registers);
    barriers = function.barriers;
    if (function.carveout >= 0) {
      const auto block_bytes =
          static_cast<int64_t>(attributes.static_shared_bytes + dynamic_shared_bytes);
      arch.shared_bytes_per_sm = carveout_bytes(arch, function.carveout, block_bytes);
    }
  }
  const int blocks = emulator::blocks_per_sm(attributes, arch, static_cast<uint32_t>(threads),
                                             static_cast<uint32_t>(dynamic_shared_bytes));
  const bool pooled = arch.compute_major >= 9 && barriers > 0;
  return pooled ? std::min(blocks, kNamedBarriersPerSm / barriers) : blocks;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, CUfunction handle,
                                                              int threads,
                                                              size_t dynamic_shared_bytes,
                                                              unsigned flags) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find(handle, &function));
  if (blocks == nullptr || threads <= 0 || threads > 1024 ||
      (flags & ~unsigned{CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // More than an SM holds is no error here: no block fits.
  const bool fits = dynamic_shared_bytes <=
                    static_cast<size_t>(function->module->loaded->arch().shared_bytes_per_sm);
  *blocks = fits ? blocks_per_sm(*function, threads, dynamic_shared_bytes) : 0;
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     size_t dynamic_shared_bytes) {
  return driver::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      blocks, function, threads, dynamic_shared_bytes, CU_OCCUPANCY_DEFAULT);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int* min_grid, int* block_size,
                                                   CUfunction handle,
                                                   CUoccupancyB2DSize shared_bytes_of,
                                                   size_t dynamic_shared_bytes, int limit,
                                                   unsigned flags) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find(handle, &function));
  if (min_grid == nullptr || block_size == nullptr || limit < 0 ||
      (flags & ~unsigned{CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE}) != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int most = max_threads(*function);
  const int largest = limit == 0 ? most : std::min(limit, most);
  int best_threads = 0;
  *min_grid = *block_size = 0;
  for (int threads = largest; threads > 0; threads = (threads - 1) / 32 * 32) {
    const size_t bytes =
        shared_bytes_of != nullptr ? shared_bytes_of(threads) : dynamic_shared_bytes;
    int blocks = 0;
    TW_DRIVER_TRY(driver::cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
        &blocks, handle, threads, bytes, flags));
    if (blocks * threads <= best_threads) continue;
    best_threads = blocks * threads;
    *block_size = threads;
    *min_grid = blocks * function->module->loaded->arch().num_sms;
  }
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int* min_grid, int* block_size, CUfunction function,
                                          CUoccupancyB2DSize shared_bytes_of,
                                          size_t dynamic_shared_bytes, int limit) {
  return driver::cuOccupancyMaxPotentialBlockSizeWithFlags(min_grid, block_size, function,
                                                           shared_bytes_of, dynamic_shared_bytes,
                                                           limit, CU_OCCUPANCY_DEFAULT);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, CUfunction handle, int blocks,
                                                 int threads) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find(handle, &function));
  if (bytes == nullptr || blocks <= 0 || threads <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (blocks_per_sm(*function, threads, 0) < blocks) return CUDA_ERROR_INVALID_VALUE;
  const Arch& arch = function->module->loaded->arch();
  const int64_t taken = int64_t{function->attributes().static_shared_bytes};
  const int64_t share = arch.shared_bytes_per_sm / blocks / 128 * 128 - arch.shared_bytes_reserved;
  *bytes = static_cast<size_t>(
      std::max<int64_t>(0, std::min(share, arch.shared_bytes_per_block) - taken));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialClusterSize(int* size, CUfunction handle,
                                            const CUlaunchConfig* config) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find(handle, &function));
  if (size == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ClusterRequest request;
  TW_DRIVER_TRY(read_cluster(*function, config, &request));
  int non_portable = 0;
  get_function_attribute(*function, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                         &non_portable);
  const int blocks = blocks_per_sm(*function, request.threads, request.dynamic_shared_bytes);
  *size = std::min(non_portable != 0 ? 16 : 8, blocks * kSmsPerCluster);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction handle,
                                      const CUlaunchConfig* config) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(find(handle, &function));
  if (clusters == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ClusterRequest request;
  TW_DRIVER_TRY(read_cluster(*function, config, &request));
  const int blocks = blocks_per_sm(*function, request.threads, request.dynamic_shared_bytes);
  const int gpcs = function->module->loaded->arch().num_sms / kSmsPerCluster;
  *clusters = gpcs * (kSmsPerCluster * blocks / request.size);
  return CUDA_SUCCESS;
}

}  // namespace tilewright::emulator::driver
