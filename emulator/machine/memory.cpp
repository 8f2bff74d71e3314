#include "emulator/machine/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/check.h"

namespace tilewright::emulator {
namespace {

// Unmapped distance between allocations: wider than any single access, so that an overrun by one
// tile row still lands in no allocation.
constexpr uint64_t kGuardBytes = 4096;
constexpr uint64_t kPageBytes = 4096;
// Freed allocations that a report can still name.
constexpr size_t kMaxFreed = 1024;

uint64_t round_up(uint64_t value, uint64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void* reserve(uint64_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return address == MAP_FAILED ? nullptr : address;
}

// First element whose base is above `address`.
auto above(const std::vector<Allocation>& sorted, DeviceAddress address) {
  return std::upper_bound(sorted.begin(), sorted.end(), address,
                          [](DeviceAddress value, const Allocation& a) { return value < a.base; });
}

const Allocation* containing(const std::vector<Allocation>& sorted, DeviceAddress address) {
  auto next = above(sorted, address);
  if (next == sorted.begin()) return nullptr;
  const Allocation& candidate = *std::prev(next);
  return address < candidate.end() ? &candidate : nullptr;
}

}  // namespace

const Allocation* AllocationTable::find_live(DeviceAddress address) const {
  const Allocation* found = containing(sorted_, address);
  return found != nullptr && found->state == AllocationState::kLive ? found : nullptr;
}

AddressLookup AllocationTable::lookup(DeviceAddress address) const {
  auto next = above(sorted_, address);
  AddressLookup result;
  if (next == sorted_.begin()) return result;
  const Allocation& candidate = *std::prev(next);
  (address < candidate.end() ? result.containing : result.below) = &candidate;
  return result;
}

std::string AllocationTable::describe(DeviceAddress address) const {
  const AddressLookup found = lookup(address);
  if (const Allocation* a = found.containing) {
    return fmt::format("byte {} of {}{} at {:#x} of {} bytes", address - a->base,
                       a->state == AllocationState::kFreed ? "freed " : "", a->label, a->base,
                       a->bytes);
  }
  if (const Allocation* a = found.below) {
    return fmt::format("{} bytes after the end of {}{} at {:#x} of {} bytes", address - a->end(),
                       a->state == AllocationState::kFreed ? "freed " : "", a->label, a->base,
                       a->bytes);
  }
  return "below every allocation";
}

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::create(int64_t capacity_bytes,
                                                           int64_t cap_bytes, DeviceAddress base) {
  if (capacity_bytes <= 0 || cap_bytes < 0) {
    return make_error(ErrorCode::kInvalidArgument, "device memory of {} bytes with a cap of {}",
                      capacity_bytes, cap_bytes);
  }
  std::unique_ptr<DeviceMemory> memory(new DeviceMemory);
  memory->capacity_ = static_cast<uint64_t>(capacity_bytes);
  memory->cap_ = cap_bytes == 0 ? memory->capacity_
                                : std::min(memory->capacity_, static_cast<uint64_t>(cap_bytes));
  // Twice the cap: room for guard gaps and for freed addresses that rest before they are reused.
  memory->span_ = round_up(memory->cap_ * 2 + (uint64_t{64} << 20), kPageBytes * 8);
  memory->base_ = base;
  if (base % kPageBytes != 0 || base >= kGlobalLimit || memory->span_ > kGlobalLimit - base) {
    return make_error(ErrorCode::kInvalidArgument, "{} bytes of device addresses from {:#x} on",
                      memory->span_, base);
  }
  memory->host_ = static_cast<std::byte*>(reserve(memory->span_ + kPageBytes));
  memory->shadow_ = static_cast<uint8_t*>(reserve(memory->span_ / 8 + kPageBytes));
  if (memory->host_ == nullptr || memory->shadow_ == nullptr) {
    return make_error(ErrorCode::kOutOfMemory,
                      "the host refuses an address range of {} bytes for {} bytes of device memory",
                      memory->span_, memory->cap_);
  }
  Allocation parameters;
  parameters.base = memory->parameter_block();
  parameters.bytes = 2 * kParameterBytes;
  parameters.read_only = true;
  parameters.permanent = true;
  parameters.label = "kernel parameters";
  memory->fresh_ = parameters.end() + kGuardBytes;
  memory->allocations_.push_back(std::move(parameters));
  return memory;
}

DeviceMemory::~DeviceMemory() {
  if (host_ != nullptr) munmap(host_, span_ + kPageBytes);
  if (shadow_ != nullptr) munmap(shadow_, span_ / 8 + kPageBytes);
}

DeviceAddress DeviceMemory::place(uint64_t bytes, uint64_t alignment) {
  const DeviceAddress base = round_up(fresh_, alignment);
  const DeviceAddress limit = base_ + span_;
  if (base < limit && bytes + kGuardBytes <= limit - base) {
    fresh_ = base + bytes + kGuardBytes;
    return base;
  }
  return place_among_freed(bytes, alignment);
}

// The address range is used up: take the first run of freed addresses that is long enough.
DeviceAddress DeviceMemory::place_among_freed(uint64_t bytes, uint64_t alignment) {
  DeviceAddress from = base_ + kGuardBytes;
  for (size_t i = 0; i <= allocations_.size(); ++i) {
    const bool last = i == allocations_.size();
    if (!last && allocations_[i].state == AllocationState::kFreed) continue;
    const DeviceAddress until = (last ? base_ + span_ : allocations_[i].base) - kGuardBytes;
    const DeviceAddress base = round_up(from, alignment);
    if (base < until && until - base >= bytes) {
      std::erase_if(allocations_, [&](const Allocation& a) {
        return a.state == AllocationState::kFreed && a.base < base + bytes + kGuardBytes &&
               a.end() + kGuardBytes > base;
      });
      return base;
    }
    if (!last) from = allocations_[i].end() + kGuardBytes;
  }
  return 0;
}

Result<DeviceAddress> DeviceMemory::allocate(uint64_t bytes, const AllocateOptions& options) {
  const uint64_t alignment = std::max<uint64_t>(options.alignment, 16);
  if (bytes == 0 || (alignment & (alignment - 1)) != 0) {
    return make_error(ErrorCode::kInvalidArgument, "allocation of {} bytes aligned to {}", bytes,
                      options.alignment);
  }
  const std::lock_guard lock(mutex_);
  if (bytes > cap_ - allocated_) {
    return make_error(ErrorCode::kOutOfMemory, "{} bytes asked for, {} of {} are free", bytes,
                      cap_ - allocated_, cap_);
  }
  const DeviceAddress base = place(bytes, alignment);
  if (base == 0) {
    return make_error(ErrorCode::kOutOfMemory,
                      "{} bytes asked for, but no free range of addresses is that long", bytes);
  }
  Allocation allocation;
  allocation.base = base;
  allocation.bytes = bytes;
  allocation.read_only = options.read_only;
  allocation.label = options.label;
  allocations_.insert(above(allocations_, base), std::move(allocation));
  allocated_ += bytes;
  snapshot_.reset();
  return base;
}

Status DeviceMemory::release(DeviceAddress base) {
  const std::lock_guard lock(mutex_);
  const Allocation* found = find_live_locked(base);
  if (found == nullptr || found->base != base || found->permanent) {
    return make_error(ErrorCode::kInvalidArgument, "{:#x} is not the start of an allocation", base);
  }
  Allocation& allocation = allocations_[static_cast<size_t>(found - allocations_.data())];
  allocation.state = AllocationState::kFreed;
  allocated_ -= allocation.bytes;
  // Give the pages back and leave zeros and cleared shadow bits for a later tenant. Allocations
  // share no page with another one only by their guard gaps, so whole pages are dropped and the
  // rest is cleared.
  std::byte* begin = host_ + (allocation.base - base_);
  const uint64_t first_page = round_up(allocation.base - base_, kPageBytes);
  const uint64_t last_page = (allocation.end() - base_) / kPageBytes * kPageBytes;
  if (first_page < last_page) {
    std::memset(begin, 0, first_page - (allocation.base - base_));
    madvise(host_ + first_page, last_page - first_page, MADV_DONTNEED);
    std::memset(host_ + last_page, 0, allocation.end() - base_ - last_page);
  } else {
    std::memset(begin, 0, allocation.bytes);
  }
  const uint64_t shadow_from = (allocation.base - base_) / 8;
  const uint64_t shadow_until = (allocation.end() - base_ + 7) / 8;
  const uint64_t shadow_first = round_up(shadow_from, kPageBytes);
  const uint64_t shadow_last = shadow_until / kPageBytes * kPageBytes;
  if (shadow_first < shadow_last) {
    std::memset(shadow_ + shadow_from, 0, shadow_first - shadow_from);
    madvise(shadow_ + shadow_first, shadow_last - shadow_first, MADV_DONTNEED);
    std::memset(shadow_ + shadow_last, 0, shadow_until - shadow_last);
  } else {
    std::memset(shadow_ + shadow_from, 0, shadow_until - shadow_from);
  }
  remember_freed(base);
  snapshot_.reset();
  return {};
}

void DeviceMemory::remember_freed(DeviceAddress base) {
  freed_.push_back(base);
  if (freed_.size() <= kMaxFreed) return;
  const DeviceAddress oldest = freed_.front();
  freed_.pop_front();
  // Unless its addresses have been given out again.
  std::erase_if(allocations_, [oldest](const Allocation& a) {
    return a.base == oldest && a.state == AllocationState::kFreed;
  });
}

const Allocation* DeviceMemory::find_live_locked(DeviceAddress address) const {
  const Allocation* found = containing(allocations_, address);
  return found != nullptr && found->state == AllocationState::kLive ? found : nullptr;
}

std::byte* DeviceMemory::translate(DeviceAddress address, uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  const Allocation* found = find_live_locked(address);
  if (found == nullptr || bytes > found->end() - address) return nullptr;
  return host_ + (address - base_);
}

std::optional<Allocation> DeviceMemory::find(DeviceAddress address) const {
  const std::lock_guard lock(mutex_);
  const Allocation* found = find_live_locked(address);
  return found == nullptr ? std::nullopt : std::optional<Allocation>(*found);
}

std::string DeviceMemory::describe(DeviceAddress address) const {
  return snapshot()->describe(address);
}

Status DeviceMemory::copy_in(DeviceAddress to, const void* from, uint64_t bytes) {
  if (bytes == 0) return {};
  std::byte* host = translate(to, bytes);
  if (host == nullptr) {
    return make_error(ErrorCode::kInvalidArgument, "cannot write {} bytes at {:#x}: {}", bytes, to,
                      describe(to));
  }
  std::memcpy(host, from, bytes);
  mark_written(to, bytes);
  return {};
}

Status DeviceMemory::copy_out(void* to, DeviceAddress from, uint64_t bytes) const {
  if (bytes == 0) return {};
  const std::byte* host = translate(from, bytes);
  if (host == nullptr) {
    return make_error(ErrorCode::kInvalidArgument, "cannot read {} bytes at {:#x}: {}", bytes, from,
                      describe(from));
  }
  std::memcpy(to, host, bytes);
  return {};
}

Status DeviceMemory::fill(DeviceAddress to, uint64_t pattern, uint32_t pattern_bytes,
                          uint64_t count) {
  if (pattern_bytes != 1 && pattern_bytes != 2 && pattern_bytes != 4 && pattern_bytes != 8) {
    return make_error(ErrorCode::kInvalidArgument, "a fill pattern of {} bytes", pattern_bytes);
  }
  if (count == 0) return {};
  std::byte* host =
      count > UINT64_MAX / pattern_bytes ? nullptr : translate(to, count * pattern_bytes);
  if (host == nullptr) {
    return make_error(ErrorCode::kInvalidArgument, "cannot fill {} times {} bytes at {:#x}: {}",
                      count, pattern_bytes, to, describe(to));
  }
  if (pattern_bytes == 1) {
    std::memset(host, static_cast<int>(pattern & 0xff), count);
  } else {
    for (uint64_t i = 0; i < count; ++i)
      std::memcpy(host + i * pattern_bytes, &pattern, pattern_bytes);
  }
  mark_written(to, count * pattern_bytes);
  return {};
}

uint64_t DeviceMemory::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_;
}

std::shared_ptr<const AllocationTable> DeviceMemory::snapshot() const {
  const std::lock_guard lock(mutex_);
  if (snapshot_ == nullptr) snapshot_ = std::make_shared<const AllocationTable>(allocations_);
  return snapshot_;
}

void DeviceMemory::mark_written(DeviceAddress address, uint64_t bytes) {
  uint64_t bit = address - base_;
  const uint64_t end = bit + bytes;
  // Blocks on other host threads may write neighbours that share a shadow byte.
  const auto mark = [this](uint64_t index, uint32_t bits) {
    const std::atomic_ref<uint8_t> byte(shadow_[index >> 3]);
    const auto mask = static_cast<uint8_t>(bits << (index & 7));
    if ((byte.load(std::memory_order_relaxed) & mask) != mask) {
      byte.fetch_or(mask, std::memory_order_relaxed);
    }
  };
  if ((bit & 7) + bytes <= 8) return mark(bit, (1u << bytes) - 1);  // one element of a lane
  const auto mark_bit = [&mark](uint64_t index) { mark(index, 1); };
  for (; bit < end && (bit & 7) != 0; ++bit) mark_bit(bit);
  if (bit < end) {
    std::memset(shadow_ + (bit >> 3), 0xff, (end - bit) >> 3);
    bit += (end - bit) & ~uint64_t{7};
  }
  for (; bit < end; ++bit) mark_bit(bit);
}

void DeviceMemory::stop_tracking() {
  const std::lock_guard lock(mutex_);
  for (Allocation& allocation : allocations_) {
    if (!allocation.read_only) allocation.tracked = false;
  }
  snapshot_.reset();
}

}  // namespace tilewright::emulator
