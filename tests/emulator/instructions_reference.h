// Slow, obvious references for the instruction tests, written from the formats' definitions and the
// ISA's tables: every value of a small format in one sorted table, rounding by search in it.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

namespace tilewright::emulator::reference {

enum class Direction { kNearestEven, kTowardZero, kDown, kUp, kNearestAway };

// All non-negative finite values of a format, in order; a value's index is its bit pattern.
class FormatTable {
 public:
  FormatTable(int exponent_bits, int fraction_bits, bool has_infinity = true) {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int num_exponents = (1 << exponent_bits) - (has_infinity ? 1 : 0);
    for (int e = 0; e < num_exponents; ++e) {
      for (int f = 0; f < 1 << fraction_bits; ++f) {
        const double significand = (e == 0 ? 0 : 1 << fraction_bits) + f;
        values_.push_back(std::ldexp(significand, std::max(e, 1) - bias - fraction_bits));
      }
    }
    if (!has_infinity) values_.pop_back();  // e4m3: all ones is NaN
    sign_bit_ = 1u << (exponent_bits + fraction_bits);
  }

  uint32_t sign_bit() const { return sign_bit_; }
  uint32_t largest() const { return static_cast<uint32_t>(values_.size()) - 1; }
  uint32_t infinity() const { return largest() + 1; }
  const std::vector<double>& values() const { return values_; }
  double value(uint32_t bits) const {
    const double magnitude = values_[bits & (sign_bit_ - 1)];
    return (bits & sign_bit_) != 0 ? -magnitude : magnitude;
  }

  // Rounds a finite value; overflow gives infinity() or largest() as IEEE 754 says.
  uint32_t round(double x, Direction direction) const {
    const bool negative = std::signbit(x);
    const double magnitude = std::fabs(x);
    return (negative ? sign_bit_ : 0) | round_magnitude(magnitude, negative, direction);
  }

 private:
  uint32_t round_magnitude(double x, bool negative, Direction direction) const {
    const auto above = std::upper_bound(values_.begin(), values_.end(), x);
    const uint32_t low = static_cast<uint32_t>(above - values_.begin()) - 1;
    if (values_[low] == x) return low;
    const bool is_top = above == values_.end();
    // Beyond the top the next value would lie one last place further.
    const double high = is_top ? 2 * values_[low] - values_[low - 1] : *above;
    const double middle = values_[low] + (high - values_[low]) / 2;
    bool up = false;
    switch (direction) {
      case Direction::kNearestEven:
        up = x > middle || (x == middle && (low & 1) != 0);
        break;
      case Direction::kNearestAway:
        up = x >= middle;
        break;
      case Direction::kTowardZero:
        break;
      case Direction::kDown:
        up = negative;
        break;
      case Direction::kUp:
        up = !negative;
        break;
    }
    return low + (up ? 1 : 0);
  }

  std::vector<double> values_;
  uint32_t sign_bit_ = 0;
};

inline const FormatTable& f16() {
  static const FormatTable table(5, 10);
  return table;
}
inline const FormatTable& bf16() {
  static const FormatTable table(8, 7);
  return table;
}
inline const FormatTable& tf32() {
  static const FormatTable table(8, 10);
  return table;
}
inline const FormatTable& e4m3() {
  static const FormatTable table(4, 3, false);
  return table;
}
inline const FormatTable& e5m2() {
  static const FormatTable table(5, 2);
  return table;
}

inline uint32_t bits_of(float a) { return std::bit_cast<uint32_t>(a); }
inline uint64_t bits_of(double a) { return std::bit_cast<uint64_t>(a); }
inline float float_of(uint32_t bits) { return std::bit_cast<float>(bits); }
inline double double_of(uint64_t bits) { return std::bit_cast<double>(bits); }

// Zeros, subnormals, normals at every boundary, infinities and NaNs, with both signs.
inline std::vector<float> f32_edges() {
  std::vector<float> edges;
  for (const uint32_t bits :
       {0x00000000u, 0x00000001u, 0x00000002u, 0x00400000u, 0x007fffffu, 0x00800000u,
        0x00800001u, 0x00ffffffu, 0x1f800000u, 0x33800000u, 0x34000000u, 0x3effffffu,
        0x3f000000u, 0x3f7fffffu, 0x3f800000u, 0x3f800001u, 0x3fc00000u, 0x40000000u,
        0x40490fdbu, 0x4b000000u, 0x4b7fffffu, 0x4b800001u, 0x5f000000u, 0x7effffffu,
        0x7f000000u, 0x7f7fffffu, 0x7f800000u, 0x7f800001u, 0x7fc00000u, 0x7fffffffu}) {
    edges.push_back(float_of(bits));
    edges.push_back(float_of(bits | 0x80000000u));
  }
  return edges;
}

// Uniform in the bit pattern: every exponent is as likely.
class RandomBits {
 public:
  explicit RandomBits(uint64_t seed) : engine_(seed) {}
  uint32_t u32() { return static_cast<uint32_t>(engine_()); }
  uint64_t u64() { return engine_(); }
  float f32() { return float_of(u32()); }
  double f64() { return double_of(u64()); }
  int below(int limit) { return static_cast<int>(engine_() % static_cast<uint64_t>(limit)); }

 private:
  std::mt19937_64 engine_;
};

}  // namespace tilewright::emulator::reference
