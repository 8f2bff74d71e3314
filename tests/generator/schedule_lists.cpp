#include "tests/generator/schedule_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <utility>

namespace tilewright::testing {

using attention::KeyTileEntry;

void expect_list(const Schedule& schedule, const Shape& shape, int64_t batch, int64_t head,
                 const reference::Visibility& visible, Tally& tally) {
  const auto [tile_m, tile_n] = std::pair(schedule.layout.tile_m, schedule.layout.tile_n);
  const ListReader list(schedule, batch, head);
  for (int64_t tile = 0; tile < list.num_query_tiles(); ++tile) {
    const std::span<const KeyTileEntry> entries = list.entries(tile);
    const int64_t first = tile * tile_m, end = std::min(first + tile_m, shape.seqlen_q);
    size_t next = 0;
    for (int64_t key_tile = 0; key_tile * tile_n < shape.seqlen_k; ++key_tile) {
      const bool listed = next < entries.size() && entries[next].key_tile == key_tile;
      const int pattern = listed ? entries[next++].pattern : 0;
      int64_t seen = 0;
      for (int64_t query = first; query < end; ++query) {
        for (int64_t column = 0; column < tile_n; ++column) {
          const int64_t key = key_tile * tile_n + column;
          const bool expected = key < shape.seqlen_k && visible(query, key);
          seen += expected ? 1 : 0;
          ASSERT_EQ(listed && list.bit(pattern, query - first, column), expected)
              << "query " << query << ", key " << key;
        }
      }
      ASSERT_EQ(listed, seen > 0) << "query tile " << tile << ", key tile " << key_tile;
      if (!listed) continue;
      ASSERT_EQ(pattern < 0, seen == (end - first) * tile_n);
      (pattern < 0 ? tally.full : tally.partial) += 1;
      tally.pairs += seen;
    }
    ASSERT_EQ(next, entries.size()) << "key tiles out of order, or beyond the keys";
  }
  const std::span<const int> order = list.order();
  EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), order.size());
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end(), [&](int a, int b) {
    return list.entries(a).size() > list.entries(b).size();
  }));
}

}  // namespace tilewright::testing
