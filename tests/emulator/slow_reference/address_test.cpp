// Addresses and spaces: cvta, isspacep, mapa, getctarank, and every special register that has a
// value to know.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/assembly.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Flag;
using ptx::Opcode;
using ptx::StateSpace;

// One address per space, and an address of the peer's shared memory.
struct Window {
  StateSpace space;
  const char* variable;  // holds the address in its space
};
constexpr Window kWindows[] = {
    {StateSpace::kGlobal, "%global"}, {StateSpace::kConst, "%const"},
    {StateSpace::kLocal, "%local"},   {StateSpace::kParam, "%param"},
    {StateSpace::kShared, "%shared"}, {StateSpace::kSharedCluster, "%peer"},
};
constexpr int kBlocks = 3;
constexpr uint64_t kMark = 0x1122334455667788;

// Every window holds a mark of its own, so that an address is right iff its mark is read there.
std::string prologue() {
  return fmt::format(
      ".const .align 8 .b64 constant = {{{0}}};\n.global .align 8 .b64 variable = {{{1}}};\n"
      ".visible .entry k(.param .u64 out, .param .u64 marked)\n{{\n{2}"
      ".reg .b64 %global, %const, %local, %param, %shared, %peer, %out;\n"
      ".reg .b32 %rank, %other;\n.shared .align 8 .b64 own;\n.local .align 8 .b64 frame;\n"
      "mov.u64 %global, variable;\nmov.u64 %const, constant;\nmov.u64 %local, frame;\n"
      "mov.u64 %param, marked;\nmov.u64 %shared, own;\nmov.u32 %rank, %cluster_ctarank;\n"
      "add.u32 %other, %rank, 1;\nrem.u32 %other, %other, {3};\n"
      "cvt.u64.u32 %d0, %rank;\nadd.u64 %d1, %d0, {4};\nst.shared.b64 [own], %d1;\n"
      "mov.u64 %d1, {5};\nst.local.b64 [frame], %d1;\n"
      "mov.u32 %r1, own;\nmapa.shared::cluster.u32 %r1, %r1, %other;\ncvt.u64.u32 %peer, %r1;\n"
      "ld.param.u64 %out, [out];\nmul.lo.u64 %d0, %d0, 4096;\nadd.u64 %out, %out, %d0;\n"
      "barrier.cluster.arrive;\nbarrier.cluster.wait;\n",
      kMark, kMark + 1, register_declarations(16), kBlocks, kMark + 100, kMark + 2);
}
// What is read at the window's address by block `rank`.
uint64_t mark(StateSpace space, int rank) {
  switch (space) {
    case StateSpace::kConst:
      return kMark;
    case StateSpace::kGlobal:
      return kMark + 1;
    case StateSpace::kLocal:
      return kMark + 2;
    case StateSpace::kParam:
      return kMark + 3;
    case StateSpace::kShared:
      return kMark + 100 + static_cast<uint64_t>(rank);
    default:
      return kMark + 100 + static_cast<uint64_t>((rank + 1) % kBlocks);
  }
}

class Program {
 public:
  // Code that leaves a value in %d9, and what that must be for a block.
  template <class Value>
  void expect(const Tuple* tuple, const std::string& code, Value&& value) {
    body_ += code + fmt::format("st.global.b64 [%out+{}], %d9;\n", expected_.size() * 8);
    std::array<uint64_t, kBlocks> values{};
    for (int rank = 0; rank < kBlocks; ++rank) values[static_cast<size_t>(rank)] = value(rank);
    expected_.push_back({tuple, code, values});
  }

  void run(Ledger& ledger) const {
    test::Machine machine("sm_90a");
    ASSERT_NE(machine.load(prologue() + body_ +
                           "barrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}\n"),
              nullptr);
    ASSERT_LT(expected_.size(), 512u);
    const DeviceAddress out = machine.upload(std::vector<uint64_t>(kBlocks * 512));
    const LaunchOutcome outcome = machine.run(
        "k", {kBlocks}, {1}, test::Arguments().add(out).add(kMark + 3), {}, 0, {kBlocks});
    ASSERT_FALSE(outcome.fault) << test::describe(outcome);
    const auto results = machine.download<uint64_t>(out, kBlocks * 512);
    for (size_t n = 0; n < expected_.size(); ++n) {
      for (size_t rank = 0; rank < kBlocks; ++rank) {
        EXPECT_EQ(results[rank * 512 + n], expected_[n].values[rank])
            << expected_[n].code << " block " << rank;
        ledger.compared(*expected_[n].tuple);
      }
    }
  }

 private:
  struct Expectation {
    const Tuple* tuple;
    std::string code;
    std::array<uint64_t, kBlocks> values;
  };
  std::string body_;
  std::vector<Expectation> expected_;
};

const char* variable_of(StateSpace space) {
  for (const Window& window : kWindows) {
    if (window.space == space) return window.variable;
  }
  return "";
}

// The space's address as a generic one, by a cvta that is itself under test.
std::string to_generic(const Window& window) {
  return fmt::format("cvta.{}.u64 %d8, {};\n", ptx::to_string(window.space), window.variable);
}

