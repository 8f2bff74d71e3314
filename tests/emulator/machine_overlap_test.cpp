// Programmatic dependent launches on the machine: how far a dependent grid may go before its
// primary has ended, and what griddepcontrol.wait makes visible.
#include <gtest/gtest.h>

#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

constexpr uint32_t kBlocks = 5;
constexpr uint32_t kThreads = 64;

// out: [0, 320) written by the primary, [320, 640) by the dependent, then one word per dependent
// block: what it saw of the primary before its wait.
std::string program(std::string_view trigger, std::string_view wait) {
  constexpr std::string_view kHead = R"((.param .u64 out)
{
  .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mad.lo.u32 %r3, %r2, 64, %r1;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd2, %rd1, %rd2;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd3, %rd1, %rd3;
  setp.eq.u32 %p1, %r1, 0;
  add.u32 %r4, %r3, 1000;
)";
  return ".visible .entry primary" + std::string(kHead) + std::string(trigger) + R"(
  mov.u32 %r5, 0;
SPIN:
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p2, %r5, 2000;
  @%p2 bra SPIN;
  bar.sync 0;
  st.global.u32 [%rd2], %r4;
  ret;
}
.visible .entry dependent)" +
         std::string(kHead) + R"(
  ld.global.u32 %r6, [%rd2];
  @%p1 st.global.u32 [%rd3+2560], %r6;
)" + std::string(wait) +
         R"(
  ld.global.u32 %r7, [%rd2];
  add.u32 %r7, %r7, 1;
  st.global.u32 [%rd2+1280], %r7;
  ret;
}
)";
}

constexpr std::string_view kTrigger = "  griddepcontrol.launch_dependents;\n";
constexpr std::string_view kWait = "  griddepcontrol.wait;\n";

struct Ran {
  OverlappedOutcome outcome;
  std::vector<uint32_t> values;
  bool has_fault() const { return outcome.primary.fault || outcome.dependent.fault; }
  bool is_right() const {
    for (uint32_t n = 0; n < kBlocks * kThreads; ++n) {
      if (values[n] != 1000 + n || values[320 + n] != 1001 + n) return false;
    }
    return true;
  }
  // Dependent blocks that saw the primary's data before they waited.
  uint32_t late_blocks() const {
    uint32_t count = 0;
    for (uint32_t b = 0; b < kBlocks; ++b) count += values[640 + b] == 1000 + b * kThreads ? 1 : 0;
    return count;
  }
};

Ran run(const std::string& text, const LaunchSettings& settings, uint32_t blocks = kBlocks) {
  Machine machine("sm_90");
  Ran ran;
  const LoadedModule* module = machine.load(text);
  if (module == nullptr) return ran;
  const DeviceAddress out = machine.upload(std::vector<uint32_t>(1024, 0));
  Arguments arguments;
  arguments.add(out);
  LaunchRequest primary;
  primary.module = module;
  primary.kernel = module->find_kernel("primary");
  primary.grid = {blocks};
  primary.block = {kThreads};
  primary.parameters = arguments.bytes();
  primary.settings = settings;
  LaunchRequest dependent = primary;
  dependent.kernel = module->find_kernel("dependent");
  ran.outcome = run_overlapped(primary, dependent, machine.arch(), machine.memory());
  ran.values = machine.download<uint32_t>(out, 1024);
  return ran;
}

