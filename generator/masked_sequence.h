// One sequence of a batch as a schedule sees it: its lengths, and its part of the masks' data.
#pragma once

#include <cstdint>
#include <vector>

#include "tilewright/kernel.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"
#include "tilewright/schedule.h"

namespace tilewright {

// Not copied: `data` may point into `own_blocks`.
struct MaskedSequence {
  int64_t seqlen_q = 0, seqlen_k = 0;
  int64_t batch = 0;  // place in `data`
  MaskData data = {};
  std::vector<uint8_t> own_blocks = {};

  MaskedSequence() = default;
  MaskedSequence(MaskedSequence&&) = default;
  MaskedSequence& operator=(MaskedSequence&&) = default;
};

// Sequence `batch` of a complete shape. Where lengths vary, those of `data` must have been checked
// against the shape. kInvalidArgument where a mask's data are too few for the shape.
Result<MaskedSequence> masked_sequence(const Problem& problem, const Shape& shape,
                                       const MaskData& data, int64_t batch);

}  // namespace tilewright
