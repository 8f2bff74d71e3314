// Matrix fragments of mma.sync for the tests: formulas typed anew from the ISA's figures, one per
// operand and shape, which share nothing with the code under test.
#pragma once

#include <cstdint>

#include "emulator/instructions/mma.h"
#include "tests/emulator/instructions_reference.h"

namespace tilewright::emulator::reference {

struct Position {
  int row, column;
};

// Element i of a lane's A fragment → (row, k); g = lane / 4, t = lane % 4.
inline Position a_position(const MmaForm& form, int lane, int i) {
  const int g = lane / 4, t = lane % 4;
  switch (element_bytes(form.a)) {
    case 2:
      if (form.k == 8) return {i < 2 ? g : g + 8, t * 2 + (i & 1)};
      return {(i == 0 || i == 1 || i == 4 || i == 5) ? g : g + 8,
              t * 2 + (i & 1) + (i >= 4 ? 8 : 0)};
    case 4:
      if (form.k == 4) return {i == 0 ? g : g + 8, t};
      return {i % 2 == 0 ? g : g + 8, i < 2 ? t : t + 4};
    default:
      if (form.m == 8) return {g, t * 4 + i};
      if (form.k == 16) return {i < 4 ? g : g + 8, t * 4 + (i & 3)};
      return {(i < 4 || (i >= 8 && i < 12)) ? g : g + 8, t * 4 + (i & 3) + (i >= 8 ? 16 : 0)};
  }
}
// B fragment → (k, column).
inline Position b_position(const MmaForm& form, int lane, int i) {
  const int g = lane / 4, t = lane % 4;
  switch (element_bytes(form.b)) {
    case 2:
      return {t * 2 + (i & 1) + (i >= 2 ? 8 : 0), g};
    case 4:
      return {i == 0 ? t : t + 4, g};
    default:
      return {t * 4 + (i & 3) + (i >= 4 ? 16 : 0), g};
  }
}
inline Position c_position(const MmaForm& form, int lane, int i) {
  const int g = lane / 4, t = lane % 4;
  if (form.m == 8) return {g, t * 2 + i};
  return {i < 2 ? g : g + 8, t * 2 + (i & 1)};
}

inline double decode(MatrixType type, uint32_t bits) {
  switch (type) {
    case MatrixType::kF16:
      return f16().value(bits);
    case MatrixType::kBf16:
      return bf16().value(bits);
    case MatrixType::kTf32:
      return static_cast<double>(float_of(bits & 0xffffe000u));
    case MatrixType::kE4m3:
      return e4m3().value(bits);
    case MatrixType::kE5m2:
      return e5m2().value(bits);
    case MatrixType::kS8:
      return static_cast<int8_t>(bits);
    case MatrixType::kU8:
      return static_cast<uint8_t>(bits);
  }
  return 0;
}

// A finite element of moderate size, now and then zero or subnormal.
inline uint32_t random_element(MatrixType type, RandomBits& random) {
  const uint32_t bits = random.u32();
  switch (type) {
    case MatrixType::kF16:
      return (bits & 0x83ffu) |
             static_cast<uint32_t>(random.below(8) == 0 ? 0 : 10 + random.below(8)) << 10;
    case MatrixType::kBf16:
      return (bits & 0x807fu) | static_cast<uint32_t>(120 + random.below(12)) << 7;
    case MatrixType::kTf32:
      return (bits & 0x807fffffu) | static_cast<uint32_t>(120 + random.below(12)) << 23;
    case MatrixType::kE4m3:
      return (bits & 0x7fu) == 0x7f ? 0 : bits & 0xffu;
    case MatrixType::kE5m2:
      return (bits & 0x83u) | static_cast<uint32_t>(random.below(24)) << 2;
    default:
      return bits & 0xffu;
  }
}

struct Fragments {
  uint32_t a[4][32] = {};
  uint32_t b[2][32] = {};
  uint32_t c[4][32] = {};
  uint32_t d[4][32] = {};
};
struct Lists {
  explicit Lists(Fragments& f)
      : a{f.a[0], f.a[1], f.a[2], f.a[3]},
        b{f.b[0], f.b[1]},
        c{f.c[0], f.c[1], f.c[2], f.c[3]},
        d{f.d[0], f.d[1], f.d[2], f.d[3]} {}
  const uint32_t* a[4];
  const uint32_t* b[2];
  const uint32_t* c[4];
  uint32_t* d[4];
};

struct Matrices {
  uint32_t a[16][32] = {};  // raw elements [row][k]
  uint32_t b[32][8] = {};
  uint32_t c[16][8] = {};  // raw accumulators: f32, f16 or s32 bits
};

inline void put(uint32_t (*registers)[32], int lane, int element, int bytes, uint32_t bits) {
  const int per_register = 4 / bytes;
  registers[element / per_register][lane] |= bits << (8 * bytes * (element % per_register));
}
inline uint32_t get(const uint32_t (*registers)[32], int lane, int element, int bytes) {
  const int per_register = 4 / bytes;
  const uint32_t word = registers[element / per_register][lane];
  return bytes == 4 ? word
                    : word >> (8 * bytes * (element % per_register)) & ((1u << 8 * bytes) - 1);
}

inline int accumulator_bytes(const MmaForm& form) {
  return form.d == AccumulatorType::kF16 ? 2 : 4;
}

inline Fragments to_fragments(const MmaForm& form, const Matrices& m) {
  Fragments f;
  const int bytes = element_bytes(form.a);
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < form.m * form.k / 32; ++i) {
      const Position p = a_position(form, lane, i);
      put(f.a, lane, i, bytes, m.a[p.row][p.column]);
    }
    for (int i = 0; i < form.n * form.k / 32; ++i) {
      const Position p = b_position(form, lane, i);
      put(f.b, lane, i, bytes, m.b[p.row][p.column]);
    }
    for (int i = 0; i < form.m * form.n / 32; ++i) {
      const Position p = c_position(form, lane, i);
      put(f.c, lane, i, accumulator_bytes(form), m.c[p.row][p.column]);
    }
  }
  return f;
}

}  // namespace tilewright::emulator::reference
