#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "core/check.h"
#include "emulator/machine/async_copy.h"
#include "emulator/machine/cluster.h"
#include "emulator/observers/observer.h"

namespace tilewright::emulator {
namespace {

enum class ByteState : uint8_t { kUnwritten, kWritten, kInFlight };

constexpr auto kWrittenByte = static_cast<uint8_t>(ByteState::kWritten);

class MemoryObserver : public Observer {
 public:
  MemoryObserver(Launch& launch, Block& block)
      : launch_(launch), block_(block), shared_(launch.shared_bytes, ByteState::kUnwritten) {}

  bool on_access(Warp& warp, const Instruction& at, const MemoryAccess& access) override {
    for (uint32_t rest = access.mask; rest != 0; rest &= rest - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
      const uint64_t address = access.addresses[lane];
      const bool ok = access.space == AccessSpace::kShared
                          ? shared_access(warp, at, access, address, lane)
                          : global_access(warp, at, access, address, lane);
      if (!ok) return false;
    }
    return true;
  }

  void on_landed(const Landing& landing) override {
    std::memset(&shared_[landing.offset], static_cast<int>(ByteState::kWritten), landing.bytes);
  }

  bool on_sync(const SyncEvent&) override { return true; }

 private:
  bool shared_access(Warp& warp, const Instruction& at, const MemoryAccess& access, uint64_t offset,
                     uint32_t lane) {
    if (access.kind == AccessKind::kAsyncWrite || access.kind == AccessKind::kCopyWrite) {
      std::memset(&shared_[offset], static_cast<int>(ByteState::kInFlight), access.bytes);
      return true;
    }
    if (access.kind == AccessKind::kRead && all_written(offset, access.bytes)) return true;
    for (uint64_t byte = offset; byte < offset + access.bytes; ++byte) {
      if (shared_[byte] == ByteState::kInFlight) return in_flight(warp, at, access, byte, lane);
      if (access.kind != AccessKind::kWrite && shared_[byte] == ByteState::kUnwritten) {
        return unwritten(warp, at, lane, shared_address(byte), "shared memory");
      }
    }
    if (access.kind != AccessKind::kRead) {
      std::memset(&shared_[offset], static_cast<int>(ByteState::kWritten), access.bytes);
    }
    return true;
  }

  uint64_t shared_address(uint64_t offset) const {
    return (launch_.shared_base | block_.cluster_rank << 24) + offset;
  }

  // The common case, without a loop over bytes.
  bool all_written(uint64_t offset, uint32_t bytes) const {
    static constexpr uint64_t kEight = 0x0101010101010101u * static_cast<uint64_t>(kWrittenByte);
    for (uint32_t done = 0; done < bytes; done += 8) {
      const uint32_t part = std::min(bytes - done, 8u);
      uint64_t states = kEight;
      std::memcpy(&states, &shared_[offset + done], part);
      if (states != kEight) return false;
    }
    return true;
  }

  static std::string copied_by(const Warp& warp, uint32_t lane, const Frame& frame,
                               const Instruction& at) {
    const Dim3& size = warp.launch->request->block;
    const uint32_t thread = warp.index * 32 + lane;
    return fmt::format("copied by thread ({}, {}, {}) at {}", thread % size.x,
                       thread / size.x % size.y, thread / size.x / size.y,
                       describe_instruction(warp, frame, at));
  }

  bool in_flight(Warp& warp, const Instruction& at, const MemoryAccess& access, uint64_t byte,
                 uint32_t lane) {
    std::string other = "an asynchronous copy that has not landed";
    for (const Warp& owner : block_.warps) {
      const PendingCopy* copy = find_in_flight(owner, static_cast<uint32_t>(byte), 1);
      if (copy == nullptr) continue;
      other = copied_by(owner, copy->lane_of(static_cast<uint32_t>(byte)), *owner.frame,
                        *copy->instruction);
    }
    const BulkCopy* bulk = find_bulk_in_flight(block_, static_cast<uint32_t>(byte), 1);
    if (bulk != nullptr) {
      other = copied_by(*bulk->warp, bulk->lane, *bulk->frame, *bulk->instruction);
    }
    fault(warp, &at,
          {.kind = FaultKind::kAsynchronous,
           .message = fmt::format(
               "{} of shared address {:#x} while a copy to it is in flight",
               access.kind == AccessKind::kRead || access.kind == AccessKind::kAsyncRead ? "read"
                                                                                         : "write",
               shared_address(byte)),
           .lane = lane,
           .address = shared_address(byte),
           .other_party = std::move(other)});
    return false;
  }

  bool global_access(Warp& warp, const Instruction& at, const MemoryAccess& access,
                     uint64_t address, uint32_t lane) {
    DeviceMemory& memory = *launch_.memory;
    if (access.kind == AccessKind::kWrite) {
      memory.mark_written(address, access.bytes);
      return true;
    }
    const uint8_t* shadow = memory.shadow();
    const uint64_t base = memory.base();
    if (access.bytes == 16 && access.kind != AccessKind::kAtomic) {
      uint16_t written;  // 16 bytes are aligned to 16: two whole shadow bytes
      std::memcpy(&written, shadow + ((address - base) >> 3), 2);
      if (address % 16 == 0 && written == 0xffff) return true;
    }
    for (uint64_t byte = address - base; byte < address - base + access.bytes; ++byte) {
      if (((shadow[byte >> 3] >> (byte & 7)) & 1) != 0) continue;
      const Allocation* allocation = launch_.allocations->find_live(address);
      if (allocation == nullptr || !allocation->tracked) break;
      return unwritten(warp, at, lane, base + byte, launch_.allocations->describe(base + byte));
    }
    if (access.kind == AccessKind::kAtomic) memory.mark_written(address, access.bytes);
    return true;
  }

  static bool unwritten(Warp& warp, const Instruction& at, uint32_t lane, uint64_t address,
                        const std::string& where) {
    fault(warp, &at,
          {.kind = FaultKind::kUninitialisedRead,
           .message = fmt::format("read of {:#x}, which nothing wrote: {}", address, where),
           .lane = lane,
           .address = address});
    return false;
  }

  Launch& launch_;
  Block& block_;
  std::vector<ByteState> shared_;
};

}  // namespace

std::unique_ptr<Observer> make_memory_observer(Launch& launch, Block& block) {
  return std::make_unique<MemoryObserver>(launch, block);
}

}  // namespace tilewright::emulator
