#include "reference/gradient_row.h"

#include <cmath>

#include "core/threads.h"

namespace tilewright::reference {

GradientRow gradient_row(const Sizes& sizes, const BackwardInputs& inputs,
                         const Visibility& visible, const ScoreParameters& parameters,
                         const RowIndex& row) {
  const RowOffsets at{sizes};
  GradientRow result;
  result.scores = score_row(sizes, inputs.forward, visible, parameters, row);
  const RowScores& scores = result.scores;
  const double lse = inputs.lse.empty() ? scores.lse() : inputs.lse[at.lse(row)];
  const float* dout = inputs.dout.data() + at.out(row);
  for (size_t i = 0; i < scores.keys.size(); ++i) {
    const float* v = inputs.forward.v.data() + at.v(row, scores.keys[i]);
    double dot = 0.0, magnitude = 0.0;
    for (int64_t c = 0; c < sizes.head_dim_v; ++c) {
      const double product = double{dout[c]} * double{v[c]};
      dot += product;
      magnitude += std::fabs(product);
    }
    const double tanh = parameters.softcap == 0.0 ? 0.0 : scores.scores[i] / parameters.softcap;
    result.weights.push_back(std::exp(scores.scores[i] - lse));
    result.slopes.push_back(1.0 - tanh * tanh);
    result.dp.push_back(dot);
    result.dp_magnitude.push_back(magnitude);
    if (inputs.out.empty()) result.delta += result.weights.back() * dot;
  }
  if (!inputs.out.empty()) {
    const double* out = inputs.out.data() + at.out(row);
    for (int64_t c = 0; c < sizes.head_dim_v; ++c) result.delta += double{dout[c]} * out[c];
  }
  return result;
}

void for_each_row_by_key_head(const Sizes& sizes,
                              const std::function<void(const RowIndex&)>& body) {
  if (sizes.num_heads_kv == 0) return;
  const int64_t group_size = sizes.num_heads_q / sizes.num_heads_kv;
  parallel_for(sizes.batch * sizes.num_heads_kv, parallel_jobs(sizes), [&](int64_t flat, int) {
    const int64_t batch = flat / sizes.num_heads_kv, head_kv = flat % sizes.num_heads_kv;
    for (int64_t head = head_kv * group_size; head < (head_kv + 1) * group_size; ++head) {
      for (int64_t query = 0; query < sizes.seqlen_q; ++query) body({batch, head, query});
    }
  });
}

}  // namespace tilewright::reference
