// wgmma: every N, type, scale, sign and layout at least once; operand source, majors and swizzles
// crossed over the sample; exact small integers, and random values against the models of the sum.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/assembly.h"
#include "tests/emulator/slow_reference/matrix.h"
#include "tests/emulator/slow_reference/scalar.h"
#include "tests/emulator/slow_reference/values.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Opcode;
using ptx::Type;

// How an operand lies in shared memory, and its descriptor (PTX ISA, Asynchronous
// Warpgroup Level Matrix Shared Memory Layout).
struct Layout {
  bool mn_major = false;
  int swizzle = 0;     // bytes: 0, 32, 64, 128
  uint32_t start = 0;  // byte address
  int rows = 0;        // along M or N
  int depth = 0;       // K
  int bytes = 2;       // of an element
  int k_offset = 0;    // bytes into a swizzled K-major row

  // Distances in bytes. K-major: LBO between 16-byte columns, SBO between 8-row groups; MN-major as
  // 2.4 has it, roles swapped between swizzled and not.
  uint32_t leading() const {
    if (!mn_major) return swizzle == 0 ? 128 : 16;
    return swizzle == 0 ? static_cast<uint32_t>(rows / 8) * 128
                        : static_cast<uint32_t>(depth * swizzle);
  }
  uint32_t stride() const {
    if (!mn_major) {
      return swizzle == 0 ? static_cast<uint32_t>(depth * bytes / 16) * 128
                          : static_cast<uint32_t>(8 * swizzle);
    }
    return swizzle == 0 ? 128 : static_cast<uint32_t>(8 * swizzle);
  }
  uint32_t address(int row, int k) const {
    const auto i = static_cast<uint32_t>(row);
    const auto c = static_cast<uint32_t>(k);
    const auto e = static_cast<uint32_t>(bytes);
    const auto s = static_cast<uint32_t>(swizzle);
    uint32_t x = start + static_cast<uint32_t>(k_offset);
    if (!mn_major && swizzle == 0) {
      return x + i % 8 * 16 + i / 8 * stride() + c / (16 / e) * leading() + c % (16 / e) * e;
    }
    if (!mn_major) {
      x += i % 8 * s + i / 8 * stride() + c * e;
    } else if (swizzle == 0) {
      return x + i % 8 * 2 + i / 8 * stride() + c % 8 * 16 + c / 8 * leading();
    } else {
      const uint32_t w = s / 2;
      x += i % w * 2 + i / w * leading() + c % 8 * s + c / 8 * stride();
    }
    const uint32_t mask = swizzle == 128 ? 7 : swizzle == 64 ? 3 : 1;
    return x ^ ((x >> 7 & mask) << 4);
  }
  uint64_t descriptor() const {
    const uint64_t code = swizzle == 128 ? 1 : swizzle == 64 ? 2 : swizzle == 32 ? 3 : 0;
    const uint32_t from = start + static_cast<uint32_t>(k_offset);
    return uint64_t{(from & 0x3ffff) >> 4} | uint64_t{leading() >> 4} << 16 |
           uint64_t{stride() >> 4} << 32 | code << 62;
  }
  uint32_t end() const {
    uint32_t last = start;
    for (int i = 0; i < rows; ++i) {
      for (int k = 0; k < depth; ++k) {
        last = std::max(last, address(i, k) + static_cast<uint32_t>(bytes));
      }
    }
    return last;
  }
};

struct Choice {
  bool a_in_registers = false;
  Layout a, b;
  bool negate_a = false;
  bool negate_b = false;
  int scale_d = 1;  // 0, 1 by a predicate; 2: an immediate 1
  bool small = true;
  MatrixNumerics numerics = MatrixNumerics::kHardware;
};

bool is_16_bit(Type type) { return type == Type::kF16 || type == Type::kBf16; }

