#include "autotune/random_values.h"

#include <cmath>
#include <cstddef>
#include <numbers>

#include "core/half.h"

namespace tilewright {

uint64_t mix(uint64_t state) {
  state += 0x9E3779B97F4A7C15ULL;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
  return state ^ (state >> 31);
}

std::vector<float> rounded(std::vector<float> values, Dtype dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size_in_bytes(dtype)));
  from_float(dtype, values, bytes.data());
  to_float(dtype, bytes.data(), values);
  return values;
}

std::vector<float> normal_values(int64_t count, uint64_t seed, Dtype dtype) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = mix(seed ^ mix(i));
    const double u = (static_cast<double>(bits >> 40) + 1.0) * 0x1p-24;
    const double angle = static_cast<double>(bits & 0xFFFFFF) * 0x1p-24 * 2.0 * std::numbers::pi;
    values[i] = static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(angle));
  }
  return rounded(std::move(values), dtype);
}

}  // namespace tilewright
