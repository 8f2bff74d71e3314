#include "reference/combine.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "reference/score_row.h"

namespace tilewright::reference {

Partial combine(const Sizes& sizes, std::span<const Partial> parts) {
  TW_CHECK(!parts.empty(), "nothing to combine");
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  Partial whole{std::vector<double>(static_cast<size_t>(sizes.out_elements()), 0.0),
                std::vector<double>(static_cast<size_t>(sizes.lse_elements()), kNone)};
  const RowOffsets at{sizes};
  for (int64_t batch = 0; batch < sizes.batch; ++batch) {
    for (int64_t head = 0; head < sizes.num_heads_q; ++head) {
      for (int64_t query = 0; query < sizes.seqlen_q; ++query) {
        const RowIndex row{batch, head, query};
        double max = kNone, sum = 0.0;
        for (const Partial& part : parts) max = std::max(max, part.lse[at.lse(row)]);
        if (max == kNone) continue;
        for (const Partial& part : parts) {
          const double weight = std::exp(part.lse[at.lse(row)] - max);
          if (weight == 0.0) continue;  // its out may be anything
          sum += weight;
          for (size_t c = 0; c < static_cast<size_t>(sizes.head_dim_v); ++c) {
            whole.out[at.out(row) + c] += weight * part.out[at.out(row) + c];
          }
        }
        for (size_t c = 0; c < static_cast<size_t>(sizes.head_dim_v); ++c) {
          whole.out[at.out(row) + c] /= sum;
        }
        whole.lse[at.lse(row)] = max + std::log(sum);
      }
    }
  }
  return whole;
}

}  // namespace tilewright::reference
