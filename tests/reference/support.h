// What tests of the references share: seeded values and problems from text.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "reference/attention.h"
#include "reference/rounding.h"
#include "tilewright/problem.h"

namespace tilewright::reference {

// Standard normal, rounded to `dtype`.
inline std::vector<float> normal(int64_t count, uint64_t seed, Dtype dtype = Dtype::kFloat32) {
  std::mt19937_64 engine(seed);
  const auto uniform = [&] { return (static_cast<double>(engine() >> 11) + 0.5) * 0x1p-53; };
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    value =
        round_to(dtype, static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * uniform())));
  }
  return values;
}

// Multiples of 1/64 within ±range: steps of a power of two from them are exact in float.
inline std::vector<float> coarse(int64_t count, uint64_t seed, double range = 1.0) {
  std::mt19937_64 engine(seed);
  const auto steps = static_cast<int64_t>(range * 64);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    value = static_cast<float>(static_cast<int64_t>(engine() % static_cast<uint64_t>(2 * steps)) -
                               steps) /
            64.0F;
  }
  return values;
}

inline Problem parse(const std::string& text) {
  const Result<Problem> problem = Problem::parse(text);
  EXPECT_TRUE(problem.ok()) << text;
  return problem.ok() ? *problem : Problem{};
}

// b, hq, hkv, q, k, qk and v of a problem text, all of which must be given.
inline Sizes sizes_of(const Problem& p) {
  return {.batch = *p.batch,
          .num_heads_q = *p.num_heads_q,
          .num_heads_kv = *p.num_heads_kv,
          .seqlen_q = *p.seqlen_q,
          .seqlen_k = *p.seqlen_k,
          .head_dim_qk = *p.head_dim_qk,
          .head_dim_v = *p.head_dim_v};
}

template <class A, class B>
double max_difference(const A& a, const B& b) {
  EXPECT_EQ(std::size(a), std::size(b));
  double most = 0;
  for (size_t i = 0; i < std::min(std::size(a), std::size(b)); ++i) {
    const double difference = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (!(difference <= most)) most = difference;  // also NaN
  }
  return most;
}

}  // namespace tilewright::reference
