// wgmma in execution. Each warp of a warpgroup issues its part of a product; the product may run,
// by the schedule, any time between the fourth part and the wait that covers it. It reads its
// shared operands then. Until the wait, accumulators are poisoned in the warp's registers and live
// here.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "emulator/machine/code.h"
#include "emulator/machine/register_watch.h"

namespace tilewright::emulator {

struct Block;

// The accumulator registers of one warp while products are in flight on them.
struct Accumulators {
  std::byte* registers = nullptr;  // of the frame that issued
  const std::vector<Slot>* slots = nullptr;
  uint64_t last = 0;             // the newest product on them
  std::vector<uint32_t> values;  // slots->size() arrays of 32 lanes
};

struct WarpgroupProduct {
  const Instruction* instruction = nullptr;
  const WarpgroupForm* form = nullptr;
  uint64_t descriptor_a = 0;
  uint64_t descriptor_b = 0;
  bool scale_d = true;
  uint32_t joined = 0;                    // warps of the warpgroup that have issued it
  std::array<std::byte*, 4> registers{};  // of the frames that issued
  bool is_done = false;
  std::array<Accumulators*, 4> accumulators{};  // null: the registers themselves (eager)
  // A from registers, as issued.
  alignas(64) uint32_t a[4][4][32];
};

struct WarpgroupMember {
  WarpgroupMember() = default;
  WarpgroupMember(WarpgroupMember&&) = default;
  WarpgroupMember& operator=(WarpgroupMember&&) = default;
  uint64_t issued = 0;               // products, from the block's start
  uint64_t waited = 0;               // products below are complete for this warp
  std::vector<uint64_t> group_ends;  // of groups committed and not waited for: `issued` then
  std::vector<std::unique_ptr<Accumulators>> accumulators;
  bool fenced = false;  // wgmma.fence executed
  RegisterWatch watch;
};

struct Warpgroup {
  Warpgroup() = default;
  Warpgroup(Warpgroup&&) = default;
  Warpgroup& operator=(Warpgroup&&) = default;
  std::deque<std::unique_ptr<WarpgroupProduct>> products;
  uint64_t first = 0;  // number of products.front()
  uint64_t done = 0;   // products below have run
  std::array<WarpgroupMember, 4> members;
  std::vector<uint32_t> register_changes;  // options of every setmaxnreg so far
};

// The running warp issues a product. Null: parked or a fault.
const Instruction* issue_product(Warp& warp, const Instruction* i, const WarpgroupForm& form);
void commit_products(Warp& warp);
// Returns i + 1, or null: parked until other warps have issued their parts, or a fault.
const Instruction* wait_products(Warp& warp, const Instruction* i, uint32_t newest);
// The wgmma that the running frame has issued and not waited for, or null.
const Instruction* product_in_flight(const Warp& warp);
// At a seeded moment: some products that could run do.
void run_some_products(Block& block);

}  // namespace tilewright::emulator
