// FullObserver: every access to shared memory against those that it may conflict with. Two conflict
// if one writes and neither has happened before the other (history.h), or if the async proxy
// touches what the generic proxy wrote without a proxy fence of the writer in between.
#pragma once

#include <memory>

#include "emulator/machine/bulk_copy.h"
#include "emulator/machine/cluster.h"
#include "emulator/observers/cluster_watch.h"
#include "emulator/observers/observer.h"

namespace tilewright::emulator {

// Numbers of History's asynchronous parties.
inline constexpr uint64_t kMbarrierParty = uint64_t{1} << 60;
inline constexpr uint64_t kBulkParty = uint64_t{2} << 60;
inline constexpr uint64_t kProductParty = uint64_t{3} << 60;

class FullObserver : public Observer {
 public:
  FullObserver(Launch& launch, Block& block, std::shared_ptr<ClusterWatch> watch)
      : launch_(launch),
        block_(block),
        memory_(make_memory_observer(launch, block)),
        watch_(std::move(watch)),
        history_(watch_->history),
        shadow_(launch.shared_bytes) {}

  bool on_access(Warp& warp, const Instruction& at, const MemoryAccess& access) override;
  void on_landed(const Landing& landing) override;
  bool on_sync(const SyncEvent& event) override;

 private:
  // The access that is being checked: who makes it and what they know.
  struct Actor {
    Warp& warp;
    const Instruction& at;
    uint32_t index = 0;  // of the warp in the history
    uint32_t lane = 0;   // for reports
    uint32_t own = 0;    // lanes whose own past needs no order
    const VectorClock* known = nullptr;
    PastAccess now{};
    bool writes() const { return (now.flags & kPastWrite) != 0; }
    bool is_async() const { return (now.flags & kPastAsync) != 0; }
  };

  uint32_t index_of(const Warp& warp) const {
    return warp.block->cluster_rank * history_.warps_per_block() + warp.index;
  }
  // The number of a thread of the cluster, from 1.
  uint32_t thread_number(const Warp& warp, uint32_t lane) const {
    return index_of(warp) * 32 + lane + 1;
  }
  static uint64_t product_party(const Warp& warp) {
    return kProductParty | warp.block->cluster_rank << 8 | warp.index / 4;
  }
  const VectorClock& known_of(uint32_t index, uint32_t lane) const {
    for (const LaneClass& c : history_.warp(index).classes) {
      if (((c.lanes >> lane) & 1) != 0) return c.known;
    }
    return history_.warp(index).classes.front().known;
  }

  // Of a wgmma; cp.async reads global memory.
  static bool is_operand(const MemoryAccess& access) {
    return access.kind == AccessKind::kAsyncRead && access.space == AccessSpace::kShared &&
           access.copy == nullptr;
  }
  bool is_checked_operand(const Warp& warp) const;
  static uint32_t product_clock(const Warp& warp) {
    const WarpgroupMember& member = warp.block->warpgroups[warp.index / 4].members[warp.index % 4];
    return static_cast<uint32_t>(member.issued) + 1;
  }

  bool generic_access(Warp& warp, const Instruction& at, const MemoryAccess& access);
  bool async_access(Warp& warp, const Instruction& at, const MemoryAccess& access);
  bool check(const Actor& actor, uint32_t offset, uint32_t bytes);
  bool check_cell(const Actor& actor, Cell& cell, uint32_t offset);
  bool is_ordered(const Actor& actor, const PastAccess& past) const;
  bool is_fenced(const Actor& actor, const PastAccess& past) const;
  bool check_past(const Actor& actor, const PastAccess& past, uint32_t offset);
  void record(const Actor& actor, uint32_t offset, uint32_t bytes);
  void record_beside(const Actor& actor, Cell& cell);
  void pass_flags(Warp& warp, const Instruction& at, const MemoryAccess& access, uint64_t space);
  void stamp(const Landing& landing, uint32_t clock, uint32_t thread);
  bool mbarrier_event(const SyncEvent& event);

  Launch& launch_;
  Block& block_;
  std::unique_ptr<Observer> memory_;
  std::shared_ptr<ClusterWatch> watch_;
  History& history_;
  ShadowMemory shadow_;
};

}  // namespace tilewright::emulator
