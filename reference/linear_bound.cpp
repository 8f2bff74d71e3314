#include "reference/linear_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/check.h"
#include "core/threads.h"
#include "reference/rounding.h"
#include "reference/score_row.h"

namespace tilewright::reference {
namespace {

double square(double x) { return x * x; }

double largest(std::span<const float> values) {
  double most = 0.0;
  for (const float value : values) {
    if (!(std::fabs(double{value}) <= most)) most = std::fabs(double{value});  // also NaN
  }
  return most;
}

// The sums over the keys that a query sees, as its row of the state: exact, over absolute values,
// and of |v| alone.
struct Sums {
  std::vector<double> state, state_magnitude;            // [head_dim_qk, head_dim_v]
  std::vector<double> normalizer, normalizer_magnitude;  // [head_dim_qk]
  std::vector<double> v_magnitude;                       // [head_dim_v]
  int64_t keys = 0;
};

class LinearBounds {
 public:
  LinearBounds(const Problem& problem, const Sizes& sizes, const LinearInputs& inputs, Dtype dtype,
               ExpectedLinear& expected)
      : problem_(problem),
        sizes_(sizes),
        inputs_(inputs),
        dtype_(dtype),
        expected_(expected),
        qk_(static_cast<size_t>(sizes.head_dim_qk)),
        v_(static_cast<size_t>(sizes.head_dim_v)),
        half_ulp_(0.5 * epsilon(dtype)),
        // elu + 1 is computed in fp32 (an exponential within 2 ulp of a rounded argument) and
        // rounded to the kernel's type; the identity is what it is.
        feature_error_(has_normalizer(problem)
                           ? 3.0 * kFloatRounding *
                                     std::max(std::fabs(linear_scale(problem)) * largest(inputs.q),
                                              largest(inputs.k)) +
                                 0x1p-21
                           : 2.0 * kFloatRounding),
        feature_roundings_(has_normalizer(problem) || linear_scale(problem) != 1.0 ? 1.0 : 0.0) {}

  // All queries of one key head, in order, and then what the keys leave behind.
  void add_head(int64_t batch, int64_t head_kv) {
    const int64_t group_size = sizes_.num_heads_q / sizes_.num_heads_kv;
    const size_t first =
        static_cast<size_t>((batch * sizes_.num_heads_kv + head_kv) * sizes_.head_dim_qk);
    const RowIndex any{batch, head_kv * group_size, 0};
    Sums sums = sums_before(first);
    for (int64_t query = 0; query < sizes_.seqlen_q; ++query) {
      while (sums.keys < num_visible_keys(problem_, sizes_, query)) take(any, sums);
      for (int64_t head = any.head; head < any.head + group_size; ++head) {
        add_row({batch, head, query}, sums);
      }
    }
    while (sums.keys < sizes_.seqlen_k) take(any, sums);
    add_state(any, first, sums);
  }

 private:
  double q_feature(size_t i) const {
    return feature(problem_, linear_scale(problem_) * double{inputs_.q[i]});
  }
  double k_feature(size_t i) const { return feature(problem_, double{inputs_.k[i]}); }

  Sums sums_before(size_t first) const {
    Sums sums;
    sums.state.assign(qk_ * v_, 0.0);
    sums.normalizer.assign(qk_, 0.0);
    sums.v_magnitude.assign(v_, 0.0);
    if (!inputs_.state.empty()) {
      for (size_t i = 0; i < qk_ * v_; ++i) sums.state[i] = double{inputs_.state[first * v_ + i]};
    }
    if (!inputs_.normalizer.empty()) {
      for (size_t a = 0; a < qk_; ++a) sums.normalizer[a] = double{inputs_.normalizer[first + a]};
    }
    sums.state_magnitude = sums.state;
    for (double& value : sums.state_magnitude) value = std::fabs(value);
    sums.normalizer_magnitude = sums.normalizer;
    for (double& value : sums.normalizer_magnitude) value = std::fabs(value);
    return sums;
  }

