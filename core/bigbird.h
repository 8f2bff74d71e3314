// The block pattern of BigBird (Zaheer et al. 2020, "Big Bird: Transformers for Longer Sequences",
// section 2 and appendix D; internal-transformer construction), random blocks included: a pure
// function of mask, number of blocks, head and block row, which planners and references share.
//
// The keys of a sequence are num_blocks = ceil(seqlen_k / block) blocks, the last maybe short. A
// query is in the block row of its position. Block row u attends
//   global  every block, if u is global itself; and the global blocks, in any case: the first and
//           the last with `ends`, else the first `global`;
//   window  |u - block| <= window / 2, not wrapped around;
//   random  `random` more blocks (fewer if so many are not left), distinct, none of the above.
#pragma once

#include <cstdint>
#include <vector>

#include "tilewright/problem.h"

namespace tilewright {

bool bigbird_is_global(const BigBirdMask& mask, int64_t num_blocks, int64_t block);

// The random blocks of a block row, in the order in which they are drawn; none for a global row.
// With mix(x) the output of SplitMix64 (Steele, Lea, Flood 2014) for state x, the draws are
//   mix(s), mix(s + g), mix(s + 2g), …   s = mix(mix(mix(seed) + head) + block_row),
//                                        g = 0x9e3779b97f4a7c15
// each modulo num_blocks; a block that is attended already, or was drawn before, is passed over.
// Heads are query heads: each has a pattern of its own.
std::vector<int64_t> bigbird_random_blocks(const BigBirdMask& mask, int64_t num_blocks,
                                           int64_t head, int64_t block_row);

// All blocks that a block row attends, sorted. 0 <= block_row < num_blocks.
std::vector<int64_t> bigbird_key_blocks(const BigBirdMask& mask, int64_t num_blocks, int64_t head,
                                        int64_t block_row);

}  // namespace tilewright
