// Schedules against the masks' definitions pair by pair, the counts of the papers, and the work
// that building one takes.
#include "generator/tile_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "reference/visibility.h"
#include "tests/generator/schedule_lists.h"

namespace tilewright {
namespace {

using testing::expect_list;
using testing::Tally;

// Flags and ids that the spans of a MaskData point into.
struct OwnedData {
  std::vector<int32_t> documents_q, documents_k;
  std::vector<uint8_t> blocks;
  int64_t blocks_batch = 1, blocks_heads = 1;
  MaskData view() const { return {documents_q, documents_k, blocks, blocks_batch, blocks_heads}; }
  reference::MaskData truth() const {
    return {documents_q, documents_k, blocks, blocks_batch, blocks_heads};
  }
};

OwnedData random_data(const Problem& problem, const Shape& shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  OwnedData data;
  for (const MaskUnion& masks : problem.masks) {
    for (const Mask& mask : masks.terms) {
      const auto* blocks = std::get_if<BlocksMask>(&mask);
      if (blocks == nullptr) continue;
      data.blocks_batch = random() % 2 == 0 ? 1 : shape.batch;
      data.blocks_heads = random() % 2 == 0 ? 1 : shape.num_heads_q;
      const auto count = [&](int64_t n) { return (n + blocks->size - 1) / blocks->size; };
      data.blocks.resize(static_cast<size_t>(data.blocks_batch * data.blocks_heads *
                                             count(shape.seqlen_q) * count(shape.seqlen_k)));
      for (uint8_t& flag : data.blocks) flag = random() % 3 == 0 ? 7 : 0;
    }
  }
  const auto ids = [&](int64_t length) {
    std::vector<int32_t> values(static_cast<size_t>(shape.batch * length));
    int32_t id = 0;
    for (int32_t& value : values) {
      if (random() % 9 == 0) id = static_cast<int32_t>(random() % 4);
      value = id;
    }
    return values;
  };
  data.documents_q = ids(shape.seqlen_q);
  data.documents_k = ids(shape.seqlen_k);
  return data;
}

Schedule build(const Problem& problem, const Shape& shape, const TileSize& tile,
               const MaskData& data, int64_t* steps = nullptr) {
  Result<ScheduleBuild> result = build_schedule(problem, shape, tile, data);
  EXPECT_TRUE(result.ok()) << problem.to_string() << ": " << result.error().to_string();
  if (steps != nullptr) *steps = result->steps;
  return std::move(result->schedule);
}

void expect_matches(const std::string& text, const Shape& shape, const TileSize& tile,
                    uint64_t seed) {
  SCOPED_TRACE(fmt::format("{} q{} k{} tiles {}x{} seed {}", text, shape.seqlen_q, shape.seqlen_k,
                           tile.tile_m, tile.tile_n, seed));
  const Result<Problem> problem = Problem::parse(text);
  ASSERT_TRUE(problem.ok()) << problem.error().message;
  const OwnedData data = random_data(*problem, shape, seed);
  const Schedule schedule = build(*problem, shape, tile, data.view());
  Tally tally;
  for (int64_t batch = 0; batch < shape.batch; ++batch) {
    for (int64_t head = 0; head < shape.num_heads_q; ++head) {
      const auto visible = reference::make_visibility(*problem, shape.seqlen_q, shape.seqlen_k,
                                                      {batch, head}, data.truth());
      ASSERT_TRUE(visible.ok()) << visible.error().message;
      Tally one;
      ASSERT_NO_FATAL_FAILURE(expect_list(schedule, shape, batch, head, *visible, one));
      const bool own_list = (batch == 0 || schedule.layout.num_batches > 1) &&
                            (head == 0 || schedule.layout.num_heads > 1);
      if (!own_list) continue;
      tally = {tally.pairs + one.pairs, tally.full + one.full, tally.partial + one.partial};
    }
  }
  EXPECT_EQ(schedule.visible_pairs, tally.pairs);
  EXPECT_EQ(schedule.full_tiles, tally.full);
  EXPECT_EQ(schedule.partial_tiles, tally.partial);
  EXPECT_EQ(schedule.layout.num_bytes, std::ssize(schedule.bytes));
}

const char* const kMasks[] = {
    "global=3",
    "global={0,17,63}",
    "window=9,4+global=2",
    "causal+global={5,40}",
    "longformer=window:6,global:{0,9}",
    "longformer=window:40",
    "bigbird=block:8",
    "bigbird=block:16,ends:0,random:1,seed:9",
    "bigbird=block:5,window:1,global:1,ends:0,random:2 causal",
    "causal+prefix=21",
    "causal=top-left+prefix=1",
    "prefix=1000",
    "chunk=13",
    "chunk=32 window=9,0",
    "documents",
    "documents causal",
    "blocks=16",
    "blocks=7 causal",
    "blocks=32+window=2,2",
    "window=4,4,dilation:3",
    "window=3,0,dilation:40",
    "window=*,0,dilation:2",
    "causal+causal=top-left",
    "window=10,10,dilation:2 window=10,10,dilation:3",
};

TEST(Schedule, HoldsEveryVisiblePairAndNoOther) {
  uint64_t seed = 1;
  for (const char* mask : kMasks) {
    for (const auto& [seqlen_q, seqlen_k] :
         {std::pair{67, 67}, {64, 96}, {33, 131}, {130, 45}, {1, 70}, {40, 1}}) {
      const Shape shape = {2, seqlen_q, seqlen_k, 3, 1};
      expect_matches(std::string("qk8 ") + mask, shape, {16, 16}, seed++);
      if (HasFatalFailure()) return;
    }
    expect_matches(std::string("qk8 ") + mask, {1, 197, 203, 2, 2}, {64, 48}, seed++);
  }
}

TEST(Schedule, ZeroSizes) {
  for (const char* mask : kMasks) {
    for (const auto& [seqlen_q, seqlen_k] : {std::pair{0, 5}, {5, 0}, {0, 0}}) {
      expect_matches(std::string("qk8 ") + mask, {2, seqlen_q, seqlen_k, 2, 1}, {16, 16}, 5);
    }
  }
}

Schedule build_square(const std::string& mask, int64_t length, int tile, int64_t* steps = nullptr) {
  const Problem problem = *Problem::parse("qk64 " + mask);
  return build(problem, {1, length, length, 1, 1}, {tile, tile}, {}, steps);
}

// Zaheer et al. 2020, base model: 622 of 4096 blocks, 2,547,712 scores, by either convention.
TEST(Schedule, BigBirdBase) {
  for (const char* mask : {"bigbird", "bigbird=ends:0", "bigbird=seed:12345"}) {
    const Schedule schedule = build_square(mask, 4096, 64);
    EXPECT_EQ(schedule.full_tiles, 622) << mask;
    EXPECT_EQ(schedule.partial_tiles, 0) << mask;
    EXPECT_EQ(schedule.grid_tiles, 4096) << mask;
    EXPECT_EQ(schedule.visible_pairs, 2'547'712) << mask;
  }
}

// Facts 4, 6 and 7: n(w + 1) − h(h + 1) pairs, 195 times fewer than all at 100,000, linear in n.
TEST(Schedule, LongformerBase) {
  EXPECT_EQ(build_square("longformer=window:512", 4096, 64).visible_pairs, 2'035'456);
  EXPECT_EQ(build_square("longformer=window:512,global:{0}", 4096, 64).visible_pairs,
            2'035'456 + 2 * (4096 - 257));
  const auto pairs = build_square("longformer=window:512", 100'000, 128).visible_pairs;
  EXPECT_NEAR(1e10 / static_cast<double>(pairs), 195.18, 0.005);
  const Schedule one = build_square("longformer=window:128,global:{0,1}", 16384, 64);
  const Schedule two = build_square("longformer=window:128,global:{0,1}", 32768, 64);
  EXPECT_NEAR(static_cast<double>(two.visible_pairs) / static_cast<double>(one.visible_pairs), 2,
              0.01);
  EXPECT_NEAR(static_cast<double>(two.live_tiles()) / static_cast<double>(one.live_tiles()), 2,
              0.01);
}

// The tiles of a plain causal mask are not evaluated one by one: only those on the diagonal are
// partial, and all of them are alike.
TEST(Schedule, AlikePatternsAreStoredOnce) {
  const Schedule causal = build_square("causal+prefix=64", 4096, 64);
  EXPECT_EQ(causal.partial_tiles, 63);
  EXPECT_EQ(causal.num_patterns, 1);
  EXPECT_EQ(build_square("window=32,32,dilation:2", 4096, 64).num_patterns, 3);
}

// Work in steps, not time: within a constant of rows and live tiles, however many tiles are empty.
TEST(Schedule, IsBuiltInTimeOfItsTiles) {
  for (const std::string mask :
       {"longformer=window:64,global:{0}", "bigbird=block:64", "chunk=100",
        "window=3,0,dilation:200", "window=40,0 causal+global={0,7,4000}", "causal+prefix=500",
        "window=8,0 window=*,*,dilation:2", "longformer=window:0,global:{0} window=16,16"}) {
    double before = 0;
    for (const int64_t length : {4096, 8192, 16384, 32768}) {
      int64_t steps = 0;
      const Schedule schedule = build_square(mask, length, 64, &steps);
      const auto work = static_cast<double>(schedule.live_tiles() + length / 64);
      const double per_tile = static_cast<double>(steps) / work;
      // A row of a tile costs at most its intervals once when it is read and once in its pattern.
      EXPECT_LE(per_tile, 64 * (2 + 2 * 8)) << mask << " " << length;
      if (before > 0) {
        EXPECT_LE(per_tile, 1.05 * before) << mask << " " << length;
      }
      before = per_tile;
    }
  }
}

TEST(Schedule, MaskDataOfAWrongSizeAreRefused) {
  const Shape shape = {2, 40, 50, 3, 1};
  const auto message = [&](const char* text, const MaskData& data) {
    const auto result = build_schedule(*Problem::parse(text), shape, {16, 16}, data);
    return result.ok() ? std::string("accepted") : result.error().message;
  };
  const std::vector<uint8_t> flags(3 * 4);
  EXPECT_EQ(message("qk8 blocks=16", {}),
            "blocks=16: 0 flags given, 1 batches of 1 heads of 3 x 4 blocks wanted");
  EXPECT_EQ(message("qk8 blocks=16", {.blocks = flags}), "accepted");
  EXPECT_EQ(message("qk8 blocks=16", {.blocks = flags, .blocks_heads = 3}),
            "blocks=16: 12 flags given, 1 batches of 3 heads of 3 x 4 blocks wanted");
  const std::vector<int32_t> ids(2 * 50);
  EXPECT_EQ(message("qk8 documents", {.documents_q = ids, .documents_k = ids}), "accepted");
  EXPECT_EQ(message("qk8 documents", {.documents_q = ids}),
            "documents: 100 ids of queries and 0 ids of keys are too few for sequence 0 of 40 "
            "queries and 50 keys");
  EXPECT_EQ(message("qk8 mask='q >= k'", {}), "the mask 'q >= k' cannot be listed as intervals");
}

}  // namespace
}  // namespace tilewright
