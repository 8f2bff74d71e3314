// CuTe's Hopper tutorials, started by their own launch code: half-precision C = A B with
// half-precision sums. TW_TUTORIAL is the tutorial's text up to its main.   cute_gemm LAYOUT M N K
#include TW_TUTORIAL

#include <vector>

#include "tests/third_party/check.h"

int main(int argc, char** argv) {
  third_party::require(argc == 5, "usage: cute_gemm nt|tn M N K");
  const bool nt = std::strcmp(argv[1], "nt") == 0;
  const int m = std::atoi(argv[2]), n = std::atoi(argv[3]), k = std::atoi(argv[4]);
  using Half = cute::half_t;
  constexpr unsigned kSeed = 21;
  const std::vector<Half> a = third_party::random_values<Half>(size_t(m) * k, kSeed);
  const std::vector<Half> b = third_party::random_values<Half>(size_t(n) * k, kSeed + 1);
  const third_party::DeviceArray<Half> device_a(a), device_b(b), device_c(size_t(m) * n);
  // They multiply C by beta = 0, which a NaN would survive.
  third_party::require(cudaMemset(device_c.data(), 0, size_t(m) * n * sizeof(Half)), "clear");

  const third_party::Stopwatch stopwatch;
  gemm(nt ? 'N' : 'T', nt ? 'T' : 'N', m, n, k, Half(1.0f), device_a.data(), nt ? m : k,
       device_b.data(), nt ? n : k, Half(0.0f), device_c.data(), m);
  third_party::require(cudaPeekAtLastError(), "launch");
  third_party::require(cudaDeviceSynchronize(), "run");
  const double seconds = stopwatch.seconds();

  const std::vector<Half> c = device_c.read();
  third_party::Comparison comparison;
  for (int column = 0; column < n; ++column) {
    for (int row = 0; row < m; ++row) {
      double sum = 0, absolute_sum = 0, roundings = 0;
      for (int i = 0; i < k; ++i) {
        const double term = double(float(a[nt ? size_t(i) * m + row : size_t(row) * k + i])) *
                            float(b[nt ? size_t(i) * n + column : size_t(column) * k + i]);
        sum += term;
        absolute_sum += std::fabs(term);
        // Each instruction takes 16 of K and rounds its sum to half precision. That sum is what
        // earlier roundings left: at most 28 of them here, hence the second part.
        if (i % 16 == 15) roundings += std::fabs(sum) + std::ldexp(1.0, -9) * absolute_sum;
      }
      const double bound = std::ldexp(1.0, -11) * roundings + std::ldexp(1.0, -21) * absolute_sum;
      comparison.element(size_t(column) * m + row, float(c[size_t(column) * m + row]), sum, bound);
    }
  }
  char name[96];
  std::snprintf(name, sizeof(name), "CuTe tutorial %s, %dx%dx%d, seed %u", argv[1], m, n, k, kSeed);
  return comparison.finish(name, seconds);
}
