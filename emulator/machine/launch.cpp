// What a launch must satisfy before anything runs, and how many blocks an SM holds.
#include <algorithm>

#include "core/check.h"
#include "emulator/machine/code.h"
#include "emulator/machine/machine.h"

namespace tilewright::emulator {
namespace {

constexpr uint32_t kMaxThreadsPerBlock = 1024;

uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

Status check_shape(const LaunchRequest& request) {
  const Dim3& grid = request.grid;
  const Dim3& block = request.block;
  if (grid.count() == 0 || block.x == 0 || block.y == 0 || block.z == 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "grid ({}, {}, {}) of blocks ({}, {}, {}): a dimension is 0", grid.x, grid.y,
                      grid.z, block.x, block.y, block.z);
  }
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) {
    return make_error(ErrorCode::kInvalidArgument,
                      "grid ({}, {}, {}) exceeds (2147483647, 65535, 65535)", grid.x, grid.y,
                      grid.z);
  }
  if (block.x > 1024 || block.y > 1024 || block.z > 64 || block.count() > kMaxThreadsPerBlock) {
    return make_error(ErrorCode::kInvalidArgument,
                      "block ({}, {}, {}) exceeds (1024, 1024, 64) or 1024 threads", block.x,
                      block.y, block.z);
  }
  return {};
}

Status check_directives(const KernelAttributes& kernel, const LaunchRequest& request) {
  const Dim3& block = request.block;
  const auto& required = kernel.required_threads;
  if (required[0] != 0 && (block.x != required[0] || block.y != std::max(required[1], 1u) ||
                           block.z != std::max(required[2], 1u))) {
    return make_error(ErrorCode::kInvalidArgument,
                      "block ({}, {}, {}) but the kernel requires ({}, {}, {})", block.x, block.y,
                      block.z, required[0], std::max(required[1], 1u), std::max(required[2], 1u));
  }
  const auto& most = kernel.max_threads;
  if (most[0] != 0) {
    const uint64_t limit = uint64_t{most[0]} * std::max(most[1], 1u) * std::max(most[2], 1u);
    if (block.count() > limit) {
      return make_error(ErrorCode::kInvalidArgument,
                        "a block of {} threads, but the kernel was compiled for at most {}",
                        block.count(), limit);
    }
  }
  return {};
}

Status check_cluster(const KernelAttributes& kernel, const LaunchRequest& request,
                     const Arch& arch) {
  const Dim3& cluster = request.cluster;
  const Dim3& grid = request.grid;
  const auto& required = kernel.required_cluster;
  if (required[0] != 0 && (cluster.x != required[0] || cluster.y != std::max(required[1], 1u) ||
                           cluster.z != std::max(required[2], 1u))) {
    return make_error(ErrorCode::kInvalidArgument,
                      "cluster ({}, {}, {}) but the kernel requires ({}, {}, {})", cluster.x,
                      cluster.y, cluster.z, required[0], std::max(required[1], 1u),
                      std::max(required[2], 1u));
  }
  if (cluster.count() == 1) return {};
  if (cluster.count() == 0 || cluster.count() > 16 || arch.compute_capability() < 90) {
    return make_error(ErrorCode::kInvalidArgument, "cluster ({}, {}, {}) on {}: 1 to 16 on sm_90",
                      cluster.x, cluster.y, cluster.z, arch.target());
  }
  if (grid.x % cluster.x != 0 || grid.y % cluster.y != 0 || grid.z % cluster.z != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "grid ({}, {}, {}) is not a multiple of the cluster ({}, {}, {})", grid.x,
                      grid.y, grid.z, cluster.x, cluster.y, cluster.z);
  }
  return {};
}

