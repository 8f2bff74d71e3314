// From two conflicting accesses to a fault that names both parties.
#pragma once

#include <string>

#include "emulator/machine/block.h"
#include "emulator/observers/shadow.h"

namespace tilewright::emulator {

struct Conflict {
  Warp& warp;  // of the later access
  const Instruction& at;
  uint32_t lane = 0;
  bool writes = false;
  bool is_async = false;
  bool is_copy = false;  // cp.async
  uint64_t address = 0;  // shared address, with the cluster rank
  PastAccess past;
  bool is_unfenced = false;  // ordered, but without a proxy fence
  uint32_t first_async_component = 0;
};
void report_conflict(const Conflict& conflict);

// `init`: the mbarrier.init that the use does not come after.
void report_unordered_mbarrier(Warp& warp, const Instruction& at, uint32_t lane,
                               const std::string& barrier, const PastAccess& init);

// Whether a store has the same values in `lane` and in each of `lanes`.
bool store_equal_values(const Warp& warp, const Instruction& at, uint32_t lanes, uint32_t lane);

}  // namespace tilewright::emulator
