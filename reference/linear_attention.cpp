#include "reference/linear_attention.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "core/threads.h"
#include "reference/score_row.h"

namespace tilewright::reference {
namespace {

const CausalMask* causal_mask(const Problem& problem) {
  return problem.masks.empty() ? nullptr : std::get_if<CausalMask>(&problem.masks[0].terms[0]);
}

// Features of a whole tensor.
std::vector<double> features(const Problem& problem, std::span<const float> values, double scale) {
  std::vector<double> result;
  result.reserve(values.size());
  for (const float value : values) result.push_back(feature(problem, scale * double{value}));
  return result;
}

double dot(const double* a, const double* b, int64_t count) {
  double sum = 0.0;
  for (int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// What all forms share: features, and how a key enters the state and a query leaves it.
class LinearPass {
 public:
  LinearPass(const Problem& problem, const Sizes& sizes, const LinearInputs& inputs)
      : problem_(problem),
        sizes_(sizes),
        inputs_(inputs),
        q_(features(problem, inputs.q, linear_scale(problem))),
        k_(features(problem, inputs.k, 1.0)) {
    result_.out.assign(static_cast<size_t>(sizes.out_elements()), 0.0);
    const int64_t rows = sizes.batch * sizes.num_heads_kv * sizes.head_dim_qk;
    const auto elements = static_cast<size_t>(rows * sizes.head_dim_v);
    result_.after.state.assign(inputs.state.begin(), inputs.state.end());
    result_.after.state.resize(elements, 0.0);
    if (!has_normalizer(problem)) return;
    result_.after.normalizer.assign(inputs.normalizer.begin(), inputs.normalizer.end());
    result_.after.normalizer.resize(static_cast<size_t>(rows), 0.0);
  }

  // Query rows in blocks of `chunk`, the keys before a block out of the state.
  LinearForward run(int64_t chunk) {
    const int64_t heads = sizes_.batch * sizes_.num_heads_kv;
    parallel_for(heads, parallel_jobs(sizes_), [&](int64_t flat, int) {
      const int64_t batch = flat / sizes_.num_heads_kv, head_kv = flat % sizes_.num_heads_kv;
      int64_t key = 0;  // keys in the state
      for (int64_t begin = 0; begin < sizes_.seqlen_q; begin += chunk) {
        // A causal block's first query sees one key of its own block.
        const int64_t seen = num_visible_keys(problem_, sizes_, begin);
        const bool causal = causal_mask(problem_) != nullptr;
        const int64_t before = chunk == 1 || !causal ? seen : std::max<int64_t>(seen - 1, 0);
        for (; key < before; ++key) take(batch, head_kv, key);
        for (int64_t query = begin; query < std::min(begin + chunk, sizes_.seqlen_q); ++query) {
          give_group(batch, head_kv, query, key);
        }
      }
      for (; key < sizes_.seqlen_k; ++key) take(batch, head_kv, key);
    });
    return std::move(result_);
  }

  // Every key pair by pair: no key enters the state before the end.
  LinearForward run_parallel() {
    const int64_t heads = sizes_.batch * sizes_.num_heads_kv;
    parallel_for(heads, parallel_jobs(sizes_), [&](int64_t flat, int) {
      const int64_t batch = flat / sizes_.num_heads_kv, head_kv = flat % sizes_.num_heads_kv;
      for (int64_t query = 0; query < sizes_.seqlen_q; ++query) {
        give_group(batch, head_kv, query, 0);
      }
      for (int64_t key = 0; key < sizes_.seqlen_k; ++key) take(batch, head_kv, key);
    });
    return std::move(result_);
  }

 private:
  size_t state_row(int64_t batch, int64_t head_kv) const {
    return static_cast<size_t>((batch * sizes_.num_heads_kv + head_kv) * sizes_.head_dim_qk);
  }

  // S += φ(k) vᵀ, z += φ(k).
  void take(int64_t batch, int64_t head_kv, int64_t key) {
    const RowIndex row{batch, head_kv * group_size(), 0};
    const double* k = k_.data() + at_.k(row, key);
    const float* v = inputs_.v.data() + at_.v(row, key);
    const size_t first = state_row(batch, head_kv);
    for (size_t a = 0; a < static_cast<size_t>(sizes_.head_dim_qk); ++a) {
      double* s = result_.after.state.data() + (first + a) * static_cast<size_t>(sizes_.head_dim_v);
      for (int64_t c = 0; c < sizes_.head_dim_v; ++c) s[c] += k[a] * double{v[c]};
      if (!result_.after.normalizer.empty()) result_.after.normalizer[first + a] += k[a];
    }
  }

  void give_group(int64_t batch, int64_t head_kv, int64_t query, int64_t in_state) {
    for (int64_t head = head_kv * group_size(); head < (head_kv + 1) * group_size(); ++head) {
      give({batch, head, query}, head_kv, in_state);
    }
  }

  // Sᵀφ(q) of the keys below `in_state`, the others one by one.
  void give(const RowIndex& row, int64_t head_kv, int64_t in_state) {
    const double* q = q_.data() + at_.q(row);
    double* out = result_.out.data() + at_.out(row);
    const size_t first = state_row(row.batch, head_kv);
    double normalizer = kNormalizerEpsilon;
    for (size_t a = 0; a < static_cast<size_t>(sizes_.head_dim_qk); ++a) {
      const double* s =
          result_.after.state.data() + (first + a) * static_cast<size_t>(sizes_.head_dim_v);
      for (int64_t c = 0; c < sizes_.head_dim_v; ++c) out[c] += q[a] * s[c];
      if (!result_.after.normalizer.empty()) {
        normalizer += q[a] * result_.after.normalizer[first + a];
      }
    }
    const int64_t seen = num_visible_keys(problem_, sizes_, row.query);
    for (int64_t key = in_state; key < seen; ++key) {
      const double weight = dot(q, k_.data() + at_.k(row, key), sizes_.head_dim_qk);
      const float* v = inputs_.v.data() + at_.v(row, key);
      for (int64_t c = 0; c < sizes_.head_dim_v; ++c) out[c] += weight * double{v[c]};
      normalizer += weight;
    }
    if (result_.after.normalizer.empty()) return;
    for (int64_t c = 0; c < sizes_.head_dim_v; ++c) out[c] /= normalizer;
  }

  int64_t group_size() const { return sizes_.num_heads_q / sizes_.num_heads_kv; }

  const Problem& problem_;
  const Sizes& sizes_;
  const LinearInputs& inputs_;
  const RowOffsets at_{sizes_};
  const std::vector<double> q_, k_;  // φ(scale q), φ(k)
  LinearForward result_;
};

}  // namespace

bool has_normalizer(const Problem& problem) { return problem.feature != FeatureMap::kIdentity; }

double feature(const Problem& problem, double x) {
  if (problem.feature == FeatureMap::kIdentity) return x;
  return x > 0.0 ? x + 1.0 : std::exp(x);
}

double feature_slope(const Problem& problem, double x) {
  if (problem.feature == FeatureMap::kIdentity) return 1.0;
  return x > 0.0 ? 1.0 : std::exp(x);
}

double linear_scale(const Problem& problem) { return problem.softmax_scale.value_or(1.0); }

Status check_linear(const Problem& problem, const Sizes& sizes, const LinearInputs& inputs) {
  Error error{ErrorCode::kUnsupportedProblem, "no fp64 reference for this problem yet", {}};
  if (problem.pass != Pass::kLinearForward && problem.pass != Pass::kLinearBackward &&
      problem.pass != Pass::kLinearStep) {
    error.reasons.push_back(fmt::format("pass {}", to_string(problem.pass)));
  }
  const bool causal_only = problem.masks.size() == 1 && problem.masks[0].terms.size() == 1 &&
                           std::holds_alternative<CausalMask>(problem.masks[0].terms[0]);
  if (!problem.masks.empty() && !causal_only) error.reasons.push_back("masks other than causal");
  if (problem.dropout != 0.0) error.reasons.push_back("dropout");
  if (!error.reasons.empty()) return error;
  const int64_t rows = sizes.batch * sizes.num_heads_kv * sizes.head_dim_qk;
  const bool normalized = has_normalizer(problem);
  const bool absent = inputs.state.empty() && inputs.normalizer.empty();
  const bool whole = std::ssize(inputs.state) == rows * sizes.head_dim_v &&
                     std::ssize(inputs.normalizer) == (normalized ? rows : 0);
  if (!absent && !whole) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a state of {} elements and a normalizer of {} do not fit {} rows of {}",
                      inputs.state.size(), inputs.normalizer.size(), rows, sizes.head_dim_v);
  }
  return {};
}

int64_t num_visible_keys(const Problem& problem, const Sizes& sizes, int64_t query) {
  const CausalMask* causal = causal_mask(problem);
  if (causal == nullptr) return sizes.seqlen_k;
  const bool top_left = causal->alignment == MaskAlignment::kTopLeft;
  const int64_t last = query + (top_left ? 0 : sizes.seqlen_k - sizes.seqlen_q);
  return std::clamp<int64_t>(last + 1, 0, sizes.seqlen_k);
}

Result<LinearForward> linear_attention_parallel(const Problem& problem, const Sizes& sizes,
                                                const LinearInputs& inputs) {
  TW_TRY(check_linear(problem, sizes, inputs));
  return LinearPass(problem, sizes, inputs).run_parallel();
}

Result<LinearForward> linear_attention_chunked(const Problem& problem, const Sizes& sizes,
                                               const LinearInputs& inputs, int64_t chunk) {
  TW_TRY(check_linear(problem, sizes, inputs));
  TW_CHECK(chunk >= 1, "chunk {}", chunk);
  return LinearPass(problem, sizes, inputs).run(chunk);
}

Result<LinearForward> linear_attention_recurrent(const Problem& problem, const Sizes& sizes,
                                                 const LinearInputs& inputs) {
  return linear_attention_chunked(problem, sizes, inputs, 1);
}

Result<LinearGradients> linear_attention_backward(const Problem& problem, const Sizes& sizes,
                                                  const LinearInputs& inputs,
                                                  std::span<const float> dout) {
  TW_ASSIGN(const LinearForward forward, linear_attention_parallel(problem, sizes, inputs));
  if (!inputs.state.empty()) {
    return make_error(ErrorCode::kUnsupportedProblem,
                      "no reference for gradients through a state before the first key");
  }
  const double scale = linear_scale(problem);
  const std::vector<double> q = features(problem, inputs.q, scale);
  const std::vector<double> k = features(problem, inputs.k, 1.0);
  const RowOffsets at{sizes};
  const auto width = static_cast<size_t>(sizes.head_dim_v);
  LinearGradients g{std::vector<double>(q.size(), 0.0), std::vector<double>(k.size(), 0.0),
                    std::vector<double>(inputs.v.size(), 0.0)};
  // With weights w = φ(q)·φ(k) and Z their sum: dw = (dO/Z)·v − <dO, O>/Z, the last term and the
  // division only with a normaliser.
  for (int64_t flat = 0; flat < sizes.lse_elements(); ++flat) {
    const RowIndex row{flat / (sizes.num_heads_q * sizes.seqlen_q),
                       flat / sizes.seqlen_q % sizes.num_heads_q, flat % sizes.seqlen_q};
    const int64_t seen = num_visible_keys(problem, sizes, row.query);
    double z = kNormalizerEpsilon, weighted = 0.0;
    std::vector<double> weights;
    for (int64_t key = 0; key < seen; ++key) {
      weights.push_back(dot(q.data() + at.q(row), k.data() + at.k(row, key), sizes.head_dim_qk));
      z += weights.back();
    }
    if (!has_normalizer(problem)) z = 1.0;
    for (size_t c = 0; c < width && has_normalizer(problem); ++c) {
      weighted += double{dout[at.out(row) + c]} * forward.out[at.out(row) + c];
    }
    for (int64_t key = 0; key < seen; ++key) {
      double dw = -weighted / z;
      for (size_t c = 0; c < width; ++c) {
        const double dn = double{dout[at.out(row) + c]} / z;
        dw += dn * double{inputs.v[at.v(row, key) + c]};
        g.dv[at.v(row, key) + c] += weights[static_cast<size_t>(key)] * dn;
      }
      for (size_t a = 0; a < static_cast<size_t>(sizes.head_dim_qk); ++a) {
        g.dq[at.q(row) + a] += dw * k[at.k(row, key) + a];
        g.dk[at.k(row, key) + a] += dw * q[at.q(row) + a];
      }
    }
  }
  for (size_t i = 0; i < g.dq.size(); ++i) {
    g.dq[i] *= scale * feature_slope(problem, scale * double{inputs.q[i]});
  }
  for (size_t i = 0; i < g.dk.size(); ++i) g.dk[i] *= feature_slope(problem, double{inputs.k[i]});
  return g;
}

}  // namespace tilewright::reference
