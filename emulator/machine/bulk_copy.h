// Asynchronous copies through the async proxy: cp.async.bulk with and without a tensor map,
// cp.reduce.async.bulk, st.async, red.async, and the arrivals that cp.async triggers. Each is
// issued by one lane and lands when the schedule says so: at once, when some waiter could not go on
// otherwise, or, in parts, at seeded moments between. Until then a destination in shared memory
// holds a poison pattern, and a source in shared memory is read as late as the covering wait.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/machine/mbarrier.h"
#include "emulator/machine/tensor_map.h"
#include "emulator/ptx/ast.h"

namespace tilewright::emulator {

enum class BulkKind : uint8_t {
  kLoad,    // global to shared, mbarrier
  kStore,   // shared to global, bulk group
  kPush,    // shared to shared of another block, mbarrier
  kValue,   // st.async, red.async: registers to shared, mbarrier
  kArrive,  // cp.async.mbarrier.arrive
};

struct BulkCopy {
  BulkKind kind = BulkKind::kLoad;
  Warp* warp = nullptr;  // the issuer
  uint32_t lane = 0;
  const Frame* frame = nullptr;
  const Instruction* instruction = nullptr;
  uint32_t group = 0;  // the lane's count of bulk commits when issued

  SharedPlace shared;           // destination, or a store's source
  SharedPlace source;           // of a push
  std::byte* global = nullptr;  // of a copy without a map
  uint64_t global_address = 0;
  uint32_t bytes = 0;  // what the mbarrier is credited with in all
  SharedPlace barrier;
  ptx::Op op = ptx::Op::kNone;  // reductions
  ptx::Type type = ptx::Type::kB8;
  bool has_map = false;
  TensorMap map;
  std::array<int64_t, 5> start{};  // coordinates
  uint64_t copies_before = 0;      // kArrive: cp.async of the lane with a lower sequence number

  std::vector<std::byte> staged;  // a store's or push's source once read; a value
  uint32_t landed = 0;            // bytes that have arrived
  bool is_read = false;           // the source has been read
  bool is_done = false;
  bool read_waited = false;  // a wait_group(.read) has covered it
};

// Takes over a checked copy; under `eager` it lands here.
void issue_bulk(Cluster& cluster, const BulkCopy& copy);
// Lands everything of one copy.
void land_bulk(Cluster& cluster, BulkCopy& copy);
// At a seeded moment: some of what is in flight goes on.
void land_some_bulk(Cluster& cluster);
// Removes what is complete and no longer waited for.
void sweep_bulk(Cluster& cluster);
// cp.async.bulk.wait_group of the running lanes: at most `newest` groups may remain (`read_only`:
// their sources need only be read).
void wait_bulk(Warp& warp, uint32_t newest, bool read_only);
// The copy that will still write [offset, offset + bytes) of the block's shared memory, or null.
const BulkCopy* find_bulk_in_flight(const Block& block, uint32_t offset, uint32_t bytes);
// Empty, or what is wrong with a tensor copy's map, box and coordinates; fills bytes and checks
// that every global byte lies in one live allocation.
std::string prepare_tensor_copy(const Launch& launch, BulkCopy& copy);
// The parts of shared memory that a store reads: without the box's elements outside of the tensor,
// which it drops.
struct SharedPart {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};
std::vector<SharedPart> stored_parts(const BulkCopy& copy);
// What one lane of cp.async.bulk.tensor moves, in bytes.
uint32_t tensor_box_bytes(const TensorMap& map);

}  // namespace tilewright::emulator
