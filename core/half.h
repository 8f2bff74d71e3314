// Conversions between float and the 16- and 8-bit types of attention tensors, on the host. Rounding
// is to nearest, ties to even, as the device's cvt.rn does it; NaN stays NaN.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tilewright/problem.h"

namespace tilewright {

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);  // overflow gives infinity
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);  // overflow gives infinity
// OCP 8-bit formats. e4m3 has no infinity and the NaN 0x7f; both saturate to the largest finite
// value, as cvt.satfinite does.
float e4m3_to_float(uint8_t bits);
uint8_t float_to_e4m3(float value);
float e5m2_to_float(uint8_t bits);
uint8_t float_to_e5m2(float value);

// Arrays of any Dtype: `count` elements at `bytes`, size_in_bytes(dtype) each.
void to_float(Dtype dtype, const std::byte* bytes, std::span<float> values);
void from_float(Dtype dtype, std::span<const float> values, std::byte* bytes);

}  // namespace tilewright