// What the blocks that run at once keep on the host: registers, local and shared memory.
Status check_host_memory(const KernelCode& code, const LaunchRequest& request, const Arch& arch) {
  constexpr uint64_t kMost = uint64_t{16} << 30;
  const KernelAttributes& kernel = code.attributes;
  const uint64_t warps = (request.block.count() + 31) / 32;
  const uint64_t shared = uint64_t{kernel.static_shared_bytes} + request.dynamic_shared_bytes;
  const uint64_t per_block =
      warps * (code.functions[0].frame_bytes + uint64_t{32} * code.stack_bytes) + shared;
  const auto threads = static_cast<uint32_t>(request.block.count());
  const auto per_sm = static_cast<uint64_t>(
      std::max(1, blocks_per_sm(kernel, arch, threads, request.dynamic_shared_bytes)));
  const uint64_t fit = kernel.communicates
                           ? per_sm * static_cast<uint64_t>(arch.num_sms)
                           : static_cast<uint64_t>(std::max(1, request.settings.host_threads));
  const uint64_t resident = std::min(request.grid.count(), fit);
  if (per_block * resident <= kMost) return {};
  return make_error(ErrorCode::kOutOfMemory,
                    "{} blocks at once with {} bytes of registers, local and shared memory each; "
                    "the emulator keeps {} bytes in all",
                    resident, per_block, kMost);
}

}  // namespace

int blocks_per_sm(const KernelAttributes& kernel, const Arch& arch, uint32_t threads_per_block,
                  uint32_t dynamic_shared_bytes) {
  const int64_t warps = (int64_t{threads_per_block} + 31) / 32;
  if (warps == 0 || threads_per_block > kMaxThreadsPerBlock) return 0;
  int64_t blocks = std::min<int64_t>(arch.max_blocks_per_sm, arch.max_warps_per_sm / warps);
  const uint64_t used = uint64_t{kernel.static_shared_bytes} + dynamic_shared_bytes;
  if (used > static_cast<uint64_t>(arch.shared_bytes_per_block)) return 0;
  const auto shared = static_cast<int64_t>(round_up(used, 128)) + arch.shared_bytes_reserved;
  blocks = std::min(blocks, arch.shared_bytes_per_sm / shared);
  if (kernel.registers != 0) {
    const auto per_warp = static_cast<int64_t>(round_up(uint64_t{kernel.registers} * 32, 256));
    const int64_t warps_per_partition = (arch.registers_per_sm / 4) / per_warp;
    blocks = std::min(blocks, 4 * warps_per_partition / warps);
  }
  return static_cast<int>(blocks);
}

Status check_launch(const LaunchRequest& request, const Arch& arch) {
  TW_CHECK(request.module != nullptr && request.kernel >= 0 &&
               request.kernel < request.module->num_kernels(),
           "a launch without a kernel");
  const KernelAttributes& kernel = request.module->kernel(request.kernel);
  TW_TRY(check_shape(request));
  TW_TRY(check_directives(kernel, request));
  TW_TRY(check_cluster(kernel, request, arch));
  if (request.parameters.size() != kernel.parameter_bytes) {
    return make_error(ErrorCode::kInvalidArgument, "{} bytes of parameters, but kernel {} takes {}",
                      request.parameters.size(), kernel.name, kernel.parameter_bytes);
  }
  if (kernel.parameter_base + request.parameters.size() > kParameterBytes) {
    return make_error(ErrorCode::kInvalidArgument, "{} bytes of parameters exceed {}",
                      request.parameters.size(), kParameterBytes - kernel.parameter_base);
  }
  const uint64_t shared = uint64_t{kernel.static_shared_bytes} + request.dynamic_shared_bytes;
  if (shared > static_cast<uint64_t>(arch.shared_bytes_per_block)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} bytes of shared memory ({} static, {} dynamic), the block limit is {}",
                      shared, kernel.static_shared_bytes, request.dynamic_shared_bytes,
                      arch.shared_bytes_per_block);
  }
  return check_host_memory(*request.module->program().kernels[static_cast<size_t>(request.kernel)],
                           request, arch);
}

}  // namespace tilewright::emulator
