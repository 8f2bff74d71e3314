// f16 and bf16 arithmetic: each operation rounds its exact result once. Packed x2 instructions
// apply these to both halves (map_halves of types.h). Every NaN result is 0x7fff.
#pragma once

#include "emulator/instructions/types.h"

namespace tilewright::emulator {

// Options used: ftz (f16), saturate, relu (fma; also min and max), nan and xorsign_abs (min, max).
// Rounding is to nearest even.
Half add(Half a, Half b, const FloatOptions& options = {});
Half sub(Half a, Half b, const FloatOptions& options = {});
Half mul(Half a, Half b, const FloatOptions& options = {});
Half fma(Half a, Half b, Half c, const FloatOptions& options = {});
Half min(Half a, Half b, const FloatOptions& options = {});
Half max(Half a, Half b, const FloatOptions& options = {});
Half abs(Half a, bool ftz = false);
Half neg(Half a, bool ftz = false);
Half ex2_approx(Half a);
Half tanh_approx(Half a);

Bfloat16 add(Bfloat16 a, Bfloat16 b, const FloatOptions& options = {});
Bfloat16 sub(Bfloat16 a, Bfloat16 b, const FloatOptions& options = {});
Bfloat16 mul(Bfloat16 a, Bfloat16 b, const FloatOptions& options = {});
Bfloat16 fma(Bfloat16 a, Bfloat16 b, Bfloat16 c, const FloatOptions& options = {});
Bfloat16 min(Bfloat16 a, Bfloat16 b, const FloatOptions& options = {});
Bfloat16 max(Bfloat16 a, Bfloat16 b, const FloatOptions& options = {});
Bfloat16 abs(Bfloat16 a);
Bfloat16 neg(Bfloat16 a);
// ex2.approx.ftz.bf16: subnormal inputs and results are flushed.
Bfloat16 ex2_approx(Bfloat16 a);
Bfloat16 tanh_approx(Bfloat16 a);

}  // namespace tilewright::emulator
