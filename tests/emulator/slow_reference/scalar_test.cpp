// Every scalar tuple, on edge values crossed and random ones: into a fresh register, into one of
// its own sources, under a guard, and with constants, negated predicates and wide registers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <span>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/assembly.h"
#include "tests/emulator/slow_reference/scalar.h"
#include "tests/emulator/slow_reference/values.h"

namespace tilewright::emulator::slow {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 3;
constexpr int kVectors = kThreads * kBlocks;
constexpr uint64_t kSentinel = 0xa5a5a5a5a5a5a5a5;

bool guarded(int vector) { return vector % 3 == 0; }

// Tuples whose values differ, by opcode.
using Differing = std::map<std::string, std::set<std::string>>;

// One tuple with chosen operands, three times over in the kernel.
struct Case {
  const Tuple* tuple = nullptr;
  Operands operands;
  std::vector<std::string> constants;  // per source: its text, if it is no register
  std::vector<uint64_t> constant_values;
  bool negate = false;  // predicate sources
  int first_input = 0;  // slots of kVectors words
  int first_output = 0;
};

// Bits of a value's (or both halves') signs, and of the smallest normal number.
uint64_t signs_of(ptx::Type type) {
  if (!ptx::is_float(type)) return 0;
  const Format format = type == ptx::Type::kTf32 ? kSingle : format_of(type);
  const uint64_t sign = format.sign_mask();
  return ptx::type_bits(type) > format.bits() ? sign << format.bits() | sign : sign;
}
uint64_t smallest_normals(ptx::Type type) {
  const Format format = type == ptx::Type::kTf32 ? kSingle : format_of(type);
  const uint64_t normal = uint64_t{1} << format.fraction_bits;
  return ptx::type_bits(type) > format.bits() ? normal << format.bits() | normal : normal;
}

class Batch {
 public:
  explicit Batch(uint64_t seed) : random_(seed) {}
  bool is_full() const { return cases_.size() >= 100; }
  bool is_empty() const { return cases_.empty(); }

  void add(const Tuple& tuple, bool decorated, uint64_t immediate) {
    Case c;
    c.tuple = &tuple;
    c.operands = operands_of(tuple, decorated);
    c.negate = decorated;
    const size_t count = c.operands.sources.size();
    c.constants.resize(count);
    c.constant_values.resize(count);
    for (size_t i = 0; i < count; ++i) {
      const OperandInfo& info = c.operands.sources[i];
      if (info.constant_only) {
        c.constant_values[i] = immediate;
        c.constants[i] = std::to_string(immediate);
      } else if (decorated && i + 1 == count && count > 1) {
        c.constant_values[i] = random_value(info.type, random_);
        c.constants[i] = constant_text(info.type, c.constant_values[i]);
      }
    }
    c.first_input = num_inputs_;
    c.first_output = num_outputs_;
    num_inputs_ += static_cast<int>(count) + 1;
    num_outputs_ += 3 * 3;
    fill(c);
    body_ += text(c);
    cases_.push_back(std::move(c));
  }

  void run(test::Machine& machine, Ledger& ledger, Differing& differing) {
    const std::string module =
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n" + register_declarations(64) +
        ".reg .pred %guard;\n.reg .b64 %in, %out, %t;\n.reg .b32 %i, %j;\n"
        "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nmov.u32 %i, %ctaid.x;\n"
        "mov.u32 %j, %tid.x;\n" +
        fmt::format("mad.lo.u32 %i, %i, {}, %j;\n", kThreads) +
        "rem.u32 %j, %i, 3;\nsetp.eq.u32 %guard, %j, 0;\nmul.wide.u32 %t, %i, 8;\n"
        "add.u64 %in, %in, %t;\nadd.u64 %out, %out, %t;\n" +
        body_ + "ret;\n}\n";
    if (machine.load(module) == nullptr) {
      differing["module"].insert("does not load");
      return;
    }
    const DeviceAddress in = machine.upload(inputs_);
    const std::vector<uint64_t> nothing(static_cast<size_t>(num_outputs_) * kVectors);
    const DeviceAddress out = machine.upload(nothing);
    const LaunchOutcome outcome =
        machine.run("k", {kBlocks}, {kThreads}, test::Arguments().add(in).add(out));
    ASSERT_FALSE(outcome.fault) << test::describe(outcome);
    const auto results = machine.download<uint64_t>(out, nothing.size());
    for (const Case& c : cases_) check(c, results, ledger, differing);
    ASSERT_TRUE(machine.memory().release(in).ok());
    ASSERT_TRUE(machine.memory().release(out).ok());
  }

