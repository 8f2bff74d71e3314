// Exact I/O counts of the attention algorithms in closed form, with given tiles and with the best
// integer tiles that a fast memory of M words allows. One head, batch 1; a word is one element.
// Every algorithm is a list of stages that run one after another, each with a block of its own.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "io_model/algorithm.h"
#include "io_model/count.h"
#include "io_model/visible_pairs.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::io_model {

struct Shape {
  int64_t seqlen_q = 0, seqlen_k = 0, head_dim_qk = 0, head_dim_v = 0;

  // Words of each tensor; O, dO are as large as `out`, dQ as `q`, and so on.
  Count q() const { return Count(seqlen_q) * head_dim_qk; }
  Count k() const { return Count(seqlen_k) * head_dim_qk; }
  Count v() const { return Count(seqlen_k) * head_dim_v; }
  Count out() const { return Count(seqlen_q) * head_dim_v; }
  Count scores() const { return Count(seqlen_q) * seqlen_k; }

  bool operator==(const Shape&) const = default;
};

// What is counted: one head, its visible pairs, and what an accumulator weighs.
struct Case {
  Shape shape;
  VisiblePairs pairs;
  // Words that one element of an accumulator (score tiles, sums, row statistics) takes in fast
  // memory: 1 as in the theory, 2 for fp32 beside 16-bit operands. Slow memory holds one word each.
  int64_t accumulator_words = 1;

  static Case dense(int64_t seqlen, int64_t head_dim);
  // One head of `problem`. Lengths and head_dim_qk must be set, head_dim_v is head_dim_qk unless
  // set.
  static Result<Case> from_problem(const Problem& problem);
};

// One stage's tile. Of a blocked product, rows x cols is the output tile and `depth` the slab; of a
// flash-style stage, rows is the query block and cols the key block; `depth` is then unused.
struct Block {
  int64_t rows = 1, cols = 1, depth = 1;
  bool operator==(const Block&) const = default;
};

// One block per stage, in the order of stages().
using Tiles = std::vector<Block>;

// Which sides of its block a stage leaves to the search; the other one streams, as narrow as it
// can. kDepth: the slab is as deep as fits, which changes no count.
enum class Freedom { kNone, kDepth, kRows, kCols, kBoth };

struct Stage {
  std::string_view name;
  Freedom freedom = Freedom::kNone;
  int64_t max_rows = 1, max_cols = 1, max_depth = 1;
  std::function<Count(const Block&)> peak;
  std::function<Traffic(const Block&)> traffic;  // with its peak
};

// The stages of an algorithm; they refer to `problem_case`, which must outlive them.
std::vector<Stage> stages(Algorithm algorithm, const Case& problem_case);
// The same block for every stage.
Tiles uniform_tiles(Algorithm algorithm, const Case& problem_case, const Block& block);

// Counts with given tiles. kInvalidArgument: a wrong number of blocks or a block that is not
// positive; kOverflow: a count beyond 64 bits; kUnsupportedProblem: the weight gradients of a
// problem whose lengths or head dims differ.
Result<Traffic> closed_form(Algorithm algorithm, const Case& problem_case, const Tiles& tiles);

// FLOPs in products, on visible pairs.
double matmul_flops(Algorithm algorithm, const Case& problem_case);
// Words of slow memory beside inputs and outputs: row statistics, stored scores, projections.
Count extra_slow_words(Algorithm algorithm, const Shape& shape);

// How fine tiles may be cut.
struct Granularity {
  int64_t tile_step = 1;  // sides that the search chooses are multiples of this
  int64_t streamed = 1;   // rows of a streamed flash block
  int64_t depth = 1;      // slab depth of blocked products
};

// Fewest words of fast memory with which the algorithm runs at all.
Result<int64_t> least_memory(Algorithm algorithm, const Case& problem_case,
                             const Granularity& granularity = {});

// The tiles with the least traffic within `fast_words` words. With a mask the search visits the
// same block sizes as without one. kOutOfMemory: says how much the algorithm needs, and lists as
// reasons which algorithms of its task still run.
Result<Tiles> best_tiles(Algorithm algorithm, const Case& problem_case, int64_t fast_words,
                         const Granularity& granularity = {});
// best_tiles and closed_form in one.
Result<Traffic> best_count(Algorithm algorithm, const Case& problem_case, int64_t fast_words,
                           const Granularity& granularity = {});

}  // namespace tilewright::io_model
