// Observer: hooks through which a block's execution is watched. With none attached the machine
// tests one flag per memory instruction and calls nothing. One observer serves one block, so that
// what it reports does not depend on how blocks are spread over host threads.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace tilewright::emulator {

struct Warp;
struct Block;
struct BulkCopy;
struct Launch;
struct Instruction;

// kCopyWrite: the destination of cp.async; kAsync…: through the async proxy (bulk copies, wgmma).
enum class AccessKind : uint8_t { kRead, kWrite, kAtomic, kCopyWrite, kAsyncRead, kAsyncWrite };
enum class AccessSpace : uint8_t { kGlobal, kShared, kLocal };

// One access of a group of lanes, already checked for bounds. addresses: device addresses for
// kGlobal, offsets in the shared memory of the observer's block for kShared, in the lane's stack
// for kLocal; only lanes of `mask` are meaningful.
struct MemoryAccess {
  AccessKind kind = AccessKind::kRead;
  AccessSpace space = AccessSpace::kGlobal;
  uint32_t mask = 0;
  uint32_t bytes = 0;  // per lane
  const uint64_t* addresses = nullptr;
  const BulkCopy* copy = nullptr;  // of kAsync… in shared memory; null: a wgmma's operand
};

// Bytes of the observer's shared memory that have become there.
struct Landing {
  uint32_t offset = 0;
  uint32_t bytes = 0;
  const BulkCopy* copy = nullptr;  // a bulk copy that is complete, before its mbarrier knows
  // A cp.async of this lane, which a wait_group of the lane has covered.
  const Warp* waiter = nullptr;
  uint32_t lane = 0;
};

enum class SyncKind : uint8_t {
  kTogether,       // a .sync instruction other than bar.warp.sync
  kWarpBarrier,    // bar.warp.sync
  kBarrierArrive,  // number: of the barrier
  kBarrierLeave,   // the lanes waited there, and it is complete
  kBarrierDone,    // after the last leave; no warp
  kClusterArrive,
  kClusterDone,  // no warp
  kClusterWait,
  kMbarrierInit,  // number: its offset in the observer's shared memory, as for all of these
  kMbarrierUse,   // without an order of its own
  kMbarrierArrive,
  kMbarrierWait,   // with success
  kMbarrierPhase,  // a phase is complete; no warp
  kFence,          // fence, membar
  kInitFence,      // fence.mbarrier_init
  kProxyFence,     // fence.proxy.async that covers shared memory
  kBulkWait,       // cp.async.bulk.wait_group; number: groups that may remain
  kWgmmaWait,      // number: products complete
};

struct SyncEvent {
  SyncKind kind;
  Warp* warp = nullptr;
  uint32_t lanes = 0;
  uint32_t number = 0;
  const Instruction* at = nullptr;
  bool relaxed = false;
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Before the bytes move. Returns false after it recorded a fault.
  virtual bool on_access(Warp& warp, const Instruction& at, const MemoryAccess& access) = 0;
  virtual void on_landed(const Landing& landing) = 0;
  // Only where Warp::ordered or Cluster::watch asks for it. Returns false after it recorded a
  // fault.
  virtual bool on_sync(const SyncEvent& event) = 0;
};

// Bounds and alignment are the machine's own; this one reports reads of bytes that nothing wrote,
// in global and shared memory, and of bytes of an asynchronous copy that is still in flight.
std::unique_ptr<Observer> make_memory_observer(Launch& launch, Block& block);

// What the full observers of one cluster share.
struct ClusterWatch;
std::shared_ptr<ClusterWatch> make_cluster_watch(const Launch& launch);
// The memory observer, and: accesses to shared memory that nothing orders, through either proxy.
std::unique_ptr<Observer> make_full_observer(Launch& launch, Block& block,
                                             std::shared_ptr<ClusterWatch> watch);

}  // namespace tilewright::emulator
