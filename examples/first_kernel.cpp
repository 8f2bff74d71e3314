// A first kernel: causal attention of bf16 tensors, prepared, launched and checked. Needs nothing
// but Tilewright's public headers; runs on a GPU if there is one, else on the emulated one.
#include <tilewright/session.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace tw = tilewright;

namespace {

constexpr int64_t kBatch = 1, kHeads = 2, kLength = 48, kDim = 64;

uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
float from_bf16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Some values in [-1, 1), the same in every run.
std::vector<uint16_t> some_values(uint32_t seed) {
  std::vector<uint16_t> values(kBatch * kLength * kHeads * kDim);
  for (uint16_t& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = to_bf16(static_cast<float>(seed >> 8) / 8388608.0f - 1.0f);
  }
  return values;
}

// [batch, seqlen, heads, dim], contiguous.
size_t at(int64_t row, int64_t head, int64_t dim) {
  return static_cast<size_t>((row * kHeads + head) * kDim + dim);
}

// The largest difference between `out` and softmax(q k^T / sqrt(dim)) v in double precision; NaN
// counts as infinite.
double largest_error(const std::vector<uint16_t>& q, const std::vector<uint16_t>& k,
                     const std::vector<uint16_t>& v, const std::vector<uint16_t>& out) {
  double largest = 0;
  for (int64_t head = 0; head < kHeads; ++head) {
    for (int64_t row = 0; row < kLength; ++row) {
      std::vector<double> weights;
      double sum = 0;
      for (int64_t key = 0; key <= row; ++key) {
        double score = 0;
        for (int64_t d = 0; d < kDim; ++d) {
          score += double{from_bf16(q[at(row, head, d)])} * from_bf16(k[at(key, head, d)]);
        }
        weights.push_back(std::exp(score / std::sqrt(double{kDim})));
        sum += weights.back();
      }
      for (int64_t d = 0; d < kDim; ++d) {
        double expected = 0;
        for (int64_t key = 0; key <= row; ++key) {
          expected += weights[static_cast<size_t>(key)] / sum * from_bf16(v[at(key, head, d)]);
        }
        const double error = std::abs(from_bf16(out[at(row, head, d)]) - expected);
        largest = std::isnan(error) ? INFINITY : std::max(largest, error);
      }
    }
  }
  return largest;
}

int fail(const tw::Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

}  // namespace

int main() {
  auto session = tw::Session::open(tw::Options::from_environment());
  if (!session) return fail(session.error());
  auto problem = tw::Problem::parse("hq2 hkv2 qk64 v64 bf16 causal");
  if (!problem) return fail(problem.error());
  auto kernel = (*session)->prepare(*problem);
  if (!kernel) return fail(kernel.error());
  std::printf("%s: %s\n", (*session)->device().name.c_str(), kernel->config_text().c_str());

  const std::vector<uint16_t> q = some_values(1), k = some_values(2), v = some_values(3);
  std::vector<uint16_t> out(q.size());
  const auto bytes = static_cast<int64_t>(q.size() * sizeof(uint16_t));
  const auto on_device = [&](const std::vector<uint16_t>& values) -> tw::Result<tw::Tensor> {
    auto memory = (*session)->allocate(bytes);
    if (!memory) return memory.error();
    if (auto copied = (*session)->copy_in(*memory, values.data(), bytes); !copied) {
      return copied.error();
    }
    return tw::Tensor{.data = *memory,
                      .dtype = tw::Dtype::kBFloat16,
                      .rank = 4,
                      .shape = {kBatch, kLength, kHeads, kDim},
                      .strides = {kLength * kHeads * kDim, kHeads * kDim, kDim, 1}};
  };
  const auto device_q = on_device(q), device_k = on_device(k), device_v = on_device(v),
             device_out = on_device(out);
  for (const auto* tensor : {&device_q, &device_k, &device_v, &device_out}) {
    if (!*tensor) return fail(tensor->error());
  }

  const auto plan = kernel->plan({.batch = kBatch, .seqlen_q = kLength, .seqlen_k = kLength});
  if (!plan) return fail(plan.error());
  const auto launched = kernel->launch(
      nullptr, *plan, {.q = *device_q, .k = *device_k, .v = *device_v, .out = *device_out});
  if (!launched) return fail(launched.error());
  // Waits for the kernel, since both are on the default stream.
  if (auto copied = (*session)->copy_out(out.data(), device_out->data, bytes); !copied) {
    return fail(copied.error());
  }
  for (const auto* tensor : {&device_q, &device_k, &device_v, &device_out}) {
    if (auto released = (*session)->release((*tensor)->data); !released) {
      return fail(released.error());
    }
  }

  // Values below 1, rounded to bf16's 8 bits: half a unit is 2^-9, and P is rounded as well.
  constexpr double kBound = 1.0 / 128;
  const double error = largest_error(q, k, v, out);
  std::printf("largest error %.2g, bound %.2g\n", error, kBound);
  return error <= kBound ? 0 : 1;
}