  void take(const RowIndex& row, Sums& sums) const {
    const RowOffsets at{sizes_};
    const float* v = inputs_.v.data() + at.v(row, sums.keys);
    for (size_t a = 0; a < qk_; ++a) {
      const double k = k_feature(at.k(row, sums.keys) + a);
      for (size_t c = 0; c < v_; ++c) {
        sums.state[a * v_ + c] += k * double{v[c]};
        sums.state_magnitude[a * v_ + c] += std::fabs(k * double{v[c]});
      }
      sums.normalizer[a] += k;
      sums.normalizer_magnitude[a] += std::fabs(k);
    }
    for (size_t c = 0; c < v_; ++c) sums.v_magnitude[c] += std::fabs(double{v[c]});
    ++sums.keys;
  }

  // Roundings of both features and of the weight, or of the state: each to the kernel's type.
  double growth() const {
    return square(1.0 + feature_error_) *
               std::pow(1.0 + half_ulp_, 1.0 + 2.0 * feature_roundings_) -
           1.0;
  }

  void add_row(const RowIndex& row, const Sums& sums) {
    const RowOffsets at{sizes_};
    const auto keys = static_cast<double>(sums.keys);
    const double sum_error = matrix_sum_error(static_cast<double>(sizes_.head_dim_qk)) +
                             matrix_sum_error(keys + static_cast<double>(sizes_.head_dim_qk));
    const double relative = growth() * (1.0 + sum_error) + sum_error;
    const double tiny = underflow(dtype_);
    std::vector<double> q(qk_);
    double q_magnitude = 0.0, z = 0.0, z_magnitude = 0.0, normalizer_magnitude = 0.0;
    for (size_t a = 0; a < qk_; ++a) {
      q[a] = q_feature(at.q(row) + a);
      q_magnitude += std::fabs(q[a]);
      z += q[a] * sums.normalizer[a];
      z_magnitude += std::fabs(q[a]) * sums.normalizer_magnitude[a];
      normalizer_magnitude += sums.normalizer_magnitude[a];
    }
    // A tiny feature, weight or state rounds to a multiple of the smallest subnormal; zero does
    // not.
    double z_error = relative * z_magnitude +
                     tiny * (q_magnitude * (keys + (normalizer_magnitude > 0.0 ? 1.0 : 0.0)) +
                             normalizer_magnitude + keys);
    if (has_normalizer(problem_)) {
      z += kNormalizerEpsilon;
      z_error += kFloatRounding * z;
    } else {
      z = 1.0;
      z_error = 0.0;
    }
    const std::vector<double> usual = usual_errors(row, q, sums, z);
    for (size_t c = 0; c < v_; ++c) {
      double magnitude = 0.0, state_magnitude = 0.0;
      for (size_t a = 0; a < qk_; ++a) {
        magnitude += std::fabs(q[a]) * sums.state_magnitude[a * v_ + c];
        state_magnitude += sums.state_magnitude[a * v_ + c];
      }
      const size_t i = at.out(row) + c;
      const double error =
          relative * magnitude +
          tiny * (q_magnitude * (sums.v_magnitude[c] + (state_magnitude > 0.0 ? 1.0 : 0.0)) +
                  state_magnitude + sums.v_magnitude[c]);
      const double out = std::fabs(expected_.out.value[i]);
      const double quotient = z > z_error ? (error + out * z_error) / (z - z_error)
                                          : std::numeric_limits<double>::infinity();
      const double before = quotient + 4.0 * kFloatRounding * (out + quotient);
      expected_.out.magnitude[i] = magnitude / z;
      expected_.out.uncertain[i] = growth() >= 1.0 ? 1 : 0;
      expected_.out.bound[i] = before + half_ulp_ * (out + before) + tiny;
      expected_.out.typical[i] = usual[c];
    }
  }