 private:
  size_t at(int slot, int vector) const {
    return static_cast<size_t>(slot) * kVectors + static_cast<size_t>(vector);
  }

  void fill(const Case& c) {
    const auto& sources = c.operands.sources;
    inputs_.resize(static_cast<size_t>(num_inputs_) * kVectors);
    std::vector<std::vector<uint64_t>> edges;
    for (const OperandInfo& info : sources) edges.push_back(edge_values(info.type));
    for (int v = 0; v < kVectors; ++v) {
      for (size_t i = 0; i < sources.size(); ++i) {
        uint64_t value = random_value(sources[i].type, random_);
        // The first two crossed where they fit, else a walk over both.
        const size_t n = edges[0].size();
        const auto w = static_cast<size_t>(v);
        if (v < kVectors / 2) {
          if (i == 0) value = edges[0][w % n];
          if (i == 1) value = edges[1][(w / n + w) % edges[1].size()];
        }
        // Equal operands, nearly opposite ones, and differences of the smallest normal numbers.
        const uint64_t first = inputs_[at(c.first_input, v)];
        if (i == 1 && v % 16 == 5) value = first;
        if (i == 1 && v % 16 == 9) value = (first ^ signs_of(sources[i].type)) + random_() % 5;
        if (v % 16 == 11 && ptx::is_float(sources[i].type)) {
          value = smallest_normals(sources[i].type) + random_() % 8;
          if ((v / 16 + static_cast<int>(i)) % 2 != 0) value |= signs_of(sources[i].type);
        }
        // A wide register's upper part is noise that the instruction must not see.
        if (sources[i].bits > ptx::type_bits(sources[i].type) && !sources[i].is_predicate()) {
          value |= random_() << ptx::type_bits(sources[i].type);
        }
        inputs_[at(c.first_input + static_cast<int>(i), v)] =
            low_bits(value, sources[i].is_predicate() ? 1 : sources[i].bits);
      }
      inputs_[at(c.first_input + static_cast<int>(sources.size()), v)] = random_() & 1;  // carry
    }
  }

  static std::string load(const OperandInfo& info, const std::string& name, long offset) {
    if (info.is_predicate()) {
      return fmt::format("ld.global.u32 %r60, [%in+{}]; setp.ne.u32 {}, %r60, 0;\n", offset, name);
    }
    return fmt::format("ld.global.b{} {}, [%in+{}];\n", info.bits, name, offset);
  }
  static std::string preset(const OperandInfo& info, const std::string& name) {
    if (info.is_predicate()) return fmt::format("setp.ne.u32 {}, 0, 0;\n", name);
    return fmt::format("mov.b{} {}, {:#x};\n", info.bits, name, low_bits(kSentinel, info.bits));
  }
  static std::string store(const OperandInfo& info, const std::string& name, long offset) {
    if (info.is_predicate()) {
      return fmt::format("selp.u32 %r60, 1, 0, {}; st.global.u32 [%out+{}], %r60;\n", name, offset);
    }
    return fmt::format("st.global.b{} [%out+{}], {};\n", info.bits, offset, name);
  }
  static long place(int slot) { return static_cast<long>(slot) * kVectors * 8; }

  static std::string text(const Case& c) {
    std::string all;
    const auto& sources = c.operands.sources;
    const auto& destinations = c.operands.destinations;
    for (int round = 0; round < 3; ++round) {
      std::vector<std::string> from;
      for (size_t i = 0; i < sources.size(); ++i) {
        const std::string name = register_name(sources[i].bits, static_cast<int>(i));
        if (!c.constants[i].empty()) {
          from.push_back(c.constants[i]);
          continue;
        }
        all += load(sources[i], name, place(c.first_input + static_cast<int>(i)));
        from.push_back(sources[i].is_predicate() && c.negate ? "!" + name : name);
      }
      std::vector<std::string> to;
      for (size_t i = 0; i < destinations.size(); ++i) {
        // Round 1: into a source, if one has the width.
        int number = 20 + static_cast<int>(i);
        if (round == 1 && i == 0) {
          for (size_t s = 0; s < sources.size(); ++s) {
            if (sources[s].bits == destinations[0].bits && c.constants[s].empty()) {
              number = static_cast<int>(s);
              break;
            }
          }
        }
        to.push_back(register_name(destinations[i].bits, number));
        if (round == 2) all += preset(destinations[i], to.back());
      }
      if (c.operands.reads_carry) {
        all += fmt::format("ld.global.u32 %r61, [%in+{}]; add.cc.u32 %r62, %r61, 0xffffffff;\n",
                           place(c.first_input + static_cast<int>(sources.size())));
      } else if (c.operands.writes_carry) {
        all += "add.cc.u32 %r62, 0, 0;\n";
      }
      all += spell(*c.tuple, to, from, round == 2 ? "@%guard " : "") + "\n";
      if (c.operands.writes_carry) all += "addc.u32 %r61, 0, 0;\n";
      for (size_t i = 0; i < destinations.size(); ++i) {
        all += store(destinations[i], to[i], place(output_slot(c, round, static_cast<int>(i))));
      }
      if (c.operands.writes_carry) {
        all += store({}, "%r61", place(output_slot(c, round, kCarryOut)));
      }
    }
    return all;
  }
  static int output_slot(const Case& c, int round, int destination) {
    return c.first_output + round * 3 + destination;
  }

