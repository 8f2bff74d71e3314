#include "emulator/machine/bulk_copy.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "emulator/instructions/swizzle.h"
#include "emulator/machine/async_copy.h"
#include "emulator/machine/atomic.h"
#include "emulator/machine/cluster.h"

namespace tilewright::emulator {
namespace {

constexpr int kPoison = 0xff;
// What a copy without a map lands at a time.
constexpr uint32_t kPieceBytes = 64;

Swizzle swizzle_of(const TensorMap& map) {
  constexpr Swizzle kModes[4] = {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B};
  return kModes[map.swizzle & 3];
}

uint32_t packed_extent(const TensorMap& map, int i) {
  return (uint32_t{map.box_dim[i]} + map.element_stride[i] - 1) / map.element_stride[i];
}

// One innermost row of a box: packed bytes at `offset`, of which elements [first, last) exist.
struct Row {
  uint32_t offset = 0;
  uint32_t first = 0;
  uint32_t last = 0;
  uint64_t address = 0;  // of element `first`
};

uint32_t row_bytes(const BulkCopy& copy) {
  return packed_extent(copy.map, 0) *
         static_cast<uint32_t>(tensor_map_element_bytes(copy.map.data_type));
}

Row row_of(const BulkCopy& copy, uint32_t number) {
  const TensorMap& map = copy.map;
  const auto element = static_cast<uint64_t>(tensor_map_element_bytes(map.data_type));
  Row row;
  row.offset = number * row_bytes(copy);
  bool inside = true;
  uint64_t address = map.global_address;
  for (int i = 1; i < map.rank; ++i) {
    const uint32_t extent = packed_extent(map, i);
    const int64_t at =
        copy.start[static_cast<size_t>(i)] + int64_t{number % extent} * map.element_stride[i];
    number /= extent;
    inside &= at >= 0 && static_cast<uint64_t>(at) < map.global_dim(i);
    address += static_cast<uint64_t>(at) * map.global_stride[i - 1];
  }
  if (!inside) return row;
  const int64_t size = static_cast<int64_t>(map.global_dim(0));
  const int64_t count = packed_extent(map, 0);
  const int64_t from = std::clamp<int64_t>(-copy.start[0], 0, count);
  const int64_t to = std::clamp<int64_t>(size - copy.start[0], from, count);
  row.first = static_cast<uint32_t>(from);
  row.last = static_cast<uint32_t>(to);
  row.address = address + static_cast<uint64_t>(copy.start[0] + from) * element;
  return row;
}

// Moves packed bytes of a row to or from their swizzled places in shared memory.
void move_row(const BulkCopy& copy, uint32_t offset, std::byte* packed, uint32_t bytes,
              bool to_shared) {
  const Block& block = *copy.shared.block;
  const uint32_t base = block.launch->shared_base;
  const Swizzle swizzle = swizzle_of(copy.map);
  uint32_t done = 0;
  while (done < bytes) {
    const uint32_t plain = copy.shared.offset + offset + done + base;
    const uint32_t part =
        swizzle == Swizzle::kNone ? bytes - done : std::min(bytes - done, 16 - plain % 16);
    std::byte* place = block.shared + (swizzle_address(plain, swizzle) - base);
    if (to_shared) {
      std::memcpy(place, packed + done, part);
    } else {
      std::memcpy(packed + done, place, part);
    }
    done += part;
  }
}

void fill_outside(const TensorMap& map, std::byte* packed, uint32_t elements) {
  const auto element = static_cast<uint32_t>(tensor_map_element_bytes(map.data_type));
  if (map.fill == 0) {
    std::memset(packed, 0, size_t{element} * elements);
    return;
  }
  std::memset(packed, 0xff, size_t{element} * elements);  // 0x7ff…: NaN in every format
  for (uint32_t n = 0; n < elements; ++n) packed[(n + 1) * element - 1] = std::byte{0x7f};
}

std::byte* host(const BulkCopy& copy, uint64_t address) {
  const DeviceMemory& memory = *copy.warp->launch->memory;
  return memory.host_base() + (address - memory.base());
}

// Bytes [landed, end) of a load's box arrive: whole rows.
void land_rows(BulkCopy& copy, uint32_t end) {
  const uint32_t bytes = row_bytes(copy);
  const auto element = static_cast<uint32_t>(tensor_map_element_bytes(copy.map.data_type));
  std::vector<std::byte> packed(bytes);
  for (uint32_t number = copy.landed / bytes; number < end / bytes; ++number) {
    const Row row = row_of(copy, number);
    if (row.first != 0 || row.last * element != bytes) {
      fill_outside(copy.map, packed.data(), bytes / element);
    }
    if (row.last != row.first) {
      std::memcpy(packed.data() + row.first * element, host(copy, row.address),
                  size_t{row.last - row.first} * element);
    }
    move_row(copy, row.offset, packed.data(), bytes, true);
  }
}

void reduce_cells(const BulkCopy& copy, std::byte* to, const std::byte* from, uint32_t bytes) {
  const uint32_t element = static_cast<uint32_t>(ptx::type_bits(copy.type)) / 8;
  const bool shared_memory = copy.kind == BulkKind::kPush || copy.kind == BulkKind::kValue;
  const bool host_atomic = copy.warp->launch->parallel && !shared_memory;
  for (uint32_t at = 0; at < bytes; at += element) {
    uint64_t value = 0;
    std::memcpy(&value, from + at, element);
    update_cell(
        to + at,
        {.type = copy.type, .op = copy.op, .flushes = !shared_memory, .host_atomic = host_atomic},
        value);
  }
}

void write_or_reduce(const BulkCopy& copy, std::byte* to, const std::byte* from, uint32_t bytes) {
  if (copy.op != ptx::Op::kNone) {
    reduce_cells(copy, to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

void note_global_write(const BulkCopy& copy, uint64_t address, uint64_t bytes) {
  if (copy.warp->observed) copy.warp->launch->memory->mark_written(address, bytes);
}

// A store's or push's source leaves shared memory.
void read_source(BulkCopy& copy) {
  if (copy.is_read) return;
  copy.is_read = true;
  if (copy.kind == BulkKind::kPush) {
    copy.staged.resize(copy.bytes);
    std::memcpy(copy.staged.data(), copy.source.block->shared + copy.source.offset, copy.bytes);
  } else if (copy.kind == BulkKind::kStore) {
    copy.staged.resize(copy.bytes);
    if (copy.has_map) {
      move_row(copy, 0, copy.staged.data(), copy.bytes, false);
    } else {
      std::memcpy(copy.staged.data(), copy.shared.block->shared + copy.shared.offset, copy.bytes);
    }
  }
}

void write_store(const BulkCopy& copy) {
  if (!copy.has_map) {
    write_or_reduce(copy, copy.global, copy.staged.data(), copy.bytes);
    note_global_write(copy, copy.global_address, copy.bytes);
    return;
  }
  const auto element = static_cast<uint32_t>(tensor_map_element_bytes(copy.map.data_type));
  for (uint32_t number = 0; number < copy.bytes / row_bytes(copy); ++number) {
    const Row row = row_of(copy, number);
    if (row.last == row.first) continue;
    const uint32_t bytes = (row.last - row.first) * element;
    write_or_reduce(copy, host(copy, row.address),
                    copy.staged.data() + row.offset + row.first * element, bytes);
    note_global_write(copy, row.address, bytes);
  }
}

void report(const BulkCopy& copy, std::string message) {
  Warp& warp = *copy.warp;
  Frame* frame = warp.frame;
  warp.frame = const_cast<Frame*>(copy.frame);
  fault(warp, copy.instruction,
        {.kind = FaultKind::kMbarrier, .message = std::move(message), .lane = copy.lane});
  warp.frame = frame;
}

// Bytes up to `end` arrive in shared memory, and the mbarrier is told.
void land_until(BulkCopy& copy, uint32_t end) {
  const uint32_t bytes = end - copy.landed;
  Block& block = *copy.shared.block;
  std::byte* to = block.shared + copy.shared.offset + copy.landed;
  if (copy.kind == BulkKind::kLoad && copy.has_map) {
    land_rows(copy, end);
  } else if (copy.kind == BulkKind::kLoad) {
    std::memcpy(to, copy.global + copy.landed, bytes);
  } else {
    write_or_reduce(copy, to, copy.staged.data() + copy.landed, bytes);
  }
  copy.landed = end;
  copy.is_done = end == copy.bytes;
  if (copy.is_done && block.observer != nullptr) {
    block.observer->on_landed({copy.shared.offset, copy.bytes, &copy});
    if (copy.kind == BulkKind::kPush) {
      copy.source.block->observer->on_landed({copy.source.offset, copy.bytes, &copy});
    }
  }
  std::string error = complete_transactions(copy.barrier, bytes);
  if (!error.empty()) report(copy, std::move(error));
}

void land_arrival(BulkCopy& copy) {
  copy.is_done = true;
  complete_copies_before(*copy.warp, 1u << copy.lane, copy.copies_before);
  uint64_t state = 0;
  std::string error = arrive_at_mbarrier(copy.barrier, {}, &state);
  if (!error.empty()) report(copy, std::move(error));
}

bool is_reading(const BulkCopy& copy) {
  return copy.kind == BulkKind::kStore || copy.kind == BulkKind::kPush;
}

void poison_destination(const BulkCopy& copy) {
  if (copy.op != ptx::Op::kNone || copy.kind == BulkKind::kStore ||
      copy.kind == BulkKind::kArrive) {
    return;
  }
  if (!copy.has_map) {
    std::memset(copy.shared.block->shared + copy.shared.offset, kPoison, copy.bytes);
    return;
  }
  std::vector<std::byte> poison(row_bytes(copy), static_cast<std::byte>(kPoison));
  for (uint32_t at = 0; at < copy.bytes; at += row_bytes(copy)) {
    move_row(copy, at, poison.data(), row_bytes(copy), true);
  }
}

void advance_randomly(Cluster& cluster, BulkCopy& copy) {
  if (is_reading(copy) && !copy.is_read) return read_source(copy);
  if (copy.kind == BulkKind::kStore || copy.kind == BulkKind::kArrive) {
    return land_bulk(cluster, copy);
  }
  const uint32_t piece = copy.has_map ? row_bytes(copy) : std::min(kPieceBytes, copy.bytes);
  const uint64_t rest = (copy.bytes - copy.landed + piece - 1) / piece;
  const uint64_t pieces = cluster.random.below(2) == 0 ? rest : 1 + cluster.random.below(rest);
  land_until(copy,
             static_cast<uint32_t>(std::min<uint64_t>(copy.bytes, copy.landed + pieces * piece)));
}

}  // namespace

uint32_t tensor_box_bytes(const TensorMap& map) {
  auto bytes = static_cast<uint32_t>(tensor_map_element_bytes(map.data_type));
  for (int i = 0; i < map.rank; ++i) bytes *= packed_extent(map, i);
  return bytes;
}

std::string prepare_tensor_copy(const Launch& launch, BulkCopy& copy) {
  const TensorMap& map = copy.map;
  const int element = tensor_map_element_bytes(map.data_type);
  std::string error = check_tensor_map(map);
  if (!error.empty()) return error;
  const uint32_t inner = row_bytes(copy);
  if (inner % 16 != 0) return fmt::format("a box row of {} bytes, no multiple of 16", inner);
  const auto span = static_cast<uint32_t>(swizzle_of(map));
  if (span != 0 && inner != span) {
    return fmt::format("a box row of {} bytes under a swizzle of {}: its pitch is not defined",
                       inner, span);
  }
  const bool stores = copy.kind == BulkKind::kStore;
  for (int i = 0; i < map.rank && stores; ++i) {
    if (copy.start[static_cast<size_t>(i)] < 0) {
      return fmt::format("coordinate {} of a store is {}", i, copy.start[static_cast<size_t>(i)]);
    }
  }
  const uint64_t bytes = uint64_t{tensor_box_bytes(map)};
  if (bytes > launch.shared_bytes) {
    return fmt::format("a box of {} bytes in {} bytes of shared memory", bytes,
                       launch.shared_bytes);
  }
  copy.bytes = static_cast<uint32_t>(bytes);
  const Allocation* allocation = nullptr;
  for (uint32_t number = 0; number < copy.bytes / inner; ++number) {
    const Row row = row_of(copy, number);
    if (row.first == row.last) continue;
    const uint64_t end =
        row.address + uint64_t{row.last - row.first} * static_cast<uint64_t>(element);
    if (allocation == nullptr || row.address < allocation->base) {
      allocation = launch.allocations->find_live(row.address);
    }
    if (allocation == nullptr || end > allocation->end()) {
      return fmt::format("global bytes [{:#x}, {:#x}) of the box: {}", row.address, end,
                         launch.allocations->describe(row.address));
    }
    if (stores && allocation->read_only) return "a store to read-only memory";
  }
  return {};
}

std::vector<SharedPart> stored_parts(const BulkCopy& copy) {
  const SharedPart whole{copy.shared.offset, copy.bytes};
  if (!copy.has_map) return {whole};
  const auto element = static_cast<uint32_t>(tensor_map_element_bytes(copy.map.data_type));
  const uint32_t base = copy.shared.block->launch->shared_base;
  const Swizzle swizzle = swizzle_of(copy.map);
  std::vector<SharedPart> parts;
  uint32_t stored = 0;
  for (uint32_t number = 0; number < copy.bytes / row_bytes(copy); ++number) {
    const Row row = row_of(copy, number);
    const uint32_t end = copy.shared.offset + row.offset + row.last * element;
    for (uint32_t at = copy.shared.offset + row.offset + row.first * element; at < end;) {
      const uint32_t plain = at + base;
      const uint32_t bytes =
          swizzle == Swizzle::kNone ? end - at : std::min(end - at, 16 - plain % 16);
      parts.push_back({swizzle_address(plain, swizzle) - base, bytes});
      stored += bytes;
      at += bytes;
    }
  }
  if (stored == copy.bytes) return {whole};
  return parts;
}

void issue_bulk(Cluster& cluster, const BulkCopy& copy) {
  cluster.copies.push_back(std::make_unique<BulkCopy>(copy));
  BulkCopy& issued = *cluster.copies.back();
  ++cluster.events;
  if (copy.warp->launch->schedule == Schedule::kEager) {
    land_bulk(cluster, issued);
  } else {
    poison_destination(issued);
  }
  if (issued.is_done && issued.kind != BulkKind::kStore) cluster.copies.pop_back();
}

void land_bulk(Cluster& cluster, BulkCopy& copy) {
  if (copy.is_done) return;
  ++cluster.events;
  cluster.failed_tests = 0;
  if (copy.kind == BulkKind::kArrive) return land_arrival(copy);
  read_source(copy);
  if (copy.kind == BulkKind::kStore) {
    write_store(copy);
    copy.is_done = true;
    copy.staged.clear();
    return;
  }
  land_until(copy, copy.bytes);
}

void land_some_bulk(Cluster& cluster) {
  bool any = false;
  for (size_t n = 0; n < cluster.copies.size(); ++n) {
    BulkCopy& copy = *cluster.copies[n];
    if (copy.is_done || cluster.random.below(4) != 0) continue;
    advance_randomly(cluster, copy);
    any |= copy.is_done;
  }
  if (any) sweep_bulk(cluster);
}

void sweep_bulk(Cluster& cluster) {
  std::erase_if(cluster.copies, [](const std::unique_ptr<BulkCopy>& copy) {
    return copy->is_done && (copy->kind != BulkKind::kStore || copy->read_waited);
  });
}

void wait_bulk(Warp& warp, uint32_t newest, bool read_only) {
  Cluster& cluster = *warp.block->cluster;
  for (const auto& entry : cluster.copies) {
    BulkCopy& copy = *entry;
    if (copy.warp != &warp || copy.kind != BulkKind::kStore) continue;
    if (((warp.mask >> copy.lane) & 1) == 0) continue;
    if (copy.group + newest >= warp.bulk_group[copy.lane]) continue;
    read_source(copy);
    copy.read_waited = true;
    if (!read_only) land_bulk(cluster, copy);
  }
  sweep_bulk(cluster);
}

const BulkCopy* find_bulk_in_flight(const Block& block, uint32_t offset, uint32_t bytes) {
  if (block.cluster == nullptr) return nullptr;
  for (const auto& copy : block.cluster->copies) {
    if (copy->kind == BulkKind::kStore || copy->kind == BulkKind::kArrive || copy->is_done) {
      continue;
    }
    if (copy->shared.block == &block && copy->shared.offset < offset + bytes &&
        offset < copy->shared.offset + copy->bytes) {
      return copy.get();
    }
  }
  return nullptr;
}

}  // namespace tilewright::emulator
