// From the addresses in a register to checked host pointers: bounds, alignment, use after free,
// read-only memory, and the observer's say. Everything that moves data goes through here, so that
// no address of a kernel can reach host memory that is not its own.
#pragma once

#include <array>
#include <cstdint>

#include "emulator/machine/block.h"
#include "emulator/machine/code.h"
#include "emulator/machine/warp.h"

namespace tilewright::emulator {

struct HostPointers {
  alignas(64) std::array<std::byte*, 32> lanes;
  std::byte* const* data() const { return lanes.data(); }
};

// Host pointers of `bytes` bytes for every lane of the mask, at register `address` + form.offset in
// form.space. False: a fault is recorded.
bool resolve(Warp& warp, const Instruction* i, const MemoryForm& form, Slot address,
             ptx::StateSpace space, uint32_t bytes, AccessKind kind, HostPointers& out);

// One lane; null with a fault recorded.
std::byte* resolve_lane(Warp& warp, const Instruction* i, ptx::StateSpace space, uint64_t address,
                        uint32_t bytes, AccessKind kind, uint32_t lane);

// One lane's address of an operand that is not the instruction's only one.
uint64_t lane_address(const Warp& warp, const AddressForm& form, uint32_t lane);
// The place in shared memory of the cluster that a lane's operand names, `bytes` bytes at a
// multiple of `alignment`; its block is null with a fault recorded. Observers are not asked.
SharedPlace resolve_place(Warp& warp, const Instruction* i, const AddressForm& form, uint32_t bytes,
                          uint32_t alignment, uint32_t lane);

// One lane of global memory: `bytes` bytes, of any number, at a multiple of `alignment`.
std::byte* resolve_unaligned(Warp& warp, const Instruction* i, uint64_t address, uint32_t bytes,
                             uint32_t alignment, AccessKind kind, uint32_t lane);

// The moves of an element of 1, 2, 4 or 8 bytes to and from 4- or 8-byte lanes.
LoadMove load_move(uint32_t element_bytes, bool lanes_are_wide, bool is_signed);
StoreMove store_move(uint32_t element_bytes, bool lanes_are_wide);

}  // namespace tilewright::emulator
