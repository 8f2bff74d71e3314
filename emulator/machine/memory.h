// DeviceMemory: the global memory of one emulated device. Addresses are synthetic (a fixed base, so
// that runs are repeatable), backed by one lazily committed host mapping. Allocations are separated
// by guard gaps and freed addresses are not reused while fresh ones remain, so that a stray access
// is recognised as out of bounds or as use after free. A shadow bit per byte records what was
// written, for the memory observer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/result.h"

namespace tilewright::emulator {

using DeviceAddress = uint64_t;

// Generic address windows. Global memory (with .const variables and kernel parameters inside it)
// starts at kGlobalBase on the first device and kDeviceStride further on each next one, so that no
// address means something on two devices; shared memory of cluster rank r starts at kSharedWindow +
// (r << 24).
inline constexpr DeviceAddress kGlobalBase = 0x7'0000'0000;
inline constexpr uint64_t kDeviceStride = uint64_t{1} << 40;
// Below where a host program's own addresses start, so that a copy can tell the two apart.
inline constexpr DeviceAddress kGlobalLimit = uint64_t{1} << 46;
inline constexpr DeviceAddress kSharedWindow = 0x7'f000'0000'0000;
inline constexpr uint64_t kSharedWindowBytes = uint64_t{16} << 24;
inline constexpr DeviceAddress kLocalWindow = 0x7'e000'0000'0000;
inline constexpr uint64_t kLocalWindowBytes = uint64_t{1} << 32;

// The most that a kernel's parameters take with what lies below them in the constant bank, rounded
// up.
inline constexpr uint64_t kParameterBytes = 36864;

enum class AllocationState : uint8_t { kLive, kFreed };

struct Allocation {
  DeviceAddress base = 0;
  uint64_t bytes = 0;
  AllocationState state = AllocationState::kLive;
  bool read_only = false;  // .const variables and parameters
  // False once a kernel ran over it unobserved: what it wrote is then unknown, and nothing is
  // reported as never written.
  bool tracked = true;
  bool permanent = false;  // the parameter block
  std::string label;       // "allocation", or the name of a module's variable

  DeviceAddress end() const { return base + bytes; }
};

// What is known of one address: for reports.
struct AddressLookup {
  const Allocation* containing = nullptr;  // live or freed allocation that holds it
  const Allocation* below = nullptr;       // nearest allocation that ends at or below it
};

// An immutable, sorted view of the allocations, taken when a kernel starts. Valid as long as held;
// later changes of the DeviceMemory do not show.
class AllocationTable {
 public:
  explicit AllocationTable(std::vector<Allocation> sorted) : sorted_(std::move(sorted)) {}
  // The live allocation that holds `address`, else null.
  const Allocation* find_live(DeviceAddress address) const;
  AddressLookup lookup(DeviceAddress address) const;
  // "12 bytes after allocation 0x700000000 of 64 bytes", "inside freed …", "in no allocation".
  std::string describe(DeviceAddress address) const;

 private:
  std::vector<Allocation> sorted_;
};

// Thread-safe: allocate, release, snapshot, fill and copies may come from any thread.
class DeviceMemory {
 public:
  // `capacity_bytes`: what the device has; `cap_bytes`: what may be allocated in all (0: capacity).
  // `base`: the first address, a multiple of 4096. kOutOfMemory if the host refuses even the
  // address range, kInvalidArgument for a range beyond kGlobalLimit.
  static Result<std::unique_ptr<DeviceMemory>> create(int64_t capacity_bytes, int64_t cap_bytes = 0,
                                                      DeviceAddress base = kGlobalBase);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  struct AllocateOptions {
    uint64_t alignment = 256;  // power of two
    bool read_only = false;
    std::string label = "allocation";
  };
  // `bytes` > 0. Fresh memory reads as 0 but counts as never written. kOutOfMemory with the
  // numbers.
  Result<DeviceAddress> allocate(uint64_t bytes, const AllocateOptions& options);
  Result<DeviceAddress> allocate(uint64_t bytes) { return allocate(bytes, AllocateOptions{}); }
  // `base` as allocate returned it; kInvalidArgument for anything else.
  Status release(DeviceAddress base);

  // Host bytes behind [address, address + bytes) if that lies within one live allocation, else
  // null.
  std::byte* translate(DeviceAddress address, uint64_t bytes) const;
  bool contains(DeviceAddress address, uint64_t bytes) const {
    return translate(address, bytes) != nullptr;
  }
  // Copy of the live allocation that holds `address`.
  std::optional<Allocation> find(DeviceAddress address) const;
  std::string describe(DeviceAddress address) const;

  // Host to device and back; kInvalidArgument says what lies at a bad address. copy_in and fill
  // mark the bytes written.
  Status copy_in(DeviceAddress to, const void* from, uint64_t bytes);
  Status copy_out(void* to, DeviceAddress from, uint64_t bytes) const;
  // Repeats a pattern of 1, 2, 4 or 8 bytes.
  Status fill(DeviceAddress to, uint64_t pattern, uint32_t pattern_bytes, uint64_t count);

  uint64_t capacity_bytes() const { return capacity_; }
  uint64_t allocated_bytes() const;

  // The constant bank with a launch's parameters: one of two read-only blocks of kParameterBytes,
  // used launch by launch; two launches may run at once.
  DeviceAddress parameter_block(int number = 0) const {
    return base_ + 4096 + static_cast<uint64_t>(number) * kParameterBytes;
  }

  // The first address; whether an address lies in this device's range, allocated or not.
  DeviceAddress base() const { return base_; }
  bool in_range(DeviceAddress address) const { return address - base_ < span_; }

  // For the machine. The host byte of base(): any address of [base, base + span) is readable and
  // writable host memory, so an unchecked access inside the span cannot crash.
  std::byte* host_base() const { return host_; }
  std::shared_ptr<const AllocationTable> snapshot() const;
  // Shadow bits, one per byte: bit (address - base) & 7 of shadow()[(address - base) >> 3].
  uint8_t* shadow() const { return shadow_; }
  void mark_written(DeviceAddress address, uint64_t bytes);
  // Every live allocation counts as written from now on (a kernel is about to run unobserved).
  void stop_tracking();

 private:
  DeviceMemory() = default;
  // Both with mutex_ held. place: an address for `bytes` with gaps on both sides, or 0.
  DeviceAddress place(uint64_t bytes, uint64_t alignment);
  DeviceAddress place_among_freed(uint64_t bytes, uint64_t alignment);
  const Allocation* find_live_locked(DeviceAddress address) const;
  void remember_freed(DeviceAddress base);

  DeviceAddress base_ = kGlobalBase;
  std::byte* host_ = nullptr;
  uint8_t* shadow_ = nullptr;
  uint64_t span_ = 0;
  uint64_t capacity_ = 0;
  uint64_t cap_ = 0;
  mutable std::mutex mutex_;
  uint64_t allocated_ = 0;
  DeviceAddress fresh_ = 0;              // everything at and above was never handed out
  std::vector<Allocation> allocations_;  // sorted by base, live and freed
  std::deque<DeviceAddress> freed_;      // bases of the freed ones, oldest first
  mutable std::shared_ptr<const AllocationTable> snapshot_;  // null when out of date
};

}  // namespace tilewright::emulator