TEST(Overlap, TheWaitMakesThePrimaryVisible) {
  bool early = false;
  bool late = false;
  bool shown = false;
  under_every_schedule([&](LaunchSettings settings) {
    for (const ObserverLevel observers : {ObserverLevel::kOff, ObserverLevel::kMemory}) {
      settings.observers = observers;
      const Ran ran = run(program(kTrigger, kWait), settings);
      ASSERT_FALSE(ran.has_fault());
      EXPECT_TRUE(ran.is_right()) << "seed " << settings.seed;
      if (settings.schedule == Schedule::kEager) {
        EXPECT_EQ(ran.late_blocks(), kBlocks);
      } else if (settings.schedule == Schedule::kLazy) {
        EXPECT_EQ(ran.late_blocks(), 0u);
      }
      early |= ran.late_blocks() == 0;
      late |= ran.late_blocks() == kBlocks;
      EXPECT_EQ(ran.outcome.primary.counters.blocks, kBlocks);
      EXPECT_EQ(ran.outcome.dependent.counters.blocks, kBlocks);
      // The same seed, the same order.
      EXPECT_EQ(run(program(kTrigger, kWait), settings).values, ran.values);
      // Without the wait the result is right by luck alone.
      shown |= !run(program(kTrigger, ""), settings).is_right();
    }
  });
  EXPECT_TRUE(early);
  EXPECT_TRUE(late);
  EXPECT_TRUE(shown);
}

// No block, or not every block, lets dependents go early: they start when the primary has ended.
TEST(Overlap, EveryBlockHasToLaunchDependents) {
  under_every_schedule([&](const LaunchSettings& settings) {
    const Ran never = run(program("", kWait), settings);
    ASSERT_FALSE(never.has_fault());
    EXPECT_EQ(never.late_blocks(), kBlocks);
    const Ran not_all = run(
        program("  setp.ne.u32 %p3, %r2, 3;\n  @%p3 griddepcontrol.launch_dependents;\n", kWait),
        settings);
    ASSERT_FALSE(not_all.has_fault());
    EXPECT_TRUE(not_all.is_right());
    // Block 3 ends last, or with the others: what it wrote was there before any dependent began.
    EXPECT_EQ(not_all.values[643], 1000u + 3 * kThreads);
  });
}

// One thread of a block speaks for it; more say nothing new. Both do nothing in a launch of its
// own.
TEST(Overlap, OneThreadIsEnough) {
  LaunchSettings lazy;
  lazy.schedule = Schedule::kLazy;
  const std::string one =
      program("  @%p1 griddepcontrol.launch_dependents;\n" + std::string(kTrigger), kWait);
  const Ran ran = run(one, lazy);
  ASSERT_FALSE(ran.has_fault());
  EXPECT_EQ(ran.late_blocks(), 0u);
  Machine machine("sm_90");
  ASSERT_NE(machine.load(one), nullptr);
  const DeviceAddress out = machine.upload(std::vector<uint32_t>(1024, 0));
  Arguments arguments;
  arguments.add(out);
  EXPECT_FALSE(machine.run("dependent", {kBlocks}, {kThreads}, arguments, lazy).fault);
}

// A fault on either side ends both and is reported once; a primary that never ends is a deadlock.
TEST(Overlap, FaultsAndDeadlocks) {
  under_every_schedule([&](const LaunchSettings& settings) {
    const Ran trap = run(program(std::string(kTrigger) + "  trap;\n", kWait), settings);
    EXPECT_TRUE(trap.outcome.primary.fault);
    EXPECT_FALSE(trap.outcome.dependent.fault);
    const Ran late = run(program(kTrigger, std::string(kWait) + "  trap;\n"), settings);
    EXPECT_FALSE(late.outcome.primary.fault);
    ASSERT_TRUE(late.outcome.dependent.fault);
    EXPECT_EQ(late.outcome.dependent.fault->kernel, "dependent");
    const Ran stuck = run(program(std::string(kTrigger) + R"(
  setp.lt.u32 %p3, %r1, 32;
  @%p3 bra ONE;
  bar.sync 2, 64;
  bra MET;
ONE:
  bar.sync 1, 64;
MET:
)",
                                  kWait),
                          settings);
    ASSERT_TRUE(stuck.outcome.primary.fault);
    EXPECT_EQ(stuck.outcome.primary.fault->kind, FaultKind::kDeadlock);
  });
}

}  // namespace
}  // namespace tilewright::emulator::test
