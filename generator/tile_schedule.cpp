#include "generator/tile_schedule.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "generator/forward_problem.h"
#include "generator/launch_size.h"
#include "generator/masked_sequence.h"
#include "io_model/mask_rows.h"

namespace tilewright {
namespace {

using attention::KeyTileEntry;
using attention::KeyTileRange;
using io_model::MaskRows;
using io_model::Span;

constexpr int kFullTile = -1;

// The bits of partial tiles, each pattern once.
class Patterns {
 public:
  explicit Patterns(const TileSize& tile)
      : words_per_row_(ceil_div(tile.tile_n, 32)), words_(tile.tile_m * words_per_row_) {}

  // An empty pattern to set bits in.
  void clear() { current_.assign(static_cast<size_t>(words_), 0); }
  void set(int64_t row, Span columns) {
    for (int64_t column = columns.begin; column < columns.end;) {
      const int64_t in_word = column % 32;
      const int64_t count = std::min(32 - in_word, columns.end - column);
      const uint32_t ones = count == 32 ? ~0u : (1u << count) - 1;
      current_[static_cast<size_t>(row * words_per_row_ + column / 32)] |= ones << in_word;
      column += count;
    }
  }
  // The index of the current pattern.
  int keep() {
    const std::string key(reinterpret_cast<const char*>(current_.data()),
                          current_.size() * sizeof(uint32_t));
    const auto [at, added] = index_.try_emplace(key, static_cast<int>(index_.size()));
    if (added) all_.insert(all_.end(), current_.begin(), current_.end());
    return at->second;
  }

  int64_t count() const { return static_cast<int64_t>(index_.size()); }
  const std::vector<uint32_t>& words() const { return all_; }

 private:
  int64_t words_per_row_, words_;
  std::vector<uint32_t> current_, all_;
  std::unordered_map<std::string, int> index_;
};

// Lists the key tiles of query tiles, one at a time. A row's interval covers a run of tiles wholly
// and cuts at most two more; so the tiles between two neighbouring ends of runs and cuts are alike,
// and are looked at once.
class Lister {
 public:
  Lister(const Shape& shape, const TileSize& tile)
      : tile_(tile),
        patterns_(tile),
        covers_(static_cast<size_t>(ceil_div(shape.seqlen_k, tile.tile_n)) + 1),
        cut_(covers_.size()),
        marked_(covers_.size()) {}

  // Every query tile of one list; those beyond its queries, up to `num_query_tiles`, are empty.
  void add_list(MaskRows& rows, int64_t seqlen_q, int64_t num_query_tiles) {
    seqlen_q_ = seqlen_q;
    const int64_t own_tiles = ceil_div(seqlen_q, tile_.tile_m);
    for (int64_t query_tile = 0; query_tile < own_tiles; ++query_tile) {
      add_query_tile(rows, query_tile);
    }
    const auto end = static_cast<int>(std::ssize(entries_));
    ranges_.insert(ranges_.end(), static_cast<size_t>(num_query_tiles - own_tiles), {end, end});
  }

  const std::vector<KeyTileRange>& ranges() const { return ranges_; }
  const std::vector<KeyTileEntry>& entries() const { return entries_; }
  const Patterns& patterns() const { return patterns_; }

  int64_t steps = 0, visible_pairs = 0, full_tiles = 0;

 private:
  void add_query_tile(MaskRows& rows, int64_t query_tile) {
    const auto begin = std::ssize(entries_);
    read_rows(rows, query_tile);
    std::sort(marks_.begin(), marks_.end());
    int64_t covering = 0;
    for (size_t i = 0; i < marks_.size(); ++i) {
      const auto at = static_cast<size_t>(marks_[i]);
      covering += std::exchange(covers_[at], 0);
      marked_[at] = 0;
      if (const bool cut = std::exchange(cut_[at], 0) != 0; covering > 0 || cut) {
        add_run({marks_[i], marks_[i + 1]}, !cut && covering == num_rows_);
      }
    }
    ranges_.push_back({static_cast<int>(begin), static_cast<int>(std::ssize(entries_))});
  }

  void mark(int64_t tile) {
    if (std::exchange(marked_[static_cast<size_t>(tile)], 1) == 0) marks_.push_back(tile);
  }
  void cut(int64_t tile) {
    cut_[static_cast<size_t>(tile)] = 1;
    mark(tile);
    mark(tile + 1);
  }

