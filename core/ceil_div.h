// Division that rounds up.
#pragma once

#include <cstdint>

namespace tilewright {

// ⌈a / b⌉ of a >= 0 and b > 0, without overflow.
constexpr int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace tilewright
