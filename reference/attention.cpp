#include "reference/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/check.h"
#include "core/half.h"
#include "core/threads.h"
#include "reference/visibility.h"

namespace tilewright::reference {
namespace {

struct ScoreParameters {
  double scale;
  double softcap;  // 0 = none
};

// The nearest value of `dtype`.
float round_to(Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::kFloat16:
      return half_to_float(float_to_half(value));
    case Dtype::kBFloat16:
      return bfloat16_to_float(float_to_bfloat16(value));
    case Dtype::kFloat8E4M3:
      return e4m3_to_float(float_to_e4m3(value));
    case Dtype::kFloat8E5M2:
      return e5m2_to_float(float_to_e5m2(value));
    default:
      return value;
  }
}

double apply_softcap(double score, double softcap) {
  return softcap == 0.0 ? score : softcap * std::tanh(score / softcap);
}

Status check_supported(const Problem& problem) {
  Error error{ErrorCode::kUnsupportedProblem, "no fp64 reference for this problem yet", {}};
  if (problem.pass != Pass::kForward && problem.pass != Pass::kStandard) {
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

// Where one (batch, head, row) lives in a contiguous bshd tensor.
int64_t row_offset(int64_t batch, int64_t row, int64_t head, int64_t rows, int64_t heads,
                   int64_t dim) {
  return ((batch * rows + row) * heads + head) * dim;
}

struct RowIndex {
  int64_t batch, head, query;
};

RowIndex row_index(int64_t flat, const Sizes& sizes) {
  return {flat / (sizes.num_heads_q * sizes.seqlen_q), flat / sizes.seqlen_q % sizes.num_heads_q,
          flat % sizes.seqlen_q};
}

// The visible keys of one query row and their scores.
struct RowScores {
  std::vector<int64_t> keys;
  std::vector<double> scores;
  double max = -std::numeric_limits<double>::infinity();
  double min = std::numeric_limits<double>::infinity();
  double magnitude = 0.0;
};

RowScores score_row(const Sizes& sizes, const Inputs& inputs, const Visibility& visible,
                    const ScoreParameters& parameters, const RowIndex& row) {
  const int64_t dim = sizes.head_dim_qk;
  const int64_t head_kv = row.head / (sizes.num_heads_q / sizes.num_heads_kv);
  const float* q = inputs.q.data() + row_offset(row.batch, row.query, row.head, sizes.seqlen_q,
                                                sizes.num_heads_q, dim);
  RowScores result;
  for (int64_t key = 0; key < sizes.seqlen_k; ++key) {
    if (!visible(row.query, key)) continue;
    const float* k = inputs.k.data() +
                     row_offset(row.batch, key, head_kv, sizes.seqlen_k, sizes.num_heads_kv, dim);
    double dot = 0.0, magnitude = 0.0;
    for (int64_t i = 0; i < dim; ++i) {
      const double product = double{q[i]} * double{k[i]};
      dot += product;
      magnitude += std::fabs(product);
    }
    const double score = apply_softcap(parameters.scale * dot, parameters.softcap);
    result.keys.push_back(key);
    result.scores.push_back(score);
    result.max = std::max(result.max, score);
    result.min = std::min(result.min, score);
    result.magnitude = std::max(result.magnitude, std::fabs(parameters.scale) * magnitude);
  }
  return result;
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
  const int64_t dim = sizes.head_dim_v;
  const int64_t head_kv = row.head / (sizes.num_heads_q / sizes.num_heads_kv);
  const auto out_at = static_cast<size_t>(
      row_offset(row.batch, row.query, row.head, sizes.seqlen_q, sizes.num_heads_q, dim));
  for (size_t i = 0; i < scores.keys.size(); ++i) {
    const double p = std::exp(scores.scores[i] - scores.max) / sum;
    const float* v = inputs.v.data() + row_offset(row.batch, scores.keys[i], head_kv,
                                                  sizes.seqlen_k, sizes.num_heads_kv, dim);
    for (size_t c = 0; c < static_cast<size_t>(dim); ++c) {
      const double value = double{v[c]};
      forward.out[out_at + c] += p * value;
      forward.out_magnitude[out_at + c] += p * std::fabs(value);
      forward.value_mass[out_at + c] += std::fabs(value) / sum;
      forward.value_max[out_at + c] = std::max(forward.value_max[out_at + c], std::fabs(value));
    }
  }
}

ScoreParameters score_parameters(const Problem& problem, const Sizes& sizes) {
  return {problem.softmax_scale.value_or(1.0 / std::sqrt(static_cast<double>(sizes.head_dim_qk))),
          problem.softcap.value_or(0.0)};
}

// The plain computation of one row in fp32 with P and O rounded to `dtype`.
void same_precision_row(const Sizes& sizes, const Inputs& inputs, const Visibility& visible,
                        const ScoreParameters& parameters, const RowIndex& row, Dtype dtype,
                        std::vector<float>& out) {
  const int64_t dim = sizes.head_dim_qk;
  const int64_t head_kv = row.head / (sizes.num_heads_q / sizes.num_heads_kv);
  const float* q = inputs.q.data() + row_offset(row.batch, row.query, row.head, sizes.seqlen_q,
                                                sizes.num_heads_q, dim);
  std::vector<std::pair<int64_t, float>> scores;
  float max = -std::numeric_limits<float>::infinity();
  for (int64_t key = 0; key < sizes.seqlen_k; ++key) {
    if (!visible(row.query, key)) continue;
    const float* k = inputs.k.data() +
                     row_offset(row.batch, key, head_kv, sizes.seqlen_k, sizes.num_heads_kv, dim);
    float dot = 0.0F;
    for (int64_t i = 0; i < dim; ++i) dot += q[i] * k[i];
    float score = static_cast<float>(parameters.scale) * dot;
    if (parameters.softcap != 0.0) {
      const auto cap = static_cast<float>(parameters.softcap);
      score = cap * std::tanh(score / cap);
    }
    scores.emplace_back(key, score);
    max = std::max(max, score);
  }
  if (scores.empty()) return;
  float sum = 0.0F;
  for (const auto& [key, score] : scores) sum += std::exp(score - max);
  const auto width = static_cast<size_t>(sizes.head_dim_v);
  std::vector<float> acc(width, 0.0F);
  for (const auto& [key, score] : scores) {
    const float p = round_to(dtype, std::exp(score - max));
    const float* v = inputs.v.data() + row_offset(row.batch, key, head_kv, sizes.seqlen_k,
                                                  sizes.num_heads_kv, sizes.head_dim_v);
    for (size_t c = 0; c < width; ++c) acc[c] += p * v[c];
  }
  const auto out_at = static_cast<size_t>(row_offset(row.batch, row.query, row.head, sizes.seqlen_q,
                                                     sizes.num_heads_q, sizes.head_dim_v));
  for (size_t c = 0; c < width; ++c) out[out_at + c] = round_to(dtype, acc[c] / sum);
}

}  // namespace

Result<Forward> attention_forward(const Problem& problem, const Sizes& sizes,
                                  const Inputs& inputs) {
  TW_TRY(check_supported(problem));
  TW_ASSIGN(const Visibility visible, make_visibility(problem, sizes.seqlen_q, sizes.seqlen_k));
  const ScoreParameters parameters = score_parameters(problem, sizes);
  Forward forward;
  for (auto* per_element :
       {&forward.out, &forward.out_magnitude, &forward.value_mass, &forward.value_max}) {
    per_element->assign(static_cast<size_t>(sizes.out_elements()), 0.0);
  }
  for (auto* per_row : {&forward.lse, &forward.score_magnitude, &forward.score_range}) {
    per_row->assign(static_cast<size_t>(sizes.lse_elements()), 0.0);
  }
  parallel_for(sizes.lse_elements(), 0, [&](int64_t flat, int) {
    const RowIndex row = row_index(flat, sizes);
    finish_row(sizes, inputs, row, score_row(sizes, inputs, visible, parameters, row), flat,
               forward);
  });
  return forward;
}

Result<std::vector<float>> attention_forward_same_precision(const Problem& problem,
                                                            const Sizes& sizes,
                                                            const Inputs& inputs, Dtype dtype) {
  TW_TRY(check_supported(problem));
  TW_ASSIGN(const Visibility visible, make_visibility(problem, sizes.seqlen_q, sizes.seqlen_k));
  const ScoreParameters parameters = score_parameters(problem, sizes);
  std::vector<float> out(static_cast<size_t>(sizes.out_elements()), 0.0F);
  parallel_for(sizes.lse_elements(), 0, [&](int64_t flat, int) {
    same_precision_row(sizes, inputs, visible, parameters, row_index(flat, sizes), dtype, out);
  });
  return out;
}

}  // namespace tilewright::reference
