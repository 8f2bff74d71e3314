// The device code of the CUDA samples vectorAddDrv and matrixMulDrv, on random inputs and odd
// sizes.   cuda_samples vector COUNT | cuda_samples matrix BLOCK ROWS INNER COLUMNS
#include "matrixMulDrv/matrixMul_kernel.cu"
#include "tests/third_party/check.h"
#include "vectorAddDrv/vectorAdd_kernel.cu"

namespace {

using third_party::DeviceArray;
using third_party::require;
constexpr unsigned kSeed = 5;

int add_vectors(int count) {
  const auto a = third_party::random_values<float>(count, kSeed);
  const auto b = third_party::random_values<float>(count, kSeed + 1);
  const DeviceArray<float> device_a(a), device_b(b), device_c(count);
  const third_party::Stopwatch stopwatch;
  VecAdd_kernel<<<(count + 255) / 256, 256>>>(device_a.data(), device_b.data(), device_c.data(),
                                              count);
  require(cudaGetLastError(), "launch");
  require(cudaDeviceSynchronize(), "run");
  const double seconds = stopwatch.seconds();
  const auto c = device_c.read();
  third_party::Comparison comparison;
  for (int i = 0; i < count; ++i) comparison.element(i, c[i], a[i] + b[i], 0.0);
  char name[64];
  std::snprintf(name, sizeof(name), "vectorAddDrv %d, seed %u", count, kSeed);
  return comparison.finish(name, seconds);
}

int multiply(int block, int rows, int inner, int columns) {
  require(rows % block == 0 && inner % block == 0 && columns % block == 0, "multiples of BLOCK");
  const auto a = third_party::random_values<float>(size_t(rows) * inner, kSeed);
  const auto b = third_party::random_values<float>(size_t(inner) * columns, kSeed + 1);
  const DeviceArray<float> device_a(a), device_b(b), device_c(size_t(rows) * columns);
  const auto kernel = block == 8    ? matrixMul_bs8_64bit
                      : block == 16 ? matrixMul_bs16_64bit
                                    : matrixMul_bs32_64bit;
  const third_party::Stopwatch stopwatch;
  kernel<<<dim3(columns / block, rows / block), dim3(block, block)>>>(
      device_c.data(), device_a.data(), device_b.data(), inner, columns);
  require(cudaGetLastError(), "launch");
  require(cudaDeviceSynchronize(), "run");
  const double seconds = stopwatch.seconds();
  const auto c = device_c.read();
  third_party::Comparison comparison;
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      double sum = 0, absolute_sum = 0;
      for (int i = 0; i < inner; ++i) {
        const double term = double(a[size_t(row) * inner + i]) * b[size_t(i) * columns + column];
        sum += term;
        absolute_sum += std::fabs(term);
      }
      // One fused rounding a term.
      comparison.element(size_t(row) * columns + column, c[size_t(row) * columns + column], sum,
                         inner * std::ldexp(1.0, -24) * absolute_sum);
    }
  }
  char name[96];
  std::snprintf(name, sizeof(name), "matrixMulDrv block %d, %dx%dx%d, seed %u", block, rows,
                columns, inner, kSeed);
  return comparison.finish(name, seconds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3) return add_vectors(std::atoi(argv[2]));
  require(argc == 6, "usage: cuda_samples vector COUNT | matrix BLOCK ROWS INNER COLUMNS");
  return multiply(std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]));
}
