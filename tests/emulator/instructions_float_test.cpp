// f32 and f64 arithmetic against the host's own rounding modes, and the approximations against long
// double within the ISA's stated error.
#include "emulator/instructions/float.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <functional>

#include "tests/emulator/instructions_reference.h"

namespace tilewright::emulator {
namespace {

using reference::bits_of;
using reference::float_of;
using reference::RandomBits;

constexpr Rounding kModes[] = {Rounding::kNearestEven, Rounding::kTowardZero, Rounding::kDown,
                               Rounding::kUp};

int host_mode(Rounding rounding) {
  switch (rounding) {
    case Rounding::kTowardZero:
      return FE_TOWARDZERO;
    case Rounding::kDown:
      return FE_DOWNWARD;
    case Rounding::kUp:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

// Runs one host operation in a rounding mode; volatile keeps it from being folded or moved.
template <class T, class Operation>
T on_host(Rounding rounding, Operation operation, T a, T b, T c) {
  std::fesetround(host_mode(rounding));
  volatile T x = a;
  volatile T y = b;
  volatile T z = c;
  volatile T d = operation(x, y, z);
  std::fesetround(FE_TONEAREST);
  return d;
}

template <class T>
struct Case {
  const char* name;
  std::function<T(T, T, T)> host;
  std::function<T(T, T, T, Rounding)> ours;
};

template <class T>
std::vector<Case<T>> cases() {
  const auto options = [](Rounding r) {
    if constexpr (sizeof(T) == 4) {
      return FloatOptions{.rounding = r};
    } else {
      return r;
    }
  };
  return {
      {"add", [](T a, T b, T) { return a + b; },
       [=](T a, T b, T, Rounding r) { return add(a, b, options(r)); }},
      {"sub", [](T a, T b, T) { return a - b; },
       [=](T a, T b, T, Rounding r) { return sub(a, b, options(r)); }},
      {"mul", [](T a, T b, T) { return a * b; },
       [=](T a, T b, T, Rounding r) { return mul(a, b, options(r)); }},
      {"div", [](T a, T b, T) { return a / b; },
       [=](T a, T b, T, Rounding r) { return div(a, b, options(r)); }},
      {"fma", [](T a, T b, T c) { return std::fma(a, b, c); },
       [=](T a, T b, T c, Rounding r) { return fma(a, b, c, options(r)); }},
      {"sqrt", [](T a, T, T) { return std::sqrt(a); },
       [=](T a, T, T, Rounding r) { return sqrt(a, options(r)); }},
      {"rcp", [](T a, T, T) { return T{1} / a; },
       [=](T a, T, T, Rounding r) { return rcp(a, options(r)); }},
  };
}

template <class T>
void expect_same(const Case<T>& test, Rounding rounding, T a, T b, T c) {
  const T want = on_host(rounding, test.host, a, b, c);
  const T got = test.ours(a, b, c, rounding);
  if (want != want) {
    EXPECT_TRUE(got != got) << test.name;
    if constexpr (sizeof(T) == 4) {
      EXPECT_EQ(bits_of(got), 0x7fffffffu) << test.name;
    }
    return;
  }
  EXPECT_EQ(bits_of(got), bits_of(want)) << test.name << " mode " << static_cast<int>(rounding)
                                         << " of " << a << ", " << b << ", " << c;
}

TEST(FloatInstructions, F32RoundsAsTheHostDoesOnEdges) {
  const std::vector<float> edges = reference::f32_edges();
  for (const auto& test : cases<float>()) {
    for (const Rounding rounding : kModes) {
      for (const float a : edges) {
        for (const float b : edges) {
          expect_same(test, rounding, a, b, 1.5f);
          expect_same(test, rounding, a, b, -a);
        }
      }
      if (HasFailure()) return;
    }
  }
}

TEST(FloatInstructions, F32RoundsAsTheHostDoesOnRandomBits) {
  RandomBits random(1);
  for (const auto& test : cases<float>()) {
    for (int i = 0; i < 100000; ++i) {
      const float a = random.f32();
      // Half of the operands within a few binades of each other, where cancellation happens.
      const bool near = (i & 1) != 0;
      const float b = near ? float_of(bits_of(a) ^ (random.u32() & 0x81ffffffu)) : random.f32();
      const float c = near ? -a * b * (1.0f + 0x1p-20f * static_cast<float>(i % 64)) : random.f32();
      expect_same(test, kModes[i / 2 % 4], a, b, c);
      if (HasFailure()) return;
    }
  }
}

TEST(FloatInstructions, F64RoundsAsTheHostDoesOnRandomBits) {
  RandomBits random(2);
  for (const auto& test : cases<double>()) {
    for (int i = 0; i < 100000; ++i) {
      const double a = random.f64();
      const bool near = (i & 1) != 0;
      const double b = near
                           ? reference::double_of(bits_of(a) ^ (random.u64() & 0x803fffffffffffffu))
                           : random.f64();
      const double c = near ? -a * b : random.f64();
      expect_same(test, kModes[i / 2 % 4], a, b, c);
      if (HasFailure()) return;
    }
  }
}

float obvious_flush(float a) {
  return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(0.0f, a) : a;
}

TEST(FloatInstructions, FtzFlushesOperandsAndResults) {
  RandomBits random(3);
  std::vector<float> values = reference::f32_edges();
  for (int i = 0; i < 200; ++i) values.push_back(float_of(random.u32() & 0x81ffffffu));
  for (const float a : values) {
    EXPECT_EQ(bits_of(flush(a)), bits_of(obvious_flush(a)));
    for (const float b : values) {
      const float x = obvious_flush(a);
      const float y = obvious_flush(b);
      if (x != x || y != y) continue;
      const auto expect = [&](float got, float raw) {
        const float want = obvious_flush(raw);
        if (want == want) {
          EXPECT_EQ(bits_of(got), bits_of(want)) << a << " " << b;
        }
      };
      expect(add(a, b, {.ftz = true}), x + y);
      expect(sub(a, b, {.ftz = true}), x - y);
      expect(mul(a, b, {.ftz = true}), x * y);
      expect(div(a, b, {.ftz = true}), x / y);
      expect(fma(a, b, a, {.ftz = true}), std::fma(x, y, x));
    }
    if (HasFailure()) return;
  }
  // An exact result below the least normal is zero, not the least normal, in every direction.
  EXPECT_EQ(bits_of(mul(0x1p-64f, 0x1p-63f, {.ftz = true})), 0u);
  EXPECT_EQ(bits_of(mul(-0x1p-64f, 0x1p-63f, {.ftz = true})), 0x80000000u);
}

TEST(FloatInstructions, SaturationClampsAndMapsNanToZero) {
  const FloatOptions sat = {.saturate = true};
  EXPECT_EQ(bits_of(add(0.25f, 0.5f, sat)), bits_of(0.75f));
  EXPECT_EQ(bits_of(add(1.0f, 0.5f, sat)), bits_of(1.0f));
  EXPECT_EQ(bits_of(add(-1.0f, 0.5f, sat)), 0u);
  EXPECT_EQ(bits_of(mul(-0.0f, 1.0f, sat)), 0u);
  EXPECT_EQ(bits_of(mul(INFINITY, 1.0f, sat)), bits_of(1.0f));
  EXPECT_EQ(bits_of(mul(INFINITY, 0.0f, sat)), 0u);
}

// The ISA's table of min and max, case by case.
float obvious_extreme(float a, float b, bool is_max, bool nan) {
  if (a != a && b != b) return float_of(0x7fffffffu);
  if (nan && (a != a || b != b)) return float_of(0x7fffffffu);
  if (a != a) return b;
  if (b != b) return a;
  if (a == 0 && b == 0) {
    const bool negative =
        is_max ? std::signbit(a) && std::signbit(b) : std::signbit(a) || std::signbit(b);
    return negative ? -0.0f : 0.0f;
  }
  return is_max ? std::fmax(a, b) : std::fmin(a, b);
}

TEST(FloatInstructions, MinAndMaxFollowTheNanRules) {
  for (const float a : reference::f32_edges()) {
    for (const float b : reference::f32_edges()) {
      for (const bool nan : {false, true}) {
        const FloatOptions options = {.nan = nan};
        EXPECT_EQ(bits_of(min(a, b, options)), bits_of(obvious_extreme(a, b, false, nan)));
        EXPECT_EQ(bits_of(max(a, b, options)), bits_of(obvious_extreme(a, b, true, nan)));
        const FloatOptions xorsign = {.nan = nan, .xorsign_abs = true};
        const float magnitude = obvious_extreme(std::fabs(a), std::fabs(b), true, nan);
        if (magnitude != magnitude) {
          EXPECT_EQ(bits_of(max(a, b, xorsign)), 0x7fffffffu);
        } else {
          const bool negative = std::signbit(a) != std::signbit(b);
          EXPECT_EQ(bits_of(max(a, b, xorsign)),
                    bits_of(std::copysign(magnitude, negative ? -1.0f : 1.0f)));
        }
      }
    }
  }
}

TEST(FloatInstructions, F64MinAndMaxOrderZeros) {
  EXPECT_TRUE(std::signbit(min(0.0, -0.0)));
  EXPECT_FALSE(std::signbit(max(-0.0, 0.0)));
  EXPECT_EQ(min(double{NAN}, 2.0), 2.0);
  EXPECT_EQ(max(3.0, double{NAN}), 3.0);
  EXPECT_TRUE(std::isnan(max(double{NAN}, double{NAN})));
  EXPECT_EQ(min(-1.0, 2.0), -1.0);
  EXPECT_EQ(max(-1.0, 2.0), 2.0);
}

// Distance in last places of the exact result's binade.
double ulps(float got, long double want) {
  if (std::isinf(got) && std::fabs(want) >= 0x1.ffffffp127L) return 0;
  int exponent = 0;
  std::frexp(want, &exponent);
  const long double place = std::ldexp(1.0L, std::max(exponent - 24, -149));
  return static_cast<double>(std::fabs(static_cast<long double>(got) - want) / place);
}

TEST(FloatInstructions, Ex2IsWithinTwoUlpOnADenseSweep) {
  double worst = 0;
  for (uint32_t bits = 0; bits < 0x43200000u; bits += 1999) {  // 0 … 160
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const float a = float_of(bits | sign);
      worst = std::max(worst, ulps(ex2_approx(a), exp2l(static_cast<long double>(a))));
    }
  }
  RecordProperty("worst_ulp", std::to_string(worst));
  EXPECT_LE(worst, 2.0);
  EXPECT_GE(worst, 0.5) << "the sweep measured nothing";
}

TEST(FloatInstructions, Ex2SpecialValues) {
  EXPECT_EQ(bits_of(ex2_approx(-INFINITY)), 0u);
  EXPECT_EQ(bits_of(ex2_approx(-0.0f)), bits_of(1.0f));
  EXPECT_EQ(bits_of(ex2_approx(0.0f)), bits_of(1.0f));
  EXPECT_EQ(bits_of(ex2_approx(INFINITY)), 0x7f800000u);
  EXPECT_EQ(bits_of(ex2_approx(NAN)), 0x7fffffffu);
  EXPECT_EQ(bits_of(ex2_approx(128.0f)), 0x7f800000u);
  EXPECT_EQ(bits_of(ex2_approx(127.0f)), 0x7f000000u);
  EXPECT_EQ(bits_of(ex2_approx(-126.0f)), 0x00800000u);
  EXPECT_EQ(bits_of(ex2_approx(-149.0f)), 1u);
  EXPECT_EQ(bits_of(ex2_approx(-1e30f)), 0u);
  EXPECT_EQ(bits_of(ex2_approx(-127.0f, true)), 0u);
  EXPECT_EQ(bits_of(ex2_approx(-126.0f, true)), 0x00800000u);
  EXPECT_EQ(bits_of(ex2_approx(float_of(1), true)), bits_of(1.0f));
}

struct SpecialRow {
  const char* name;
  float (*function)(float, bool);
  uint32_t minus_infinity, minus_zero, plus_zero, plus_infinity;
};

TEST(FloatInstructions, SpecialValuesOfTheApproximations) {
  constexpr uint32_t kNan = 0x7fffffffu, kInf = 0x7f800000u, kMinus = 0x80000000u,
                     kOne = 0x3f800000u;
  const SpecialRow rows[] = {
      {"lg2", lg2_approx, kNan, kInf | kMinus, kInf | kMinus, kInf},
      {"rcp", [](float a, bool f) { return rcp_approx(a, f); }, kMinus, kInf | kMinus, kInf, 0},
      {"rsqrt", [](float a, bool f) { return rsqrt_approx(a, f); }, kNan, kInf | kMinus, kInf, 0},
      {"sqrt", [](float a, bool f) { return sqrt_approx(a, f); }, kNan, kMinus, 0, kInf},
      {"sin", sin_approx, kNan, kMinus, 0, kNan},
      {"cos", cos_approx, kNan, kOne, kOne, kNan},
      {"tanh", [](float a, bool) { return tanh_approx(a); }, kOne | kMinus, kMinus, 0, kOne},
  };
  for (const SpecialRow& row : rows) {
    EXPECT_EQ(bits_of(row.function(-INFINITY, false)), row.minus_infinity) << row.name;
    EXPECT_EQ(bits_of(row.function(-0.0f, false)), row.minus_zero) << row.name;
    EXPECT_EQ(bits_of(row.function(0.0f, false)), row.plus_zero) << row.name;
    EXPECT_EQ(bits_of(row.function(INFINITY, false)), row.plus_infinity) << row.name;
    EXPECT_EQ(bits_of(row.function(NAN, false)), kNan) << row.name;
    if (std::string_view(row.name) != "tanh") {
      EXPECT_EQ(bits_of(row.function(float_of(1), true)), row.plus_zero) << row.name;
      EXPECT_EQ(bits_of(row.function(float_of(0x807fffffu), true)), row.minus_zero) << row.name;
    }
  }
  EXPECT_EQ(bits_of(lg2_approx(-1.0f)), kNan);
  EXPECT_EQ(bits_of(rsqrt_approx(-1.0f)), kNan);
}

TEST(FloatInstructions, ApproximationsAreWithinTheStatedError) {
  RandomBits random(4);
  for (int i = 0; i < 50000; ++i) {
    const float a = std::fabs(float_of(random.u32() % 0x7f800000u));
    if (a == 0) continue;
    const long double x = static_cast<long double>(a);
    const long double lg2_error = std::fabs(static_cast<long double>(lg2_approx(a)) - log2l(x));
    const bool middle = a > 0.5f && a < 2.0f;
    EXPECT_LE(lg2_error, 0x1p-22L * (middle ? 1.0L : std::fabs(log2l(x))));
    EXPECT_LE(ulps(rcp_approx(a), 1 / x), 1.0);
    EXPECT_LE(std::fabs(static_cast<long double>(rsqrt_approx(a)) * sqrtl(x) - 1), 0x1.2p-23L);
    EXPECT_LE(ulps(sqrt_approx(a), sqrtl(x)), 1.0);
    const float angle = static_cast<float>(random.below(2000001) - 1000000) * 6.2e-6f;
    const long double phi = static_cast<long double>(angle);
    EXPECT_LE(std::fabs(static_cast<long double>(sin_approx(angle)) - sinl(phi)), 0x1p-21L);
    EXPECT_LE(std::fabs(static_cast<long double>(cos_approx(angle)) - cosl(phi)), 0x1p-21L);
    const long double tanh_want = tanhl(phi);
    EXPECT_LE(std::fabs(static_cast<long double>(tanh_approx(angle)) - tanh_want),
              0x1p-11L * std::fabs(tanh_want));
    if (HasFailure()) return;
  }
}

TEST(FloatInstructions, ApproximateDivision) {
  EXPECT_EQ(bits_of(div_approx(1.0f, 3.0f)), bits_of(1.0f / 3.0f));
  EXPECT_EQ(bits_of(div_approx(3.0f, 0x1p127f)), 0u);
  EXPECT_EQ(bits_of(div_approx(-3.0f, 0x1p127f)), 0x80000000u);
  EXPECT_EQ(bits_of(div_approx(INFINITY, 0x1p127f)), 0x7fffffffu);
  EXPECT_EQ(bits_of(div_approx(1.0f, INFINITY)), 0u);
  EXPECT_EQ(bits_of(div_full(1.0f, 3.0f)), bits_of(1.0f / 3.0f));
}

TEST(FloatInstructions, GrossF64Approximations) {
  EXPECT_EQ(bits_of(rcp_approx_ftz(NAN)), 0x7fffffff00000000u);
  EXPECT_EQ(rcp_approx_ftz(0.0), INFINITY);
  EXPECT_EQ(rcp_approx_ftz(-5e-324), -INFINITY);
  EXPECT_EQ(bits_of(rcp_approx_ftz(-double{INFINITY})), bits_of(-0.0));
  EXPECT_EQ(bits_of(rsqrt_approx_ftz(-1.0)), 0x7fffffff00000000u);
  EXPECT_EQ(rsqrt_approx_ftz(5e-324), INFINITY);
  EXPECT_EQ(bits_of(rcp_approx_ftz(0x1.8p1023)), 0u);  // a subnormal result
  RandomBits random(5);
  for (int i = 0; i < 20000; ++i) {
    const double a = 1.0 + static_cast<double>(random.u32()) * 0x1p-32;
    EXPECT_EQ(bits_of(rcp_approx_ftz(a)) & 0xffffffffu, 0u);
    EXPECT_LE(std::fabs(rcp_approx_ftz(a) * a - 1), 0x1p-19);
    EXPECT_LE(std::fabs(rsqrt_approx_ftz(a) * std::sqrt(a) - 1), 0x1p-19);
  }
}

}  // namespace
}  // namespace tilewright::emulator
