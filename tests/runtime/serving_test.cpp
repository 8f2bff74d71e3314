// The help for servers, which is pure.
#include "tilewright/serving.h"

#include <gmock/gmock.h>

#include <array>

namespace tilewright {
namespace {

using testing::HasSubstr;

TEST(NumSplits, FillTheDevice) {
  const Shape decode = {.batch = 1, .seqlen_q = 1, .seqlen_k = 8192, .num_heads_q = 8};
  const int64_t splits = choose_num_splits(132, decode);
  EXPECT_GE(splits * 8, 132 * 8 / 10);
  EXPECT_LE(splits, 8192 / 64);
  EXPECT_EQ(
      choose_num_splits(132, {.batch = 4, .seqlen_q = 4096, .seqlen_k = 4096, .num_heads_q = 32}),
      1)
      << "enough blocks as it is";
  EXPECT_EQ(choose_num_splits(132, {.batch = 1, .seqlen_q = 1, .seqlen_k = 64, .num_heads_q = 1}),
            1)
      << "one tile cannot be shared";
  EXPECT_EQ(choose_num_splits(132, {.batch = 1, .seqlen_q = 1, .seqlen_k = 0, .num_heads_q = 1}),
            1);
  EXPECT_EQ(choose_num_splits(132, {.batch = 0, .seqlen_q = 1, .seqlen_k = 9, .num_heads_q = 1}),
            1);
}

// A group of query heads with short queries is one block.
TEST(NumSplits, CountPackedHeadsOnce) {
  const Shape grouped = {
      .batch = 1, .seqlen_q = 1, .seqlen_k = 65536, .num_heads_q = 64, .num_heads_kv = 8};
  Shape one_head_each = grouped;
  one_head_each.num_heads_q = 8;
  EXPECT_EQ(choose_num_splits(132, grouped), choose_num_splits(132, one_head_each));
  Shape apart = grouped;
  apart.num_heads_kv = 64;
  EXPECT_GT(choose_num_splits(132, grouped), choose_num_splits(132, apart));
  // Queries that fill their tiles: no group is packed.
  Shape filled = grouped;
  filled.seqlen_q = 64;
  EXPECT_EQ(choose_num_splits(132, filled), choose_num_splits(132, apart));
}

TEST(CuSeqlens, FaultsNameEntryAndValue) {
  const auto check = [](std::vector<int32_t> sums) {
    const Status status = check_cu_seqlens("cu_seqlens_q", sums, 10, 6);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(check({0, 4, 4, 10}), "");
  EXPECT_THAT(check({1, 4}), HasSubstr("does not begin with 0"));
  EXPECT_THAT(check({}), HasSubstr("does not begin with 0"));
  EXPECT_THAT(check({0, 4, 3}), HasSubstr("cu_seqlens_q[2] = 3 is less than 4"));
  EXPECT_THAT(check({0, 7}), HasSubstr("a sequence of 7 rows, the plan's longest has 6"));
  EXPECT_THAT(check({0, 6, 11}), HasSubstr("ends at 11, the tensor has 10 rows"));
}

TEST(Pages, FaultsNameEntryAndValue) {
  const auto check = [](std::vector<int32_t> table, std::vector<int32_t> keys) {
    const Status status = check_pages(table, 2, keys, 16, 5);
    return status.ok() ? "" : status.error().message;
  };
  EXPECT_EQ(check({4, 0, 3, 99}, {32, 16}), "") << "entries beyond the keys are not looked at";
  EXPECT_THAT(check({4, 0, 3, 99}, {32, 17}), HasSubstr("block_table[1, 1] = 99"));
  EXPECT_THAT(check({-1, 0}, {1}), HasSubstr("block_table[0, 0] = -1"));
  EXPECT_THAT(check({4, 0, 3}, {16, 1}),
              HasSubstr("block_table has 3 entries, 2 sequences of 2 pages need 4"));
  EXPECT_THAT(check({4, 0}, {33}), HasSubstr("seqused_k[0] = 33"));
  EXPECT_THAT(check({4, 0}, {-1}), HasSubstr("seqused_k[0] = -1"));
}

}  // namespace
}  // namespace tilewright
