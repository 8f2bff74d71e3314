// Trials of batches whose sequences have lengths of their own: packed (varlen) or with keys in
// pages. Their random inputs, and their outputs compared sequence by sequence.
#pragma once

#include <cstdint>

#include "autotune/trial.h"

namespace tilewright {

// The sizes of the tensors of a trial: whole pages, where there are such.
reference::Sizes stored_sizes(const Problem& problem, reference::Sizes sizes);

// Lengths, pages and values. `sizes` has the longest lengths. The first sequence has them, some are
// empty; packed tensors may end with rows of no sequence. Rows that no output depends on are NaN or
// infinite: those, rows of pages that hold no key, keys of a packed sequence without queries and
// queries of one without keys.
TrialTensors random_sequences(const Problem& problem, const reference::Sizes& sizes, uint64_t seed);

// What a caller must see to before a launch: prefix sums and pages that fit the tensors.
Status check_sequences(const Problem& problem, const TrialTensors& inputs, const Shape& shape);

// The shape of a launch on such inputs, or on any other, with totals and pages where there are
// some.
Shape trial_shape(const Problem& problem, const reference::Sizes& sizes,
                  const TrialTensors& inputs);

Result<Verdict> verify_sequences(const Problem& problem, const reference::Sizes& sizes,
                                 const TrialTensors& inputs, const TrialOutputs& outputs);

}  // namespace tilewright
