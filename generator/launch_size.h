// Counting the blocks of a launch without overflow.
#pragma once

#include <cstdint>

#include "core/ceil_div.h"
#include "tilewright/kernel.h"
#include "tilewright/result.h"

namespace tilewright {

// a * b of numbers that are not negative, or more than any limit.
inline int64_t saturating_product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

inline Dim3 along_x(int64_t count) { return {.x = static_cast<uint32_t>(count)}; }

// kUnsupportedProblem names the shape if it makes more blocks than a grid's x holds.
Status check_grid(int64_t blocks, const Shape& shape);

}  // namespace tilewright
