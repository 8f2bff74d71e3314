#include "emulator/machine/warpgroup.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "emulator/machine/block.h"
#include "emulator/machine/cluster.h"
#include "emulator/machine/watch.h"

namespace tilewright::emulator {
namespace {

constexpr uint32_t kPoison = 0xffffffffu;  // NaN, twice NaN in f16
constexpr uint32_t kEveryWarp = 15;
constexpr size_t kMostInFlight = 4096;       // products that no wait has covered
constexpr uint32_t kWindowBytes = 1u << 18;  // what a descriptor can address

Warpgroup& warpgroup_of(Warp& warp) { return warp.block->warpgroups[warp.index / 4]; }
WarpgroupMember& member_of(Warp& warp) { return warpgroup_of(warp).members[warp.index % 4]; }

const Instruction* refuse(Warp& warp, const Instruction* i, FaultKind kind, std::string message) {
  return fault(warp, i, {.kind = kind, .message = std::move(message)});
}

// A register of a frame that need not be the running one.
uint32_t* lanes_of(const Warp& warp, std::byte* registers, Slot slot) {
  std::byte* base = (slot & kConstantBit) != 0 ? warp.bases[1] : registers;
  return reinterpret_cast<uint32_t*>(base + (slot & ~kConstantBit));
}

// One value in all lanes.
bool is_uniform(const uint64_t* values) {
  return std::all_of(values, values + 32, [&](uint64_t value) { return value == values[0]; });
}

// Empty if every byte that the operand names lies in the block's shared memory.
std::string check_operand(const Launch& launch, uint64_t bits, Major major, int rows) {
  const WgmmaDescriptor descriptor = decode_wgmma_descriptor(bits);
  if (!descriptor.reserved_bits_clear) {
    return fmt::format("descriptor {:#018x} has bits set that must be 0", bits);
  }
  const uint32_t low = launch.shared_base;
  const uint32_t high = launch.shared_base + launch.shared_bytes;
  const auto groups = static_cast<uint32_t>(rows / 8 - 1);
  const bool plain = descriptor.swizzle == Swizzle::kNone;
  uint32_t reach = descriptor.start_address + 1152;
  if (major == Major::kK) {
    reach += groups * descriptor.stride_offset + (plain ? descriptor.leading_offset : 0);
  } else if (plain) {
    reach += groups * descriptor.stride_offset + descriptor.leading_offset;
  } else {
    const uint32_t width = static_cast<uint32_t>(descriptor.swizzle) / 2;
    reach += (static_cast<uint32_t>(rows) + width - 1) / width * descriptor.leading_offset +
             descriptor.stride_offset;
  }
  if ((descriptor.start_address & ~127u) >= low && reach <= std::min(high, kWindowBytes)) return {};
  for (int chunk = 0; chunk < chunk_count(rows); ++chunk) {
    const uint32_t address = chunk_address(descriptor, major, chunk);
    if (address < low || address + 16 > high) {
      return fmt::format(
          "descriptor {:#018x} names shared address {:#x}, the block has {} bytes "
          "at {:#x}",
          bits, address, launch.shared_bytes, low);
    }
  }
  return {};
}

bool observe_operand(Warp& warp, const Instruction* i, uint64_t bits, Major major, int rows) {
  if (!warp.observed) return true;
  const WgmmaDescriptor descriptor = decode_wgmma_descriptor(bits);
  const int count = chunk_count(rows);
  for (int first = 0; first < count; first += 32) {
    std::array<uint64_t, 32> offsets;
    const int some = std::min(count - first, 32);
    for (int n = 0; n < some; ++n) {
      offsets[static_cast<size_t>(n)] =
          chunk_address(descriptor, major, first + n) - warp.launch->shared_base;
    }
    const MemoryAccess access{.kind = AccessKind::kAsyncRead,
                              .space = AccessSpace::kShared,
                              .mask = some == 32 ? kFullMask : (1u << some) - 1,
                              .bytes = 16,
                              .addresses = offsets.data()};
    if (!warp.block->observer->on_access(warp, *i, access)) return false;
  }
  return true;
}

void run_product(Block& block, Warpgroup& group, WarpgroupProduct& product) {
  const WarpgroupForm& form = *product.form;
  alignas(64) uint8_t a_tile[64 * 32];
  alignas(64) uint8_t b_tile[256 * 32];
  const auto* shared = reinterpret_cast<const uint8_t*>(block.shared) - block.launch->shared_base;
  WgmmaOperands operands;
  gather_tile(decode_wgmma_descriptor(product.descriptor_b), form.major_b, form.form.n, shared,
              b_tile);
  operands.b_tile = b_tile;
  operands.scale_d = product.scale_d;
  operands.negate_a = form.negate_a;
  operands.negate_b = form.negate_b;
  const uint32_t* a[4][4];
  uint32_t* d[4][128];
  if (form.a.empty()) {
    gather_tile(decode_wgmma_descriptor(product.descriptor_a), form.major_a, 64, shared, a_tile);
    operands.a_tile = a_tile;
  }
  const size_t first_warp = static_cast<size_t>(&group - block.warpgroups.data()) * 4;
  for (size_t w = 0; w < 4; ++w) {
    Warp& warp = block.warps[first_warp + w];
    for (size_t r = 0; r < 4; ++r) a[w][r] = product.a[w][r];
    Accumulators* accumulators = product.accumulators[w];
    for (size_t n = 0; n < form.d.size(); ++n) {
      d[w][n] = accumulators != nullptr ? accumulators->values.data() + 32 * n
                                        : lanes_of(warp, product.registers[w], form.d[n]);
    }
    operands.a_registers[w] = a[w];
    operands.d[w] = d[w];
  }
  wgmma(form.form, block.launch->numerics, operands);
  product.is_done = true;
  ++group.done;
}

void run_until(Block& block, Warpgroup& group, uint64_t end) {
  while (group.done < end) run_product(block, group, *group.products[group.done - group.first]);
}

// The accumulators that a new product of this warp adds to; null with a fault recorded.
Accumulators* take_accumulators(Warp& warp, const Instruction* i, const WarpgroupForm& form,
                                uint64_t number) {
  WarpgroupMember& member = member_of(warp);
  for (const auto& held : member.accumulators) {
    if (held->registers != warp.bases[0]) continue;
    if (*held->slots == form.d) {
      held->last = number;
      return held.get();
    }
    for (const Slot slot : form.d) {
      if (std::find(held->slots->begin(), held->slots->end(), slot) == held->slots->end()) continue;
      refuse(warp, i, FaultKind::kRegisters,
             "accumulators that overlap those of a wgmma in flight of another shape");
      return nullptr;
    }
  }
  auto fresh = std::make_unique<Accumulators>();
  fresh->registers = warp.bases[0];
  fresh->slots = &form.d;
  fresh->last = number;
  fresh->values.resize(32 * form.d.size());
  for (size_t n = 0; n < form.d.size(); ++n) {
    auto* lanes = warp.at<uint32_t>(form.d[n]);
    std::memcpy(&fresh->values[32 * n], lanes, kLaneBytes32);
    std::fill_n(lanes, 32, kPoison);
  }
  member.accumulators.push_back(std::move(fresh));
  return member.accumulators.back().get();
}

// What this warp's products below `end` leave: accumulators in registers. False with a fault.
bool finish_products(Warp& warp, const Instruction* i, uint64_t end) {
  Warpgroup& group = warpgroup_of(warp);
  WarpgroupMember& member = member_of(warp);
  const auto changed = [&](const char* what, const Instruction* at) {
    fault(warp, i,
          {.kind = FaultKind::kRegisters,
           .message = fmt::format("{} of a wgmma in flight were written before the wait", what),
           .other_party = describe_instruction(warp, *warp.frame, *at)});
    return false;
  };
  for (uint64_t n = member.waited; n < end; ++n) {
    const WarpgroupProduct& product = *group.products[n - group.first];
    for (size_t r = 0; r < product.form->a.size(); ++r) {
      const uint32_t* lanes = lanes_of(warp, product.registers[warp.index % 4], product.form->a[r]);
      if (std::memcmp(lanes, product.a[warp.index % 4][r], kLaneBytes32) != 0) {
        return changed("registers of A", product.instruction);
      }
    }
  }
  for (const auto& held : member.accumulators) {
    if (held->last >= end) continue;
    for (size_t n = 0; n < held->slots->size(); ++n) {
      uint32_t* lanes = lanes_of(warp, held->registers, (*held->slots)[n]);
      if (!std::all_of(lanes, lanes + 32, [](uint32_t value) { return value == kPoison; })) {
        return changed("accumulators", group.products[held->last - group.first]->instruction);
      }
      std::memcpy(lanes, &held->values[32 * n], kLaneBytes32);
    }
  }
  std::erase_if(member.accumulators, [&](const auto& held) { return held->last < end; });
  member.waited = std::max(member.waited, end);
  note_sync(warp, SyncKind::kWgmmaWait, warp.live, i, static_cast<uint32_t>(end));
  // Products that all four warps have waited for are history.
  uint64_t all = end;
  for (const WarpgroupMember& other : group.members) all = std::min(all, other.waited);
  while (group.first < all) {
    group.products.pop_front();
    ++group.first;
  }
  return true;
}

void wake_warpgroup(Block& block, Warp& joining) {
  const size_t first = joining.index / 4 * 4;
  for (size_t w = first; w < first + 4; ++w) {
    for (LaneGroup& group : block.warps[w].parked) {
      if (group.state == GroupState::kAtWarpgroup) group.state = GroupState::kReady;
    }
  }
  ++block.cluster->events;
}

}  // namespace

const Instruction* issue_product(Warp& warp, const Instruction* i, const WarpgroupForm& form) {
  Block& block = *warp.block;
  Warpgroup& group = warpgroup_of(warp);
  WarpgroupMember& member = member_of(warp);
  const size_t own = warp.index % 4;
  if (!member.fenced) {
    return refuse(warp, i, FaultKind::kRegisters,
                  "the warp's first wgmma, with no wgmma.fence before it");
  }
  if (!note_product_registers(warp, i, form, member.issued)) return nullptr;
  const auto* b = warp.at<uint64_t>(form.descriptor_b);
  const auto* a = form.a.empty() ? warp.at<uint64_t>(form.descriptor_a) : b;
  if (!is_uniform(a) || !is_uniform(b)) {
    return refuse(warp, i, FaultKind::kDivergent, "descriptors that differ among the warp's lanes");
  }
  const uint32_t scale = warp.predicate(form.scale);
  if (scale != 0 && scale != kFullMask) {
    return refuse(warp, i, FaultKind::kDivergent, "a scale-d that differs among the warp's lanes");
  }
  const uint64_t number = member.issued;
  if (group.products.size() >= kMostInFlight) {
    return refuse(warp, i, FaultKind::kAsynchronous,
                  fmt::format("more than {} wgmma with no wait", kMostInFlight));
  }
  bool is_first = false;
  if (number == group.first + group.products.size()) {
    auto fresh = std::make_unique<WarpgroupProduct>();
    fresh->instruction = i;
    fresh->form = &form;
    fresh->descriptor_a = a[0];
    fresh->descriptor_b = b[0];
    fresh->scale_d = (scale != 0) != form.scale_negated;
    std::string error = check_operand(*warp.launch, b[0], form.major_b, form.form.n);
    if (error.empty() && form.a.empty()) {
      error = check_operand(*warp.launch, a[0], form.major_a, 64);
    }
    if (!error.empty()) return refuse(warp, i, FaultKind::kDescriptor, std::move(error));
    group.products.push_back(std::move(fresh));
    is_first = true;
  }
  WarpgroupProduct& product = *group.products[number - group.first];
  if (product.instruction != i || product.descriptor_a != a[0] || product.descriptor_b != b[0] ||
      product.scale_d != ((scale != 0) != form.scale_negated)) {
    return fault(warp, i,
                 {.kind = FaultKind::kDivergent,
                  .message = "the warps of a warpgroup do not execute the same wgmma",
                  .other_party = describe_instruction(warp, *warp.frame, *product.instruction)});
  }
  if (is_first || warp.ordered) {
    if (!observe_operand(warp, i, b[0], form.major_b, form.form.n)) return nullptr;
    if (form.a.empty() && !observe_operand(warp, i, a[0], form.major_a, 64)) return nullptr;
  }
  if (warp.launch->schedule != Schedule::kEager) {
    product.accumulators[own] = take_accumulators(warp, i, form, number);
    if (product.accumulators[own] == nullptr) return nullptr;
  }
  for (size_t r = 0; r < form.a.size(); ++r) {
    std::memcpy(product.a[own][r], warp.at<uint32_t>(form.a[r]), kLaneBytes32);
  }
  product.registers[own] = warp.bases[0];
  product.joined |= 1u << own;
  ++member.issued;
  if (product.joined == kEveryWarp) {
    if (warp.launch->schedule == Schedule::kEager) run_until(block, group, number + 1);
    wake_warpgroup(block, warp);
  }
  return i + 1;
}

void commit_products(Warp& warp) {
  WarpgroupMember& member = member_of(warp);
  member.group_ends.push_back(member.issued);
}

const Instruction* wait_products(Warp& warp, const Instruction* i, uint32_t newest) {
  Warpgroup& group = warpgroup_of(warp);
  WarpgroupMember& member = member_of(warp);
  if (member.group_ends.size() <= newest) return i + 1;
  const size_t covered = member.group_ends.size() - newest;
  const uint64_t end = member.group_ends[covered - 1];
  if (end > group.done) {
    if (group.products[end - 1 - group.first]->joined != kEveryWarp) {
      return park_to_repeat(warp, i, GroupState::kAtWarpgroup, 0);
    }
    run_until(*warp.block, group, end);
  }
  if (end > member.waited && !finish_products(warp, i, end)) return nullptr;
  member.group_ends.erase(member.group_ends.begin(),
                          member.group_ends.begin() + static_cast<std::ptrdiff_t>(covered));
  return i + 1;
}

const Instruction* product_in_flight(const Warp& warp) {
  if (warp.index / 4 >= warp.block->warpgroups.size()) return nullptr;
  const Warpgroup& group = warp.block->warpgroups[warp.index / 4];
  const WarpgroupMember& member = group.members[warp.index % 4];
  for (uint64_t n = member.waited; n < member.issued; ++n) {
    const WarpgroupProduct& product = *group.products[n - group.first];
    if (product.registers[warp.index % 4] == warp.bases[0]) return product.instruction;
  }
  return nullptr;
}

void run_some_products(Block& block) {
  for (Warpgroup& group : block.warpgroups) {
    while (group.done < group.first + group.products.size() &&
           group.products[group.done - group.first]->joined == kEveryWarp &&
           block.random.below(3) == 0) {
      run_product(block, group, *group.products[group.done - group.first]);
    }
  }
}

}  // namespace tilewright::emulator
