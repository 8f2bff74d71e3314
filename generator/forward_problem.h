// What every forward family asks of a problem: which features it names, and its mask as the
// interval of keys that each row sees.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/any_config.h"
#include "tilewright/kernel.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright {

// Keys of query row i: row_left + i <= j <= row_right + i, for one pair of lengths.
struct RowInterval {
  int64_t row_left = 0;
  int64_t row_right = 0;
  bool operator==(const RowInterval&) const = default;
};

// Far beyond any length, yet sums with one do not overflow.
inline constexpr int64_t kUnboundedDistance = int64_t{1} << 40;

// Whether some mask is no interval a row, so that a launch needs a list of tiles.
bool needs_tile_list(const Problem& problem);

// Whether the sequences of a batch have lengths of their own, which come with the launch.
bool lengths_vary(const Problem& problem);

// Whether some mask bounds the keys of a row (a dense problem, and a window open on both sides, do
// not). Only for problems that need no tile list.
bool has_row_bounds(const Problem& problem);

// The bounds of a problem whose lengths differ from sequence to sequence: a key of row i lies at
// offset − left <= j − i <= min(offset + aligned_right, right), with offset = seqlen_k − seqlen_q.
struct AlignedInterval {
  int64_t left = 0, aligned_right = 0, right = 0;
};
// These two only for problems that need no tile list.
AlignedInterval aligned_interval(const Problem& problem);
RowInterval row_interval(const Problem& problem, int64_t seqlen_q, int64_t seqlen_k);

// The masks that a family takes: those that leave each row one interval of keys (causal, windows),
// or all that a tile list can hold.
enum class MaskSupport { kIntervals, kTileLists };

// Names what the problem asks for beyond dense or so masked attention on fp16 or bf16, its pass
// apart: "bias", "mask prefix", …
std::vector<std::string> unusual_features(const Problem& problem,
                                          MaskSupport masks = MaskSupport::kIntervals);

// For the parameters of a kernel: the base-2 exponent of a weight is scale_log2 * t, where t is
// q·k, or tanh(tanh_scale * q·k) with softcap.
struct ScoreFactors {
  float scale_log2 = 0;  // > 0
  float tanh_scale = 0;
};
ScoreFactors score_factors(const Problem& problem, int64_t head_dim_qk);

// A config with the fields that every family takes from the problem.
template <class Config>
Config attention_config(const Problem& problem) {
  Config config;
  config.dtype = to_device_dtype(problem.dtype.value_or(Dtype::kFloat16));
  config.head_dim_qk = static_cast<int>(problem.head_dim_qk.value());
  config.head_dim_v = static_cast<int>(problem.head_dim_v.value_or(*problem.head_dim_qk));
  return config;
}

// The same for families of softmax attention.
template <class Config>
Config softmax_config(const Problem& problem) {
  Config config = attention_config<Config>(problem);
  config.softcap = problem.softcap.has_value();
  return config;
}

// The most that 32-bit positions, and a tile beyond them, hold.
inline constexpr int64_t kMaxLength = INT32_MAX - 4096;
// kUnsupportedProblem where a length, or the rows of packed tensors, exceed it.
Status check_lengths(const Shape& shape, std::string_view family);

// Appends the refusal of a layout that packed sequences and pages do not have.
void check_packed_layout(const Problem& problem, std::vector<std::string>& reasons);

}  // namespace tilewright