  // Roundings of weights, features and state in quadrature, for each column of out.
  std::vector<double> usual_errors(const RowIndex& row, const std::vector<double>& q,
                                   const Sums& sums, double z) const {
    const RowOffsets at{sizes_};
    const bool normalized = has_normalizer(problem_);
    const double* out = expected_.out.value.data() + at.out(row);
    std::vector<double> squares(v_, 0.0);
    for (int64_t key = 0; key < sums.keys; ++key) {
      double weight = 0.0, products = 0.0;
      for (size_t a = 0; a < qk_; ++a) {
        const double product = q[a] * k_feature(at.k(row, key) + a);
        weight += product;
        products += square(product);
      }
      const float* v = inputs_.v.data() + at.v(row, key);
      for (size_t c = 0; c < v_; ++c) {
        squares[c] += (square(weight) + feature_roundings_ * products) *
                      (square(double{v[c]}) + (normalized ? square(out[c]) : 0.0));
      }
    }
    for (size_t a = 0; a < qk_; ++a) {
      for (size_t c = 0; c < v_; ++c) {
        const double state = sums.state[a * v_ + c];
        const double divided = normalized ? out[c] * sums.normalizer[a] : 0.0;
        squares[c] += square(q[a]) * (feature_roundings_ * square(state - divided) + square(state) +
                                      square(divided));
      }
    }
    for (double& value : squares) value = half_ulp_ * std::sqrt(value) / z;
    return squares;
  }

  // fp32 results: the roundings of the features, and the sums.
  void add_state(const RowIndex& row, size_t first, const Sums& sums) {
    const double one_feature =
        (1.0 + feature_error_) * (1.0 + feature_roundings_ * half_ulp_) - 1.0;
    const double sum_error = matrix_sum_error(static_cast<double>(sums.keys));
    const double tiny = feature_roundings_ * underflow(dtype_);
    const auto keys = static_cast<double>(sums.keys);
    const auto set = [&](ExpectedTensor& tensor, size_t i, double magnitude, double tiny_error) {
      tensor.magnitude[i] = magnitude;
      tensor.uncertain[i] = one_feature >= 1.0 ? 1 : 0;
      tensor.bound[i] = (one_feature * (1.0 + sum_error) + sum_error) * magnitude + tiny_error +
                        underflow(Dtype::kFloat32);
      tensor.typical[i] = std::sqrt(tensor.typical[i]) + sum_error * magnitude;
    };
    const RowOffsets at{sizes_};
    const bool normalized = !expected_.normalizer.value.empty();
    for (int64_t key = 0; key < sums.keys; ++key) {
      const float* v = inputs_.v.data() + at.v(row, key);
      for (size_t a = 0; a < qk_; ++a) {
        const double usual = feature_roundings_ * half_ulp_ * k_feature(at.k(row, key) + a);
        for (size_t c = 0; c < v_; ++c) {
          expected_.state.typical[(first + a) * v_ + c] += square(usual * double{v[c]});
        }
        if (normalized) expected_.normalizer.typical[first + a] += square(usual);
      }
    }
    for (size_t a = 0; a < qk_; ++a) {
      for (size_t c = 0; c < v_; ++c) {
        set(expected_.state, (first + a) * v_ + c, sums.state_magnitude[a * v_ + c],
            tiny * sums.v_magnitude[c]);
      }
      if (normalized) {
        set(expected_.normalizer, first + a, sums.normalizer_magnitude[a], tiny * keys);
      }
    }
  }

