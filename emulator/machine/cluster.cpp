#include "emulator/machine/cluster.h"

#include <algorithm>
#include <bit>

#include "core/check.h"

namespace tilewright::emulator {
namespace {

// Time-outs of every waiter in a row, with no event between, after which the cluster is stuck.
constexpr uint32_t kMaxTimeouts = 16;

bool is_waited_for(const Block& block, uint32_t barrier_offset) {
  for (const Warp& warp : block.warps) {
    for (const LaneGroup& group : warp.parked) {
      if (group.state == GroupState::kAtMbarrier &&
          (group.wait_id == barrier_offset || group.wait_id == kAnyMbarrier)) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace

void start_cluster(Cluster& cluster, uint64_t seed) {
  cluster.copies.clear();
  cluster.random = Random(seed);
  cluster.events = 0;
  cluster.events_at_timeout = 0;
  cluster.timeouts = 0;
  cluster.failed_tests = 0;
}

bool unblock_block(Block& block) {
  Cluster& cluster = *block.cluster;
  // First what some lane waits for, then anything that concerns the block.
  for (const bool waited_for : {true, false}) {
    for (size_t n = 0; n < cluster.copies.size(); ++n) {
      BulkCopy& copy = *cluster.copies[n];
      if (copy.is_done || copy.kind == BulkKind::kStore) continue;
      const bool concerns =
          waited_for ? copy.barrier.block == &block && is_waited_for(block, copy.barrier.offset)
                     : copy.warp->block == &block;
      if (!concerns) continue;
      land_bulk(cluster, copy);
      sweep_bulk(cluster);
      return true;
    }
  }
  return false;
}

bool unblock_cluster(Cluster& cluster) {
  if (cluster.events != cluster.events_at_timeout) cluster.timeouts = 0;
  cluster.events_at_timeout = cluster.events;
  bool any = false;
  for (Block* block : cluster.blocks) {
    for (Warp& warp : block->warps) {
      bool waits = false;
      for (LaneGroup& group : warp.parked) {
        if (group.state != GroupState::kAtMbarrier) continue;
        waits = true;
        if (cluster.timeouts >= kMaxTimeouts) continue;
        group.state = GroupState::kReady;
        warp.timed_out |= group.mask;
        any = true;
      }
      // What the waiters wait for may be up to lanes that wait to rejoin them.
      if (waits) any |= release_rejoin_early(warp);
    }
  }
  ++cluster.timeouts;
  return any;
}

bool finish_block(Block& block) {
  Cluster& cluster = *block.cluster;
  for (const auto& entry : cluster.copies) {
    BulkCopy& copy = *entry;
    const bool unread =
        copy.warp->block == &block && copy.kind == BulkKind::kStore && !copy.read_waited;
    const bool arrives = copy.kind != BulkKind::kStore && !copy.is_done &&
                         (copy.shared.block == &block || copy.barrier.block == &block ||
                          copy.source.block == &block);
    if (!unread && !arrives) continue;
    Warp& warp = *copy.warp;
    warp.frame = const_cast<Frame*>(copy.frame);
    Block& issuer = *warp.block;
    fault(warp, copy.instruction,
          {.kind = FaultKind::kAsynchronous,
           .message = unread ? "the block ended with a bulk copy whose source may still be read"
                             : "the block ended while a bulk copy was on its way to it",
           .lane = copy.lane});
    if (&issuer != &block && !block.fault) block.fault = issuer.fault;
    return false;
  }
  for (size_t n = 0; n < cluster.copies.size(); ++n) {
    BulkCopy& copy = *cluster.copies[n];
    if (copy.warp->block == &block && copy.kind == BulkKind::kStore) land_bulk(cluster, copy);
  }
  sweep_bulk(cluster);
  return !block.fault;
}

void cluster_barrier_after_arrival(Cluster& cluster) {
  bool any = false;
  for (const Block* block : cluster.blocks) {
    for (const Warp& warp : block->warps) {
      if ((warp.live & ~warp.cluster_arrived) != 0) return;
      any |= warp.cluster_arrived != 0;
    }
  }
  if (!any) return;
  ++cluster.events;
  const Block& first = *cluster.blocks[0];
  if (first.warps[0].ordered) first.observer->on_sync({.kind = SyncKind::kClusterDone});
  for (Block* block : cluster.blocks) {
    for (Warp& warp : block->warps) {
      warp.cluster_released |= warp.cluster_arrived;
      warp.cluster_arrived = 0;
      for (LaneGroup& group : warp.parked) {
        if (group.state == GroupState::kAtCluster) group.state = GroupState::kReady;
      }
    }
  }
}

}  // namespace tilewright::emulator
