// Tensor: a device pointer with type, shape and strides. Plain data; owns nothing.
#pragma once

#include <array>
#include <cstdint>

#include "tilewright/problem.h"

namespace tilewright {

inline constexpr int kMaxTensorRank = 5;

// Shapes: Q [batch, seqlen_q, num_heads_q, head_dim_qk] for layout bshd,
// [batch, num_heads_q, seqlen_q, head_dim_qk] for bhsd; K, V, O alike; packed (varlen)
// [total, heads, dim]; lse [batch, num_heads_q, seqlen_q]. The strides of extents 0 and 1 are
// never looked at.
struct Tensor {
  void* data = nullptr;  // device address; null = not given
  Dtype dtype = Dtype::kFloat16;
  int rank = 0;
  std::array<int64_t, kMaxTensorRank> shape{};
  std::array<int64_t, kMaxTensorRank> strides{};  // in elements
};

}  // namespace tilewright
