// The bf16 matrix products of github.com/pranjalssh/fast.cu, kernels 1 to 12, started by their own
// launch code.   fast_cu KERNEL M N K
#include <cuda.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda/barrier>
#include <string>
#include <vector>

#include "tests/third_party/check.h"

// What their matmul.cu defines before it includes the kernels.
using std::max;
typedef __nv_bfloat16 bf16;
#define CEIL_DIV(M, N) (((M) + (N)-1) / (N))
void cudaCheck(cudaError_t error) { third_party::require(error, "runtime call"); }

#include "examples/matmul/matmul_1.cuh"
#include "examples/matmul/matmul_10.cuh"
#include "examples/matmul/matmul_11.cuh"
#include "examples/matmul/matmul_12.cuh"
#include "examples/matmul/matmul_2.cuh"
#include "examples/matmul/matmul_3.cuh"
#include "examples/matmul/matmul_4.cuh"
#include "examples/matmul/matmul_5.cuh"
#include "examples/matmul/matmul_6.cuh"
#include "examples/matmul/matmul_7.cuh"
#include "examples/matmul/matmul_8.cuh"
#include "examples/matmul/matmul_9.cuh"

namespace {

using RunKernel = void (*)(int, int, int, bf16*, bf16*, bf16*, int*);

void run_kernel_1(int m, int n, int k, bf16* a, bf16* b, bf16* c, int*) {
  runKernel1(m, n, k, a, b, c);
}
void run_kernel_2(int m, int n, int k, bf16* a, bf16* b, bf16* c, int*) {
  runKernel2(m, n, k, a, b, c);
}

constexpr RunKernel kKernels[] = {run_kernel_1, run_kernel_2, runKernel3,  runKernel4,
                                  runKernel5,   runKernel6,   runKernel7,  runKernel8,
                                  runKernel9,   runKernel10,  runKernel11, runKernel12};

}  // namespace

int main(int argc, char** argv) {
  third_party::require(argc == 5, "usage: fast_cu KERNEL M N K");
  const int number = std::atoi(argv[1]);
  const int m = std::atoi(argv[2]), n = std::atoi(argv[3]), k = std::atoi(argv[4]);
  third_party::require(number >= 1 && number <= 12, "kernels are 1 to 12");
  constexpr unsigned kSeed = 11;
  const std::vector<bf16> a = third_party::random_values<bf16>(size_t(m) * k, kSeed);
  const std::vector<bf16> b = third_party::random_values<bf16>(size_t(k) * n, kSeed + 1);
  const third_party::DeviceArray<bf16> device_a(a), device_b(b), device_c(size_t(m) * n);

  const third_party::Stopwatch stopwatch;
  kKernels[number - 1](m, n, k, device_a.data(), device_b.data(), device_c.data(), nullptr);
  third_party::require(cudaGetLastError(), "launch");
  third_party::require(cudaDeviceSynchronize(), "run");
  const double seconds = stopwatch.seconds();

  // Kernel 1 reads B and writes C by rows, the others by columns. A is by rows for all.
  const bool rows = number == 1;
  const std::vector<bf16> c = device_c.read();
  const std::vector<float> rows_of_a = third_party::to_float(a);
  const std::vector<float> rows_of_b =
      rows ? third_party::to_float(b) : third_party::transposed(third_party::to_float(b), n, k);
  third_party::Comparison comparison;
  for (int row = 0; row < m; ++row) {
    const third_party::ProductRow expected =
        third_party::product_row(&rows_of_a[size_t(row) * k], rows_of_b, n, k);
    for (int column = 0; column < n; ++column) {
      const size_t index = rows ? size_t(row) * n + column : size_t(column) * m + row;
      comparison.element(index, float(c[index]), expected.sum[column],
                         third_party::sum_bound(expected.sum[column], expected.absolute_sum[column],
                                                k, std::ldexp(1.0, -8)));
    }
  }
  char name[96];
  std::snprintf(name, sizeof(name), "fast.cu kernel %d, %dx%dx%d, seed %u", number, m, n, k, kSeed);
  return comparison.finish(name, seconds);
}
