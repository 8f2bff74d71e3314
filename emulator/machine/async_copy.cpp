#include "emulator/machine/async_copy.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/machine/block.h"

namespace tilewright::emulator {
namespace {

// NaN in every floating-point format.
constexpr int kPoison = 0xff;

// A copy of 16 whole bytes is what kernels do in their loops.
void move_bytes(std::byte* to, const PendingCopy& copy, size_t lane) {
  const size_t from_bytes = copy.from_bytes[lane];
  if (from_bytes == 16) {
    std::memcpy(to, copy.from[lane], 16);
    return;
  }
  if (from_bytes != 0) std::memcpy(to, copy.from[lane], from_bytes);
  if (from_bytes < copy.bytes) std::memset(to + from_bytes, 0, copy.bytes - from_bytes);
}

void land(Warp& warp, const PendingCopy& copy, uint32_t lanes) {
  for (uint32_t rest = lanes & copy.mask & ~copy.landed; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    move_bytes(warp.shared + copy.to[lane], copy, lane);
  }
}

// These copies, by `choose`'s lanes, are complete: their bytes are there now. `waits`: the lanes
// have waited for them.
template <class Choose>
void complete_where(Warp& warp, bool waits, const Choose& choose) {
  for (PendingCopy& copy : warp.copies) {
    const uint32_t lanes = copy.mask & choose(copy);
    if (lanes == 0) continue;
    land(warp, copy, lanes);
    copy.mask &= ~lanes;
    if (!warp.observed) continue;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<size_t>(std::countr_zero(rest));
      warp.block->observer->on_landed({.offset = copy.to[lane],
                                       .bytes = copy.bytes,
                                       .waiter = waits ? &warp : nullptr,
                                       .lane = static_cast<uint32_t>(lane)});
    }
  }
  std::erase_if(warp.copies, [](const PendingCopy& copy) { return copy.mask == 0; });
}

}  // namespace

void issue_copy(Warp& warp, const PendingCopy& copy) {
  ++warp.copy_sequence;
  const bool at_once = warp.launch->schedule == Schedule::kEager;
  if (at_once) {
    land(warp, copy, copy.mask);
    if (!warp.observed) return;
  } else {
    for (uint32_t rest = copy.mask; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<size_t>(std::countr_zero(rest));
      std::memset(warp.shared + copy.to[lane], kPoison, copy.bytes);
    }
  }
  warp.copies.push_back(copy);
  warp.copies.back().group = warp.copy_group;
  warp.copies.back().sequence = warp.copy_sequence;
  if (at_once) warp.copies.back().landed = copy.mask;
}

void commit_copies(Warp& warp) {
  for (size_t lane = 0; lane < 32; ++lane) {
    warp.copy_group[lane] += (warp.mask >> lane) & 1;
  }
}

void wait_copies(Warp& warp, uint32_t newest) {
  if (warp.copies.empty()) return;
  complete_where(warp, true, [&](const PendingCopy& copy) {
    uint32_t lanes = 0;
    for (size_t lane = 0; lane < 32; ++lane) {
      // Groups 0 … copy_group − 1 are committed; the newest of them may remain in flight.
      const uint32_t done = copy.group[lane] + newest < warp.copy_group[lane] ? 1u : 0u;
      lanes |= done << lane;
    }
    return lanes & warp.mask;
  });
}

void wait_all_copies(Warp& warp) {
  complete_where(warp, true, [&](const PendingCopy&) { return warp.mask; });
  commit_copies(warp);
}

void complete_copies_before(Warp& warp, uint32_t lanes, uint64_t sequence) {
  complete_where(warp, false,
                 [&](const PendingCopy& copy) { return copy.sequence <= sequence ? lanes : 0u; });
}

void land_some(Warp& warp) {
  if (warp.copies.empty()) return;
  Random& random = warp.block->random;
  for (PendingCopy& copy : warp.copies) {
    const uint64_t choice = random.below(4);
    if (choice > 1) continue;
    const uint32_t lanes = choice == 0 ? kFullMask : static_cast<uint32_t>(random.next());
    land(warp, copy, lanes);
    copy.landed |= lanes & copy.mask;
  }
}

const PendingCopy* find_in_flight(const Warp& warp, uint32_t offset, uint32_t bytes) {
  for (const PendingCopy& copy : warp.copies) {
    for (uint32_t rest = copy.mask; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<size_t>(std::countr_zero(rest));
      if (copy.to[lane] < offset + bytes && offset < copy.to[lane] + copy.bytes) return &copy;
    }
  }
  return nullptr;
}

}  // namespace tilewright::emulator
