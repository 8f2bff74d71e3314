// Barriers pass what was written before them; branches, calls and exits go where they should; the
// special registers name the thread's place.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/assembly.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Opcode;

constexpr uint32_t kThreads = 128;

// Runs `body` (which sees %tid in %r0, %out at the thread's word, %shared at its word in the
// window, and leaves a result in %r9 before "DONE") and returns a word per thread.
std::vector<uint32_t> run_body(const std::string& body, uint32_t blocks,
                               const std::string& functions = "") {
  test::Machine machine("sm_90a");
  const std::string text =
      functions + ".visible .entry k(.param .u64 out)\n{\n" + register_declarations(20) +
      ".reg .b32 %shared, %window;\n.reg .b64 %out;\n.shared .align 16 .b8 window[1024];\n"
      "ld.param.u64 %out, [out];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\n" +
      fmt::format("mad.lo.u32 %r1, %r1, {}, %r0;\n", kThreads) +
      "mul.wide.u32 %d0, %r1, 4;\nadd.u64 %out, %out, %d0;\nmov.u32 %window, window;\n"
      "shl.b32 %r1, %r0, 2;\nadd.u32 %shared, %window, %r1;\nst.shared.u32 [%shared], 7777;\n"
      "bar.sync 15;\n" +
      body + "st.global.u32 [%out], %r9;\nret;\n}\n";
  if (machine.load(text) == nullptr) return {};
  const size_t count = size_t{blocks} * kThreads;
  const DeviceAddress out = machine.upload(std::vector<uint32_t>(count, 4242));
  LaunchSettings settings;
  settings.observers = ObserverLevel::kMemory;
  const LaunchOutcome outcome =
      machine.run("k", {blocks}, {kThreads}, test::Arguments().add(out), settings, 0, {blocks});
  EXPECT_FALSE(outcome.fault) << test::describe(outcome) << body;
  return machine.download<uint32_t>(out, count);
}

// Every thread writes a value of its own; the partner of another warp reads it behind the barrier.
std::string exchange(const std::string& barrier, const std::string& partner) {
  return "mul.lo.u32 %r2, %r0, 3;\nst.shared.u32 [%shared], %r2;\n" + barrier + partner +
         "shl.b32 %r4, %r3, 2;\nadd.u32 %r4, %window, %r4;\nld.shared.u32 %r9, [%r4];\n";
}

void check_sync(const Tuple& t, Ledger& ledger) {
  for (const char* operands : {"0", "%r10", "1, 128", "%r10, %r11"}) {
    const auto result = run_body(
        "mov.u32 %r10, 2;\nmov.u32 %r11, 128;\n" +
            exchange(fmt::format("{} {};\n", t.mnemonic, operands), "xor.b32 %r3, %r0, 97;\n"),
        1);
    for (uint32_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], (i ^ 97) * 3) << t.mnemonic;
    ledger.compared(t);
  }
}

// Warps 0 and 1 arrive, warps 2 and 3 wait for them and read what they wrote.
void check_arrive(const Tuple& t, Ledger& ledger) {
  const auto result = run_body(
      fmt::format("mul.lo.u32 %r2, %r0, 3;\nmov.u32 %r9, 1;\nsetp.lt.u32 %p0, %r0, 64;\n"
                  "@!%p0 bra READERS;\nst.shared.u32 [%shared], %r2;\n{} 3, 128;\nbra DONE;\n"
                  "READERS:\nbar.sync 3, 128;\nadd.u32 %r3, %shared, -256;\n"
                  "ld.shared.u32 %r9, [%r3];\nDONE:\n",
                  t.mnemonic),
      1);
  for (uint32_t i = 0; i < result.size(); ++i) {
    ASSERT_EQ(result[i], i < 64 ? 1 : (i - 64) * 3) << t.mnemonic;
  }
  ledger.compared(t);
}

