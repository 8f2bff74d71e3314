#include "tests/support/exact_weights.h"

#include <gtest/gtest.h>

namespace tilewright::testing {

void expect_exact_weights(const Problem& problem, const reference::Sizes& sizes, int64_t batch,
                          const reference::MaskData& masks, std::span<const float> out) {
  for (int64_t head = 0; head < sizes.num_heads_q; ++head) {
    const auto visible =
        reference::make_visibility(problem, sizes.seqlen_q, sizes.seqlen_k, {batch, head}, masks);
    ASSERT_TRUE(visible.ok()) << visible.error().message;
    for (int64_t query = 0; query < sizes.seqlen_q; ++query) {
      int64_t count = 0;
      for (int64_t key = 0; key < sizes.seqlen_k; ++key) count += (*visible)(query, key) ? 1 : 0;
      const auto row = static_cast<size_t>((query * sizes.num_heads_q + head) * sizes.head_dim_v);
      for (int64_t key = 0; key < sizes.head_dim_v; ++key) {
        const float weight = out[row + static_cast<size_t>(key)];
        if (key >= sizes.seqlen_k || !(*visible)(query, key)) {
          ASSERT_EQ(weight, 0.0F) << problem.to_string() << ": sequence " << batch << ", query "
                                  << query << ", key " << key << ", head " << head;
        } else {
          ASSERT_NEAR(weight * static_cast<float>(count), 1.0F, 0.002F)
              << problem.to_string() << ": sequence " << batch << ", query " << query << ", key "
              << key << ", head " << head;
        }
      }
    }
  }
}

}  // namespace tilewright::testing
