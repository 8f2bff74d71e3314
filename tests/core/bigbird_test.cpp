// BigBird's blocks: the draws are pinned, since patterns must not change under stored models, and
// the sets are compared with their definition.
#include "core/bigbird.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tilewright {
namespace {

using Blocks = std::vector<int64_t>;

TEST(BigBird, DrawsArePinned) {  // computed by a program of its own from the comment in the header
  const BigBirdMask base;
  EXPECT_EQ(bigbird_random_blocks(base, 64, 0, 5), (Blocks{35, 11, 60}));
  EXPECT_EQ(bigbird_random_blocks(base, 64, 1, 5), (Blocks{8, 22, 33}));
  EXPECT_EQ(bigbird_random_blocks({.seed = 7}, 64, 0, 5), (Blocks{42, 59, 48}));
  EXPECT_EQ(bigbird_random_blocks(base, 64, 0, 6), (Blocks{61, 46, 8}));
  EXPECT_EQ(bigbird_random_blocks(base, 64, 0, 0), Blocks{});  // a global row
}

TEST(BigBird, KeyBlocksAreTheDefinition) {
  int rows = 0;
  for (const bool ends : {true, false}) {
    for (const int64_t global : {0, 1, 2, 9}) {
      for (const int64_t window : {1, 3, 7}) {
        for (const int64_t random : {0, 3, 50}) {
          for (const int64_t n : {1, 2, 3, 7, 23}) {
            const BigBirdMask mask{
                .window = window, .global = global, .ends = ends, .random = random, .seed = 3};
            for (int64_t u = 0; u < n; ++u) {
              std::set<int64_t> fixed;
              bool global_row = false;
              for (int64_t block = 0; block < n; ++block) {
                const bool is_global = ends ? block == 0 || block == n - 1 : block < global;
                global_row = global_row || (is_global && block == u);
                if (is_global || std::abs(u - block) <= window / 2) fixed.insert(block);
              }
              const Blocks blocks = bigbird_key_blocks(mask, n, 2, u);
              ASSERT_TRUE(std::is_sorted(blocks.begin(), blocks.end()));
              ASSERT_EQ(std::adjacent_find(blocks.begin(), blocks.end()), blocks.end());
              const auto left = n - std::ssize(fixed);
              ASSERT_EQ(std::ssize(blocks),
                        global_row ? n : std::ssize(fixed) + std::min(left, random));
              ASSERT_TRUE(std::includes(blocks.begin(), blocks.end(), fixed.begin(), fixed.end()));
              for (const int64_t drawn : bigbird_random_blocks(mask, n, 2, u)) {
                ASSERT_EQ(fixed.count(drawn), 0U);
                ASSERT_TRUE(std::binary_search(blocks.begin(), blocks.end(), drawn));
              }
              ++rows;
            }
          }
        }
      }
    }
  }
  EXPECT_EQ(rows, 2 * 4 * 3 * 3 * 36);
}

// 2 rows of all blocks, 2 rows beside them of 7, 60 of 8.
TEST(BigBird, BaseAt4096Has622Blocks) {
  for (const bool ends : {true, false}) {
    size_t blocks = 0;
    for (int64_t u = 0; u < 64; ++u) blocks += bigbird_key_blocks({.ends = ends}, 64, 0, u).size();
    EXPECT_EQ(blocks, 622U);
  }
}

// Every block is drawn about equally often.
TEST(BigBird, DrawsAreSpreadEvenly) {
  std::vector<int> count(64, 0);
  for (int64_t head = 0; head < 300; ++head) {
    for (const int64_t block : bigbird_random_blocks({}, 64, head, 30)) {
      ++count[static_cast<size_t>(block)];
    }
  }
  for (size_t block = 0; block < 64; ++block) {
    const bool fixed = block == 0 || block == 63 || (block >= 29 && block <= 31);
    if (fixed) {
      EXPECT_EQ(count[block], 0);
    } else {
      EXPECT_NEAR(count[block], 900.0 / 59, 15);
      EXPECT_GT(count[block], 0);
    }
  }
}

}  // namespace
}  // namespace tilewright
