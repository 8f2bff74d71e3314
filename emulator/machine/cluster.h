// What the blocks of one cluster share (a block without a cluster is one of its own): the bulk
// copies in flight, the cluster barrier, and what to do when none of its warps can go on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "emulator/machine/block.h"
#include "emulator/machine/bulk_copy.h"

namespace tilewright::emulator {

struct Cluster {
  std::vector<Block*> blocks;                     // by rank
  std::vector<std::unique_ptr<BulkCopy>> copies;  // not yet complete, in order of issue
  Random random{0};
  // Counts events that some waiter may have waited for: two equal readings around a time-out of
  // every waiter mean that nothing changes any more.
  uint64_t events = 0;
  uint64_t events_at_timeout = 0;
  uint32_t timeouts = 0;      // in a row, without an event
  uint32_t failed_tests = 0;  // of mbarrier.test_wait since the last landing
};

// Prepares for blocks that have been started.
void start_cluster(Cluster& cluster, uint64_t seed);

// A block of which no warp can go on: copies that it waits for land. False: there are none.
bool unblock_block(Block& block);
// Nothing in the whole cluster can go on: every try_wait times out (its result is false), lanes
// that wait to rejoin others go on. False once that has changed nothing several times over.
bool unblock_cluster(Cluster& cluster);
// After a block's last warp: what its copies leave behind. False with a fault recorded.
bool finish_block(Block& block);

// barrier.cluster: completes if every thread that still lives has arrived.
void cluster_barrier_after_arrival(Cluster& cluster);

}  // namespace tilewright::emulator
