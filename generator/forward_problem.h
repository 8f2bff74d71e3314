// What every forward family asks of a problem: which features it names, and its mask as the
// interval of keys that each row sees.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tilewright/problem.h"

namespace tilewright {

// Keys of query row i: row_left + i <= j <= row_right + i, for one pair of lengths.
struct RowInterval {
  int64_t row_left = 0;
  int64_t row_right = 0;
  bool operator==(const RowInterval&) const = default;
};

// Far beyond any length, yet sums with one do not overflow.
inline constexpr int64_t kUnboundedDistance = int64_t{1} << 40;

// Whether some mask bounds the keys of a row (a dense problem, and a window open on both sides, do
// not).
bool has_row_bounds(const Problem& problem);

// Only for problems whose every mask is causal or a window without dilation.
RowInterval row_interval(const Problem& problem, int64_t seqlen_q, int64_t seqlen_k);

// Names what the problem asks for beyond dense or interval-masked forward attention on fp16 or
// bf16: "bias", "mask prefix", …
std::vector<std::string> unusual_features(const Problem& problem);

}  // namespace tilewright
