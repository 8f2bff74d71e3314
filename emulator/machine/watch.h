// What handlers tell the full observer beside accesses: one test each where there is none.
#pragma once

#include "emulator/machine/block.h"

namespace tilewright::emulator {

// False: the observer recorded a fault.
inline bool note_sync(Warp& warp, SyncKind kind, uint32_t lanes, const Instruction* at,
                      uint32_t number = 0, bool relaxed = false) {
  if (!warp.ordered) return true;
  return warp.block->observer->on_sync({.kind = kind,
                                        .warp = &warp,
                                        .lanes = lanes,
                                        .number = number,
                                        .at = at,
                                        .relaxed = relaxed});
}

// `lanes` have met at a .sync instruction.
inline void note_together(Warp& warp, const Instruction* at, uint32_t lanes) {
  if (warp.reads_unordered) note_sync(warp, SyncKind::kTogether, lanes, at);
}

// The same for an object in shared memory of the cluster.
inline bool note_mbarrier(Warp& warp, SyncKind kind, uint32_t lanes, const Instruction* at,
                          const SharedPlace& place, bool relaxed = false) {
  if (!warp.ordered) return true;
  return place.block->observer->on_sync({.kind = kind,
                                         .warp = &warp,
                                         .lanes = lanes,
                                         .number = place.offset,
                                         .at = at,
                                         .relaxed = relaxed});
}

}  // namespace tilewright::emulator
