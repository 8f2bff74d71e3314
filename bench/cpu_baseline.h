// The same arithmetic on the host by well-known means: OpenBLAS products and a vectorised
// exponential. What the emulator's speed is measured against.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tilewright/result.h"

namespace tilewright::bench {

class CpuBaseline {
 public:
  // Loads libopenblas.so.0 at run time and sets its threads. kNotFound says how to install it.
  static Result<std::unique_ptr<CpuBaseline>> open(int threads);

  // c [m, n] = a [m, k] · b [n, k]ᵀ, row-major.
  void multiply(int64_t m, int64_t n, int64_t k, std::span<const float> a, std::span<const float> b,
                std::span<float> c) const;
  // Softmax attention without a mask, heads one after the other: q, k, v, out [heads, length, dim].
  void attention(int64_t heads, int64_t length, int64_t dim, std::span<const float> q,
                 std::span<const float> k, std::span<const float> v, std::span<float> out) const;
  const std::string& name() const { return name_; }

 private:
  // cblas_sgemm(order, transpose a, transpose b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int,
                         float, float*, int);
  Sgemm sgemm_ = nullptr;
  std::string name_;  // "OpenBLAS 0.3.21 …"
  int threads_ = 1;
};

}  // namespace tilewright::bench
