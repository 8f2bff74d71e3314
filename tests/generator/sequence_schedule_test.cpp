// Schedules of batches whose sequences have lengths of their own: each has the lists of a batch of
// one with its lengths and its part of the masks' data.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "generator/tile_schedule.h"
#include "tests/generator/schedule_lists.h"

namespace tilewright {
namespace {

using testing::expect_list;
using testing::Tally;

constexpr int64_t kHeads = 2;

struct Lengths {
  int64_t q, k;
};
// Empty on either side or both, one row, whole tiles, ragged ones.
constexpr std::array<Lengths, 7> kSequences = {
    {{67, 41}, {0, 33}, {16, 131}, {35, 0}, {0, 0}, {1, 16}, {50, 77}}};
constexpr int64_t kLongestQ = 67, kLongestK = 131;

// The data of one batch, sequence by sequence, joined as a launch has them.
struct BatchData {
  std::vector<int32_t> cu_seqlens_q = {0}, cu_seqlens_k = {0}, seqused_k;
  std::vector<int32_t> documents_q, documents_k;
  std::vector<uint8_t> blocks;
  int64_t block = 1, blocks_batch = 1, blocks_heads = 1;

  int64_t columns() const { return (kLongestK + block - 1) / block; }
  int64_t rows() const { return (kLongestQ + block - 1) / block; }
  MaskData view() const {
    return {documents_q,  documents_k,  blocks,       blocks_batch,
            blocks_heads, cu_seqlens_q, cu_seqlens_k, seqused_k};
  }
};

BatchData random_data(bool paged, int64_t block, uint64_t seed) {
  std::mt19937_64 random(seed);
  BatchData data;
  const auto id = [&] { return static_cast<int32_t>(random() % 3); };
  for (const Lengths& each : kSequences) {
    data.cu_seqlens_q.push_back(data.cu_seqlens_q.back() + static_cast<int32_t>(each.q));
    data.cu_seqlens_k.push_back(data.cu_seqlens_k.back() + static_cast<int32_t>(each.k));
    data.seqused_k.push_back(static_cast<int32_t>(each.k));
    for (int64_t row = 0; row < each.q; ++row) data.documents_q.push_back(id());
    // The ids of paged keys have room for the longest.
    for (int64_t row = 0; row < (paged ? kLongestK : each.k); ++row) {
      data.documents_k.push_back(id());
    }
  }
  data.block = block;
  data.blocks_batch = random() % 2 == 0 ? 1 : std::ssize(kSequences);
  data.blocks_heads = random() % 2 == 0 ? 1 : kHeads;
  data.blocks.resize(
      static_cast<size_t>(data.blocks_batch * data.blocks_heads * data.rows() * data.columns()));
  for (uint8_t& flag : data.blocks) flag = random() % 3 == 0 ? 1 : 0;
  return data;
}

// What the reference sees of one sequence.
struct SequenceData {
  std::vector<int32_t> documents_q, documents_k;
  std::vector<uint8_t> blocks;
};

SequenceData data_of(const BatchData& data, bool paged, size_t at, int64_t head) {
  const auto [seqlen_q, seqlen_k] = kSequences[at];
  const int64_t first_k =
      paged ? static_cast<int64_t>(at) * kLongestK : int64_t{data.cu_seqlens_k[at]};
  SequenceData part;
  part.documents_q.assign(data.documents_q.begin() + data.cu_seqlens_q[at],
                          data.documents_q.begin() + data.cu_seqlens_q[at + 1]);
  part.documents_k.assign(data.documents_k.begin() + first_k,
                          data.documents_k.begin() + first_k + seqlen_k);
  const int64_t batch = data.blocks_batch == 1 ? 0 : static_cast<int64_t>(at);
  const int64_t list = batch * data.blocks_heads + (data.blocks_heads == 1 ? 0 : head);
  for (int64_t row = 0; row * data.block < seqlen_q; ++row) {
    for (int64_t column = 0; column * data.block < seqlen_k; ++column) {
      const int64_t flag = (list * data.rows() + row) * data.columns() + column;
      part.blocks.push_back(data.blocks[static_cast<size_t>(flag)]);
    }
  }
  return part;
}

Shape batch_shape() { return {std::ssize(kSequences), kLongestQ, kLongestK, kHeads, 1}; }

void expect_matches(const std::string& mask, bool paged, int64_t block, uint64_t seed) {
  const std::string text = fmt::format("qk8 varlen{} {}", paged ? " paged=16" : "", mask);
  SCOPED_TRACE(fmt::format("{} seed {}", text, seed));
  const Problem problem = *Problem::parse(text);
  const BatchData data = random_data(paged, block, seed);
  const Result<ScheduleBuild> build = build_schedule(problem, batch_shape(), {16, 16}, data.view());
  ASSERT_TRUE(build.ok()) << build.error().to_string();
  const Schedule& schedule = build->schedule;
  EXPECT_EQ(schedule.layout.num_batches, std::ssize(kSequences));
  Tally tally;
  int64_t grid_tiles = 0;
  for (size_t at = 0; at < kSequences.size(); ++at) {
    const Shape one = {1, kSequences[at].q, kSequences[at].k, kHeads, 1};
    for (int64_t head = 0; head < kHeads; ++head) {
      const SequenceData part = data_of(data, paged, at, head);
      const auto visible =
          reference::make_visibility(problem, one.seqlen_q, one.seqlen_k, {0, head},
                                     {.documents_q = part.documents_q,
                                      .documents_k = part.documents_k,
                                      .blocks = part.blocks,
                                      // One head's flags stand for all.
                                      .blocks_batch = 1,
                                      .blocks_heads = 1});
      ASSERT_TRUE(visible.ok()) << visible.error().message;
      Tally one_list;
      ASSERT_NO_FATAL_FAILURE(
          expect_list(schedule, one, static_cast<int64_t>(at), head, *visible, one_list));
      if (head > 0 && schedule.layout.num_heads == 1) continue;
      grid_tiles += (one.seqlen_q + 15) / 16 * ((one.seqlen_k + 15) / 16);
      tally = {tally.pairs + one_list.pairs, tally.full + one_list.full,
               tally.partial + one_list.partial};
    }
  }
  EXPECT_EQ(schedule.visible_pairs, tally.pairs);
  EXPECT_EQ(schedule.full_tiles, tally.full);
  EXPECT_EQ(schedule.partial_tiles, tally.partial);
  EXPECT_EQ(schedule.grid_tiles, grid_tiles);
}

TEST(SequenceSchedule, HoldsEveryVisiblePairOfEverySequence) {
  uint64_t seed = 1;
  for (const bool paged : {false, true}) {
    for (const char* mask :
         {"global={0,17,63}", "longformer=window:6,global:{0,9}", "bigbird=block:8",
          "bigbird=block:16,ends:0,random:1,seed:9", "causal+prefix=21", "chunk=13", "documents",
          "documents causal", "window=4,4,dilation:3", "causal+causal=top-left"}) {
      expect_matches(mask, paged, 16, seed++);
    }
    for (const int64_t block : {7, 16, 32, 200}) {
      for (const char* more : {"", " causal"}) {
        for (int repeat = 0; repeat < 4; ++repeat) {
          expect_matches(fmt::format("blocks={}{}", block, more), paged, block, seed++);
        }
      }
    }
    if (HasFailure()) return;
  }
}

// A batch with room for a long sequence costs what its tiles do, not what the room would.
TEST(SequenceSchedule, IsBuiltInTimeOfItsTiles) {
  const Problem problem = *Problem::parse("qk8 varlen longformer=window:64,global:{0}");
  const std::vector<int32_t> sums = {0, 1000, 1000, 1300, 2300};
  const MaskData data = {.cu_seqlens_q = sums, .cu_seqlens_k = sums};
  std::vector<int64_t> steps;
  for (const int64_t longest : {1000, 100'000}) {
    const auto build = build_schedule(problem, {4, longest, longest, 2, 1}, {64, 64}, data);
    ASSERT_TRUE(build.ok());
    steps.push_back(build->steps);
  }
  EXPECT_EQ(steps[0], steps[1]);
}

TEST(SequenceSchedule, MaskDataOfAWrongSizeAreRefused) {
  BatchData data = random_data(false, 16, 3);
  const auto message = [&](const char* text) {
    const auto build = build_schedule(*Problem::parse(text), batch_shape(), {16, 16}, data.view());
    return build.ok() ? std::string("accepted") : build.error().message;
  };
  data.documents_k.pop_back();
  EXPECT_EQ(message("qk8 varlen documents"),
            "documents: 297 ids in documents_k, a sequence has the rows 221 to 298");
  data.blocks_batch = data.blocks_heads = 1;
  data.blocks.resize(44);
  EXPECT_EQ(message("qk8 varlen blocks=16"),
            "blocks=16: 44 flags given, 1 batches of 1 heads of 5 x 9 blocks wanted");
}

}  // namespace
}  // namespace tilewright
