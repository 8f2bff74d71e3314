// The queues of cp.async: under `lazy` a copy's bytes land at the wait that covers it, under
// `random` at a seeded moment before, under `eager` at once. Until then the destination holds a
// poison pattern, so that a missing wait shows.
#pragma once

#include <cstdint>

#include "emulator/machine/warp.h"

namespace tilewright::emulator {

// Issues a copy; to and from have been checked.
void issue_copy(Warp& warp, const PendingCopy& copy);
void commit_copies(Warp& warp);
// Lands what must be complete when at most `newest` groups of each lane may remain.
void wait_copies(Warp& warp, uint32_t newest);
// cp.async.wait_all: everything, committed or not.
void wait_all_copies(Warp& warp);
// Lands the copies of `lanes` with a lower sequence number (cp.async.mbarrier.arrive).
void complete_copies_before(Warp& warp, uint32_t lanes, uint64_t sequence);
// At a seeded moment: lands some of what is in flight.
void land_some(Warp& warp);
// The copy whose bytes [offset, offset + bytes) of shared memory are in flight, null if none.
const PendingCopy* find_in_flight(const Warp& warp, uint32_t offset, uint32_t bytes);

}  // namespace tilewright::emulator