// Choices in an order that walks through swizzles, majors and sources.
Choice choose(const Tuple& t, int number, Random& random) {
  static constexpr int kSwizzles[] = {128, 64, 32, 0};
  const ptx::Shape s = t.modifiers.shape;
  const int bytes = ptx::type_bits(t.type(1)) / 8;
  Choice c;
  c.a_in_registers = number % 3 == 1;
  c.a = {.swizzle = kSwizzles[number % 4], .rows = 64, .depth = s.k, .bytes = bytes};
  c.b = {
      .swizzle = kSwizzles[(number / 4 + number) % 4], .rows = s.n, .depth = s.k, .bytes = bytes};
  if (is_16_bit(t.type(1))) {
    c.a.mn_major = number % 2 == 1;
    c.b.mn_major = number / 2 % 2 == 1;
  }
  c.a.start = 0x400;
  // A step along K inside the atom.
  const auto step = [&](Layout& layout) {
    if (!layout.mn_major && layout.swizzle > 32) {
      layout.k_offset =
          32 * static_cast<int>(random() % static_cast<uint64_t>(layout.swizzle / 32));
    }
  };
  step(c.a);
  step(c.b);
  c.b.start = (c.a.end() + 128 + 1023) / 1024 * 1024;
  if (ptx::is_float(t.type(1))) {
    c.negate_a = random() % 2 != 0;
    c.negate_b = random() % 2 != 0;
  }
  c.scale_d = static_cast<int>(random() % 3);
  c.small = number % 3 != 2;
  c.numerics = random() % 2 == 0 ? MatrixNumerics::kHardware : MatrixNumerics::kFast;
  return c;
}

int small_integer(Type type, Random& random) {
  return static_cast<int>(random() % 7) - (type == Type::kU8 ? 0 : 3);
}

uint64_t random_element(Type type, Random& random) {
  if (!ptx::is_float(type)) return random_value(type, random);
  const Format format = type == Type::kTf32 ? kSingle : format_of(type);
  const auto exponent = static_cast<uint64_t>(format.bias()) + random() % 12 - 6;
  return (random() & format.sign_mask()) | exponent << format.fraction_bits |
         low_bits(random(), format.fraction_bits);
}

// Values as bits, and, where they are small integers, as those.
struct Operand {
  Matrix bits;
  std::vector<int> integers;
  Operand(int rows, int columns, Type type, bool small, Random& random) : bits(rows, columns) {
    for (uint64_t& v : bits.values) {
      if (small) integers.push_back(small_integer(type, random));
      v = small ? small_value(type, integers.back()) : random_element(type, random);
    }
  }
  int integer(int row, int column) const {
    return integers[static_cast<size_t>(row * bits.columns + column)];
  }
};

void place(std::vector<uint8_t>& shared, const Layout& layout, const Matrix& m, bool transposed) {
  for (int i = 0; i < layout.rows; ++i) {
    for (int k = 0; k < layout.depth; ++k) {
      const uint64_t value = transposed ? m.at(k, i) : m.at(i, k);
      for (int b = 0; b < layout.bytes; ++b) {
        shared[layout.address(i, k) - 0x400 + static_cast<uint32_t>(b)] =
            static_cast<uint8_t>(value >> (8 * b));
      }
    }
  }
}

// wgmma.fence, commit_group and wait_group around the product; a lazy schedule shows their work: D
// is poison without them.
struct Surroundings {
  Tuple fence, commit, wait;
};
Surroundings surroundings(int number) {
  Surroundings found;
  for (const Tuple& t : tuples_of(Group::kWgmma)) {
    if (t.opcode() == Opcode::kWgmmaMmaAsync) continue;
    if (t.has(ptx::Flag::kAligned) != (number % 4 < 2)) continue;
    if (t.opcode() == Opcode::kWgmmaFence) found.fence = t;
    if (t.opcode() == Opcode::kWgmmaCommitGroup) found.commit = t;
    if (t.opcode() == Opcode::kWgmmaWaitGroup) found.wait = t;
  }
  return found;
}

