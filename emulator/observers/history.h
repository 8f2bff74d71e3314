// History: what happens before what in one cluster. Every lane holds a vector clock; lanes of a
// warp that know the same share one. Barriers, mbarriers, fences and warp synchronisation pass
// clocks on.
//
// Components: three for each warp (its writes, its reads, and its writes that a proxy fence has
// made visible to the async proxy), then one for each asynchronous party as it appears: an
// mbarrier (phases completed; what bulk copies wrote), a lane's bulk groups (what they read), a
// warpgroup's products (what wgmma read).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "emulator/observers/vector_clock.h"

namespace tilewright::emulator {

// Lanes of a warp with the same knowledge.
struct LaneClass {
  uint32_t lanes = 0;
  VectorClock known;
};

struct WarpHistory {
  uint32_t started = 0;  // lanes that the warp has had
  uint32_t clock = 1;
  bool has_accessed = false;  // since the clock last rose
  uint32_t writers = 0;       // lanes that ever wrote shared memory, and that read it
  uint32_t readers = 0;
  std::array<uint32_t, 32> fenced{};  // clock of each lane's last proxy fence
  std::vector<LaneClass> classes;     // disjoint, of all started lanes
  // What a strong write passes on: knowledge at the lanes' last memory fence. What strong reads
  // have seen, known from the next fence on.
  std::vector<LaneClass> released;
  std::vector<LaneClass> pending;

  // The clock of the newest access.
  uint32_t past() const { return has_accessed ? clock : clock - 1; }
  // Accesses from here on are later ones.
  void step() {
    clock += has_accessed ? 1 : 0;
    has_accessed = false;
  }
};

class History {
 public:
  History(uint32_t blocks, uint32_t threads_per_block);

  uint32_t write_component(uint32_t warp) const { return 3 * warp; }
  uint32_t read_component(uint32_t warp) const { return 3 * warp + 1; }
  uint32_t fence_component(uint32_t warp) const { return 3 * warp + 2; }
  // Component of an asynchronous party, by a number of the caller's.
  uint32_t component_of(uint64_t party);
  // 0: it has none yet.
  uint32_t find_component(uint64_t party) const {
    const auto found = components_.find(party);
    return found == components_.end() ? 0 : found->second;
  }
  uint32_t first_async_component() const { return 3 * static_cast<uint32_t>(warps_.size()); }
  // The party behind a component from first_async_component() on.
  uint64_t party_of(uint32_t component) const {
    return parties_[component - first_async_component()];
  }

  WarpHistory& warp(uint32_t index) { return warps_[index]; }
  uint32_t warps_per_block() const { return warps_per_block_; }

  // What lanes know, with their own past: what they pass on. Later accesses do not belong to it.
  VectorClock publish(uint32_t warp, uint32_t lanes);
  void acquire(uint32_t warp, uint32_t lanes, const VectorClock& clock);
  // bar.warp.sync
  void synchronise(uint32_t warp, uint32_t lanes);
  // Lanes executed a .sync instruction together: their earlier reads are over.
  void order_reads(uint32_t warp, uint32_t lanes);
  void fence_proxy(uint32_t warp, uint32_t lanes);
  // fence.acq_rel, fence.sc, membar
  void fence(uint32_t warp, uint32_t lanes);
  // A strong access by one lane. place: any number of the location.
  void release_at(uint32_t warp, uint32_t lane, uint64_t place, bool is_release);
  void acquire_at(uint32_t warp, uint32_t lane, uint64_t place, bool is_acquire);
  // What all of some lanes together know (one lane's acquisition is enough).
  VectorClock joint(uint32_t warp, uint32_t lanes) const;
  // The same with their own past.
  VectorClock past(uint32_t warp, uint32_t lanes) const;

 private:
  void absorb_pending(uint32_t warp, uint32_t lanes);
  void add_own(uint32_t warp, uint32_t lanes, VectorClock& clock) const;

  uint32_t warps_per_block_ = 0;
  std::vector<WarpHistory> warps_;
  std::vector<uint64_t> parties_;
  std::map<uint64_t, uint32_t> components_;
  std::map<uint64_t, VectorClock> places_;
};

}  // namespace tilewright::emulator
