// A ring of slots in shared memory between one producer and its consumers: a full and an empty
// mbarrier per slot.
#pragma once

namespace tilewright::attention {

// The slot of a step, and the parity of the phases of its barriers. The consumer waits for `full`
// with `phase`; the producer for `empty` with phase ^ 1, which a fresh barrier satisfies.
template <int kStages>
struct RingPosition {
  int slot = 0;
  unsigned phase = 0;

  __device__ __forceinline__ void advance() {
    if (++slot == kStages) {
      slot = 0;
      phase ^= 1;
    }
  }
};

}  // namespace tilewright::attention
