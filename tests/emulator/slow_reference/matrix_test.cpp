// mma.sync: every shape and type, exact small integers in both numerics and random values against
// the two models of the sum; ldmatrix, stmatrix and movmatrix with rows anywhere.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/assembly.h"
#include "tests/emulator/slow_reference/matrix.h"
#include "tests/emulator/slow_reference/scalar.h"
#include "tests/emulator/slow_reference/values.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Opcode;
using ptx::Type;

constexpr int kWords = 16;  // per lane and fragment, the most that any has

std::string word_list(int first, int count) {
  std::string list = "{";
  for (int i = 0; i < count; ++i) list += fmt::format("{}%r{}", i > 0 ? ", " : "", first + i);
  return list + "}";
}

// ---- mma.sync ----

enum class Data : uint8_t { kSmall, kModerate, kAny };

uint64_t element(Type type, Data data, Random& random) {
  if (data == Data::kSmall) {
    const int low = type == Type::kU8 ? 0 : -4;
    return small_value(type, static_cast<int>(random() % 9) + low);
  }
  if (!ptx::is_float(type)) return random_value(type, random);
  const Format format = type == Type::kTf32 ? kSingle : format_of(type);
  if (data == Data::kAny && random() % 24 == 0) return random_value(type, random);
  // Around one, by up to the format's range or 2^12: terms of very different size.
  const int spread = std::min(format.bias() - 2, 12);
  const auto exponent = static_cast<uint64_t>(
      format.bias() + static_cast<int>(random() % static_cast<uint64_t>(2 * spread)) - spread);
  if (data == Data::kAny && random() % 8 == 0) return 0;
  return (random() & format.sign_mask()) | exponent << format.fraction_bits |
         low_bits(random(), format.fraction_bits);
}

struct Problem {
  Matrix a, b, c;
};

Problem random_problem(const Tuple& t, Data data, Random& random) {
  const ptx::Shape s = t.modifiers.shape;
  Problem p{Matrix(s.m, s.k), Matrix(s.k, s.n), Matrix(s.m, s.n)};
  for (uint64_t& v : p.a.values) v = element(t.type(1), data, random);
  for (uint64_t& v : p.b.values) v = element(t.type(2), data, random);
  for (uint64_t& v : p.c.values) v = element(t.type(3), data, random);
  return p;
}

int words(int rows, int columns, Type type) {
  return rows * columns * ptx::type_bits(type) / 32 / 32;
}

// A lane's words of a fragment; `cell` gives the place of element i.
template <class Place>
void fill(std::vector<uint32_t>& to, size_t base, int count, int bits, const Matrix& from,
          Place&& cell) {
  for (int word = 0; word < count; ++word) {
    uint64_t value = 0;
    for (int e = 0; e < 32 / bits; ++e) {
      value |= low_bits(from.at(cell(word * (32 / bits) + e)), bits) << (e * bits);
    }
    to[base + static_cast<size_t>(word)] = static_cast<uint32_t>(value);
  }
}

uint64_t product(const Tuple& t, const SumModel& model, const Problem& p, int row, int column) {
  const auto a = row_of(p.a, row);
  const auto b = column_of(p.b, column);
  const uint64_t c = p.c.at(row, column);
  if (t.type(0) == Type::kS32) {
    return integer_dot(t.type(1), t.type(2), t.has(ptx::Flag::kSatfinite), a, b, c);
  }
  return float_dot(model, t.type(0), t.type(1), t.type(2), a, b, c);
}

