// Attention in fp64, untiled, row by row: the truth that every kernel is compared with; and the
// plain computation in the kernel's own precision, the yardstick for how much error is fair.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/visibility.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::reference {

// The sizes of one attention call; every field is set.
struct Sizes {
  int64_t batch = 1, num_heads_q = 1, num_heads_kv = 1;
  int64_t seqlen_q = 1, seqlen_k = 1;
  int64_t head_dim_qk = 1, head_dim_v = 1;

  int64_t q_elements() const { return batch * seqlen_q * num_heads_q * head_dim_qk; }
  int64_t k_elements() const { return batch * seqlen_k * num_heads_kv * head_dim_qk; }
  int64_t v_elements() const { return batch * seqlen_k * num_heads_kv * head_dim_v; }
  int64_t out_elements() const { return batch * seqlen_q * num_heads_q * head_dim_v; }
  int64_t lse_elements() const { return batch * num_heads_q * seqlen_q; }
};

// Contiguous [batch, seqlen, heads, dim], values already rounded to the kernel's type.
struct Inputs {
  std::span<const float> q, k, v;
  MaskData masks = {};
};

// out [batch, seqlen_q, num_heads_q, head_dim_v]; lse [batch, num_heads_q, seqlen_q], natural log.
// The rest feeds the error bound (reference/error_bound.h), same shapes.
struct Forward {
  std::vector<double> out;
  std::vector<double> lse;
  std::vector<double> out_magnitude;  // sum_k p_k |v_k|, per element of out
  std::vector<double> value_mass;     // sum over visible keys of |v_k| / l, per element of out
  std::vector<double> value_max;      // max over visible keys of |v_k|, per element of out
  std::vector<double>
      score_magnitude;              // max over visible keys of scale * sum |q||k|, per row (as lse)
  std::vector<double> score_range;  // max minus min visible score, per row (as lse)
};

// Forward pass of problem (softmax family: scale, softcap, masks with a reference). Rows without a
// visible key: out 0, lse -inf. kUnsupportedProblem names what has no reference yet.
Result<Forward> attention_forward(const Problem& problem, const Sizes& sizes, const Inputs& inputs);

// The plain computation with fp32 scores and softmax, P rounded to `dtype`, fp32 sums, O rounded to
// `dtype`: out as above.
Result<std::vector<float>> attention_forward_same_precision(const Problem& problem,
                                                            const Sizes& sizes,
                                                            const Inputs& inputs, Dtype dtype);

}  // namespace tilewright::reference
