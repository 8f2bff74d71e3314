// Putting together what was computed of disjoint sets of keys (split KV, ring attention), in fp64.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/attention.h"

namespace tilewright::reference {

// Shaped as in Forward.
struct Partial {
  std::vector<double> out, lse;
};

// lse = ln Σ e^lse_s, out = Σ e^(lse_s − lse) out_s. A part whose row saw no key (lse −inf) adds
// nothing, whatever its out holds; a row without a key in any part is out 0, lse −inf. At least one
// part.
Partial combine(const Sizes& sizes, std::span<const Partial> parts);

}  // namespace tilewright::reference
