#include "core/bigbird.h"

#include <algorithm>
#include <numeric>

#include "core/check.h"

namespace tilewright {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15U;

uint64_t mix(uint64_t state) {  // SplitMix64
  uint64_t z = state + kGolden;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

// Global and window blocks of a row that is not global itself; sorted, distinct.
std::vector<int64_t> fixed_blocks(const BigBirdMask& mask, int64_t num_blocks, int64_t block_row) {
  std::vector<int64_t> blocks;
  if (mask.ends) {
    blocks = {0, num_blocks - 1};
  } else {
    blocks.resize(static_cast<size_t>(std::min(mask.global, num_blocks)));
    std::iota(blocks.begin(), blocks.end(), 0);
  }
  const int64_t reach = mask.window / 2;
  for (int64_t near = std::max<int64_t>(block_row - reach, 0);
       near <= std::min(block_row + reach, num_blocks - 1); ++near) {
    blocks.push_back(near);
  }
  std::sort(blocks.begin(), blocks.end());
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  return blocks;
}

std::vector<int64_t> draw(const BigBirdMask& mask, int64_t num_blocks, int64_t head,
                          int64_t block_row, std::vector<int64_t> taken) {
  const int64_t left = num_blocks - std::ssize(taken);
  std::vector<int64_t> drawn;
  uint64_t state =
      mix(mix(mix(mask.seed) + static_cast<uint64_t>(head)) + static_cast<uint64_t>(block_row));
  while (std::ssize(drawn) < std::min(mask.random, left)) {
    const auto block = static_cast<int64_t>(mix(state) % static_cast<uint64_t>(num_blocks));
    state += kGolden;
    const auto at = std::lower_bound(taken.begin(), taken.end(), block);
    if (at != taken.end() && *at == block) continue;
    taken.insert(at, block);
    drawn.push_back(block);
  }
  return drawn;
}

}  // namespace

bool bigbird_is_global(const BigBirdMask& mask, int64_t num_blocks, int64_t block) {
  return mask.ends ? block == 0 || block == num_blocks - 1 : block < mask.global;
}

std::vector<int64_t> bigbird_random_blocks(const BigBirdMask& mask, int64_t num_blocks,
                                           int64_t head, int64_t block_row) {
  TW_CHECK(0 <= block_row && block_row < num_blocks, "block row {} of {}", block_row, num_blocks);
  if (bigbird_is_global(mask, num_blocks, block_row)) return {};
  return draw(mask, num_blocks, head, block_row, fixed_blocks(mask, num_blocks, block_row));
}

std::vector<int64_t> bigbird_key_blocks(const BigBirdMask& mask, int64_t num_blocks, int64_t head,
                                        int64_t block_row) {
  TW_CHECK(0 <= block_row && block_row < num_blocks, "block row {} of {}", block_row, num_blocks);
  if (bigbird_is_global(mask, num_blocks, block_row)) {
    std::vector<int64_t> all(static_cast<size_t>(num_blocks));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::vector<int64_t> blocks = fixed_blocks(mask, num_blocks, block_row);
  const std::vector<int64_t> random = draw(mask, num_blocks, head, block_row, blocks);
  blocks.insert(blocks.end(), random.begin(), random.end());
  std::sort(blocks.begin(), blocks.end());
  return blocks;
}

}  // namespace tilewright
