// The number formats of kernels, as error analysis needs them.
#pragma once

#include "tilewright/problem.h"

namespace tilewright::reference {

// The nearest value of `dtype`; fp32 and integers pass unchanged.
float round_to(Dtype dtype, float value);

// Distance from 1 to the next number: rounding to nearest errs by at most half of it, relatively.
double epsilon(Dtype dtype);

// Half the smallest subnormal: the absolute error of rounding a tiny number.
double underflow(Dtype dtype);

// Of one fp32 operation, relative.
inline constexpr double kFloatRounding = 0x1p-24;

// Relative error of an fp32 sum of `terms` products on the tensor cores: one truncation to 24 bits
// per 8 terms, and one fp32 addition per 16 for sums that are made in parts (key
// tiles, chunks, atomics, heads).
double matrix_sum_error(double terms);

}  // namespace tilewright::reference