// What lies in a window that contains another: own shared memory is in the cluster's; constants
// and parameters lie within global memory.
bool is_inside(StateSpace window, StateSpace asked) {
  if (window == asked) return true;
  if (asked == StateSpace::kSharedCluster) return window == StateSpace::kShared;
  return false;
}
bool is_open(StateSpace window, StateSpace asked) {
  return asked == StateSpace::kGlobal &&
         (window == StateSpace::kConst || window == StateSpace::kParam);
}

void add_cases(const Tuple& t, Program& program) {
  const StateSpace space = t.modifiers.space;
  const char* variable = variable_of(space);
  switch (t.opcode()) {
    case Opcode::kCvta:
      if (t.has(Flag::kTo)) {  // and back: the space's own address again
        program.expect(&t,
                       fmt::format("cvta.{}.u64 %d8, {};\n{} %d7, %d8;\nsub.u64 %d9, %d7, {};\n",
                                   ptx::to_string(space), variable, t.mnemonic, variable),
                       [](int) { return 0; });
        return;
      }
      program.expect(&t, fmt::format("{} %d8, {};\nld.b64 %d9, [%d8];\n", t.mnemonic, variable),
                     [&](int rank) { return mark(space, rank); });
      return;
    case Opcode::kIsspacep:
      for (const Window& window : kWindows) {
        if (is_open(window.space, space)) continue;
        program.expect(&t,
                       to_generic(window) +
                           fmt::format("{} %p0, %d8;\nselp.u64 %d9, 1, 0, %p0;\n", t.mnemonic),
                       [&](int) { return is_inside(window.space, space) ? 1 : 0; });
      }
      return;
    case Opcode::kMapa: {
      const bool wide = t.type() == ptx::Type::kU64;
      const bool generic = space == StateSpace::kGeneric;
      for (int target = 0; target < kBlocks; ++target) {
        std::string code = generic ? "cvta.shared.u64 %d8, %shared;\n" : "mov.u64 %d8, %shared;\n";
        if (!wide) code += "cvt.u32.u64 %r8, %d8;\n";
        // In place, and the rank from a register.
        code += fmt::format("mov.u32 %r7, {};\n{} {}, {}, %r7;\n", target, t.mnemonic,
                            wide ? "%d8" : "%r8", wide ? "%d8" : "%r8");
        if (!wide) code += "cvt.u64.u32 %d8, %r8;\n";
        code += generic ? "ld.b64 %d9, [%d8];\n" : "ld.shared::cluster.b64 %d9, [%d8];\n";
        program.expect(&t, code, [&](int) { return kMark + 100 + static_cast<uint64_t>(target); });
      }
      return;
    }
    default: {  // getctarank
      const bool wide = t.type() == ptx::Type::kU64;
      const bool generic = space == StateSpace::kGeneric;
      for (const Window& window : {kWindows[4], kWindows[5]}) {
        std::string code = generic && wide ? to_generic(window)
                                           : fmt::format("mov.u64 %d8, {};\n", window.variable);
        if (!wide) code += "cvt.u32.u64 %r8, %d8;\n";
        code += t.mnemonic + (wide ? " %r9, %d8;\n" : " %r9, %r8;\n") + "cvt.u64.u32 %d9, %r9;\n";
        const int step = window.space == StateSpace::kShared ? 0 : 1;
        program.expect(&t, code, [&](int rank) { return (rank + step) % kBlocks; });
      }
      return;
    }
  }
}

// 32 bits hold no generic address of shared memory: mapa has nothing to map and says so; the rank
// is then undefined.
void expect_no_value(const Tuple& tuple) {
  test::Machine machine("sm_90a");
  const char* const operands =
      tuple.opcode() == Opcode::kMapa ? " %r9, %r8, %rank;\n" : " %r9, %r8;\n";
  ASSERT_NE(
      machine.load(prologue() + "mov.u32 %r8, own;\n" + tuple.mnemonic + operands + "ret;\n}\n"),
      nullptr);
  const DeviceAddress out = machine.allocate(kBlocks * 4096);
  const LaunchOutcome outcome =
      machine.run("k", {kBlocks}, {1}, test::Arguments().add(out).add(kMark), {}, 0, {kBlocks});
  if (tuple.opcode() == Opcode::kGetctarank && !outcome.fault) return;
  ASSERT_TRUE(outcome.fault) << tuple.mnemonic;
  EXPECT_EQ(outcome.fault->kind, FaultKind::kOutOfBounds) << test::describe(outcome);
}

TEST(SlowReference, Addresses) {
  const std::vector<Tuple> tuples = tuples_of(Group::kAddress);
  Ledger ledger(Group::kAddress);
  Program program;
  for (const Tuple& tuple : tuples) {
    const bool maps = tuple.opcode() == Opcode::kMapa || tuple.opcode() == Opcode::kGetctarank;
    if (maps && tuple.type() == ptx::Type::kU32 && tuple.modifiers.space == StateSpace::kGeneric) {
      expect_no_value(tuple);
      ledger.compared(tuple);
    } else {
      add_cases(tuple, program);
    }
  }
  program.run(ledger);
  ledger.finish();
}

}  // namespace
}  // namespace tilewright::emulator::slow
