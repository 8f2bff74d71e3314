// Loads, stores, address conversions, matrix moves and cp.async.
#include <bit>
#include <cstring>

#include "core/check.h"
#include "emulator/instructions/ldmatrix.h"
#include "emulator/machine/access.h"
#include "emulator/machine/async_copy.h"
#include "emulator/machine/block.h"
#include "emulator/machine/execute.h"
#include "emulator/machine/watch.h"

namespace tilewright::emulator::execute {
namespace {

using ptx::StateSpace;

const MemoryForm& form_of(Warp& warp, const Instruction* i) {
  return warp.launch->kernel->memory_forms[i->extra];
}

// All lanes of the warp for a matrix instruction; exited ones cannot take part.
bool gather_warp(Warp& warp, const Instruction* i, const Instruction** result) {
  if (warp.live == kFullMask) return gather(warp, i, kFullMask, result);
  *result = fault(warp, i,
                  {.kind = FaultKind::kDivergent,
                   .message = fmt::format("a matrix instruction by a warp of which only lanes "
                                          "{:#010x} live",
                                          warp.live)});
  return false;
}

const Instruction* load(Warp& warp, const Instruction* i, StateSpace space) {
  const MemoryForm& form = form_of(warp, i);
  HostPointers from;
  const uint32_t bytes = uint32_t{form.element_bytes} * form.vector;
  if (!resolve(warp, i, form, i->a, space, bytes, AccessKind::kRead, from)) return nullptr;
  for (uint32_t n = 0; n < form.values.size(); ++n) {
    if (form.values[n] == kNoSlot) continue;
    form.load(warp.at<char>(form.values[n]), from.data(), n * form.element_bytes, warp.mask);
  }
  return i + 1;
}

const Instruction* store(Warp& warp, const Instruction* i, StateSpace space) {
  const MemoryForm& form = form_of(warp, i);
  HostPointers to;
  const uint32_t bytes = uint32_t{form.element_bytes} * form.vector;
  if (!resolve(warp, i, form, i->a, space, bytes, AccessKind::kWrite, to)) return nullptr;
  for (uint32_t n = 0; n < form.values.size(); ++n) {
    form.store(warp.at<char>(form.values[n]), to.data(), n * form.element_bytes, warp.mask);
  }
  return i + 1;
}

}  // namespace

const Instruction* load_param(Warp& warp, const Instruction* i) {
  const MemoryForm& form = form_of(warp, i);
  std::byte* from = const_cast<std::byte*>(warp.launch->parameter_bytes) + form.offset;
  HostPointers pointers;
  pointers.lanes.fill(from);
  for (uint32_t n = 0; n < form.values.size(); ++n) {
    if (form.values[n] == kNoSlot) continue;
    form.load(warp.at<char>(form.values[n]), pointers.data(), n * form.element_bytes, warp.mask);
  }
  return i + 1;
}

const Instruction* load_global(Warp& warp, const Instruction* i) {
  return load(warp, i, StateSpace::kGlobal);
}
const Instruction* store_global(Warp& warp, const Instruction* i) {
  return store(warp, i, StateSpace::kGlobal);
}
const Instruction* load_shared(Warp& warp, const Instruction* i) {
  return load(warp, i, StateSpace::kShared);
}
const Instruction* store_shared(Warp& warp, const Instruction* i) {
  return store(warp, i, StateSpace::kShared);
}
const Instruction* load_any(Warp& warp, const Instruction* i) {
  return load(warp, i, form_of(warp, i).space);
}
const Instruction* store_any(Warp& warp, const Instruction* i) {
  return store(warp, i, form_of(warp, i).space);
}

// A window is words of 32 lanes: byte b of lane l lies at word b / 4, lane l, byte b % 4.
const Instruction* load_window(Warp& warp, const Instruction* i) {
  const MemoryForm& form = form_of(warp, i);
  const auto* words = warp.at<uint32_t>(i->b);
  for (uint32_t n = 0; n < form.values.size(); ++n) {
    if (form.values[n] == kNoSlot) continue;
    const auto offset = static_cast<uint32_t>(form.offset) + n * form.element_bytes;
    HostPointers from;
    alignas(8) std::byte staged[32][8];
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t b = 0; b < form.element_bytes; ++b) {
        const uint32_t at = offset + b;
        staged[lane][b] = static_cast<std::byte>(words[at / 4 * 32 + lane] >> (at % 4 * 8));
      }
      from.lanes[lane] = staged[lane];
    }
    form.load(warp.at<char>(form.values[n]), from.data(), 0, warp.mask);
  }
  return i + 1;
}

