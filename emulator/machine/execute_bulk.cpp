// Bulk copies and wgmma: from registers to checked requests.
#include <bit>
#include <cstring>

#include "core/check.h"
#include "emulator/machine/access.h"
#include "emulator/machine/cluster.h"
#include "emulator/machine/execute.h"
#include "emulator/machine/watch.h"

namespace tilewright::emulator::execute {
namespace {

// Asynchronous operations that a cluster may leave without a wait: far more than any program does,
// few enough to keep.
constexpr size_t kMostInFlight = 65536;

const BulkForm& form_of(Warp& warp, const Instruction* i) {
  return warp.launch->kernel->bulk_forms[i->extra];
}

const Instruction* misuse(Warp& warp, const Instruction* i, uint32_t lane, std::string message) {
  return fault(warp, i,
               {.kind = FaultKind::kAsynchronous, .message = std::move(message), .lane = lane});
}

void bad_map(Warp& warp, const Instruction* i, uint32_t lane, std::string message) {
  fault(warp, i, {.kind = FaultKind::kDescriptor, .message = std::move(message), .lane = lane});
}

BulkCopy make_copy(Warp& warp, const Instruction* i, uint32_t lane, BulkKind kind) {
  const BulkForm& form = form_of(warp, i);
  BulkCopy copy;
  copy.kind = kind;
  copy.warp = &warp;
  copy.lane = lane;
  copy.frame = warp.frame;
  copy.instruction = i;
  copy.group = warp.bulk_group[lane];
  copy.op = form.op;
  copy.type = form.type;
  return copy;
}

// What the observer of the block that owns the memory says.
bool observe_shared(Warp& warp, const Instruction* i, const SharedPlace& place, uint32_t bytes,
                    const BulkCopy& copy, AccessKind kind, uint32_t lane) {
  if (!warp.observed || bytes == 0) return true;
  std::array<uint64_t, 32> offsets{};
  offsets[lane] = place.offset;
  const MemoryAccess access{.kind = kind,
                            .space = AccessSpace::kShared,
                            .mask = 1u << lane,
                            .bytes = bytes,
                            .addresses = offsets.data(),
                            .copy = &copy};
  return place.block->observer->on_access(warp, *i, access);
}

// The map behind a lane's operand; false with a fault.
bool read_map(Warp& warp, const Instruction* i, uint32_t lane, BulkCopy& copy) {
  const BulkForm& form = form_of(warp, i);
  const uint64_t address = lane_address(warp, form.map, lane);
  const std::byte* bytes =
      resolve_unaligned(warp, i, address, sizeof(TensorMap), 64, AccessKind::kRead, lane);
  if (bytes == nullptr) return false;
  std::memcpy(static_cast<void*>(&copy.map), bytes, sizeof(TensorMap));
  copy.has_map = true;
  std::string stale = warp.launch->map_edits->check_use(address, warp.block->linear);
  if (!stale.empty()) {
    misuse(warp, i, lane, std::move(stale));
    return false;
  }
  if (copy.map.magic != TensorMap::kMagic) {
    bad_map(warp, i, lane, fmt::format("no tensor map at {:#x}", address));
    return false;
  }
  if (copy.map.rank != form.coordinates.size()) {
    bad_map(warp, i, lane,
            fmt::format("a tensor map of rank {} in a copy of {} dimensions", copy.map.rank,
                        form.coordinates.size()));
    return false;
  }
  for (size_t n = 0; n < form.coordinates.size(); ++n) {
    copy.start[n] = warp.at<int32_t>(form.coordinates[n])[lane];
  }
  if (copy.op != ptx::Op::kNone) {
    // CUtensorMapDataType
    static constexpr ptx::Type kTypes[] = {
        ptx::Type::kU8,  ptx::Type::kU16, ptx::Type::kU32, ptx::Type::kS32, ptx::Type::kU64,
        ptx::Type::kS64, ptx::Type::kF16, ptx::Type::kF32, ptx::Type::kF64, ptx::Type::kBf16,
        ptx::Type::kF32, ptx::Type::kF32, ptx::Type::kF32};
    const size_t type = copy.map.data_type;
    if (type < 2 || type >= std::size(kTypes)) {
      bad_map(warp, i, lane, fmt::format("a reduction of data type {}", type));
      return false;
    }
    copy.type = kTypes[type];
    const bool is_float = ptx::is_float(copy.type);
    const bool bitwise = copy.op == ptx::Op::kAnd || copy.op == ptx::Op::kOr ||
                         copy.op == ptx::Op::kXor || copy.op == ptx::Op::kInc ||
                         copy.op == ptx::Op::kDec;
    if (is_float && (bitwise || (copy.op != ptx::Op::kAdd && ptx::type_bits(copy.type) > 16))) {
      bad_map(warp, i, lane, "a reduction that this data type does not have");
      return false;
    }
  }
  const std::string error = prepare_tensor_copy(*warp.launch, copy);
  if (error.empty()) return true;
  bad_map(warp, i, lane, error);
  return false;
}

// Size and global place of a copy without a map; false with a fault.
bool read_linear(Warp& warp, const Instruction* i, uint32_t lane, const AddressForm& global,
                 AccessKind kind, BulkCopy& copy) {
  const BulkForm& form = form_of(warp, i);
  copy.bytes = warp.at<uint32_t>(form.size)[lane];
  if (copy.bytes == 0 || copy.bytes % 16 != 0 || copy.bytes > kMbarrierLimit) {
    misuse(warp, i, lane,
           fmt::format("a bulk copy of {} bytes, no positive multiple of 16", copy.bytes));
    return false;
  }
  if (copy.kind == BulkKind::kPush) return true;
  copy.global_address = lane_address(warp, global, lane);
  copy.global = resolve_unaligned(warp, i, copy.global_address, copy.bytes, 16, kind, lane);
  return copy.global != nullptr;
}

// Ranks that a load goes to, relative to the place that the instruction names.
bool issue_to(Warp& warp, const Instruction* i, uint32_t lane, BulkCopy copy, uint32_t rank) {
  const std::vector<Block*>& blocks = warp.block->cluster->blocks;
  if (rank >= blocks.size()) {
    misuse(warp, i, lane,
           fmt::format("a multicast to rank {} of a cluster of {}", rank, blocks.size()));
    return false;
  }
  copy.shared.block = blocks[rank];
  copy.barrier.block = blocks[rank];
  std::string error;
  if (find_mbarrier(copy.barrier, &error) == nullptr) {
    fault(warp, i, {.kind = FaultKind::kMbarrier, .message = std::move(error), .lane = lane});
    return false;
  }
  if (!note_mbarrier(warp, SyncKind::kMbarrierUse, 1u << lane, i, copy.barrier) ||
      !observe_shared(warp, i, copy.shared, copy.bytes, copy, AccessKind::kAsyncWrite, lane)) {
    return false;
  }
  issue_bulk(*warp.block->cluster, copy);
  return !warp.block->fault;
}

bool load_lane(Warp& warp, const Instruction* i, uint32_t lane) {
  const BulkForm& form = form_of(warp, i);
  BulkCopy copy = make_copy(warp, i, lane, BulkKind::kLoad);
  const bool has_map = !form.coordinates.empty();
  if (has_map ? !read_map(warp, i, lane, copy)
              : !read_linear(warp, i, lane, form.source, AccessKind::kAsyncRead, copy)) {
    return false;
  }
  copy.shared = resolve_place(warp, i, form.destination, copy.bytes, has_map ? 128 : 16, lane);
  if (copy.shared.block == nullptr) return false;
  copy.barrier = resolve_place(warp, i, form.barrier, 8, 8, lane);
  if (copy.barrier.block == nullptr) return false;
  if (form.mask == kNoSlot) {
    if (copy.barrier.block != copy.shared.block) {
      misuse(warp, i, lane,
             "a bulk copy whose mbarrier lies in another block than its destination");
      return false;
    }
    return issue_to(warp, i, lane, copy, copy.shared.block->cluster_rank);
  }
  const uint32_t mask = warp.at<uint32_t>(form.mask)[lane] & 0xffff;
  if (mask == 0) {
    misuse(warp, i, lane, "a multicast to nobody");
    return false;
  }
  for (uint32_t rest = mask; rest != 0; rest &= rest - 1) {
    if (!issue_to(warp, i, lane, copy, static_cast<uint32_t>(std::countr_zero(rest)))) return false;
  }
  return true;
}

bool store_lane(Warp& warp, const Instruction* i, uint32_t lane) {
  const BulkForm& form = form_of(warp, i);
  BulkCopy copy = make_copy(warp, i, lane, BulkKind::kStore);
  const bool has_map = !form.coordinates.empty();
  const AccessKind kind = copy.op == ptx::Op::kNone ? AccessKind::kAsyncWrite : AccessKind::kAtomic;
  if (has_map ? !read_map(warp, i, lane, copy)
              : !read_linear(warp, i, lane, form.destination, kind, copy)) {
    return false;
  }
  copy.shared = resolve_place(warp, i, form.source, copy.bytes, has_map ? 128 : 16, lane);
  if (copy.shared.block == nullptr) return false;
  if (warp.observed) {
    for (const SharedPart& part : stored_parts(copy)) {
      const SharedPlace place{copy.shared.block, part.offset};
      if (!observe_shared(warp, i, place, part.bytes, copy, AccessKind::kAsyncRead, lane))
        return false;
    }
  }
  issue_bulk(*warp.block->cluster, copy);
  return !warp.block->fault;
}

bool push_lane(Warp& warp, const Instruction* i, uint32_t lane) {
  const BulkForm& form = form_of(warp, i);
  BulkCopy copy = make_copy(warp, i, lane, BulkKind::kPush);
  if (!read_linear(warp, i, lane, form.destination, AccessKind::kAsyncWrite, copy)) return false;
  copy.shared = resolve_place(warp, i, form.destination, copy.bytes, 16, lane);
  if (copy.shared.block == nullptr) return false;
  copy.source = resolve_place(warp, i, form.source, copy.bytes, 16, lane);
  if (copy.source.block == nullptr) return false;
  copy.barrier = resolve_place(warp, i, form.barrier, 8, 8, lane);
  if (copy.barrier.block == nullptr) return false;
  if (copy.barrier.block != copy.shared.block) {
    misuse(warp, i, lane, "a bulk copy whose mbarrier lies in another block than its destination");
    return false;
  }
  if (!observe_shared(warp, i, copy.source, copy.bytes, copy, AccessKind::kAsyncRead, lane))
    return false;
  return issue_to(warp, i, lane, copy, copy.shared.block->cluster_rank);
}

bool value_lane(Warp& warp, const Instruction* i, uint32_t lane) {
  const BulkForm& form = form_of(warp, i);
  BulkCopy copy = make_copy(warp, i, lane, BulkKind::kValue);
  const auto element = static_cast<uint32_t>(ptx::type_bits(form.type)) / 8;
  copy.bytes = element * static_cast<uint32_t>(form.values.size());
  copy.staged.resize(copy.bytes);
  for (size_t n = 0; n < form.values.size(); ++n) {
    const std::byte* value = element == 8 ? warp.at<std::byte>(form.values[n]) + size_t{lane} * 8
                                          : warp.at<std::byte>(form.values[n]) + size_t{lane} * 4;
    std::memcpy(copy.staged.data() + n * element, value, element);
  }
  copy.shared = resolve_place(warp, i, form.destination, copy.bytes, copy.bytes, lane);
  if (copy.shared.block == nullptr) return false;
  copy.barrier = resolve_place(warp, i, form.barrier, 8, 8, lane);
  if (copy.barrier.block == nullptr) return false;
  if (copy.barrier.block != copy.shared.block) {
    misuse(warp, i, lane, "a store whose mbarrier lies in another block than its destination");
    return false;
  }
  return issue_to(warp, i, lane, copy, copy.shared.block->cluster_rank);
}

template <bool (*kLane)(Warp&, const Instruction*, uint32_t)>
const Instruction* for_each_lane(Warp& warp, const Instruction* i) {
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (warp.block->cluster->copies.size() >= kMostInFlight) {
      misuse(warp, i, lane, fmt::format("more than {} bulk copies with no wait", kMostInFlight));
      return nullptr;
    }
    if (!kLane(warp, i, lane)) {
      warp.stop = Stop::kFault;
      return nullptr;
    }
  }
  return i + 1;
}

// The four warps of a warpgroup exist and all lanes are here.
bool gather_warpgroup(Warp& warp, const Instruction* i, const Instruction** result) {
  if (warp.live != kFullMask || warp.index / 4 >= warp.block->warpgroups.size()) {
    *result = fault(warp, i,
                    {.kind = FaultKind::kDivergent,
                     .message = "wgmma outside of a whole, aligned warpgroup of 128 threads"});
    return false;
  }
  return gather(warp, i, kFullMask, result);
}

}  // namespace

