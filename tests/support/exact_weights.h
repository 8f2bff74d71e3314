// Masks read off an output: which keys each query saw, pair by pair.
#pragma once

#include <cstdint>
#include <span>

#include "reference/attention.h"
#include "reference/visibility.h"
#include "tilewright/problem.h"

namespace tilewright::testing {

// `out` [seqlen_q, num_heads_q, head_dim_v] is that of sequence `batch` with Q = 0, where every
// visible key of a row weighs the same, and V = 1 at the key's place, so that it is the weights:
// exactly 0 where hidden, 1/n where one of n is visible. Fails the running test at the first pair
// that is not so.
void expect_exact_weights(const Problem& problem, const reference::Sizes& sizes, int64_t batch,
                          const reference::MaskData& masks, std::span<const float> out);

}  // namespace tilewright::testing
