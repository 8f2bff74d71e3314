#include "reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/threads.h"
#include "reference/rounding.h"
#include "reference/score_row.h"

namespace tilewright::reference {
namespace {

RowIndex row_index(int64_t flat, const Sizes& sizes) {
  return {flat / (sizes.num_heads_q * sizes.seqlen_q), flat / sizes.seqlen_q % sizes.num_heads_q,
          flat % sizes.seqlen_q};
}

void finish_row(const Sizes& sizes, const Inputs& inputs, const RowIndex& row,
                const RowScores& scores, int64_t flat, Forward& forward) {
  const auto at = static_cast<size_t>(flat);
  if (scores.keys.empty()) {
    forward.lse[at] = -std::numeric_limits<double>::infinity();
    return;
  }
  double sum = 0.0;
  for (const double score : scores.scores) sum += std::exp(score - scores.max);
  forward.lse[at] = scores.max + std::log(sum);
  forward.score_magnitude[at] = scores.magnitude;
  forward.score_range[at] = scores.max - scores.min;
  const RowOffsets at_row{sizes};
  const size_t out_at = at_row.out(row);
  for (size_t i = 0; i < scores.keys.size(); ++i) {
    const double p = std::exp(scores.scores[i] - scores.max) / sum;
    const float* v = inputs.v.data() + at_row.v(row, scores.keys[i]);
    for (size_t c = 0; c < static_cast<size_t>(sizes.head_dim_v); ++c) {
      const double value = double{v[c]};
      forward.out[out_at + c] += p * value;
      forward.out_magnitude[out_at + c] += p * std::fabs(value);
      forward.value_mass[out_at + c] += std::fabs(value) / sum;
      forward.value_max[out_at + c] = std::max(forward.value_max[out_at + c], std::fabs(value));
    }
  }
}

// The plain computation of one row in fp32 with P and O rounded to `dtype`.
void same_precision_row(const Sizes& sizes, const Inputs& inputs, const Visibility& visible,
                        const ScoreParameters& parameters, const RowIndex& row, Dtype dtype,
                        std::vector<float>& out) {
  const PlainRowScores row_scores = plain_score_row(sizes, inputs, visible, parameters, row);
  if (row_scores.keys.empty()) return;
  float sum = 0.0F;
  for (const float score : row_scores.scores) sum += std::exp(score - row_scores.max);
  const RowOffsets at{sizes};
  const auto width = static_cast<size_t>(sizes.head_dim_v);
  std::vector<float> acc(width, 0.0F);
  for (size_t i = 0; i < row_scores.keys.size(); ++i) {
    const float p = round_to(dtype, std::exp(row_scores.scores[i] - row_scores.max));
    const float* v = inputs.v.data() + at.v(row, row_scores.keys[i]);
    for (size_t c = 0; c < width; ++c) acc[c] += p * v[c];
  }
  const size_t out_at = at.out(row);
  for (size_t c = 0; c < width; ++c) out[out_at + c] = round_to(dtype, acc[c] / sum);
}

}  // namespace

Result<Forward> attention_forward(const Problem& problem, const Sizes& sizes,
                                  const Inputs& inputs) {
  TW_TRY(check_softmax_supported(problem));
  TW_ASSIGN(const HeadVisibilities visible, head_visibilities(problem, sizes, inputs.masks));
  const ScoreParameters parameters = score_parameters(problem, sizes);
  Forward forward;
  for (auto* per_element :
       {&forward.out, &forward.out_magnitude, &forward.value_mass, &forward.value_max}) {
    per_element->assign(static_cast<size_t>(sizes.out_elements()), 0.0);
  }
  for (auto* per_row : {&forward.lse, &forward.score_magnitude, &forward.score_range}) {
    per_row->assign(static_cast<size_t>(sizes.lse_elements()), 0.0);
  }
  parallel_for(sizes.lse_elements(), parallel_jobs(sizes), [&](int64_t flat, int) {
    const RowIndex row = row_index(flat, sizes);
    const Visibility& keys = visible.of(row.batch, row.head);
    finish_row(sizes, inputs, row, score_row(sizes, inputs, keys, parameters, row), flat, forward);
  });
  return forward;
}

Result<std::vector<float>> attention_forward_same_precision(const Problem& problem,
                                                            const Sizes& sizes,
                                                            const Inputs& inputs, Dtype dtype) {
  TW_TRY(check_softmax_supported(problem));
  TW_ASSIGN(const HeadVisibilities visible, head_visibilities(problem, sizes, inputs.masks));
  const ScoreParameters parameters = score_parameters(problem, sizes);
  std::vector<float> out(static_cast<size_t>(sizes.out_elements()), 0.0F);
  parallel_for(sizes.lse_elements(), parallel_jobs(sizes), [&](int64_t flat, int) {
    const RowIndex row = row_index(flat, sizes);
    same_precision_row(sizes, inputs, visible.of(row.batch, row.head), parameters, row, dtype, out);
  });
  return out;
}

}  // namespace tilewright::reference
