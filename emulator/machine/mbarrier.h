// mbarrier objects in shared memory. The eight bytes hold the whole state, packed; a table beside
// the block's memory says which objects live, so that use before init, after inval, or of an object
// that something overwrote is reported.
#pragma once

#include <cstdint>
#include <string>

#include "emulator/machine/warp.h"

namespace tilewright::emulator {

inline constexpr uint32_t kMbarrierLimit = (1u << 20) - 1;  // of counts and of outstanding bytes

struct Mbarrier {
  uint32_t expected = 0;
  uint32_t pending = 0;
  int64_t transactions = 0;
  uint64_t phase = 0;
};

// Shared memory of some block of the cluster.
struct SharedPlace {
  Block* block = nullptr;
  uint32_t offset = 0;
};

// The 64 bits in memory, which are also what arrive returns as the state.
uint64_t pack(const Mbarrier& barrier);
constexpr uint32_t pending_of_state(uint64_t state) {
  return static_cast<uint32_t>(state) & kMbarrierLimit;
}
// Whether the phase that was current when `state` was taken has completed. -1: too long ago.
int is_completed(const Mbarrier& barrier, uint64_t state);

// "mbarrier at 0x410 (phase 3, 1 of 2 arrivals pending, 4096 bytes outstanding)".
std::string describe_mbarrier(const Block& block, uint32_t offset);

// Each returns an empty string, or what is wrong.
std::string init_mbarrier(const SharedPlace& place, uint32_t count);
std::string invalidate_mbarrier(const SharedPlace& place);
// The live object at a place; null: *error says why not.
Mbarrier* find_mbarrier(const SharedPlace& place, std::string* error);
std::string expect_transactions(const SharedPlace& place, uint32_t bytes);
std::string complete_transactions(const SharedPlace& place, uint32_t bytes);
// `may_complete` false: .noComplete. `drops`: later phases expect `count` fewer.
struct MbarrierArrival {
  uint32_t count = 1;
  uint32_t expect_bytes = 0;
  bool drops = false;
  bool may_complete = true;
};
std::string arrive_at_mbarrier(const SharedPlace& place, const MbarrierArrival& arrival,
                               uint64_t* state);
// cp.async.mbarrier.arrive without .noinc: one more arrival is pending in this phase.
std::string add_pending_arrival(const SharedPlace& place);

}  // namespace tilewright::emulator
