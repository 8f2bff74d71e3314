// What the programs of this folder share: guarded device arrays that start as NaN, random inputs
// from a printed seed, and the comparison with a reference whose bound the caller derives.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace third_party {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::printf("FAILED %s\n", what);
  std::exit(1);
}

inline void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("FAILED %s: %s\n", what, cudaGetErrorName(error));
  std::exit(1);
}

// A device array between two bands of guard bytes. All of it is 0xff at first, a NaN in every
// floating-point type used here, so an element that the kernel leaves out is found.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t count) : count_(count) {
    require(cudaMalloc(&allocation_, bytes() + 2 * kGuardBytes), "cudaMalloc");
    const std::vector<unsigned char> fill(bytes() + 2 * kGuardBytes, 0xff);
    require(cudaMemcpy(allocation_, fill.data(), fill.size(), cudaMemcpyHostToDevice), "fill");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    require(cudaMemcpy(data(), values.data(), bytes(), cudaMemcpyHostToDevice), "upload");
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { cudaFree(allocation_); }

  T* data() const { return reinterpret_cast<T*>(static_cast<char*>(allocation_) + kGuardBytes); }

  // The elements, after a check that the guards are as they were.
  std::vector<T> read() const {
    std::vector<unsigned char> raw(bytes() + 2 * kGuardBytes);
    require(cudaMemcpy(raw.data(), allocation_, raw.size(), cudaMemcpyDeviceToHost), "download");
    for (size_t i = 0; i < kGuardBytes; ++i) {
      require(raw[i] == 0xff && raw[kGuardBytes + bytes() + i] == 0xff, "guard bytes overwritten");
    }
    std::vector<T> values(count_);
    std::memcpy(static_cast<void*>(values.data()), raw.data() + kGuardBytes, bytes());
    return values;
  }

 private:
  static constexpr size_t kGuardBytes = 4096;
  size_t bytes() const { return count_ * sizeof(T); }
  void* allocation_ = nullptr;
  size_t count_ = 0;
};

// Uniform in [-1, 1], rounded to T.
template <class T>
std::vector<T> random_values(size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(uniform(generator));
  return values;
}

// Counts elements outside their bound; a NaN is outside every bound.
class Comparison {
 public:
  void element(size_t index, double actual, double expected, double bound) {
    const double error = std::fabs(actual - expected);
    ++elements_;
    if (!(error <= bound)) {
      if (wrong_++ < 3) {
        std::printf("  element %zu is %.9g instead of %.9g, bound %.3g\n", index, actual, expected,
                    bound);
      }
    } else if (bound > 0) {
      worst_ = std::fmax(worst_, error / bound);
    }
  }
  // Prints the outcome; the program's exit code.
  int finish(const char* what, double seconds) const {
    const bool good = wrong_ == 0 && elements_ > 0;
    std::printf("%s %s: %zu elements, %zu wrong, worst %.2f of the bound, %.2f s\n",
                good ? "ok" : "FAILED", what, elements_, wrong_, worst_, seconds);
    return good ? 0 : 1;
  }

 private:
  size_t elements_ = 0;
  size_t wrong_ = 0;
  double worst_ = 0;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// One row of A times B (k x n, by rows) in fp64, and the sums of the terms' absolute values.
struct ProductRow {
  std::vector<double> sum, absolute_sum;
};

inline ProductRow product_row(const float* a, const std::vector<float>& b, int n, int k) {
  ProductRow row{std::vector<double>(n), std::vector<double>(n)};
  for (int i = 0; i < k; ++i) {
    const double factor = a[i];
    const float* const values = &b[size_t(i) * n];
    for (int column = 0; column < n; ++column) {
      const double term = factor * double(values[column]);
      row.sum[column] += term;
      row.absolute_sum[column] += std::fabs(term);
    }
  }
  return row;
}

template <class T>
std::vector<float> to_float(const std::vector<T>& values) {
  std::vector<float> floats;
  floats.reserve(values.size());
  for (const T& value : values) floats.push_back(float(value));
  return floats;
}

// What was stored by columns, by rows, and the reverse.
inline std::vector<float> transposed(const std::vector<float>& values, int rows, int columns) {
  std::vector<float> result(values.size());
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      result[size_t(column) * rows + row] = values[size_t(row) * columns + column];
    }
  }
  return result;
}

// Relative rounding of the output type, and what a sum of `terms` products may lose: the tensor
// cores keep at least 23 bits of the largest term of each group of 16 or fewer, and two groups'
// sums meet in fp32.
inline double sum_bound(double expected, double absolute_sum, int terms, double output_epsilon) {
  return output_epsilon * std::fabs(expected) + (terms + 8) * std::ldexp(1.0, -23) * absolute_sum;
}

}  // namespace third_party
