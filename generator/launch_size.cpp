#include "generator/launch_size.h"

#include "core/check.h"

namespace tilewright {

Status check_grid(int64_t blocks, const Shape& shape) {
  constexpr int64_t kMaxGrid = INT32_MAX;
  if (blocks <= kMaxGrid) return {};
  return make_error(ErrorCode::kUnsupportedProblem,
                    "batch={} x num_heads_q={} with seqlen_q={} and seqlen_k={} exceed {} blocks",
                    shape.batch, shape.num_heads_q, shape.seqlen_q, shape.seqlen_k, kMaxGrid);
}

}  // namespace tilewright
