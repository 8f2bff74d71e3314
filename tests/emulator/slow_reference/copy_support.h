// A cluster of two blocks with a tile and an mbarrier each, and a buffer of global memory: one
// asynchronous instruction runs in block 0, and every byte of the three is known before and after.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "emulator/machine/tensor_map.h"
#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/values.h"

namespace tilewright::emulator::slow {

constexpr int kTileBytes = 8192;
constexpr uint32_t kTileAddress = 0x400;  // of the tile in either block's shared memory

// Bytes of both tiles and of global memory.
struct CopyState {
  std::array<std::vector<uint8_t>, 2> tile;
  std::vector<uint8_t> global;
  bool operator==(const CopyState&) const = default;
};
CopyState random_state(Random& random);
uint64_t read_bytes(const std::vector<uint8_t>& from, size_t at, int count);
void write_bytes(std::vector<uint8_t>& to, size_t at, int count, uint64_t value);

struct CopyRequest {
  // Code that thread 0 of block 0 runs (or every thread of it, with `all_threads`). It sees %tile
  // and %bar (own, 32 bits), %peer_tile and %peer_bar, %global and %map (64 bits), %c0 to %c4.
  std::string code;
  bool all_threads = false;
  // Bytes that each block's mbarrier is to be credited; 0: nothing waits there.
  std::array<uint32_t, 2> expected_tx{};
  TensorMap map{};  // over `global`
  std::array<int32_t, 5> coordinates{};
  LaunchSettings settings;
};

// The state after; a fault fails the test and gives the state before.
CopyState run_copy(const CopyRequest& request, const CopyState& before);

// Where two states first differ, for failure messages.
std::string difference(const CopyState& actual, const CopyState& expected);

}  // namespace tilewright::emulator::slow