  void check(const Case& c, std::span<const uint64_t> results, Ledger& ledger,
             Differing& differing) {
    const auto& destinations = c.operands.destinations;
    for (int v = 0; v < kVectors; ++v) {
      Sources s;
      for (size_t i = 0; i < c.operands.sources.size(); ++i) {
        const OperandInfo& info = c.operands.sources[i];
        uint64_t value = inputs_[at(c.first_input + static_cast<int>(i), v)];
        if (!c.constants[i].empty())
          value = c.constant_values[i];
        else if (info.is_predicate() && c.negate)
          value ^= 1;
        s.value[i] = info.is_predicate() ? value : low_bits(value, ptx::type_bits(info.type));
      }
      s.carry = inputs_[at(c.first_input + static_cast<int>(c.operands.sources.size()), v)] != 0;
      for (Part part : evaluate(*c.tuple, s)) {
        if (part.index < kCarryOut) {
          if (static_cast<size_t>(part.index) >= destinations.size()) continue;
          part.width = std::min(part.width,
                                destinations[static_cast<size_t>(part.index)].bits - part.offset);
        }
        for (int round = 0; round < 3; ++round) {
          const uint64_t actual = results[at(output_slot(c, round, part.index), v)];
          ledger.compared(*c.tuple);
          bool good = satisfies(part, actual);
          if (round == 2 && !guarded(v) && part.index < kCarryOut) {  // untouched
            const OperandInfo& info = destinations[static_cast<size_t>(part.index)];
            good = actual == (info.is_predicate() ? 0 : low_bits(kSentinel, info.bits));
          } else if (round == 2 && !guarded(v)) {
            good = true;
          }
          if (good) continue;
          std::set<std::string>& tuples = differing[std::string(c.tuple->name())];
          tuples.insert(c.tuple->mnemonic);
          if (tuples.size() > 2) return;  // two examples of an opcode
          ADD_FAILURE() << c.tuple->mnemonic
                        << fmt::format(
                               "({:#x}, {:#x}, {:#x}, {:#x}; carry {}) destination {} bit {}"
                               " round {}: {:#x}, expected {}",
                               s.value[0], s.value[1], s.value[2], s.value[3], s.carry, part.index,
                               part.offset, round, actual, to_string(part));
          return;  // one of a case
        }
      }
    }
  }

  Random random_;
  std::vector<Case> cases_;
  std::vector<uint64_t> inputs_;
  std::string body_;
  int num_inputs_ = 0;
  int num_outputs_ = 0;
};

TEST(SlowReference, Scalar) {
  test::Machine machine("sm_90a");
  const std::vector<Tuple> tuples = tuples_of(Group::kScalar);
  Ledger ledger(Group::kScalar);
  uint64_t seed = 1;
  Differing differing;
  Batch batch(seed);
  const auto flush_batch = [&] {
    if (batch.is_empty()) return;
    batch.run(machine, ledger, differing);
    batch = Batch(++seed);
  };
  for (const Tuple& tuple : tuples) {
    const bool table = tuple.opcode() == ptx::Opcode::kLop3;  // every table
    for (uint64_t immediate = 0; immediate < (table ? 256u : 1u); ++immediate) {
      for (const bool decorated : {false, true}) {
        batch.add(tuple, decorated, immediate);
        if (batch.is_full()) flush_batch();
      }
    }
  }
  flush_batch();
  for (const auto& [opcode, mnemonics] : differing) {
    ADD_FAILURE() << opcode << ": " << mnemonics.size() << " tuples differ, the last "
                  << *mnemonics.rbegin();
  }
  ledger.finish();
}

}  // namespace
}  // namespace tilewright::emulator::slow
