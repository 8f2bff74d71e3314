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
struct Launch;
struct Instruction;

enum class AccessKind : uint8_t { kRead, kWrite, kAtomic, kAsyncRead, kAsyncWrite };
enum class AccessSpace : uint8_t { kGlobal, kShared, kLocal };

// One access of a group of lanes, already checked for bounds. addresses: device addresses for
// kGlobal, offsets in the block's shared memory for kShared, in the lane's stack for kLocal; only
// lanes of `mask` are meaningful.
struct MemoryAccess {
  AccessKind kind = AccessKind::kRead;
  AccessSpace space = AccessSpace::kGlobal;
  uint32_t mask = 0;
  uint32_t bytes = 0;  // per lane
  const uint64_t* addresses = nullptr;
};

class Observer {
 public:
  virtual ~Observer() = default;
  // Before the bytes move. Returns false after it recorded a fault.
  virtual bool on_access(Warp& warp, const Instruction& at, const MemoryAccess& access) = 0;
  // A wait has covered an asynchronous copy to these bytes of shared memory.
  virtual void on_landed(uint32_t shared_offset, uint32_t bytes) = 0;
  // Every warp that took part in a barrier has been released.
  virtual void on_barrier(Block& block, uint32_t id) = 0;
};

// Bounds and alignment are the machine's own; this one reports reads of bytes that nothing wrote,
// in global and shared memory, and of bytes of an asynchronous copy that is still in flight.
std::unique_ptr<Observer> make_memory_observer(Launch& launch, uint32_t shared_bytes);

}  // namespace tilewright::emulator