  const Problem& problem_;
  const Sizes& sizes_;
  const LinearInputs& inputs_;
  const Dtype dtype_;
  ExpectedLinear& expected_;
  const size_t qk_, v_;
  const double half_ulp_, feature_error_, feature_roundings_;
};

struct PlainLinear {
  std::vector<float> out, state, normalizer;
};

// The parallel form in fp32 with features, weights and out rounded to `dtype`.
PlainLinear plain_linear(const Problem& problem, const Sizes& sizes, const LinearInputs& inputs,
                         Dtype dtype) {
  const auto rounded_features = [&](std::span<const float> values, double scale) {
    std::vector<float> result;
    for (const float value : values) {
      const float x = static_cast<float>(scale) * value;
      result.push_back(round_to(dtype, problem.feature == FeatureMap::kIdentity ? x
                                       : x > 0.0F                               ? x + 1.0F
                                                                                : std::exp(x)));
    }
    return result;
  };
  const std::vector<float> q = rounded_features(inputs.q, linear_scale(problem));
  const std::vector<float> k = rounded_features(inputs.k, 1.0);
  const RowOffsets at{sizes};
  const auto qk = static_cast<size_t>(sizes.head_dim_qk),
             width = static_cast<size_t>(sizes.head_dim_v);
  const int64_t rows = sizes.batch * sizes.num_heads_kv * sizes.head_dim_qk;
  PlainLinear result{std::vector<float>(static_cast<size_t>(sizes.out_elements())),
                     {inputs.state.begin(), inputs.state.end()},
                     {inputs.normalizer.begin(), inputs.normalizer.end()}};
  result.state.resize(static_cast<size_t>(rows * sizes.head_dim_v), 0.0F);
  if (has_normalizer(problem)) result.normalizer.resize(static_cast<size_t>(rows), 0.0F);
  const int64_t group_size = sizes.num_heads_q / std::max<int64_t>(sizes.num_heads_kv, 1);
  parallel_for(sizes.batch * sizes.num_heads_kv, parallel_jobs(sizes), [&](int64_t flat, int) {
    const int64_t batch = flat / sizes.num_heads_kv, head_kv = flat % sizes.num_heads_kv;
    const size_t first = static_cast<size_t>(flat) * qk;
    for (int64_t head = head_kv * group_size; head < (head_kv + 1) * group_size; ++head) {
      for (int64_t query = 0; query < sizes.seqlen_q; ++query) {
        const RowIndex row{batch, head, query};
        std::vector<float> sum(width, 0.0F);
        float z = has_normalizer(problem) ? static_cast<float>(kNormalizerEpsilon) : 1.0F;
        for (size_t a = 0; a < qk; ++a) {
          for (size_t c = 0; c < width; ++c) {
            sum[c] += q[at.q(row) + a] * result.state[(first + a) * width + c];
          }
          if (has_normalizer(problem)) z += q[at.q(row) + a] * result.normalizer[first + a];
        }
        for (int64_t key = 0; key < num_visible_keys(problem, sizes, query); ++key) {
          float weight = 0.0F;
          for (size_t a = 0; a < qk; ++a) weight += q[at.q(row) + a] * k[at.k(row, key) + a];
          if (has_normalizer(problem)) z += weight;
          weight = round_to(dtype, weight);
          for (size_t c = 0; c < width; ++c) sum[c] += weight * inputs.v[at.v(row, key) + c];
        }
        for (size_t c = 0; c < width; ++c)
          result.out[at.out(row) + c] = round_to(dtype, sum[c] / z);
      }
    }
    const RowIndex any{batch, head_kv * group_size, 0};
    for (int64_t key = 0; key < sizes.seqlen_k; ++key) {
      for (size_t a = 0; a < qk; ++a) {
        const float feature_k = k[at.k(any, key) + a];
        for (size_t c = 0; c < width; ++c) {
          result.state[(first + a) * width + c] += feature_k * inputs.v[at.v(any, key) + c];
        }
        if (has_normalizer(problem)) result.normalizer[first + a] += feature_k;
      }
    }
  });
  return result;
}

}  // namespace

Result<ExpectedLinear> expected_linear(const Problem& problem, const Sizes& sizes,
                                       const LinearInputs& inputs, Dtype dtype) {
  TW_ASSIGN(LinearForward exact, linear_attention_parallel(problem, sizes, inputs));
  PlainLinear plain = plain_linear(problem, sizes, inputs, dtype);
  ExpectedLinear expected{
      expected_tensor(std::move(exact.out), std::move(plain.out)),
      expected_tensor(std::move(exact.after.state), std::move(plain.state)),
      expected_tensor(std::move(exact.after.normalizer), std::move(plain.normalizer))};
  LinearBounds bounds(problem, sizes, inputs, dtype, expected);
  parallel_for(sizes.batch * sizes.num_heads_kv, parallel_jobs(sizes), [&](int64_t flat, int) {
    bounds.add_head(flat / sizes.num_heads_kv, flat % sizes.num_heads_kv);
  });
  return expected;
}

}  // namespace tilewright::reference
