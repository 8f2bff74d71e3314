#include "bench/cpu_baseline.h"

#include <dlfcn.h>

#include <bit>
#include <cmath>

#include "core/check.h"
#include "core/threads.h"

namespace tilewright::bench {
namespace {

constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;  // of cblas.h

// 2^x for x <= 0 within a few ulp: the integer part goes into the exponent, the rest through the
// Taylor polynomial of degree 6. No branch, so that a loop of it becomes vector code.
inline float exp2_of(float x) {
  const float clamped = x < -126.0f ? -126.0f : x;
  const float whole = std::nearbyint(clamped);
  const float t = (clamped - whole) * 0.693147180559945309f;
  const float power =
      1.0f +
      t * (1.0f + t * (1.0f / 2 + t * (1.0f / 6 + t * (1.0f / 24 + t * (1.0f / 120 + t / 720)))));
  return power * std::bit_cast<float>((static_cast<int32_t>(whole) + 127) << 23);
}

// row[i] = 2^(row[i] * scale - max * scale); returns the sum. Clones for the widest vectors that
// the machine has, as the emulator's kernels.
__attribute__((target_clones("avx512f", "avx2", "default"))) float weights_of_row(float* row,
                                                                                  int64_t count,
                                                                                  float scale) {
  float max = row[0];
  for (int64_t i = 0; i < count; ++i) max = row[i] > max ? row[i] : max;
  for (int64_t i = 0; i < count; ++i) row[i] = exp2_of((row[i] - max) * scale);
  float sums[16] = {};
  for (int64_t i = 0; i + 16 <= count; i += 16) {
    for (int64_t lane = 0; lane < 16; ++lane) sums[lane] += row[i + lane];
  }
  float sum = 0;
  for (const float each : sums) sum += each;
  for (int64_t i = count / 16 * 16; i < count; ++i) sum += row[i];
  return sum;
}

}  // namespace

Result<std::unique_ptr<CpuBaseline>> CpuBaseline::open(int threads) {
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return make_error(ErrorCode::kNotFound,
                      "the baseline needs OpenBLAS (Debian: apt install libopenblas0): {}",
                      dlerror());
  }
  auto baseline = std::make_unique<CpuBaseline>();
  baseline->sgemm_ = reinterpret_cast<Sgemm>(dlsym(library, "cblas_sgemm"));
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  const auto config = reinterpret_cast<char* (*)()>(dlsym(library, "openblas_get_config"));
  if (baseline->sgemm_ == nullptr || set_threads == nullptr || config == nullptr) {
    return make_error(ErrorCode::kNotFound, "libopenblas.so.0 is no OpenBLAS: symbols are missing");
  }
  set_threads(threads);
  baseline->threads_ = threads;
  baseline->name_ = config();
  return baseline;
}

void CpuBaseline::multiply(int64_t m, int64_t n, int64_t k, std::span<const float> a,
                           std::span<const float> b, std::span<float> c) const {
  sgemm_(kRowMajor, kNoTranspose, kTranspose, static_cast<int>(m), static_cast<int>(n),
         static_cast<int>(k), 1.0f, a.data(), static_cast<int>(k), b.data(), static_cast<int>(k),
         0.0f, c.data(), static_cast<int>(n));
}

void CpuBaseline::attention(int64_t heads, int64_t length, int64_t dim, std::span<const float> q,
                            std::span<const float> k, std::span<const float> v,
                            std::span<float> out) const {
  const float scale = 1.44269504f / std::sqrt(static_cast<float>(dim));
  const auto size = static_cast<size_t>(length * dim);
  std::vector<float> scores(static_cast<size_t>(length * length));
  std::vector<float> sums(static_cast<size_t>(length));
  for (int64_t head = 0; head < heads; ++head) {
    const size_t first = static_cast<size_t>(head) * size;
    multiply(length, length, dim, q.subspan(first, size), k.subspan(first, size), scores);
    parallel_for(length, threads_, [&](int64_t row, int) {
      sums[static_cast<size_t>(row)] = weights_of_row(scores.data() + row * length, length, scale);
    });
    float* const rows = out.data() + first;
    sgemm_(kRowMajor, kNoTranspose, kNoTranspose, static_cast<int>(length), static_cast<int>(dim),
           static_cast<int>(length), 1.0f, scores.data(), static_cast<int>(length),
           v.data() + first, static_cast<int>(dim), 0.0f, rows, static_cast<int>(dim));
    for (int64_t row = 0; row < length; ++row) {
      const float factor = 1.0f / sums[static_cast<size_t>(row)];
      for (int64_t column = 0; column < dim; ++column) rows[row * dim + column] *= factor;
    }
  }
}

}  // namespace tilewright::bench
