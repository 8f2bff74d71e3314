// Test values: the edges of a type, and random ones that sit near them.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "emulator/ptx/types.h"

namespace tilewright::emulator::slow {

using Random = std::mt19937_64;

// Zeros, limits, halfway cases, infinities, NaNs and the like, as register contents. Never empty.
std::vector<uint64_t> edge_values(ptx::Type type);
// An edge, a neighbour of one, or random bits (any exponent for floating types).
uint64_t random_value(ptx::Type type, Random& random);
// A small integer as the type's value, of the sort whose sums and products stay exact.
uint64_t small_value(ptx::Type type, int value);

}  // namespace tilewright::emulator::slow