void check_mma(const std::string& target, Data data, MatrixNumerics numerics, Ledger* ledger) {
  test::Machine machine(target);
  const int capability = std::atoi(target.c_str() + 3);
  std::vector<Tuple> tuples;
  for (const Tuple& t : tuples_of(Group::kMatrix)) {
    if (t.opcode() != Opcode::kMmaSync) continue;
    if (capability < 89 && ptx::type_bits(t.type(1)) == 8 && ptx::is_float(t.type(1))) continue;
    tuples.push_back(t);
  }
  std::string body =
      ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n" + register_declarations(64) +
      ".reg .b64 %in, %out;\nld.param.u64 %in, [in];\nld.param.u64 %out, [out];\n"
      "mov.u32 %r0, %laneid;\n" +
      fmt::format("mul.wide.u32 %d0, %r0, {};\n", 3 * kWords * 4) + "add.u64 %in, %in, %d0;\n" +
      fmt::format("mul.wide.u32 %d0, %r0, {};\n", kWords * 4) + "add.u64 %out, %out, %d0;\n";
  Random random(static_cast<uint64_t>(capability) * 10 + static_cast<uint64_t>(data));
  std::vector<uint32_t> in(tuples.size() * 32 * 3 * kWords);
  std::vector<Problem> problems;
  for (size_t n = 0; n < tuples.size(); ++n) {
    const Tuple& t = tuples[n];
    const ptx::Shape s = t.modifiers.shape;
    problems.push_back(random_problem(t, data, random));
    const Problem& p = problems.back();
    const int a_words = words(s.m, s.k, t.type(1));
    const int b_words = words(s.k, s.n, t.type(2));
    const int c_words = words(s.m, s.n, t.type(3));
    for (int lane = 0; lane < 32; ++lane) {
      const size_t base = (n * 32 + static_cast<size_t>(lane)) * 3 * kWords;
      const int a_bits = ptx::type_bits(t.type(1));
      const int b_bits = ptx::type_bits(t.type(2));
      fill(in, base, a_words, a_bits, p.a, [&](int i) {
        Cell cell = a_fragment(a_bits, lane, i);
        if (s.m == 8) cell = {lane >> 2, 4 * (lane & 3) + i};
        return cell;
      });
      fill(in, base + kWords, b_words, b_bits, p.b,
           [&](int i) { return b_fragment(b_bits, lane, i); });
      fill(in, base + 2 * kWords, c_words, ptx::type_bits(t.type(3)), p.c,
           [&](int i) { return d_fragment(lane, i); });
    }
    for (int w = 0; w < 3 * kWords; ++w) {
      body += fmt::format("ld.global.b32 %r{}, [%in+{}];\n", 1 + w,
                          n * 32 * 3 * kWords * 4 + static_cast<size_t>(w) * 4);
    }
    // Odd ones accumulate in place.
    const int d = n % 2 == 0 ? 50 : 1 + 2 * kWords;
    body += fmt::format("{} {}, {}, {}, {};\n", t.mnemonic, word_list(d, c_words),
                        word_list(1, a_words), word_list(1 + kWords, b_words),
                        word_list(1 + 2 * kWords, c_words));
    for (int w = 0; w < c_words; ++w) {
      body += fmt::format("st.global.b32 [%out+{}], %r{};\n",
                          n * 32 * kWords * 4 + static_cast<size_t>(w) * 4, d + w);
    }
  }
  ASSERT_NE(machine.load(body + "ret;\n}\n"), nullptr);
  const DeviceAddress from = machine.upload(in);
  const DeviceAddress to = machine.upload(std::vector<uint32_t>(tuples.size() * 32 * kWords));
  LaunchSettings settings;
  settings.numerics = numerics;
  const LaunchOutcome outcome =
      machine.run("k", {1}, {32}, test::Arguments().add(from).add(to), settings);
  ASSERT_FALSE(outcome.fault) << test::describe(outcome);
  const auto out = machine.download<uint32_t>(to, tuples.size() * 32 * kWords);
  int failures = 0;
  for (size_t n = 0; n < tuples.size(); ++n) {
    const Tuple& t = tuples[n];
    const ptx::Shape s = t.modifiers.shape;
    SumModel model = hardware_model(capability, t.type(1), false, s.k);
    model.fused = numerics == MatrixNumerics::kHardware;
    const int bits = ptx::type_bits(t.type(0));
    const int count = s.m * s.n / 32;
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < count; ++i) {
        const Cell cell = d_fragment(lane, i);
        const size_t word =
            (n * 32 + static_cast<size_t>(lane)) * kWords + static_cast<size_t>(i * bits / 32);
        const uint64_t actual = low_bits(out[word] >> (i * bits % 32), bits);
        const uint64_t expected = product(t, model, problems[n], cell.row, cell.column);
        if (ledger != nullptr) ledger->compared(t);
        const bool open_nan = ptx::is_float(t.type(0)) && !model.fused &&
                              is_nan(format_of(t.type(0)), expected) &&
                              is_nan(format_of(t.type(0)), actual);
        if (actual == expected || open_nan || ++failures > 20) continue;
        ADD_FAILURE() << target << " " << t.mnemonic
                      << fmt::format(
                             " lane {} element {} numerics {} data {}: {:#x}, expected {:#x}", lane,
                             i, model.fused ? "hardware" : "fast", static_cast<int>(data), actual,
                             expected);
      }
    }
  }
}