std::string module_text(const Tuple& t, const Surroundings& around, const Choice& c, int words) {
  std::string d = "{";
  std::string a = "{%r150, %r151, %r152, %r153}";
  for (int i = 0; i < words; ++i) d += fmt::format("{}%r{}", i > 0 ? ", " : "", i);
  d += "}";
  std::string text =
      ".visible .entry k(.param .u64 in, .param .u64 a, .param .u64 d, .param .u64 out, .param "
      ".u32 "
      "bytes, .param .u64 desc_a, .param .u64 desc_b, .param .u32 scale)\n{\n" +
      register_declarations(160) +
      ".extern .shared .align 1024 .b8 window[];\n"
      "ld.param.u64 %d0, [in];\nld.param.u32 %r140, [bytes];\nmov.u32 %r141, %tid.x;\n"
      "shl.b32 %r142, %r141, 4;\nmov.u32 %r143, window;\n"
      "COPY:\nsetp.ge.u32 %p0, %r142, %r140;\n@%p0 bra COPIED;\ncvt.u64.u32 %d1, %r142;\n"
      "add.u64 %d1, %d0, %d1;\nld.global.v2.b64 {%d2, %d3}, [%d1];\nadd.u32 %r144, %r143, %r142;\n"
      "st.shared.v2.b64 [%r144], {%d2, %d3};\nadd.u32 %r142, %r142, 2048;\nbra COPY;\nCOPIED:\n"
      "fence.proxy.async.shared::cta;\nbar.sync 0;\n"
      "ld.param.u64 %d5, [a];\nmul.wide.u32 %d6, %r141, 16;\nadd.u64 %d5, %d5, %d6;\n"
      "ld.global.v4.b32 {%r150, %r151, %r152, %r153}, [%d5];\n" +
      fmt::format("ld.param.u64 %d5, [d];\nmul.wide.u32 %d6, %r141, {};\nadd.u64 %d5, %d5, %d6;\n",
                  words * 4);
  for (int i = 0; i < words; ++i) text += fmt::format("ld.global.b32 %r{}, [%d5+{}];\n", i, 4 * i);
  text +=
      "ld.param.u64 %d8, [desc_a];\nld.param.u64 %d9, [desc_b];\nld.param.u32 %r145, [scale];\n"
      "setp.ne.u32 %p1, %r145, 0;\n" +
      around.fence.mnemonic + ";\n";
  text += t.mnemonic + " " + d + ", " + (c.a_in_registers ? a : "%d8") + ", %d9, " +
          (c.scale_d == 2 ? "1" : "%p1");
  if (ptx::is_float(t.type(1))) {
    text += fmt::format(", {}, {}", c.negate_a ? -1 : 1, c.negate_b ? -1 : 1);
  }
  if (is_16_bit(t.type(1))) {
    if (!c.a_in_registers) text += c.a.mn_major ? ", 1" : ", 0";
    text += c.b.mn_major ? ", 1" : ", 0";
  }
  text += ";\n" + around.commit.mnemonic + ";\n" + around.wait.mnemonic + " 0;\n" +
          fmt::format(
              "ld.param.u64 %d5, [out];\nmul.wide.u32 %d6, %r141, {};\nadd.u64 %d5, %d5, "
              "%d6;\n",
              words * 4);
  for (int i = 0; i < words; ++i) text += fmt::format("st.global.b32 [%d5+{}], %r{};\n", 4 * i, i);
  return text + "ret;\n}\n";
}

