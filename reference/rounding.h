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

}  // namespace tilewright::reference
