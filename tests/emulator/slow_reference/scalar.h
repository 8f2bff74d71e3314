// What one lane's instruction must give, from its source values alone: the ISA's rules spelled out
// with bit loops, 128-bit integers and exact.h.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tests/emulator/slow_reference/exact.h"
#include "tests/emulator/slow_reference/tuples.h"

namespace tilewright::emulator::slow {

// Source operands in written order: registers zero-extended, predicates 0 or 1 after any negation,
// constants by value. `carry` is CC.CF.
struct Sources {
  std::array<uint64_t, 6> value{};
  bool carry = false;
};

enum class Check : uint8_t {
  kBits,  // these bits
  kNan,   // any NaN of `format`
  kNear,  // within `tolerance` of `value`, read as `format`
  kAny,   // the ISA leaves it open
};

// One checked part of a destination: `width` bits from `offset` of destination `index`.
struct Part {
  int index = 0;
  int offset = 0;
  int width = 32;
  Check check = Check::kBits;
  uint64_t bits = 0;
  Format format{};
  long double value = 0;
  long double tolerance = 0;
};
inline constexpr int kCarryOut = 2;  // index of CC.CF among destinations
using Expected = std::vector<Part>;

// The whole of what a scalar tuple gives. Destinations in written order: 0, and 1 behind a bar.
Expected evaluate(const Tuple& tuple, const Sources& sources);
// Whether `actual` satisfies `part`; `actual` is the destination register's whole contents.
bool satisfies(const Part& part, uint64_t actual);
// "0x3f800000", "NaN", "1.5 +- 1e-7": for failure messages.
std::string to_string(const Part& part);

// The families, for evaluate. A destination wider than the type is extended by its sign or zeros.
Expected evaluate_integer(const Tuple& tuple, const Sources& sources);
Expected evaluate_float(const Tuple& tuple, const Sources& sources);
Expected evaluate_approximate(const Tuple& tuple, const Sources& sources);
Expected evaluate_convert(const Tuple& tuple, const Sources& sources);
Expected evaluate_compare(const Tuple& tuple, const Sources& sources);

// A comparison of two values of an integer, bit or (unpacked) floating type.
bool compare_values(ptx::Type type, ptx::CompareOp op, bool ftz, uint64_t a, uint64_t b);
bool combine(ptx::Op op, bool left, bool right);

// `bits` low bits of value, as two's complement.
__int128 signed_value(uint64_t value, int bits);
uint64_t low_bits(uint64_t value, int bits);
// The value of an integer type held in a register.
__int128 integer_value(ptx::Type type, uint64_t value);
__int128 clamp_to(ptx::Type type, __int128 value);
bool is_packed(ptx::Type type);
// One result of `type` in destination `index`.
Part exactly(int index, int width, uint64_t bits);

}  // namespace tilewright::emulator::slow
