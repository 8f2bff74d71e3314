// A warp in execution: lane groups with their own position, rejoined at post-dominators. The
// running group's state lies in the Warp itself, where handlers find it; the others wait in
// `parked` or, having reached their rejoin point early, inside a Rejoin.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "emulator/machine/code.h"
#include "emulator/machine/machine.h"

namespace tilewright::emulator {

struct Block;
struct Cluster;
struct Launch;

inline constexpr uint32_t kFullMask = 0xffffffffu;
// wait_id of lanes that wait for several mbarriers.
inline constexpr uint32_t kAnyMbarrier = 0xffffffffu;

// One activation of a function by a group of lanes.
struct Frame {
  std::byte* registers = nullptr;
  const FunctionCode* function = nullptr;
  Frame* caller = nullptr;
  const CallForm* call = nullptr;
  uint64_t local_base = 0;  // of its .local variables in each lane's stack
  std::vector<std::byte> storage;
};

// Where diverged lanes meet again. `expected` are the lanes that are to arrive and still live.
struct Rejoin {
  const Instruction* at = nullptr;
  Frame* frame = nullptr;
  uint32_t expected = 0;
  uint32_t arrived = 0;
  Rejoin* parent = nullptr;
  Frame* returns_from = nullptr;  // of a call: the frame that ends here
};

enum class GroupState : uint8_t {
  kReady,
  kGathering,     // at a .sync instruction, waiting for the other lanes of wait_mask
  kWarpSync,      // the same for bar.warp.sync, which may be met at any place
  kAtBarrier,     // arrived at block barrier wait_id
  kBarrierLanes,  // at an unaligned barrier wait_id, waiting for the rest of the warp
  kAligned,       // at an .aligned barrier, waiting for the rest to come to it or to exit
  kAtCluster,     // at barrier.cluster.wait
  kAtMbarrier,    // at a try_wait of the mbarrier with offset wait_id
  kAtWarpgroup,   // at a wgmma.wait_group, for other warps of the warpgroup
  kAtGrid,        // at griddepcontrol.wait
  kAtRegisters,   // at a setmaxnreg.inc, for wait_id more registers per thread
};

struct LaneGroup {
  GroupState state = GroupState::kReady;
  const Instruction* pc = nullptr;
  uint32_t mask = 0;
  Frame* frame = nullptr;
  Rejoin* rejoin = nullptr;
  uint32_t wait_mask = 0;
  uint32_t wait_id = 0;
};

enum class Stop : uint8_t {
  kGroupGone,  // the running group exited, rejoined or parked: choose another
  kYield,      // budget used up
  kFault,
};

// One cp.async of a group of lanes that no wait has covered yet.
struct PendingCopy {
  uint32_t mask = 0;    // lanes that have not waited
  uint32_t landed = 0;  // of them, those whose bytes have moved already
  uint32_t bytes = 0;
  uint64_t sequence = 0;
  const Instruction* instruction = nullptr;
  std::array<uint32_t, 32> to{};  // offset in the block's shared memory
  std::array<const std::byte*, 32> from{};
  std::array<uint8_t, 32> from_bytes{};
  std::array<uint32_t, 32> group{};  // the lane's count of commits when issued

  // The lane that copies to `offset`.
  uint32_t lane_of(uint32_t offset) const {
    uint32_t lane = 0;
    while (lane < 31 && (((mask >> lane) & 1) == 0 || offset - to[lane] >= bytes)) ++lane;
    return lane;
  }
};

struct Warp {
  // ---- what handlers touch, first ----
  std::byte* bases[2] = {nullptr, nullptr};  // registers of the frame, constants of the kernel
  uint32_t mask = 0;                         // lanes that execute the current instruction
  uint32_t live = 0;                         // lanes that have not exited
  int64_t budget = 0;
  uint64_t* block_counts = nullptr;        // [2·b] times entered, [2·b + 1] times its lanes
  const Instruction* rejoin_at = nullptr;  // rejoin->at if its frame is this one, else null
  Block* block = nullptr;
  Launch* launch = nullptr;
  std::byte* shared = nullptr;  // of the block
  uint32_t shared_low = 0;      // shared address of shared[0], with the cluster rank
  uint64_t bounds_low = 0;      // last allocation met: [low, high) of addresses
  uint64_t bounds_high = 0;
  bool bounds_writable = false;
  bool observed = false;         // an observer is attached
  bool ordered = false;          // the full observer: it follows what orders accesses
  bool reads_unordered = false;  // for it: reads of shared memory since lanes last met
  bool gathered = false;         // the instruction's lanes have been gathered already

