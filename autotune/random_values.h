// Values from a counter-based generator: the same on every machine.
#pragma once

#include <cstdint>
#include <vector>

#include "tilewright/problem.h"

namespace tilewright {

// SplitMix64 (Steele, Lea, Flood 2014): a mixing function good enough to number test values with.
uint64_t mix(uint64_t state);

// Values rounded to `dtype`.
std::vector<float> rounded(std::vector<float> values, Dtype dtype);

// Standard normal, rounded to `dtype`.
std::vector<float> normal_values(int64_t count, uint64_t seed, Dtype dtype);

}  // namespace tilewright
