#include "emulator/observers/history.h"

#include <algorithm>
#include <bit>

namespace tilewright::emulator {
namespace {

// Takes `lanes` out of a list of classes.
void remove_lanes(std::vector<LaneClass>& classes, uint32_t lanes) {
  for (LaneClass& c : classes) c.lanes &= ~lanes;
  std::erase_if(classes, [](const LaneClass& c) { return c.lanes == 0; });
}

}  // namespace

History::History(uint32_t blocks, uint32_t threads_per_block)
    : warps_per_block_((threads_per_block + 31) / 32), warps_(blocks * warps_per_block_) {
  for (uint32_t i = 0; i < warps_.size(); ++i) {
    const uint32_t lanes = std::min(32u, threads_per_block - i % warps_per_block_ * 32);
    warps_[i].started = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
    warps_[i].classes.push_back({warps_[i].started, {}});
  }
}

uint32_t History::component_of(uint64_t party) {
  const auto next = first_async_component() + static_cast<uint32_t>(parties_.size());
  const auto [entry, is_new] = components_.try_emplace(party, next);
  if (is_new) parties_.push_back(party);
  return entry->second;
}

// The lanes' own past. Where not every lane is there, only those that have accessed anything need
// to be named.
void History::add_own(uint32_t index, uint32_t lanes, VectorClock& clock) const {
  const WarpHistory& warp = warps_[index];
  if (lanes == warp.started) {
    clock.raise(write_component(index), warp.past());
    clock.raise(read_component(index), warp.past());
  } else {
    clock.raise_lanes(write_component(index), lanes & warp.writers, warp.past());
    clock.raise_lanes(read_component(index), lanes & warp.readers, warp.past());
  }
  const uint32_t first = warp.fenced[static_cast<size_t>(std::countr_zero(lanes))];
  uint32_t same = 0;
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    if (warp.fenced[lane] == first) {
      same |= 1u << lane;
    } else if (warp.fenced[lane] != 0) {
      clock.raise_lanes(fence_component(index), 1u << lane, warp.fenced[lane]);
    }
  }
  if (first == 0) return;
  if (same == warp.started) {
    clock.raise(fence_component(index), first);
  } else {
    clock.raise_lanes(fence_component(index), same, first);
  }
}

VectorClock History::joint(uint32_t index, uint32_t lanes) const {
  const WarpHistory& warp = warps_[index];
  VectorClock clock;
  for (const LaneClass& c : warp.classes) {
    if ((c.lanes & lanes) != 0) clock.join(c.known);
  }
  return clock;
}

VectorClock History::past(uint32_t index, uint32_t lanes) const {
  VectorClock clock = joint(index, lanes);
  add_own(index, lanes, clock);
  return clock;
}

VectorClock History::publish(uint32_t index, uint32_t lanes) {
  absorb_pending(index, lanes);
  VectorClock clock = past(index, lanes);
  warps_[index].step();
  return clock;
}

void History::acquire(uint32_t index, uint32_t lanes, const VectorClock& clock) {
  WarpHistory& warp = warps_[index];
  uint32_t equal = 0;  // lanes that know `clock` and nothing else now
  const size_t count = warp.classes.size();
  for (size_t n = 0; n < count; ++n) {
    const uint32_t taken = warp.classes[n].lanes & lanes;
    if (taken == 0) continue;
    if (clock.dominates(warp.classes[n].known)) {
      equal |= taken;
      warp.classes[n].lanes &= ~taken;
    } else if (taken == warp.classes[n].lanes) {
      warp.classes[n].known.join(clock);
    } else {
      warp.classes[n].lanes &= ~taken;
      LaneClass split{taken, warp.classes[n].known};
      split.known.join(clock);
      warp.classes.push_back(std::move(split));
    }
  }
  std::erase_if(warp.classes, [](const LaneClass& c) { return c.lanes == 0; });
  if (equal != 0) warp.classes.push_back({equal, clock});
}

void History::synchronise(uint32_t index, uint32_t lanes) {
  const VectorClock clock = publish(index, lanes);
  acquire(index, lanes, clock);
}

void History::order_reads(uint32_t index, uint32_t lanes) {
  WarpHistory& warp = warps_[index];
  VectorClock reads;
  if (lanes == warp.started) {
    reads.raise(read_component(index), warp.past());
  } else {
    reads.raise_lanes(read_component(index), lanes & warp.readers, warp.past());
  }
  if (warp.classes.size() == 1 && warp.classes[0].lanes == lanes) {
    warp.classes[0].known.join(reads);
  } else {
    acquire(index, lanes, reads);
  }
  warp.step();
}

void History::fence_proxy(uint32_t index, uint32_t lanes) {
  WarpHistory& warp = warps_[index];
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    warp.fenced[static_cast<size_t>(std::countr_zero(rest))] = warp.past();
  }
  warp.step();
}

void History::absorb_pending(uint32_t index, uint32_t lanes) {
  WarpHistory& warp = warps_[index];
  if (warp.pending.empty()) return;
  const std::vector<LaneClass> seen = warp.pending;
  remove_lanes(warp.pending, lanes);
  for (const LaneClass& c : seen) {
    if ((c.lanes & lanes) != 0) acquire(index, c.lanes & lanes, c.known);
  }
}

void History::fence(uint32_t index, uint32_t lanes) {
  WarpHistory& warp = warps_[index];
  absorb_pending(index, lanes);
  remove_lanes(warp.released, lanes);
  // Each lane passes on its own past, not that of the lanes beside it.
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const uint32_t lane = rest & (~rest + 1);
    warp.released.push_back({lane, past(index, lane)});
  }
  warp.step();
}

void History::release_at(uint32_t index, uint32_t lane, uint64_t place, bool is_release) {
  if (is_release) {
    places_[place].join(publish(index, 1u << lane));
    return;
  }
  for (const LaneClass& c : warps_[index].released) {
    if (((c.lanes >> lane) & 1) != 0) places_[place].join(c.known);
  }
}

void History::acquire_at(uint32_t index, uint32_t lane, uint64_t place, bool is_acquire) {
  const auto found = places_.find(place);
  if (found == places_.end()) return;
  if (is_acquire) {
    acquire(index, 1u << lane, found->second);
    return;
  }
  WarpHistory& warp = warps_[index];
  for (LaneClass& c : warp.pending) {
    if (c.lanes != 1u << lane) continue;
    c.known.join(found->second);
    return;
  }
  warp.pending.push_back({1u << lane, found->second});
}

}  // namespace tilewright::emulator
