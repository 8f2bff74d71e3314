#include "reference/backward.h"

#include <cmath>

#include "core/check.h"
#include "reference/gradient_row.h"
#include "reference/rounding.h"
#include "reference/score_row.h"

namespace tilewright::reference {
namespace {

void check_extents(const Sizes& sizes, const BackwardInputs& inputs) {
  const auto out_elements = static_cast<size_t>(sizes.out_elements());
  TW_CHECK(inputs.dout.size() == out_elements, "dout has {} elements, out {}", inputs.dout.size(),
           out_elements);
  TW_CHECK(inputs.out.empty() == inputs.lse.empty(), "out and lse come together or not at all");
  TW_CHECK(inputs.out.empty() || (inputs.out.size() == out_elements &&
                                  std::ssize(inputs.lse) == sizes.lse_elements()),
           "out has {} elements, lse {}", inputs.out.size(), inputs.lse.size());
}

void round_all(Dtype dtype, std::vector<float>& values) {
  for (float& value : values) value = round_to(dtype, value);
}

// The plain computation of one row: dq is finished, dk and dv are sums still to be rounded.
void plain_row(const Sizes& sizes, const BackwardInputs& inputs, const Visibility& visible,
               const ScoreParameters& parameters, const RowIndex& row, Dtype dtype,
               const std::vector<float>& out, PlainGradients& gradients) {
  const RowOffsets at{sizes};
  const PlainRowScores scores = plain_score_row(sizes, inputs.forward, visible, parameters, row);
  float sum = 0.0F;
  for (const float score : scores.scores) sum += std::exp(score - scores.max);
  const float lse = scores.max + std::log(sum);
  const auto width_qk = static_cast<size_t>(sizes.head_dim_qk);
  const auto width_v = static_cast<size_t>(sizes.head_dim_v);
  const auto scale = static_cast<float>(parameters.scale);
  const auto softcap = static_cast<float>(parameters.softcap);
  const float* dout = inputs.dout.data() + at.out(row);
  const float* q = inputs.forward.q.data() + at.q(row);
  float* dq = gradients.dq.data() + at.q(row);
  float delta = 0.0F;
  for (size_t c = 0; c < width_v; ++c) delta += dout[c] * out[at.out(row) + c];
  for (size_t i = 0; i < scores.keys.size(); ++i) {
    const float p = std::exp(scores.scores[i] - lse), p_rounded = round_to(dtype, p);
    const float* v = inputs.forward.v.data() + at.v(row, scores.keys[i]);
    float* dv = gradients.dv.data() + at.v(row, scores.keys[i]);
    float dp = 0.0F;
    for (size_t c = 0; c < width_v; ++c) {
      dp += dout[c] * v[c];
      dv[c] += p_rounded * dout[c];
    }
    const float tanh = softcap == 0.0F ? 0.0F : scores.scores[i] / softcap;
    const float ds = round_to(dtype, p * (dp - delta) * (1.0F - tanh * tanh));
    const float* k = inputs.forward.k.data() + at.k(row, scores.keys[i]);
    float* dk = gradients.dk.data() + at.k(row, scores.keys[i]);
    for (size_t c = 0; c < width_qk; ++c) {
      dq[c] += ds * k[c];
      dk[c] += ds * q[c];
    }
  }
  for (size_t c = 0; c < width_qk; ++c) dq[c] *= scale;
}

}  // namespace

Result<Gradients> attention_backward(const Problem& problem, const Sizes& sizes,
                                     const BackwardInputs& inputs) {
  TW_TRY(check_softmax_supported(problem));
  check_extents(sizes, inputs);
  TW_ASSIGN(const HeadVisibilities visible,
            head_visibilities(problem, sizes, inputs.forward.masks));
  const ScoreParameters parameters = score_parameters(problem, sizes);
  const RowOffsets at{sizes};
  Gradients gradients;
  gradients.dq.assign(static_cast<size_t>(sizes.q_elements()), 0.0);
  gradients.dk.assign(static_cast<size_t>(sizes.k_elements()), 0.0);
  gradients.dv.assign(static_cast<size_t>(sizes.v_elements()), 0.0);
  for_each_row_by_key_head(sizes, [&](const RowIndex& row) {
    const GradientRow terms =
        gradient_row(sizes, inputs, visible.of(row.batch, row.head), parameters, row);
    const float* q = inputs.forward.q.data() + at.q(row);
    const float* dout = inputs.dout.data() + at.out(row);
    double* dq = gradients.dq.data() + at.q(row);
    for (size_t i = 0; i < terms.scores.keys.size(); ++i) {
      const int64_t key = terms.scores.keys[i];
      const double p = terms.weights[i];
      const double ds = parameters.scale * p * (terms.dp[i] - terms.delta) * terms.slopes[i];
      const float* k = inputs.forward.k.data() + at.k(row, key);
      double* dk = gradients.dk.data() + at.k(row, key);
      double* dv = gradients.dv.data() + at.v(row, key);
      for (int64_t c = 0; c < sizes.head_dim_qk; ++c) {
        dq[c] += ds * double{k[c]};
        dk[c] += ds * double{q[c]};
      }
      for (int64_t c = 0; c < sizes.head_dim_v; ++c) dv[c] += p * double{dout[c]};
    }
  });
  return gradients;
}

Result<PlainGradients> attention_backward_same_precision(const Problem& problem, const Sizes& sizes,
                                                         const BackwardInputs& inputs,
                                                         Dtype dtype) {
  TW_ASSIGN(const std::vector<float> out,
            attention_forward_same_precision(problem, sizes, inputs.forward, dtype));
  check_extents(sizes, inputs);
  TW_ASSIGN(const HeadVisibilities visible,
            head_visibilities(problem, sizes, inputs.forward.masks));
  const ScoreParameters parameters = score_parameters(problem, sizes);
  PlainGradients gradients;
  gradients.dq.assign(static_cast<size_t>(sizes.q_elements()), 0.0F);
  gradients.dk.assign(static_cast<size_t>(sizes.k_elements()), 0.0F);
  gradients.dv.assign(static_cast<size_t>(sizes.v_elements()), 0.0F);
  for_each_row_by_key_head(sizes, [&](const RowIndex& row) {
    plain_row(sizes, inputs, visible.of(row.batch, row.head), parameters, row, dtype, out,
              gradients);
  });
  for (float& value : gradients.dk) value *= static_cast<float>(parameters.scale);
  round_all(dtype, gradients.dq);
  round_all(dtype, gradients.dk);
  round_all(dtype, gradients.dv);
  return gradients;
}

}  // namespace tilewright::reference
