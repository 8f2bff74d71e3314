// The values that a frame starts with: special registers, and the bases of shared and local memory.
#include "emulator/machine/block.h"

namespace tilewright::emulator {
namespace {

uint32_t component_of(const Dim3& value, uint8_t component) {
  return component == 0 ? value.x : component == 1 ? value.y : value.z;
}

Dim3 divided(const Dim3& a, const Dim3& b) { return {a.x / b.x, a.y / b.y, a.z / b.z}; }
Dim3 remainder(const Dim3& a, const Dim3& b) { return {a.x % b.x, a.y % b.y, a.z % b.z}; }

uint64_t special_value(const Warp& warp, ptx::SpecialRegister special, uint8_t component,
                       uint32_t lane) {
  using ptx::SpecialRegister;
  const Launch& launch = *warp.launch;
  const LaunchRequest& request = *launch.request;
  const Block& block = *warp.block;
  const uint32_t thread = warp.index * 32 + lane;
  const Dim3& size = request.block;
  const uint32_t below = (1u << lane) - 1;
  const auto num_sms = static_cast<uint64_t>(launch.arch.num_sms);
  switch (special) {
    case SpecialRegister::kTid:
      return component_of({thread % size.x, thread / size.x % size.y, thread / size.x / size.y},
                          component);
    case SpecialRegister::kNtid:
      return component_of(size, component);
    case SpecialRegister::kCtaid:
      return component_of(block.index, component);
    case SpecialRegister::kNctaid:
      return component_of(request.grid, component);
    case SpecialRegister::kClusterid:
      return component_of(divided(block.index, request.cluster), component);
    case SpecialRegister::kNclusterid:
      return component_of(divided(request.grid, request.cluster), component);
    case SpecialRegister::kClusterCtaid:
      return component_of(remainder(block.index, request.cluster), component);
    case SpecialRegister::kClusterNctaid:
      return component_of(request.cluster, component);
    case SpecialRegister::kClusterCtarank:
      return block.cluster_rank;
    case SpecialRegister::kClusterNctarank:
      return request.cluster.count();
    case SpecialRegister::kLaneid:
      return lane;
    case SpecialRegister::kWarpid:
      return warp.index;
    case SpecialRegister::kNwarpid:
      return static_cast<uint64_t>(launch.arch.max_warps_per_sm);
    case SpecialRegister::kSmid:
      return block.linear % num_sms;
    case SpecialRegister::kNsmid:
      return num_sms;
    case SpecialRegister::kGridid:
      return launch.grid_id;
    case SpecialRegister::kLanemaskEq:
      return 1u << lane;
    case SpecialRegister::kLanemaskLt:
      return below;
    case SpecialRegister::kLanemaskLe:
      return below | 1u << lane;
    case SpecialRegister::kLanemaskGt:
      return ~(below | 1u << lane);
    case SpecialRegister::kLanemaskGe:
      return ~below;
    case SpecialRegister::kDynamicSmemSize:
      return request.dynamic_shared_bytes;
    case SpecialRegister::kTotalSmemSize:
      return (launch.shared_bytes + 127u) / 128 * 128;
    case SpecialRegister::kAggrSmemSize:
      return (launch.shared_bytes + 127u) / 128 * 128 + launch.shared_base;
    case SpecialRegister::kReservedSmemOffsetEnd:
    case SpecialRegister::kReservedSmemOffsetCap:
      return launch.shared_base;
    default:
      return 0;
  }
}

}  // namespace

void fill_initial_values(Warp& warp, Frame& frame) {
  for (const InitialValue& value : frame.function->initial) {
    for (uint32_t lane = 0; lane < 32; ++lane) {
      uint64_t bits = 0;
      switch (value.kind) {
        case InitialKind::kSpecial:
          bits = special_value(warp, value.special, value.component, lane);
          break;
        case InitialKind::kShared:
          bits = warp.shared_low;
          break;
        case InitialKind::kLocal:
          bits = frame.local_base;
          break;
      }
      if (value.is_wide) {
        reinterpret_cast<uint64_t*>(frame.registers + value.slot)[lane] = bits;
      } else {
        reinterpret_cast<uint32_t*>(frame.registers + value.slot)[lane] =
            static_cast<uint32_t>(bits);
      }
    }
  }
}

}  // namespace tilewright::emulator
