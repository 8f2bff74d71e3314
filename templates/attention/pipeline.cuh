// A loop whose tiles come by cp.async into a ring of slots in shared memory.
#pragma once

#include "ptx/cp_async.cuh"

namespace tilewright::attention {

// Runs compute(step, slot) for every step from `first` on, with what load(step, slot) requested in
// shared memory. A step is a cursor: valid(), next(). Copies that are in flight when the loop is
// entered belong to its first step.
//   kStages = 1: a step is loaded after the one before, two barriers a step. Meant for two or more
//                blocks per SM.
//   kStages > 1: step s + kStages − 1 is requested at the start of step s, into the slot that step
//                s − 1 left; one barrier a step.
// Who waits for whom: a thread waits for its own copies, then a barrier publishes them to all warps
// and at the same time says that every warp has left the slot filled next.
template <int kStages, class Step, class Load, class Compute>
__device__ __forceinline__ void run_pipeline(const Step& first, const Load& load,
                                             const Compute& compute) {
  static_assert(kStages >= 1, "at least one stage");
  Step ahead = first;
  const auto load_ahead = [&](int slot) {
    if (ahead.valid()) {
      load(ahead, slot);
      ahead.next();
    }
    ptx::cp_async_commit();
  };
#pragma unroll
  for (int slot = 0; slot < (kStages > 1 ? kStages - 1 : 1); ++slot) load_ahead(slot);
  int slot = 0;
  for (Step step = first; step.valid(); step.next()) {
    ptx::cp_async_wait<(kStages > 1 ? kStages - 2 : 0)>();
    __syncthreads();
    if constexpr (kStages > 1) {
      load_ahead(slot == 0 ? kStages - 1 : slot - 1);
      compute(step, slot);
    } else {
      compute(step, slot);
      __syncthreads();
      load_ahead(slot);
    }
    slot = slot == kStages - 1 ? 0 : slot + 1;
  }
}

}  // namespace tilewright::attention
