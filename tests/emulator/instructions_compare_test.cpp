// Comparisons and selections against the ISA's truth tables.
#include "emulator/instructions/compare.h"

#include <gtest/gtest.h>

#include "tests/emulator/instructions_reference.h"

namespace tilewright::emulator {
namespace {

// Result for (less, equal, greater, unordered), as the ISA lists the operators.
struct Row {
  Compare op;
  bool less, equal, greater, unordered;
};
constexpr Row kRows[] = {
    {Compare::kEq, false, true, false, false}, {Compare::kNe, true, false, true, false},
    {Compare::kLt, true, false, false, false}, {Compare::kLe, true, true, false, false},
    {Compare::kGt, false, false, true, false}, {Compare::kGe, false, true, true, false},
    {Compare::kEqu, false, true, false, true}, {Compare::kNeu, true, false, true, true},
    {Compare::kLtu, true, false, false, true}, {Compare::kLeu, true, true, false, true},
    {Compare::kGtu, false, false, true, true}, {Compare::kGeu, false, true, true, true},
    {Compare::kNum, true, true, true, false},  {Compare::kNan, false, false, false, true},
};

template <class T>
void check_floats(T low, T high, T nan, T zero, T minus_zero) {
  for (const Row& row : kRows) {
    EXPECT_EQ(compare(low, high, row.op), row.less);
    EXPECT_EQ(compare(high, low, row.op), row.greater);
    EXPECT_EQ(compare(high, high, row.op), row.equal);
    EXPECT_EQ(compare(zero, minus_zero, row.op), row.equal);
    EXPECT_EQ(compare(nan, high, row.op), row.unordered);
    EXPECT_EQ(compare(low, nan, row.op), row.unordered);
    EXPECT_EQ(compare(nan, nan, row.op), row.unordered);
  }
}

TEST(CompareInstructions, FloatsOfEveryType) {
  check_floats(-2.0f, 1.0f, NAN, 0.0f, -0.0f);
  check_floats(1.0f, INFINITY, NAN, 0.0f, -0.0f);
  check_floats(-2.0, 1.0, double{NAN}, 0.0, -0.0);
  check_floats(Half{0xc000}, Half{0x3c00}, Half{0x7e00}, Half{0}, Half{0x8000});
  check_floats(Bfloat16{0xc000}, Bfloat16{0x3f80}, Bfloat16{0x7fc0}, Bfloat16{0}, Bfloat16{0x8000});
}

TEST(CompareInstructions, FtzComparesSubnormalsAsZero) {
  const float tiny = reference::float_of(1);
  EXPECT_FALSE(compare(tiny, 0.0f, Compare::kEq));
  EXPECT_TRUE(compare(tiny, 0.0f, Compare::kEq, true));
  EXPECT_TRUE(compare(Half{1}, Half{0x8001}, Compare::kEq, true));
  EXPECT_FALSE(compare(Half{1}, Half{0x8001}, Compare::kEq));
}

TEST(CompareInstructions, Integers) {
  for (const Row& row : kRows) {
    if (row.op >= Compare::kEqu) continue;
    EXPECT_EQ(compare(int32_t{-1}, int32_t{1}, row.op), row.less);
    EXPECT_EQ(compare(uint32_t{0xffffffffu}, uint32_t{1}, row.op), row.greater);
    EXPECT_EQ(compare(int16_t{-5}, int16_t{-5}, row.op), row.equal);
    EXPECT_EQ(compare(uint64_t{1} << 63, uint64_t{1}, row.op), row.greater);
    EXPECT_EQ(compare(INT64_MIN, int64_t{1}, row.op), row.less);
  }
}

TEST(CompareInstructions, Selections) {
  EXPECT_EQ(slct(1, 2, int32_t{0}), 1);
  EXPECT_EQ(slct(1, 2, int32_t{-1}), 2);
  EXPECT_EQ(slct(1, 2, 0.5f), 1);
  EXPECT_EQ(slct(1, 2, -0.0f), 1);
  EXPECT_EQ(slct(1, 2, -0.5f), 2);
  EXPECT_EQ(slct(1, 2, NAN), 2);
  EXPECT_EQ(slct(1, 2, reference::float_of(0x80000001u)), 2);
  EXPECT_EQ(slct(1, 2, reference::float_of(0x80000001u), true), 1);
  EXPECT_EQ(copysign(-1.0f, 3.0f), -3.0f);
  EXPECT_EQ(copysign(2.0, -3.0), 3.0);
}

TEST(CompareInstructions, PropertiesCountZeroAsNormal) {
  struct Property {
    float value;
    bool finite, infinite, number, nan, normal, subnormal;
  };
  const Property rows[] = {
      {0.0f, true, false, true, false, true, false},
      {-0.0f, true, false, true, false, true, false},
      {1.0f, true, false, true, false, true, false},
      {reference::float_of(1), true, false, true, false, false, true},
      {-INFINITY, false, true, true, false, false, false},
      {NAN, false, false, false, true, false, false},
  };
  for (const Property& row : rows) {
    EXPECT_EQ(testp(row.value, TestProperty::kFinite), row.finite);
    EXPECT_EQ(testp(row.value, TestProperty::kInfinite), row.infinite);
    EXPECT_EQ(testp(row.value, TestProperty::kNumber), row.number);
    EXPECT_EQ(testp(row.value, TestProperty::kNotANumber), row.nan);
    EXPECT_EQ(testp(row.value, TestProperty::kNormal), row.normal);
    EXPECT_EQ(testp(row.value, TestProperty::kSubnormal), row.subnormal);
    EXPECT_EQ(testp(static_cast<double>(row.value), TestProperty::kFinite), row.finite);
  }
}

}  // namespace
}  // namespace tilewright::emulator
