// Feature maps of linear attention, elementwise, on floats and on packed pairs.
#pragma once

#include "attention/config/feature.h"
#include "attention/types.cuh"
#include "ptx/math.cuh"

namespace tilewright::attention {

// φ(x). elu(x) + 1 is x + 1 above 0 and e^x below.
template <Feature kFeature>
__device__ __forceinline__ float feature_of(float x) {
  if constexpr (kFeature == Feature::kElu1) {
    return x > 0.0f ? x + 1.0f : ptx::exp2_approx(x * log2_e());
  } else {
    return x;
  }
}

// φ(scale · x) of both elements.
template <Dtype kDtype, Feature kFeature>
__device__ __forceinline__ Pair features_of(unsigned packed, float scale) {
  const Pair x = unpack<kDtype>(packed);
  return {feature_of<kFeature>(x.low * scale), feature_of<kFeature>(x.high * scale)};
}

}  // namespace tilewright::attention
