// Random data for the masks of a trial, and where the rows of its sequences lie.
#pragma once

#include <cstdint>

#include "autotune/trial.h"

namespace tilewright {

// The rows of one sequence among those of all; `first_k` is that of its document ids, as keys may
// lie in pages.
struct SequenceRows {
  int64_t first_q = 0, seqlen_q = 0;
  int64_t first_k = 0, seqlen_k = 0;
};
SequenceRows sequence_rows(const Problem& problem, const reference::Sizes& sizes,
                           const TrialTensors& inputs, int64_t batch);

// Half of the blocks visible, the same ones for all or some for each batch, head or both, and
// documents of random lengths. The lengths of the sequences are there already.
void add_random_mask_data(const Problem& problem, const reference::Sizes& sizes, uint64_t seed,
                          TrialTensors& inputs);

}  // namespace tilewright