const Instruction* store_window(Warp& warp, const Instruction* i) {
  const MemoryForm& form = form_of(warp, i);
  auto* words = warp.at<uint32_t>(i->b);
  for (uint32_t n = 0; n < form.values.size(); ++n) {
    const auto offset = static_cast<uint32_t>(form.offset) + n * form.element_bytes;
    HostPointers to;
    alignas(8) std::byte staged[32][8];
    for (uint32_t lane = 0; lane < 32; ++lane) to.lanes[lane] = staged[lane];
    form.store(warp.at<char>(form.values[n]), to.data(), 0, warp.mask);
    for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
      for (uint32_t b = 0; b < form.element_bytes; ++b) {
        const uint32_t at = offset + b;
        uint32_t& word = words[at / 4 * 32 + lane];
        word &= ~(0xffu << (at % 4 * 8));
        word |= static_cast<uint32_t>(staged[lane][b]) << (at % 4 * 8);
      }
    }
  }
  return i + 1;
}

const Instruction* convert_address(Warp& warp, const Instruction* i) {
  const uint64_t base = i->options != 0 ? 0 - warp.launch->parameters : warp.launch->parameters;
  const auto* from = warp.at<uint64_t>(i->a);
  auto* to = warp.at<uint64_t>(i->d);
  for (int lane = 0; lane < 32; ++lane) {
    if (((warp.mask >> lane) & 1) != 0) to[lane] = from[lane] + base;
  }
  return i + 1;
}

const Instruction* is_space(Warp& warp, const Instruction* i) {
  const auto space = static_cast<StateSpace>(i->options);
  uint32_t bits = 0;
  const MemoryForm& form = form_of(warp, i);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    const uint64_t address =
        form.address_is_wide ? warp.at<uint64_t>(i->a)[lane] : warp.at<uint32_t>(i->a)[lane];
    const bool in_shared = address - kSharedWindow < kSharedWindowBytes;
    const bool in_local = address - kLocalWindow < kLocalWindowBytes;
    bool is_inside = false;
    if (space == StateSpace::kShared) {
      is_inside = in_shared && (address - kSharedWindow) >> 24 == warp.block->cluster_rank;
    } else if (space == StateSpace::kSharedCluster) {
      is_inside = in_shared;
    } else if (space == StateSpace::kLocal) {
      is_inside = in_local;
    } else if (space == StateSpace::kGlobal) {
      is_inside = !in_shared && !in_local && address != 0;
    } else {  // .const and .param: memory that kernels cannot write
      const Allocation* found = warp.launch->allocations->find_live(address);
      is_inside =
          found != nullptr && found->read_only &&
          (space == StateSpace::kParam) == (found->base == warp.launch->memory->parameter_block());
    }
    bits |= (is_inside ? 1u : 0u) << lane;
  }
  uint32_t& target = warp.predicate(i->d);
  target = (target & ~warp.mask) | (bits & warp.mask);
  return i + 1;
}

const Instruction* load_matrix(Warp& warp, const Instruction* i) {
  const MemoryForm& form = form_of(warp, i);
  if (warp.mask != kFullMask) {
    const Instruction* result = nullptr;
    if (!gather_warp(warp, i, &result)) return result;
  }
  // Lanes whose addresses no matrix needs are not checked.
  const auto count = static_cast<uint32_t>(form.values.size());
  const uint32_t lanes = count == 4 ? kFullMask : (1u << (8 * count)) - 1;
  HostPointers rows;
  warp.mask = lanes;
  const bool ok = resolve(warp, i, form, i->a, form.space, 16, AccessKind::kRead, rows);
  warp.mask = kFullMask;
  if (!ok) return nullptr;
  note_together(warp, i, kFullMask);
  uint32_t* registers[4] = {};
  for (uint32_t n = 0; n < count; ++n) registers[n] = warp.at<uint32_t>(form.values[n]);
  load_matrices(static_cast<int>(count), form.transposed,
                reinterpret_cast<const uint8_t* const*>(rows.data()), registers);
  return i + 1;
}

const Instruction* store_matrix(Warp& warp, const Instruction* i) {
  const MemoryForm& form = form_of(warp, i);
  if (warp.mask != kFullMask) {
    const Instruction* result = nullptr;
    if (!gather_warp(warp, i, &result)) return result;
  }
  note_together(warp, i, kFullMask);
  const auto count = static_cast<uint32_t>(form.values.size());
  const uint32_t lanes = count == 4 ? kFullMask : (1u << (8 * count)) - 1;
  HostPointers rows;
  warp.mask = lanes;
  const bool ok = resolve(warp, i, form, i->a, form.space, 16, AccessKind::kWrite, rows);
  warp.mask = kFullMask;
  if (!ok) return nullptr;
  const uint32_t* registers[4] = {};
  for (uint32_t n = 0; n < count; ++n) registers[n] = warp.at<uint32_t>(form.values[n]);
  store_matrices(static_cast<int>(count), form.transposed, registers,
                 reinterpret_cast<uint8_t* const*>(rows.data()));
  return i + 1;
}

const Instruction* move_matrix(Warp& warp, const Instruction* i) {
  if (warp.mask != kFullMask) {
    const Instruction* result = nullptr;
    if (!gather_warp(warp, i, &result)) return result;
  }
  note_together(warp, i, kFullMask);
  transpose_matrix(warp.at<uint32_t>(i->a), warp.at<uint32_t>(i->d));
  return i + 1;
}

