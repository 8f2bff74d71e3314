#include "reference/score_row.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"

namespace tilewright::reference {

Result<HeadVisibilities> head_visibilities(const Problem& problem, const Sizes& sizes,
                                           const MaskData& data) {
  return HeadVisibilities::make(problem, sizes.batch, sizes.num_heads_q, sizes.seqlen_q,
                                sizes.seqlen_k, data);
}

ScoreParameters score_parameters(const Problem& problem, const Sizes& sizes) {
  return {problem.softmax_scale.value_or(1.0 / std::sqrt(static_cast<double>(sizes.head_dim_qk))),
          problem.softcap.value_or(0.0)};
}

Status check_softmax_supported(const Problem& problem) {
  Error error{ErrorCode::kUnsupportedProblem, "no fp64 reference for this problem yet", {}};
  if (problem.pass != Pass::kForward && problem.pass != Pass::kBackward &&
      problem.pass != Pass::kStandard) {
    error.reasons.push_back(fmt::format("pass {}", to_string(problem.pass)));
  }
  if (problem.alibi) error.reasons.push_back("alibi");
  if (problem.bias) error.reasons.push_back("bias");
  if (problem.sink) error.reasons.push_back("sink");
  if (!problem.score_expression.empty()) error.reasons.push_back("score expression");
  if (problem.dropout != 0.0) error.reasons.push_back("dropout");
  if (!error.reasons.empty()) return error;
  return {};
}

int parallel_jobs(const Sizes& sizes) {
  const double products = static_cast<double>(sizes.lse_elements()) *
                          static_cast<double>(sizes.seqlen_k) *
                          static_cast<double>(sizes.head_dim_qk + sizes.head_dim_v);
  return products < 1e6 ? 1 : 0;
}

double RowScores::lse() const {
  if (keys.empty()) return -std::numeric_limits<double>::infinity();
  double sum = 0.0;
  for (const double score : scores) sum += std::exp(score - max);
  return max + std::log(sum);
}

RowScores score_row(const Sizes& sizes, const Inputs& inputs, const Visibility& visible,
                    const ScoreParameters& parameters, const RowIndex& row) {
  const RowOffsets at{sizes};
  const float* q = inputs.q.data() + at.q(row);
  RowScores result;
  for (int64_t key = 0; key < sizes.seqlen_k; ++key) {
    if (!visible(row.query, key)) continue;
    const float* k = inputs.k.data() + at.k(row, key);
    double dot = 0.0, magnitude = 0.0;
    for (int64_t i = 0; i < sizes.head_dim_qk; ++i) {
      const double product = double{q[i]} * double{k[i]};
      dot += product;
      magnitude += std::fabs(product);
    }
    double score = parameters.scale * dot;
    if (parameters.softcap != 0.0) {
      score = parameters.softcap * std::tanh(score / parameters.softcap);
    }
    result.keys.push_back(key);
    result.scores.push_back(score);
    result.max = std::max(result.max, score);
    result.min = std::min(result.min, score);
    result.magnitude = std::max(result.magnitude, std::fabs(parameters.scale) * magnitude);
  }
  return result;
}

PlainRowScores plain_score_row(const Sizes& sizes, const Inputs& inputs, const Visibility& visible,
                               const ScoreParameters& parameters, const RowIndex& row) {
  const RowOffsets at{sizes};
  const float* q = inputs.q.data() + at.q(row);
  PlainRowScores result;
  for (int64_t key = 0; key < sizes.seqlen_k; ++key) {
    if (!visible(row.query, key)) continue;
    const float* k = inputs.k.data() + at.k(row, key);
    float dot = 0.0F;
    for (int64_t i = 0; i < sizes.head_dim_qk; ++i) dot += q[i] * k[i];
    float score = static_cast<float>(parameters.scale) * dot;
    if (parameters.softcap != 0.0) {
      const auto cap = static_cast<float>(parameters.softcap);
      score = cap * std::tanh(score / cap);
    }
    result.keys.push_back(key);
    result.scores.push_back(score);
    result.max = std::max(result.max, score);
  }
  return result;
}

}  // namespace tilewright::reference
