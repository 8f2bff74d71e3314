// The lists of a schedule, read as the kernel reads them and compared with a mask pair by pair.
#pragma once

#include <cstdint>
#include <span>

#include "generator/tile_schedule.h"
#include "reference/visibility.h"

namespace tilewright::testing {

// One list of a schedule, read as the kernel reads it.
class ListReader {
 public:
  ListReader(const Schedule& schedule, int64_t batch, int64_t head)
      : layout_(schedule.layout),
        lists_(tile_lists({schedule.bytes.data(), schedule.layout})),
        num_query_tiles_((layout_.seqlen_q + layout_.tile_m - 1) / layout_.tile_m),
        first_((batch * lists_.batch_stride + head * lists_.head_stride) * num_query_tiles_) {}

  int64_t num_query_tiles() const { return num_query_tiles_; }
  std::span<const attention::KeyTileEntry> entries(int64_t query_tile) const {
    const attention::KeyTileRange range = lists_.ranges[first_ + query_tile];
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
  attention::TileLists lists_;
  int64_t num_query_tiles_, first_;
};

struct Tally {
  int64_t pairs = 0, full = 0, partial = 0;
};

// Every pair of one (batch, head) of the lengths in `shape`; empty tiles must be absent, full ones
// marked, all in order. Fails the running test; adds up what is there.
void expect_list(const Schedule& schedule, const Shape& shape, int64_t batch, int64_t head,
                 const reference::Visibility& visible, Tally& tally);

}  // namespace tilewright::testing