  void read_rows(MaskRows& rows, int64_t query_tile) {
    marks_.clear();
    spans_.clear();
    row_begin_.assign(1, 0);
    const int64_t first = query_tile * tile_.tile_m;
    num_rows_ = std::min<int64_t>(tile_.tile_m, seqlen_q_ - first);
    for (int64_t row = 0; row < num_rows_; ++row) {
      for (const Span& keys : rows.keys(first + row)) {
        add_interval(keys);
        spans_.push_back(keys);
      }
      row_begin_.push_back(spans_.size());
    }
    steps += num_rows_ + std::ssize(spans_);
  }

  void add_interval(const Span& keys) {
    visible_pairs += keys.size();
    const Span whole{ceil_div(keys.begin, tile_.tile_n), keys.end / tile_.tile_n};
    if (whole.begin < whole.end) {
      ++covers_[static_cast<size_t>(whole.begin)];
      --covers_[static_cast<size_t>(whole.end)];
      mark(whole.begin);
      mark(whole.end);
    }
    if (keys.begin % tile_.tile_n != 0) cut(keys.begin / tile_.tile_n);
    if (keys.end % tile_.tile_n != 0) cut(keys.end / tile_.tile_n);
  }

  // Tiles that are all alike.
  void add_run(const Span& tiles, bool full) {
    int pattern = kFullTile;
    if (full) {
      full_tiles += tiles.size();
    } else {
      pattern = pattern_of(tiles.begin);
    }
    for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
      entries_.push_back({static_cast<int>(tile), pattern});
    }
    steps += tiles.size();
  }

  int pattern_of(int64_t tile) {
    const Span keys{tile * tile_.tile_n, (tile + 1) * tile_.tile_n};
    patterns_.clear();
    for (int64_t row = 0; row < num_rows_; ++row) {
      const auto end = spans_.begin() + static_cast<ptrdiff_t>(row_begin_[row + 1]);
      auto at = std::partition_point(spans_.begin() + static_cast<ptrdiff_t>(row_begin_[row]), end,
                                     [&](const Span& s) { return s.end <= keys.begin; });
      for (; at != end && at->begin < keys.end; ++at, ++steps) {
        patterns_.set(row, {std::max(at->begin, keys.begin) - keys.begin,
                            std::min(at->end, keys.end) - keys.begin});
      }
    }
    steps += num_rows_;
    return patterns_.keep();
  }

  int64_t seqlen_q_ = 0;  // of the list at work
  TileSize tile_;
  Patterns patterns_;
  // By key tile, all 0 between query tiles: rows whose run begins less those whose run ends there;
  // whether some row sees it in part; whether it is among the marks.
  std::vector<int64_t> covers_;
  std::vector<char> cut_, marked_;
  // Of the query tile at work: tiles where something changes, and its rows' intervals.
  std::vector<int64_t> marks_;
  int64_t num_rows_ = 0;
  std::vector<Span> spans_;
  std::vector<size_t> row_begin_;

