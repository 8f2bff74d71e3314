#include "tests/generator/schedule_lists.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

namespace tilewright::testing {
namespace {

using attention::KeyTileEntry;
using attention::KeyTileRange;
using attention::TileLists;

// One list of a schedule, read as the kernel reads it.
class ListReader {
 public:
  ListReader(const Schedule& schedule, int64_t batch, int64_t head)
      : layout_(schedule.layout),
        lists_(tile_lists({schedule.bytes.data(), schedule.layout})),
        num_query_tiles_((layout_.seqlen_q + layout_.tile_m - 1) / layout_.tile_m),
        first_((batch * lists_.batch_stride + head * lists_.head_stride) * num_query_tiles_) {}

  int64_t num_query_tiles() const { return num_query_tiles_; }
  std::span<const KeyTileEntry> entries(int64_t query_tile) const {
    const KeyTileRange range = lists_.ranges[first_ + query_tile];
    return {lists_.entries + range.begin, lists_.entries + range.end};
  }
  std::span<const int> order() const {
    return {lists_.order + first_, static_cast<size_t>(num_query_tiles_)};
  }
  bool bit(int pattern, int64_t row, int64_t column) const {
    if (pattern < 0) return true;
    const int64_t words = (layout_.tile_n + 31) / 32;
    const unsigned word = lists_.patterns[(pattern * layout_.tile_m + row) * words + column / 32];
    return (word >> (column % 32) & 1) != 0;
  }

 private:
  const ScheduleLayout& layout_;
  TileLists lists_;
  int64_t num_query_tiles_, first_;
};

}  // namespace

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
