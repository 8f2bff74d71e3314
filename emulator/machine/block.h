// A thread block in execution: its shared memory, barriers and warps, scheduled cooperatively on
// one host thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "core/arch.h"
#include "emulator/machine/mbarrier.h"
#include "emulator/machine/tensor_map.h"
#include "emulator/machine/warp.h"
#include "emulator/machine/warpgroup.h"
#include "emulator/observers/observer.h"

namespace tilewright::emulator {

// What all blocks of one launch share; constant while it runs, save what is marked.
struct Launch {
  const LaunchRequest* request = nullptr;
  const KernelCode* kernel = nullptr;
  Arch arch;
  DeviceMemory* memory = nullptr;
  std::shared_ptr<const AllocationTable> allocations;
  DeviceAddress parameters = 0;  // the parameter block in device memory
  const std::byte* parameter_bytes = nullptr;
  uint32_t shared_base = 0;   // first shared address: 0x400 on sm_90, else 0
  uint32_t shared_bytes = 0;  // static + dynamic
  bool parallel = false;      // blocks run on several host threads
  Schedule schedule = Schedule::kEager;
  ProductNumerics numerics;
  uint32_t grid_id = 1;
  TensorMapEdits* map_edits = nullptr;  // changes
  // A prerequisite grid still runs (run_overlapped): griddepcontrol.wait waits. Changes.
  bool waits_for_primary = false;
};

// splitmix64: seeded choices of a schedule.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t n) { return next() % n; }

 private:
  uint64_t state_;
};

enum class BarrierUse : uint8_t { kNone, kSync, kReduce };
struct Barrier {
  uint32_t expected_warps = 0;  // 0: nobody is here
  bool whole_block = false;     // no count given: every warp that still lives
  uint32_t arrived_warps = 0;
  BarrierUse use = BarrierUse::kNone;
  ptx::Op op = ptx::Op::kNone;
  uint32_t true_lanes = 0;  // of a reduction
  uint32_t total_lanes = 0;
  struct Waiter {
    uint32_t warp;
    Slot destination;  // of a reduction
    uint32_t mask;
    uint32_t lanes;  // all that wait: a reduction's destination is that of the last to come
    std::byte* registers;
  };
  std::vector<Waiter> waiters;
};

struct Block {
  Launch* launch = nullptr;
  Dim3 index;
  uint64_t linear = 0;
  uint32_t cluster_rank = 0;
  Cluster* cluster = nullptr;   // never null while it runs
  std::byte* shared = nullptr;  // shared_bytes of them
  std::vector<Warp> warps;
  std::array<Barrier, 16> barriers;
  std::map<uint32_t, Mbarrier> mbarriers;  // those that live, by offset in shared memory
  std::vector<Warpgroup> warpgroups;
  bool launches_dependents = false;  // griddepcontrol.launch_dependents executed
  uint32_t free_registers = 0;       // of setmaxnreg's pool: registers per thread, over all warps
  std::vector<std::byte> registers;
  std::vector<std::byte> shared_storage;
  std::vector<std::byte> local_storage;
  std::unique_ptr<Observer> observer;
  std::optional<FaultReport> fault;
  std::string printed;  // by vprintf; handed out when the block ends
  Random random{0};
  uint64_t instructions = 0;
  uint64_t instruction_limit = 0;
  uint64_t clock = 0;
  size_t next_warp = 0;

  void start(Launch& launch, uint64_t linear_index, uint64_t* block_counts);
  // Runs every warp at most once. False: none could run (finished, stuck or faulted).
  bool step();
  bool is_finished() const;
  // The fault of a block in which nothing can run.
  void report_deadlock();
};

// A warp arrives at a barrier (then, once it is parked, call barrier_after_arrival); false with a
// fault recorded.

struct BarrierArrival {
  uint32_t id = 0;
  uint32_t threads = 0;  // 0: the whole block
  BarrierUse use = BarrierUse::kSync;
  ptx::Op op = ptx::Op::kNone;
  uint32_t true_lanes = 0;
  uint32_t lanes = 0;
  bool waits = true;
  Slot destination = kNoSlot;
};
bool arrive_at_barrier(Warp& warp, const Instruction* at, const BarrierArrival& arrival);
// Completes barrier `id` if its last arrival is in.
void barrier_after_arrival(Block& block, uint32_t id);
// After a warp's last lane exited: barriers that waited only for exited warps complete.
void barrier_after_exit(Block& block);

}  // namespace tilewright::emulator