void check(const Tuple& t, int number, Ledger& ledger, int& failures) {
  Random random(static_cast<uint64_t>(number) + 1);
  Choice c = choose(t, number, random);
  const ptx::Shape s = t.modifiers.shape;
  const Type d_type = t.type(0);
  const Operand a_operand(64, s.k, t.type(1), c.small, random);
  const Operand b_operand(s.k, s.n, t.type(2), c.small, random);
  const Operand d_operand(64, s.n, d_type, c.small, random);
  const Matrix& a = a_operand.bits;
  const Matrix& b = b_operand.bits;
  Matrix d = d_operand.bits;
  if (c.scale_d == 0 && ptx::is_float(d_type)) {  // not read: NaN must not matter
    for (uint64_t& v : d.values) v = format_of(d_type).canonical_nan();
  }
  std::vector<uint8_t> shared((c.b.end() + 15) / 16 * 16, 0xff);  // NaN around the operands
  place(shared, c.a, a, false);
  place(shared, c.b, b, true);
  const int d_bits = ptx::type_bits(d_type);
  const int words = s.n * d_bits / 64;
  const int a_bits = ptx::type_bits(t.type(1));
  std::vector<uint32_t> a_words(128 * 4);
  std::vector<uint32_t> d_words(static_cast<size_t>(128 * words));
  const auto d_cell = [](int thread, int i) {
    const int lane = thread % 32;
    return Cell{16 * (thread / 32) + (lane >> 2) + 8 * ((i >> 1) & 1),
                8 * (i >> 2) + 2 * (lane & 3) + (i & 1)};
  };
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < 4 * 32 / a_bits; ++i) {
      Cell cell = a_fragment(a_bits, thread % 32, i);
      cell.row += 16 * (thread / 32);
      a_words[static_cast<size_t>(thread * 4 + i * a_bits / 32)] |=
          static_cast<uint32_t>(a.at(cell) << (i * a_bits % 32));
    }
    for (int i = 0; i < words * 32 / d_bits; ++i) {
      d_words[static_cast<size_t>(thread * words + i * d_bits / 32)] |=
          static_cast<uint32_t>(d.at(d_cell(thread, i)) << (i * d_bits % 32));
    }
  }
  test::Machine machine("sm_90a");
  const Surroundings around = surroundings(number);
  ASSERT_NE(machine.load(module_text(t, around, c, words)), nullptr);
  const DeviceAddress in = machine.upload(shared);
  const DeviceAddress a_at = machine.upload(a_words);
  const DeviceAddress d_at = machine.upload(d_words);
  const DeviceAddress out = machine.upload(std::vector<uint32_t>(d_words.size()));
  LaunchSettings settings;
  settings.numerics = c.numerics;
  settings.observers = ObserverLevel::kMemory;
  settings.schedule = number % 2 == 0 ? Schedule::kEager : Schedule::kLazy;
  const auto bytes = static_cast<uint32_t>(shared.size());
  const LaunchOutcome outcome = machine.run("k", {1}, {128},
                                            test::Arguments()
                                                .add(in)
                                                .add(a_at)
                                                .add(d_at)
                                                .add(out)
                                                .add(bytes)
                                                .add(c.a.descriptor())
                                                .add(c.b.descriptor())
                                                .add(static_cast<uint32_t>(c.scale_d)),
                                            settings, bytes);
  ASSERT_FALSE(outcome.fault) << t.mnemonic << test::describe(outcome);
  const auto result = machine.download<uint32_t>(out, d_words.size());
  for (const Tuple& tuple : {around.fence, around.commit, around.wait}) ledger.compared(tuple);
  SumModel model = hardware_model(90, t.type(1), true, s.k);
  model.fused = c.numerics == MatrixNumerics::kHardware;
  const auto negate = [](Type type, std::vector<uint64_t> values) {
    for (uint64_t& v : values) {
      v ^= type == Type::kTf32 ? kSingle.sign_mask() : format_of(type).sign_mask();
    }
    return values;
  };
  // What the tile must hold: of small integers all of it, of random values a sample, as the slow
  // sum is slow.
  const auto expected_at = [&](Cell cell) {
    if (c.small) {
      int sum = 0;
      for (int k = 0; k < s.k; ++k) {
        sum += a_operand.integer(cell.row, k) * b_operand.integer(k, cell.column);
      }
      if (c.negate_a != c.negate_b) sum = -sum;
      if (c.scale_d != 0) sum += d_operand.integer(cell.row, cell.column);
      return small_value(d_type, sum);
    }
    std::vector<uint64_t> row = row_of(a, cell.row);
    std::vector<uint64_t> column = column_of(b, cell.column);
    if (c.negate_a) row = negate(t.type(1), std::move(row));
    if (c.negate_b) column = negate(t.type(2), std::move(column));
    const uint64_t before = c.scale_d == 0 ? 0 : d.at(cell);
    return d_type == Type::kS32
               ? integer_dot(t.type(1), t.type(2), t.has(ptx::Flag::kSatfinite), row, column,
                             before)
               : float_dot(model, d_type, t.type(1), t.type(2), row, column, before);
  };
  for (int thread = 0; thread < 128; ++thread) {
    for (int i = 0; i < words * 32 / d_bits; ++i) {
      const Cell cell = d_cell(thread, i);
      if (!c.small && (cell.row * 7 + cell.column * 5) % (1 + s.n / 4) != 0) continue;
      const uint64_t expected = expected_at(cell);
      const uint64_t actual = low_bits(
          result[static_cast<size_t>(thread * words + i * d_bits / 32)] >> (i * d_bits % 32),
          d_bits);
      ledger.compared(t);
      if (actual == expected || ++failures > 10) continue;
      ADD_FAILURE() << t.mnemonic
                    << fmt::format(
                           " number {} A {} major {}{} swizzle {} {} scale {} small {} fused "
                           "{} ({}, {}): {:#x}, expected {:#x}",
                           number, c.a_in_registers ? "registers" : "shared", c.a.mn_major,
                           c.b.mn_major, c.a.swizzle, c.b.swizzle, c.scale_d, c.small, model.fused,
                           cell.row, cell.column, actual, expected);
      return;
    }
  }
}

TEST(SlowReference, Wgmma) {
  Ledger ledger(Group::kWgmma);
  int failures = 0;
  int number = 0;
  for (const Tuple& t : tuples_of(Group::kWgmma)) {
    if (t.opcode() == Opcode::kWgmmaMmaAsync) {
      check(t, number, ledger, failures);
      // Small N: every combination of source, majors and swizzles.
      for (int more = 1; t.modifiers.shape.n == 16 && more < 48; ++more) {
        check(t, number + more, ledger, failures);
      }
      number += 5;
    }
  }
  EXPECT_EQ(failures, 0);
  ledger.finish();
}

}  // namespace
}  // namespace tilewright::emulator::slow
