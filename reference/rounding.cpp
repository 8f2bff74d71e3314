#include "reference/rounding.h"

#include "core/half.h"

namespace tilewright::reference {

float round_to(Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::kFloat16:
      return half_to_float(float_to_half(value));
    case Dtype::kBFloat16:
      return bfloat16_to_float(float_to_bfloat16(value));
    case Dtype::kFloat8E4M3:
      return e4m3_to_float(float_to_e4m3(value));
    case Dtype::kFloat8E5M2:
      return e5m2_to_float(float_to_e5m2(value));
    default:
      return value;
  }
}

double epsilon(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return 0x1p-10;
    case Dtype::kBFloat16:
      return 0x1p-7;
    case Dtype::kFloat8E4M3:
      return 0x1p-3;
    case Dtype::kFloat8E5M2:
      return 0x1p-2;
    default:
      return 0x1p-23;
  }
}

double underflow(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return 0x1p-25;
    case Dtype::kBFloat16:
      return 0x1p-134;
    case Dtype::kFloat8E4M3:
      return 0x1p-10;
    case Dtype::kFloat8E5M2:
      return 0x1p-17;
    default:
      return 0x1p-150;
  }
}

double matrix_sum_error(double terms) {
  return (terms / 8.0 + 2.0) * 0x1p-23 + terms / 16.0 * kFloatRounding;
}

}  // namespace tilewright::reference