const Instruction* bulk_load(Warp& warp, const Instruction* i) {
  return for_each_lane<load_lane>(warp, i);
}
const Instruction* bulk_store(Warp& warp, const Instruction* i) {
  return for_each_lane<store_lane>(warp, i);
}
const Instruction* bulk_push(Warp& warp, const Instruction* i) {
  return for_each_lane<push_lane>(warp, i);
}
const Instruction* store_async(Warp& warp, const Instruction* i) {
  return for_each_lane<value_lane>(warp, i);
}

const Instruction* bulk_commit(Warp& warp, const Instruction* i) {
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    ++warp.bulk_group[static_cast<size_t>(std::countr_zero(rest))];
  }
  return i + 1;
}

const Instruction* bulk_wait(Warp& warp, const Instruction* i) {
  wait_bulk(warp, i->options >> 1, (i->options & 1) != 0);
  note_sync(warp, SyncKind::kBulkWait, warp.mask, i, i->options >> 1);
  return i + 1;
}

const Instruction* touch_registers(Warp& warp, const Instruction* i) {
  return note_touched_registers(warp, i);
}

const Instruction* wgmma_fence(Warp& warp, const Instruction* i) {
  const Instruction* result = nullptr;
  if (!gather_warpgroup(warp, i, &result)) return result;
  note_together(warp, i, kFullMask);
  warp.block->warpgroups[warp.index / 4].members[warp.index % 4].fenced = true;
  note_register_fence(warp);
  return i + 1;
}

const Instruction* wgmma_multiply(Warp& warp, const Instruction* i) {
  const Instruction* result = nullptr;
  if (!gather_warpgroup(warp, i, &result)) return result;
  return issue_product(warp, i, warp.launch->kernel->warpgroup_forms[i->extra]);
}

const Instruction* wgmma_commit(Warp& warp, const Instruction* i) {
  const Instruction* result = nullptr;
  if (!gather_warpgroup(warp, i, &result)) return result;
  commit_products(warp);
  return i + 1;
}

const Instruction* wgmma_wait(Warp& warp, const Instruction* i) {
  const Instruction* result = nullptr;
  if (!gather_warpgroup(warp, i, &result)) return result;
  return wait_products(warp, i, i->options);
}

}  // namespace tilewright::emulator::execute
