// What the full observers of one cluster share: its history, and what its barriers have gathered.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "emulator/observers/history.h"
#include "emulator/observers/shadow.h"

namespace tilewright::emulator {

struct MbarrierHistory {
  PastAccess init;
  uint32_t component = 0;
  uint32_t base = 0;      // clock of phase 0's start: objects at one place follow each other
  uint32_t phases = 0;    // completed
  VectorClock gathered;   // by arrivals of the current phase
  VectorClock completed;  // by all phases that are complete
};

// The product of a warpgroup that its first warp has been checked for.
struct CheckedProduct {
  uint32_t clock = 0;  // its number + 1
  uint32_t first_warp = 0;
  VectorClock known;  // by that warp, with its own past
};

struct ClusterWatch {
  ClusterWatch(uint32_t blocks, uint32_t threads) : history(blocks, threads), barriers(blocks) {}

  History history;
  std::vector<std::array<VectorClock, 16>> barriers;  // by rank: what arrivals have gathered
  VectorClock cluster_gathered, cluster_completed;
  // By warp of the history: the inits that its lanes have fenced, which even a relaxed arrival at
  // the cluster barrier passes on.
  std::map<uint32_t, VectorClock> fenced_inits;
  std::map<uint64_t, MbarrierHistory> mbarriers;  // by rank << 32 | offset
  std::map<uint64_t, CheckedProduct> products;    // by party
};

}  // namespace tilewright::emulator
