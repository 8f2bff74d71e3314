#include "emulator/machine/access.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "core/check.h"
#include "emulator/machine/async_copy.h"
#include "emulator/machine/cluster.h"
#include "emulator/machine/lane_kernels.h"

namespace tilewright::emulator {
namespace {

using ptx::StateSpace;

const LaneHelpers& helpers() {
  static const LaneHelpers kHelpers = lane_helpers();
  return kHelpers;
}

bool is_write(AccessKind kind) {
  return kind == AccessKind::kWrite || kind == AccessKind::kAtomic ||
         kind == AccessKind::kCopyWrite || kind == AccessKind::kAsyncWrite;
}

std::string_view verb(AccessKind kind) {
  switch (kind) {
    case AccessKind::kRead:
    case AccessKind::kAsyncRead:
      return "read";
    case AccessKind::kWrite:
    case AccessKind::kCopyWrite:
    case AccessKind::kAsyncWrite:
      return "write";
    case AccessKind::kAtomic:
      break;
  }
  return "atomic access";
}

std::byte* refuse(Warp& warp, const Instruction* i, FaultKind kind, uint32_t lane, uint64_t address,
                  std::string message) {
  fault(warp, i, {.kind = kind, .message = std::move(message), .lane = lane, .address = address});
  return nullptr;
}

bool observe(Warp& warp, const Instruction* i, AccessKind kind, AccessSpace space, uint32_t mask,
             uint32_t bytes, const uint64_t* addresses) {
  return warp.block->observer->on_access(
      warp, *i,
      {.kind = kind, .space = space, .mask = mask, .bytes = bytes, .addresses = addresses});
}

// owner: the block whose memory it is.
bool observe_lane(Warp& warp, const Instruction* i, const Block& owner, AccessKind kind,
                  AccessSpace space, uint32_t lane, uint32_t bytes, uint64_t address) {
  std::array<uint64_t, 32> addresses;
  addresses[lane] = address;
  return owner.observer->on_access(warp, *i,
                                   {.kind = kind,
                                    .space = space,
                                    .mask = 1u << lane,
                                    .bytes = bytes,
                                    .addresses = addresses.data()});
}

// Makes the allocation around an address the one that bounds are checked against; false if the
// address lies in none that is live.
bool remember_bounds(Warp& warp, uint64_t address) {
  const Allocation* allocation = warp.launch->allocations->find_live(address);
  if (allocation == nullptr) return false;
  warp.bounds_low = allocation->base;
  warp.bounds_high = allocation->end();
  warp.bounds_writable = !allocation->read_only;
  return true;
}

bool within_bounds(const Warp& warp, uint64_t address, uint32_t bytes) {
  return address >= warp.bounds_low && address < warp.bounds_high &&
         bytes <= warp.bounds_high - address;
}

std::byte* global_lane(Warp& warp, const Instruction* i, uint64_t address, uint32_t bytes,
                       AccessKind kind, uint32_t lane) {
  DeviceMemory& memory = *warp.launch->memory;
  if (!within_bounds(warp, address, bytes)) {
    const AllocationTable& table = *warp.launch->allocations;
    const bool live = remember_bounds(warp, address);
    if (!live || !within_bounds(warp, address, bytes)) {
      const AddressLookup found = table.lookup(address);
      const bool freed = !live && found.containing != nullptr;
      return refuse(warp, i, freed ? FaultKind::kUseAfterFree : FaultKind::kOutOfBounds, lane,
                    address,
                    fmt::format("{} of {} bytes at {:#x}: {}", verb(kind), bytes, address,
                                table.describe(address)));
    }
  }
  if (is_write(kind) && !warp.bounds_writable) {
    return refuse(warp, i, FaultKind::kReadOnly, lane, address,
                  fmt::format("{} of {} bytes at {:#x}: {}", verb(kind), bytes, address,
                              warp.launch->allocations->describe(address)));
  }
  if (warp.observed &&
      !observe_lane(warp, i, *warp.block, kind, AccessSpace::kGlobal, lane, bytes, address)) {
    return nullptr;
  }
  return memory.host_base() + (address - memory.base());
}

// The block of rank `rank`, null if there is none; one that has ended is a fault.
const Block* owner_of(Warp& warp, const Instruction* i, uint32_t rank, uint64_t address,
                      uint32_t lane) {
  const Block& block = *warp.block;
  if (rank == block.cluster_rank) return &block;
  const std::vector<Block*>& blocks = block.cluster->blocks;
  if (rank >= blocks.size()) return nullptr;
  if (blocks[rank]->is_finished()) {
    refuse(warp, i, FaultKind::kOutOfBounds, lane, address,
           fmt::format("access to shared address {:#x} of the block with rank {}, which has ended",
                       address, rank));
  }
  return blocks[rank];
}

std::byte* shared_lane(Warp& warp, const Instruction* i, uint64_t address, uint32_t bytes,
                       AccessKind kind, uint32_t lane) {
  const Block* owner = owner_of(warp, i, static_cast<uint32_t>(address >> 24), address, lane);
  if (warp.block->fault) return nullptr;
  const uint64_t offset = (address & 0xffffff) - warp.launch->shared_base;
  const uint64_t size = warp.launch->shared_bytes;
  if (owner == nullptr || offset >= size || bytes > size - offset) {
    return refuse(warp, i, FaultKind::kOutOfBounds, lane, address,
                  fmt::format("{} of {} bytes at shared address {:#x}: the block has {} bytes at "
                              "{:#x}",
                              verb(kind), bytes, address, size, warp.shared_low));
  }
  if (warp.observed &&
      !observe_lane(warp, i, *owner, kind, AccessSpace::kShared, lane, bytes, offset)) {
    return nullptr;
  }
  return owner->shared + offset;
}

std::byte* local_lane(Warp& warp, const Instruction* i, uint64_t offset, uint32_t bytes,
                      AccessKind kind, uint32_t lane) {
  if (offset >= warp.local_bytes || bytes > warp.local_bytes - offset) {
    return refuse(warp, i, FaultKind::kOutOfBounds, lane, offset,
                  fmt::format("{} of {} bytes at local address {:#x}: the thread has {} bytes",
                              verb(kind), bytes, offset, warp.local_bytes));
  }
  return warp.local + warp.local_bytes * lane + offset;
}

std::byte* param_lane(Warp& warp, const Instruction* i, uint64_t offset, uint32_t bytes,
                      AccessKind kind, uint32_t lane) {
  const uint64_t size = warp.launch->request->parameters.size();
  if (offset >= size || bytes > size - offset) {
    return refuse(warp, i, FaultKind::kOutOfBounds, lane, offset,
                  fmt::format("{} of {} bytes at parameter offset {}: the kernel has {} bytes",
                              verb(kind), bytes, offset, size));
  }
  if (is_write(kind)) {
    return global_lane(warp, i, warp.launch->parameters + offset, bytes, kind, lane);
  }
  // The driver wrote all of it: there is nothing to observe, nor a reason to forget the allocation
  // that the warp works in.
  const DeviceMemory& memory = *warp.launch->memory;
  return memory.host_base() + (warp.launch->parameters + offset - memory.base());
}

// The fast path: a full warp whose addresses all lie in the allocation met last.
bool resolve_global(Warp& warp, const Instruction* i, uint64_t offset, Slot address, uint32_t bytes,
                    AccessKind kind, HostPointers& out) {
  if (warp.mask != kFullMask || warp.bounds_high - warp.bounds_low < bytes ||
      (is_write(kind) && !warp.bounds_writable)) {
    return false;
  }
  alignas(64) uint64_t addresses[32];
  if (helpers().check64(warp.at<uint64_t>(address), offset, warp.bounds_low,
                        warp.bounds_high - bytes, bytes - 1, addresses) != 0) {
    return false;
  }
  if (warp.observed && !observe(warp, i, kind, AccessSpace::kGlobal, warp.mask, bytes, addresses)) {
    return false;
  }
  const DeviceMemory& memory = *warp.launch->memory;
  std::byte* base = memory.host_base() - memory.base();
  for (size_t lane = 0; lane < 32; ++lane) out.lanes[lane] = base + addresses[lane];
  return true;
}

bool resolve_shared(Warp& warp, const Instruction* i, uint32_t offset, Slot address, uint32_t bytes,
                    AccessKind kind, HostPointers& out) {
  if (warp.mask != kFullMask || warp.launch->shared_bytes < bytes) return false;
  alignas(64) uint32_t addresses[32];
  const uint32_t low = warp.shared_low;
  if (helpers().check32(warp.at<uint32_t>(address), offset, low,
                        low + warp.launch->shared_bytes - bytes, bytes - 1, addresses) != 0) {
    return false;
  }
  if (warp.observed) {
    alignas(64) uint64_t offsets[32];
    for (size_t lane = 0; lane < 32; ++lane) offsets[lane] = addresses[lane] - low;
    if (!observe(warp, i, kind, AccessSpace::kShared, warp.mask, bytes, offsets)) return false;
  }
  for (size_t lane = 0; lane < 32; ++lane) out.lanes[lane] = warp.shared + (addresses[lane] - low);
  return true;
}

template <class Memory, class Lane, bool kSigned>
void load_lanes(void* lanes, std::byte* const* from, uint32_t offset, uint32_t mask) {
  auto* to = static_cast<Lane*>(lanes);
  const auto read = [&](size_t lane) {
    Memory value;
    std::memcpy(&value, from[lane] + offset, sizeof value);
    if constexpr (kSigned) {
      to[lane] = static_cast<Lane>(
          static_cast<std::make_signed_t<Lane>>(static_cast<std::make_signed_t<Memory>>(value)));
    } else {
      to[lane] = static_cast<Lane>(value);
    }
  };
  if (mask == kFullMask) {
    for (size_t lane = 0; lane < 32; ++lane) read(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) read(static_cast<size_t>(std::countr_zero(mask)));
}

template <class Memory, class Lane>
void store_lanes(const void* lanes, std::byte* const* to, uint32_t offset, uint32_t mask) {
  const auto* from = static_cast<const Lane*>(lanes);
  const auto write = [&](size_t lane) {
    const auto value = static_cast<Memory>(from[lane]);
    std::memcpy(to[lane] + offset, &value, sizeof value);
  };
  if (mask == kFullMask) {
    for (size_t lane = 0; lane < 32; ++lane) write(lane);
    return;
  }
  for (; mask != 0; mask &= mask - 1) write(static_cast<size_t>(std::countr_zero(mask)));
}

template <class Memory>
LoadMove choose_load(bool wide, bool is_signed) {
  if (wide) {
    return is_signed ? load_lanes<Memory, uint64_t, true> : load_lanes<Memory, uint64_t, false>;
  }
  return is_signed ? load_lanes<Memory, uint32_t, true> : load_lanes<Memory, uint32_t, false>;
}

}  // namespace

LoadMove load_move(uint32_t element_bytes, bool lanes_are_wide, bool is_signed) {
  switch (element_bytes) {
    case 1:
      return choose_load<uint8_t>(lanes_are_wide, is_signed);
    case 2:
      return choose_load<uint16_t>(lanes_are_wide, is_signed);
    case 4:
      return choose_load<uint32_t>(lanes_are_wide, is_signed);
    default:
      return choose_load<uint64_t>(lanes_are_wide, is_signed);
  }
}

StoreMove store_move(uint32_t element_bytes, bool lanes_are_wide) {
  switch (element_bytes) {
    case 1:
      return lanes_are_wide ? store_lanes<uint8_t, uint64_t> : store_lanes<uint8_t, uint32_t>;
    case 2:
      return lanes_are_wide ? store_lanes<uint16_t, uint64_t> : store_lanes<uint16_t, uint32_t>;
    case 4:
      return lanes_are_wide ? store_lanes<uint32_t, uint64_t> : store_lanes<uint32_t, uint32_t>;
    default:
      return lanes_are_wide ? store_lanes<uint64_t, uint64_t> : store_lanes<uint64_t, uint32_t>;
  }
}

std::byte* resolve_lane(Warp& warp, const Instruction* i, StateSpace space, uint64_t address,
                        uint32_t bytes, AccessKind kind, uint32_t lane) {
  if ((address & (bytes - 1)) != 0) {
    return refuse(warp, i, FaultKind::kMisaligned, lane, address,
                  fmt::format("{} of {} bytes at {:#x}, which is not a multiple of {}", verb(kind),
                              bytes, address, bytes));
  }
  switch (space) {
    case StateSpace::kShared:
    case StateSpace::kSharedCluster:
      return shared_lane(warp, i, address & 0xffffffffu, bytes, kind, lane);
    case StateSpace::kLocal:
      return local_lane(warp, i, address, bytes, kind, lane);
    case StateSpace::kParam:
      return param_lane(warp, i, address, bytes, kind, lane);
    case StateSpace::kGeneric:
      if (address - kSharedWindow < kSharedWindowBytes) {
        return shared_lane(warp, i, address - kSharedWindow, bytes, kind, lane);
      }
      if (address - kLocalWindow < kLocalWindowBytes) {
        return local_lane(warp, i, address - kLocalWindow, bytes, kind, lane);
      }
      return global_lane(warp, i, address, bytes, kind, lane);
    default:
      return global_lane(warp, i, address, bytes, kind, lane);
  }
}

uint64_t lane_address(const Warp& warp, const AddressForm& form, uint32_t lane) {
  if (form.is_wide) return warp.at<uint64_t>(form.base)[lane] + static_cast<uint64_t>(form.offset);
  return (warp.at<uint32_t>(form.base)[lane] + static_cast<uint64_t>(form.offset)) & 0xffffffffu;
}

SharedPlace resolve_place(Warp& warp, const Instruction* i, const AddressForm& form, uint32_t bytes,
                          uint32_t alignment, uint32_t lane) {
  uint64_t address = lane_address(warp, form, lane);
  if (address % alignment != 0) {
    refuse(warp, i, FaultKind::kMisaligned, lane, address,
           fmt::format("shared address {:#x}, which is not a multiple of {}", address, alignment));
    return {};
  }
  // A wide register may hold a generic address, whatever the space written.
  if (address - kSharedWindow < kSharedWindowBytes) {
    address -= kSharedWindow;
  } else if (form.space == StateSpace::kGeneric || address >= kSharedWindowBytes) {
    refuse(warp, i, FaultKind::kOutOfBounds, lane, address,
           fmt::format("{:#x} is no address of shared memory", address));
    return {};
  }
  const auto rank = static_cast<uint32_t>(address >> 24);
  const Block* owner = owner_of(warp, i, rank, address, lane);
  if (warp.block->fault) return {};
  const uint64_t offset = (address & 0xffffff) - warp.launch->shared_base;
  const uint64_t size = warp.launch->shared_bytes;
  const bool foreign = form.space == StateSpace::kShared && owner != warp.block;
  if (owner == nullptr || foreign || offset >= size || bytes > size - offset) {
    refuse(warp, i, FaultKind::kOutOfBounds, lane, address,
           fmt::format("{} bytes at shared address {:#x}: the block has {} bytes at {:#x}", bytes,
                       address, size, warp.shared_low));
    return {};
  }
  return {const_cast<Block*>(owner), static_cast<uint32_t>(offset)};
}

std::byte* resolve_unaligned(Warp& warp, const Instruction* i, uint64_t address, uint32_t bytes,
                             uint32_t alignment, AccessKind kind, uint32_t lane) {
  if ((address & (alignment - 1)) != 0) {
    return refuse(
        warp, i, FaultKind::kMisaligned, lane, address,
        fmt::format("{} at {:#x}, which is not a multiple of {}", verb(kind), address, alignment));
  }
  return global_lane(warp, i, address, bytes, kind, lane);
}

bool resolve(Warp& warp, const Instruction* i, const MemoryForm& form, Slot address,
             StateSpace space, uint32_t bytes, AccessKind kind, HostPointers& out) {
  const bool is_global =
      space == StateSpace::kGlobal || space == StateSpace::kGeneric || space == StateSpace::kConst;
  if (is_global && form.address_is_wide) {
    const auto offset = static_cast<uint64_t>(form.offset);
    const uint64_t first = warp.at<uint64_t>(address)[0] + offset;
    if (warp.mask == kFullMask && !within_bounds(warp, first, bytes)) remember_bounds(warp, first);
    if (resolve_global(warp, i, offset, address, bytes, kind, out)) return true;
  } else if (space == StateSpace::kShared && !form.address_is_wide) {
    if (resolve_shared(warp, i, static_cast<uint32_t>(form.offset), address, bytes, kind, out)) {
      return true;
    }
  }
  if (warp.block->fault) return false;  // the observer's
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const uint64_t base = form.address_is_wide ? warp.at<uint64_t>(address)[lane]
                                               : uint64_t{warp.at<uint32_t>(address)[lane]};
    uint64_t sum = base + static_cast<uint64_t>(form.offset);
    if (!form.address_is_wide) sum &= 0xffffffffu;
    out.lanes[lane] = resolve_lane(warp, i, space, sum, bytes, kind, lane);
    if (out.lanes[lane] == nullptr) return false;
  }
  return true;
}

}  // namespace tilewright::emulator