// ---- ldmatrix, stmatrix, movmatrix ----

constexpr int kRows = 64;  // rows of 16 bytes in the window

// Element of a matrix that a lane's half-word is.
Cell fragment_cell(bool transposed, int lane, int half) {
  const Cell cell{lane >> 2, 2 * (lane & 3) + half};
  return transposed ? Cell{cell.column, cell.row} : cell;
}

void check_moves(uint64_t seed, Ledger& ledger) {
  test::Machine machine("sm_90a");
  std::vector<Tuple> tuples;
  for (const Tuple& t : tuples_of(Group::kMatrix)) {
    if (t.opcode() != Opcode::kMmaSync) tuples.push_back(t);
  }
  Random random(seed);
  std::vector<uint16_t> window(kRows * 8);
  for (uint16_t& v : window) v = static_cast<uint16_t>(random());
  std::vector<uint32_t> rows;   // per tuple and lane
  std::vector<uint32_t> given;  // per tuple, lane, word
  std::string body =
      ".visible .entry k(.param .u64 win, .param .u64 rows, .param .u64 given, .param .u64 "
      "out)\n{\n" +
      register_declarations(16) +
      ".reg .b64 %win, %rows, %given, %out, %slice;\n.shared .align 16 .b8 window[1024];\n"
      "ld.param.u64 %win, [win];\nld.param.u64 %rows, [rows];\nld.param.u64 %given, [given];\n"
      "ld.param.u64 %out, [out];\nmov.u32 %r0, %laneid;\nmul.wide.u32 %d0, %r0, 4;\n"
      "add.u64 %rows, %rows, %d0;\nmul.wide.u32 %d0, %r0, 16;\nadd.u64 %given, %given, %d0;\n"
      "mul.wide.u32 %d0, %r0, 32;\nadd.u64 %slice, %win, %d0;\nadd.u64 %out, %out, %d0;\n"
      "mul.lo.u32 %r1, %r0, 32;\nmov.u32 %r2, window;\nadd.u32 %r1, %r1, %r2;\n";
  for (size_t n = 0; n < tuples.size(); ++n) {
    const Tuple& t = tuples[n];
    std::vector<uint32_t> order(kRows);
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::shuffle(order, random);
    for (int lane = 0; lane < 32; ++lane) {
      const bool counts = lane < 8 * t.modifiers.num_matrices;
      // Addresses beyond the matrices' rows are not looked at.
      rows.push_back(counts ? order[static_cast<size_t>(lane)] * 16 : 0xfffffff1);
      for (int w = 0; w < 4; ++w) given.push_back(static_cast<uint32_t>(random()));
    }
    const bool generic = t.modifiers.space == ptx::StateSpace::kGeneric;
    body +=
        "ld.global.v2.b64 {%d0, %d1}, [%slice];\nld.global.v2.b64 {%d2, %d3}, [%slice+16];\n"
        "st.shared.v2.b64 [%r1], {%d0, %d1};\nst.shared.v2.b64 [%r1+16], {%d2, %d3};\n"
        "bar.warp.sync 0xffffffff;\n" +
        fmt::format("ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%given+{}];\n", n * 32 * 16) +
        fmt::format("ld.global.b32 %r3, [%rows+{}];\nadd.u32 %r3, %r3, %r2;\n", n * 32 * 4) +
        "cvt.u64.u32 %d4, %r3;\ncvta.shared.u64 %d4, %d4;\n";
    const std::string address = generic ? "[%d4]" : "[%r3]";
    const std::string list =
        t.modifiers.num_matrices == 1 ? "{%r4}" : word_list(4, t.modifiers.num_matrices);
    if (t.opcode() == Opcode::kLdmatrix) {
      body += t.mnemonic + " " + list + ", " + address + ";\n";
    } else if (t.opcode() == Opcode::kStmatrix) {
      body += t.mnemonic + " " + address + ", " + list + ";\nbar.warp.sync 0xffffffff;\n";
      body +=
          "ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r1];\n"
          "ld.shared.v4.b32 {%r8, %r9, %r10, %r11}, [%r1+16];\n" +
          fmt::format("st.global.v4.b32 [%out+{}], {{%r8, %r9, %r10, %r11}};\n", n * 32 * 32 + 16);
    } else {
      body += t.mnemonic + " %r4, %r5;\n";
    }
    body += fmt::format("st.global.v4.b32 [%out+{}], {{%r4, %r5, %r6, %r7}};\n", n * 32 * 32);
  }
  ASSERT_NE(machine.load(body + "ret;\n}\n"), nullptr);
  const DeviceAddress win = machine.upload(window);
  const DeviceAddress row_offsets = machine.upload(rows);
  const DeviceAddress registers = machine.upload(given);
  const DeviceAddress to = machine.upload(std::vector<uint32_t>(tuples.size() * 32 * 8));
  const LaunchOutcome outcome = machine.run(
      "k", {1}, {32}, test::Arguments().add(win).add(row_offsets).add(registers).add(to));
  ASSERT_FALSE(outcome.fault) << test::describe(outcome);
  const auto out = machine.download<uint32_t>(to, tuples.size() * 32 * 8);
  for (size_t n = 0; n < tuples.size(); ++n) {
    const Tuple& t = tuples[n];
    const bool transposed = t.has(ptx::Flag::kTrans);
    const auto row = [&](int j, int r) {
      return rows[n * 32 + static_cast<size_t>(8 * j + r)] / 16;
    };
    if (t.opcode() == Opcode::kStmatrix) {
      std::vector<uint16_t> expected = window;
      for (int j = 0; j < t.modifiers.num_matrices; ++j) {
        for (int lane = 0; lane < 32; ++lane) {
          const uint32_t word =
              given[(n * 32 + static_cast<size_t>(lane)) * 4 + static_cast<size_t>(j)];
          for (int half = 0; half < 2; ++half) {
            const Cell cell = fragment_cell(transposed, lane, half);
            expected[row(j, cell.row) * 8 + static_cast<size_t>(cell.column)] =
                static_cast<uint16_t>(word >> (16 * half));
          }
        }
      }
      for (size_t i = 0; i < expected.size(); ++i) {
        const uint32_t word = out[n * 32 * 8 + i / 2];
        EXPECT_EQ(static_cast<uint16_t>(word >> (16 * (i % 2))), expected[i])
            << t.mnemonic << " half-word " << i;
        ledger.compared(t);
      }
      continue;
    }
    for (int lane = 0; lane < 32; ++lane) {
      const size_t base = (n * 32 + static_cast<size_t>(lane)) * 4;
      for (int j = 0; j < std::max<int>(1, t.modifiers.num_matrices); ++j) {
        uint32_t expected = 0;
        for (int half = 0; half < 2; ++half) {
          const Cell cell = fragment_cell(transposed, lane, half);
          uint32_t value = 0;
          if (t.opcode() == Opcode::kLdmatrix) {
            value = window[row(j, cell.row) * 8 + static_cast<size_t>(cell.column)];
          } else {  // the same fragment in the other lanes' second word
            const size_t holder = static_cast<size_t>(cell.row * 4 + cell.column / 2);
            value = given[(n * 32 + holder) * 4 + 1] >> (16 * (cell.column % 2)) & 0xffff;
          }
          expected |= value << (16 * half);
        }
        EXPECT_EQ(out[base * 2 + static_cast<size_t>(j)], expected)
            << t.mnemonic << " lane " << lane << " matrix " << j;
        ledger.compared(t);
      }
      // Registers that are no destinations stay.
      for (int j = std::max<int>(1, t.modifiers.num_matrices); j < 4; ++j) {
        EXPECT_EQ(out[base * 2 + static_cast<size_t>(j)], given[base + static_cast<size_t>(j)]);
      }
    }
  }
}

TEST(SlowReference, Matrix) {
  Ledger ledger(Group::kMatrix);
  for (const MatrixNumerics numerics : {MatrixNumerics::kHardware, MatrixNumerics::kFast}) {
    for (const Data data : {Data::kSmall, Data::kModerate, Data::kAny}) {
      check_mma("sm_90a", data, numerics, &ledger);
    }
  }
  for (uint64_t seed = 1; seed <= 3; ++seed) check_moves(seed, ledger);
  ledger.finish();
}

TEST(SlowReference, MatrixOnOlderTargets) {
  for (const char* target : {"sm_80", "sm_89"}) {
    check_mma(target, Data::kModerate, MatrixNumerics::kHardware, nullptr);
    check_mma(target, Data::kAny, MatrixNumerics::kHardware, nullptr);
  }
}

}  // namespace
}  // namespace tilewright::emulator::slow