void check_reduce(const Tuple& t, Ledger& ledger) {
  for (const uint32_t modulus : {1u, 3u, 1000u}) {  // all, a third, none but thread 0
    for (const bool negated : {false, true}) {
      const bool counts = t.modifiers.op == ptx::Op::kPopc;
      const auto result = run_body(
          fmt::format("rem.u32 %r2, %r0, {};\nsetp.eq.u32 %p0, %r2, 0;\n{} {}, 4, {}%p0;\n{}",
                      modulus, t.mnemonic, counts ? "%r9" : "%p1", negated ? "128, !" : "",
                      counts ? "" : "selp.u32 %r9, 1, 0, %p1;\n"),
          1);
      uint32_t ones = 0;
      for (uint32_t i = 0; i < kThreads; ++i) ones += (i % modulus == 0) != negated ? 1 : 0;
      uint32_t expected = ones;
      if (t.modifiers.op == ptx::Op::kAnd) expected = ones == kThreads ? 1 : 0;
      if (t.modifiers.op == ptx::Op::kOr) expected = ones > 0 ? 1 : 0;
      for (const uint32_t value : result) ASSERT_EQ(value, expected) << t.mnemonic;
      ledger.compared(t);
    }
  }
}

void check_cluster(const Tuple& arrive, const Tuple& wait, Ledger& ledger) {
  const auto result = run_body(
      "mov.u32 %r5, %cluster_ctarank;\nmad.lo.u32 %r2, %r5, 1000, %r0;\n"
      "st.shared.u32 [%shared], %r2;\n" +
          arrive.mnemonic + ";\n" + wait.mnemonic +
          ";\nadd.u32 %r6, %r5, 1;\nrem.u32 %r6, %r6, 3;\n"
          "mapa.shared::cluster.u32 %r7, %shared, %r6;\nld.shared::cluster.u32 %r9, [%r7];\n"
          "barrier.cluster.arrive;\nbarrier.cluster.wait;\n",
      3);
  for (uint32_t i = 0; i < result.size(); ++i) {
    ASSERT_EQ(result[i], (i / kThreads + 1) % 3 * 1000 + i % kThreads) << arrive.mnemonic;
  }
  ledger.compared(arrive);
  ledger.compared(wait);
}

TEST(SlowReference, Barriers) {
  Ledger ledger(Group::kBarrier);
  const std::vector<Tuple> tuples = tuples_of(Group::kBarrier);
  for (const Tuple& t : tuples) {
    switch (t.opcode()) {
      case Opcode::kBarSync:
      case Opcode::kBarrierSync:
        check_sync(t, ledger);
        break;
      case Opcode::kBarArrive:
      case Opcode::kBarrierArrive:
        check_arrive(t, ledger);
        break;
      case Opcode::kBarRed:
      case Opcode::kBarrierRed:
        check_reduce(t, ledger);
        break;
      case Opcode::kBarWarpSync: {
        const auto result =
            run_body(exchange(t.mnemonic + " 0xffffffff;\n", "xor.b32 %r3, %r0, 21;\n"), 1);
        for (uint32_t i = 0; i < result.size(); ++i) ASSERT_EQ(result[i], (i ^ 21) * 3);
        ledger.compared(t);
        break;
      }
      case Opcode::kBarrierClusterArrive:
        for (const Tuple& wait : tuples) {
          if (wait.opcode() == Opcode::kBarrierClusterWait) check_cluster(t, wait, ledger);
        }
        break;
      default:
        break;
    }
  }
  ledger.finish();
}

// What each thread must have in %r9; 4242 if it left before.
template <class Value>
void expect_each(const std::string& body, Value&& value, const std::string& functions = "") {
  const auto result = run_body(body, 1, functions);
  ASSERT_EQ(result.size(), kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) ASSERT_EQ(result[i], value(i)) << body;
}