  std::vector<KeyTileRange> ranges_;
  std::vector<KeyTileEntry> entries_;
};

// How many lists there are: masks of blocks, documents or random blocks may differ by sequence or
// head, and all do by sequence where lengths vary.
struct Lists {
  int64_t batches = 1, heads = 1;
};

Lists lists_of(const Problem& problem, const Shape& shape, const MaskData& data) {
  Lists lists;
  if (lengths_vary(problem)) lists.batches = shape.batch;
  for (const MaskUnion& masks : problem.masks) {
    for (const Mask& mask : masks.terms) {
      const auto* bigbird = std::get_if<BigBirdMask>(&mask);
      const bool blocks = std::holds_alternative<BlocksMask>(mask);
      if (std::holds_alternative<DocumentsMask>(mask) || (blocks && data.blocks_batch > 1)) {
        lists.batches = shape.batch;
      }
      if ((bigbird != nullptr && bigbird->random > 0) || (blocks && data.blocks_heads > 1)) {
        lists.heads = shape.num_heads_q;
      }
    }
  }
  return lists;
}

// Query tiles of one list, longest first: blocks start in this order.
void append_order(std::span<const KeyTileRange> ranges, std::vector<int>& order) {
  const auto first = std::ssize(order);
  order.resize(order.size() + ranges.size());
  std::iota(order.rbegin(), order.rend() - first, 0);
  std::stable_sort(order.begin() + first, order.end(), [&](int a, int b) {
    const auto length = [&](int tile) {
      const KeyTileRange& range = ranges[static_cast<size_t>(tile)];
      return range.end - range.begin;
    };
    return length(a) > length(b);
  });
}

template <class T>
int64_t append_section(std::vector<std::byte>& bytes, const std::vector<T>& values) {
  constexpr size_t kAlignment = 16;
  const size_t begin = (bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  bytes.resize(begin + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data() + begin, values.data(), values.size() * sizeof(T));
  return static_cast<int64_t>(begin);
}

}  // namespace

Result<ScheduleBuild> build_schedule(const Problem& problem, const Shape& shape,
                                     const TileSize& tile, const MaskData& data) {
  const Lists lists = lists_of(problem, shape, data);
  const int64_t num_query_tiles = ceil_div(shape.seqlen_q, tile.tile_m);
  Lister lister(shape, tile);
  std::vector<int> order;
  int64_t grid_tiles = 0;
  for (int64_t batch = 0; batch < lists.batches; ++batch) {
    TW_ASSIGN(const MaskedSequence sequence, masked_sequence(problem, shape, data, batch));
    grid_tiles += lists.heads * ceil_div(sequence.seqlen_q, tile.tile_m) *
                  ceil_div(sequence.seqlen_k, tile.tile_n);
    for (int64_t head = 0; head < lists.heads; ++head) {
      TW_ASSIGN(MaskRows rows, MaskRows::make(problem, sequence.seqlen_q, sequence.seqlen_k,
                                              {sequence.batch, head}, sequence.data));
      lister.add_list(rows, sequence.seqlen_q, num_query_tiles);
      if (std::ssize(lister.entries()) > INT32_MAX) {
        return make_error(ErrorCode::kUnsupportedProblem,
                          "the schedule of '{}' has over {} tiles of {} x {}", problem.to_string(),
                          INT32_MAX, tile.tile_m, tile.tile_n);
      }
      const std::span<const KeyTileRange> all = lister.ranges();
      append_order(all.last(static_cast<size_t>(num_query_tiles)), order);
    }
  }
  ScheduleBuild build;
  Schedule& schedule = build.schedule;
  ScheduleLayout& layout = schedule.layout;
  layout = {.seqlen_q = shape.seqlen_q,
            .seqlen_k = shape.seqlen_k,
            .tile_m = tile.tile_m,
            .tile_n = tile.tile_n,
            .num_batches = lists.batches,
            .num_heads = lists.heads};
  append_section(schedule.bytes, lister.ranges());
  layout.order_offset = append_section(schedule.bytes, order);
  layout.entries_offset = append_section(schedule.bytes, lister.entries());
  layout.patterns_offset = append_section(schedule.bytes, lister.patterns().words());
  layout.num_bytes = std::ssize(schedule.bytes);
  schedule.visible_pairs = lister.visible_pairs;
  schedule.full_tiles = lister.full_tiles;
  schedule.partial_tiles = std::ssize(lister.entries()) - lister.full_tiles;
  schedule.grid_tiles = grid_tiles;
  schedule.num_patterns = lister.patterns().count();
  build.steps = lister.steps;
  return build;
}

attention::TileLists tile_lists(const DeviceSchedule& schedule) {
  const ScheduleLayout& layout = schedule.layout;
  const auto* const bytes = static_cast<const std::byte*>(schedule.data);
  const auto section = [&](int64_t offset) { return bytes + offset; };
  return {.ranges = reinterpret_cast<const KeyTileRange*>(section(0)),
          .order = reinterpret_cast<const int*>(section(layout.order_offset)),
          .entries = reinterpret_cast<const KeyTileEntry*>(section(layout.entries_offset)),
          .patterns = reinterpret_cast<const unsigned*>(section(layout.patterns_offset)),
          .batch_stride = layout.num_batches > 1 ? static_cast<int>(layout.num_heads) : 0,
          .head_stride = layout.num_heads > 1 ? 1 : 0};
}

}  // namespace tilewright
