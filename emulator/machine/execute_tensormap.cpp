// Tensor maps edited by kernels: tensormap.replace, tensormap.cp_fenceproxy and the fences of the
// tensormap proxy.
#include <bit>
#include <cstring>

#include "core/check.h"
#include "emulator/machine/access.h"
#include "emulator/machine/block.h"
#include "emulator/machine/cluster.h"
#include "emulator/machine/execute.h"

namespace tilewright::emulator::execute {
namespace {

// A tensor map lies at a multiple of 64.
constexpr uint32_t kMapAlignment = 64;
constexpr uint32_t kMapBytes = sizeof(TensorMap);

const BulkForm& form_of(Warp& warp, const Instruction* i) {
  return warp.launch->kernel->bulk_forms[i->extra];
}

const Instruction* refuse(Warp& warp, const Instruction* i, uint32_t lane, std::string message) {
  return fault(warp, i,
               {.kind = FaultKind::kAsynchronous, .message = std::move(message), .lane = lane});
}

// The 128 bytes of a map in shared or global memory; null with a fault recorded.
std::byte* map_bytes(Warp& warp, const Instruction* i, const AddressForm& form, AccessKind kind,
                     uint32_t lane) {
  const uint64_t address = lane_address(warp, form, lane);
  const bool is_generic = form.space == ptx::StateSpace::kGeneric;
  const bool in_shared = is_generic ? address - kSharedWindow < kSharedWindowBytes
                                    : form.space != ptx::StateSpace::kGlobal;
  if (!in_shared) {
    return resolve_unaligned(warp, i, address, kMapBytes, kMapAlignment, kind, lane);
  }
  const SharedPlace place = resolve_place(warp, i, form, kMapBytes, kMapAlignment, lane);
  if (place.block == nullptr) return nullptr;
  if (warp.observed) {
    std::array<uint64_t, 32> offsets{};
    offsets[lane] = place.offset;
    const MemoryAccess access{.kind = kind,
                              .space = AccessSpace::kShared,
                              .mask = 1u << lane,
                              .bytes = kMapBytes,
                              .addresses = offsets.data()};
    if (!place.block->observer->on_access(warp, *i, access)) return nullptr;
  }
  return place.block->shared + place.offset;
}

}  // namespace

const Instruction* tensor_map_replace(Warp& warp, const Instruction* i) {
  const BulkForm& form = form_of(warp, i);
  const auto field = static_cast<ptx::TensormapField>(i->options & 0xff);
  const uint32_t ordinal = i->options >> 8;
  const bool is_wide =
      field == ptx::TensormapField::kGlobalAddress || field == ptx::TensormapField::kGlobalStride;
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const std::byte* from = map_bytes(warp, i, form.destination, AccessKind::kRead, lane);
    if (from == nullptr) return nullptr;
    TensorMap map;
    std::memcpy(static_cast<void*>(&map), from, kMapBytes);
    const uint64_t address = lane_address(warp, form.destination, lane);
    if (map.magic != TensorMap::kMagic) {
      return refuse(warp, i, lane, fmt::format("no tensor map at {:#x}", address));
    }
    const uint64_t value = is_wide ? warp.at<uint64_t>(form.values[0])[lane]
                                   : uint64_t{warp.at<uint32_t>(form.values[0])[lane]};
    std::string error = replace_field(map, field, ordinal, value);
    if (!error.empty()) return refuse(warp, i, lane, std::move(error));
    std::byte* to = map_bytes(warp, i, form.destination, AccessKind::kWrite, lane);
    if (to == nullptr) return nullptr;
    std::memcpy(to, &map, kMapBytes);
    if (warp.launch->memory->in_range(address)) {
      warp.launch->map_edits->edit(address, warp.block->linear);
    }
  }
  return i + 1;
}

const Instruction* tensor_map_copy(Warp& warp, const Instruction* i) {
  const Instruction* result = nullptr;
  if (!gather(warp, i, kFullMask, &result)) return result;
  const BulkForm& form = form_of(warp, i);
  const auto lane = static_cast<uint32_t>(std::countr_zero(warp.mask));
  const uint64_t address = lane_address(warp, form.destination, lane);
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto other = static_cast<uint32_t>(std::countr_zero(rest));
    if (lane_address(warp, form.destination, other) == address &&
        lane_address(warp, form.source, other) == lane_address(warp, form.source, lane)) {
      continue;
    }
    return fault(warp, i,
                 {.kind = FaultKind::kDivergent,
                  .message = "addresses that differ among the warp's lanes",
                  .lane = other});
  }
  const std::byte* from = map_bytes(warp, i, form.source, AccessKind::kRead, lane);
  if (from == nullptr) return nullptr;
  std::byte* to = map_bytes(warp, i, form.destination, AccessKind::kWrite, lane);
  if (to == nullptr) return nullptr;
  std::memcpy(to, from, kMapBytes);
  warp.launch->map_edits->edit(address, warp.block->linear);
  warp.launch->map_edits->release(warp.block->linear);
  return i + 1;
}

const Instruction* tensor_map_release(Warp& warp, const Instruction* i) {
  warp.launch->map_edits->release(warp.block->linear);
  return i + 1;
}

const Instruction* tensor_map_acquire(Warp& warp, const Instruction* i) {
  const BulkForm& form = form_of(warp, i);
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t address = lane_address(warp, form.destination, lane);
    const Allocation* allocation = warp.launch->allocations->find_live(address);
    if (allocation == nullptr || allocation->end() - address < kMapBytes) {
      return fault(warp, i,
                   {.kind = FaultKind::kOutOfBounds,
                    .message = fmt::format("fence.proxy.tensormap of 128 bytes at {:#x}: {}",
                                           address, warp.launch->allocations->describe(address)),
                    .lane = lane,
                    .address = address});
    }
    warp.launch->map_edits->acquire(address, warp.block->linear);
  }
  return i + 1;
}

}  // namespace tilewright::emulator::execute