  Frame* frame = nullptr;
  Rejoin* rejoin = nullptr;
  Stop stop = Stop::kGroupGone;
  bool has_group = false;
  const Instruction* pc = nullptr;  // of the running group, while stopped

  // ---- the rest ----
  uint32_t index = 0;  // in the block
  std::vector<LaneGroup> parked;
  std::deque<Rejoin> rejoin_store;
  std::vector<Rejoin*> free_rejoins;
  std::vector<Rejoin*> waiting_rejoins;  // those with arrived lanes
  std::deque<Frame> frame_store;
  std::vector<Frame*> free_frames;
  // Instructions executed in a row while other lanes wait at a rejoin, and how often such a wait
  // was cut short.
  int64_t alone = 0;
  uint32_t early_releases = 0;

  std::byte* local = nullptr;  // 32 stacks of local_bytes
  uint64_t local_bytes = 0;
  uint32_t carry = 0;  // CC.CF per lane

  std::vector<PendingCopy> copies;
  std::array<uint32_t, 32> copy_group{};  // commits so far
  uint64_t copy_sequence = 0;             // cp.async issued so far
  std::array<uint32_t, 32> bulk_group{};  // commits of bulk groups so far
  uint32_t timed_out = 0;                 // lanes whose try_wait gives up
  // barrier.cluster, per lane: arrived in the current phase; phase complete, not waited yet.
  uint32_t cluster_arrived = 0;
  uint32_t cluster_released = 0;
  uint32_t max_registers = 0;     // per thread: as launched, then by setmaxnreg; 0: not known
  uint32_t register_changes = 0;  // setmaxnreg executed so far
  uint64_t async_fences = 0;      // fence.proxy.async executed

  template <class T>
  T* at(Slot slot) const {
    return reinterpret_cast<T*>(bases[slot >> 31] + (slot & ~kConstantBit));
  }
  uint32_t& predicate(Slot slot) const { return *at<uint32_t>(slot); }
};

// Sets up the entry frame for `live` lanes. Registers lie at `registers`.
void start_warp(Warp& warp, std::byte* registers, uint32_t live);
void fill_initial_values(Warp& warp, Frame& frame);

// Runs until the warp's budget ends, nothing is ready, or a fault. False: nothing could run.
bool run_warp(Warp& warp, int64_t budget);
inline bool finished(const Warp& warp) { return warp.live == 0; }

// ---- for handlers; each returns what the handler returns ----

// The running group waits at `pc` in `state`; it is no longer running.
const Instruction* park(Warp& warp, const Instruction* pc, GroupState state, uint32_t wait_mask,
                        uint32_t wait_id);
// The same for an instruction that may have been gathered: its groups execute it again, each, when
// they are released.
const Instruction* park_to_repeat(Warp& warp, const Instruction* at, GroupState state,
                                  uint32_t wait_id);
// Lanes of the running group split between two places; `rejoin_at` null: they never meet.
const Instruction* diverge(Warp& warp, uint32_t taken, const Instruction* taken_at,
                           const Instruction* other_at, const Instruction* rejoin_at);
// The running group stands at its rejoin point.
const Instruction* arrive(Warp& warp, const Instruction* at);
// `lanes` of the running group exit; the rest goes on at `next`.
const Instruction* exit_lanes(Warp& warp, uint32_t lanes, const Instruction* next);
// Calls and returns.
const Instruction* enter_function(Warp& warp, const FunctionCode& callee, const CallForm& call,
                                  const Instruction* return_to);
const Instruction* return_lanes(Warp& warp, uint32_t lanes, const Instruction* next);
// Gathers the lanes of `membership` for a .sync instruction: true if all are here (then Warp::mask
// holds exactly the executing lanes). False: parked, or, through `result`, already executed.
bool gather(Warp& warp, const Instruction* instruction, uint32_t membership,
            const Instruction** result);
// Lanes that wait at a rejoin point go on without the others. False: none wait.
bool release_rejoin_early(Warp& warp);
// A group that waits at block barrier `id` may go on.
void release_from_barrier(Warp& warp, uint32_t id);

struct FaultDetail {
  FaultKind kind = FaultKind::kTrap;
  std::string message{};
  uint32_t lane = 32;  // 32: the lowest of mask
  uint64_t address = 0;
  std::string other_party{};
};
// Records the block's first fault and stops the warp.
const Instruction* fault(Warp& warp, const Instruction* at, FaultDetail detail);
// "add.f32 at line 12" and similar, for another party.
std::string describe_instruction(const Warp& warp, const Frame& frame, const Instruction& at);

}  // namespace tilewright::emulator