const Instruction* multiply_matrices(Warp& warp, const Instruction* i) {
  const MatrixForm& form = warp.launch->kernel->matrix_forms[i->extra];
  if (warp.mask != kFullMask) {
    const Instruction* result = nullptr;
    if (!gather_warp(warp, i, &result)) return result;
  }
  note_together(warp, i, kFullMask);
  const uint32_t* a[8];
  const uint32_t* b[8];
  const uint32_t* c[8];
  uint32_t* d[8];
  for (size_t n = 0; n < form.a.size(); ++n) a[n] = warp.at<uint32_t>(form.a[n]);
  for (size_t n = 0; n < form.b.size(); ++n) b[n] = warp.at<uint32_t>(form.b[n]);
  for (size_t n = 0; n < form.c.size(); ++n) c[n] = warp.at<uint32_t>(form.c[n]);
  for (size_t n = 0; n < form.d.size(); ++n) d[n] = warp.at<uint32_t>(form.d[n]);
  mma_sync(form.form, warp.launch->numerics, a, b, c, d);
  return i + 1;
}

const Instruction* copy_async(Warp& warp, const Instruction* i) {
  const MemoryForm& form = form_of(warp, i);
  constexpr size_t kMostInFlight = 65536;
  if (warp.copies.size() >= kMostInFlight) {
    return fault(warp, i,
                 {.kind = FaultKind::kAsynchronous,
                  .message = fmt::format("more than {} cp.async with no wait", kMostInFlight)});
  }
  PendingCopy copy;
  copy.mask = warp.mask;
  copy.bytes = form.element_bytes;
  copy.instruction = i;
  // Source bytes of each lane; what is not copied is filled with zeros.
  uint32_t reading = 0;
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    uint32_t size = copy.bytes;
    if ((i->options & kCopySize) != 0) size = warp.at<uint32_t>(i->c)[lane];
    if ((i->options & kCopyIgnore) != 0) {
      const bool set = ((warp.predicate(i->c) >> lane) & 1) != 0;
      if (set != ((i->options & kCopyNegated) != 0)) size = 0;
    }
    if (size > copy.bytes) {
      return fault(warp, i,
                   {.kind = FaultKind::kAsynchronous,
                    .message = fmt::format("a source size of {} in a copy of {}", size, copy.bytes),
                    .lane = static_cast<uint32_t>(lane)});
    }
    copy.from_bytes[lane] = static_cast<uint8_t>(size);
    if (size != 0) reading |= 1u << lane;
  }
  HostPointers to;
  MemoryForm destination;
  destination.offset = form.offset;
  destination.address_is_wide = form.address_is_wide;
  if (!resolve(warp, i, destination, i->a, StateSpace::kShared, copy.bytes, AccessKind::kCopyWrite,
               to)) {
    return nullptr;
  }
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    copy.to[lane] = static_cast<uint32_t>(to.lanes[lane] - warp.shared);
  }
  if (reading != 0) {
    HostPointers from;
    MemoryForm source;
    source.offset = form.source_offset;
    const uint32_t all = warp.mask;
    warp.mask = reading;
    // Only the bytes that are read need to exist: a partial copy at an allocation's end is legal.
    bool ok = true;
    bool whole = true;
    for (uint32_t rest = reading; rest != 0; rest &= rest - 1) {
      whole &= copy.from_bytes[static_cast<size_t>(std::countr_zero(rest))] == copy.bytes;
    }
    if (whole) {
      ok = resolve(warp, i, source, i->b, StateSpace::kGlobal, copy.bytes, AccessKind::kAsyncRead,
                   from);
    } else {
      for (uint32_t rest = reading; rest != 0 && ok; rest &= rest - 1) {
        const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
        const uint64_t address =
            warp.at<uint64_t>(i->b)[lane] + static_cast<uint64_t>(source.offset);
        from.lanes[lane] = resolve_unaligned(warp, i, address, copy.from_bytes[lane], copy.bytes,
                                             AccessKind::kAsyncRead, lane);
        ok = from.lanes[lane] != nullptr;
      }
    }
    if (!ok) return nullptr;
    warp.mask = all;
    for (uint32_t rest = reading; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<size_t>(std::countr_zero(rest));
      copy.from[lane] = from.lanes[lane];
    }
  }
  issue_copy(warp, copy);
  return i + 1;
}

const Instruction* copy_commit(Warp& warp, const Instruction* i) {
  commit_copies(warp);
  return i + 1;
}
const Instruction* copy_wait(Warp& warp, const Instruction* i) {
  wait_copies(warp, i->options);
  return i + 1;
}
const Instruction* copy_wait_all(Warp& warp, const Instruction* i) {
  wait_all_copies(warp);
  return i + 1;
}

}  // namespace tilewright::emulator::execute