void check_control(const Tuple& t) {
  const std::string name = t.mnemonic;
  const bool uniform = t.has(ptx::Flag::kUni);
  const std::string key = uniform ? "mov.u32 %r2, 2;\n" : "rem.u32 %r2, %r0, 3;\n";
  const auto number = [&](uint32_t i) { return uniform ? 2u : i % 3; };
  switch (t.opcode()) {
    case Opcode::kBra:  // as many rounds as the key says, and a forward branch
      expect_each(key +
                      "mov.u32 %r9, 0;\nLOOP:\nadd.u32 %r9, %r9, 5;\nadd.u32 %r2, %r2, -1;\n"
                      "setp.ge.s32 %p0, %r2, 0;\n@%p0 " +
                      name + " LOOP;\n" + name + " END;\nmov.u32 %r9, 1;\nEND:\n",
                  [&](uint32_t i) { return 5 * (number(i) + 1); });
      return;
    case Opcode::kBrxIdx:
      expect_each("TABLE: .branchtargets A, B, C;\n" + key + "mov.u32 %r9, 0;\n" + name +
                      " %r2, TABLE;\nA:\nadd.u32 %r9, %r9, 1;\nB:\nadd.u32 %r9, %r9, 10;\n"
                      "C:\nadd.u32 %r9, %r9, 100;\n",
                  [&](uint32_t i) { return number(i) == 0   ? 111u
                                           : number(i) == 1 ? 110u
                                                            : 100u; });
      return;
    case Opcode::kCall: {
      const char* const function =
          ".func (.param .b32 result) f(.param .b32 given)\n{\n.reg .b32 %r<4>;\n"
          "ld.param.b32 %r0, [given];\nmad.lo.u32 %r1, %r0, 3, 1;\nst.param.b32 [result], %r1;\n"
          "ret;\n}\n";
      const std::string guarded = uniform ? "" : "setp.ne.u32 %p0, %r2, 1;\n@!%p0 bra SKIP;\n";
      expect_each(
          key + "mov.u32 %r9, 9;\n" + guarded +
              "{\n.param .b32 given;\n.param .b32 result;\nst.param.b32 [given], %r0;\n" + name +
              " (result), f, (given);\nld.param.b32 %r9, [result];\n}\nSKIP:\n",
          [&](uint32_t i) { return number(i) == 1 ? 9 : 3 * i + 1; }, function);
      return;
    }
    case Opcode::kRet: {  // out of a function early, for some lanes
      const std::string function =
          ".func (.reg .b32 result) g(.reg .b32 given)\n{\n.reg .pred %p<2>;\n"
          "mov.b32 result, 70;\nsetp.ge.u32 %p0, given, 2;\n@%p0 " +
          name + ";\nmov.b32 result, 80;\n" + name + ";\n}\n";
      expect_each(
          key + "call (%r9), g, (%r2);\nadd.u32 %r9, %r9, 1;\n",
          [&](uint32_t i) { return number(i) >= 2 ? 71u : 81u; }, function);
      return;
    }
    case Opcode::kExit:  // and a barrier that does not wait for those who left
      expect_each("and.b32 %r2, %r0, 1;\nsetp.ne.u32 %p0, %r2, 0;\nmov.u32 %r9, 5;\n@%p0 " + name +
                      ";\nbar.sync 0;\n",
                  [](uint32_t i) { return i % 2 != 0 ? 4242u : 5u; });
      return;
    default: {  // trap, brkpt: the launch ends in a report that names the line
      test::Machine machine("sm_90a");
      const std::string body = ".visible .entry k()\n{\n" + name + ";\nret;\n}\n";
      ASSERT_NE(machine.load(body), nullptr);
      const LaunchOutcome outcome = machine.run("k", {1}, {32}, {});
      ASSERT_TRUE(outcome.fault) << name;
      EXPECT_EQ(outcome.fault->kind, FaultKind::kTrap);
      EXPECT_EQ(outcome.fault->ptx_line, test::line_of(body, name));
      return;
    }
  }
}

TEST(SlowReference, Control) {
  Ledger ledger(Group::kControl);
  for (const Tuple& t : tuples_of(Group::kControl)) {
    check_control(t);
    ledger.compared(t);
  }
  ledger.finish();
}

}  // namespace
}  // namespace tilewright::emulator::slow
