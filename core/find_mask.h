// Looks for a kind of mask in a problem's expression.
#pragma once

#include <variant>

#include "tilewright/problem.h"

namespace tilewright {

// The first mask of type M in any union; null if there is none.
template <class M>
const M* find_mask(const Problem& problem) {
  for (const MaskUnion& masks : problem.masks) {
    for (const Mask& mask : masks.terms) {
      if (const auto* found = std::get_if<M>(&mask)) return found;
    }
  }
  return nullptr;
}

}  // namespace tilewright
