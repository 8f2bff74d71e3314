// setmaxnreg: the block's pool of registers, who waits for it, and what is refused.
#include <gtest/gtest.h>

#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

// Warpgroup %r2; `first` runs in warpgroup 0, `others` in the rest. Every thread then stores 1.
std::string kernel(std::string_view directives, std::string_view first, std::string_view others) {
  return ".visible .entry k(.param .u64 out) " + std::string(directives) + R"(
{
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  .shared .align 8 .b8 bar[8];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  shr.u32 %r2, %r1, 7;
  mov.u32 %r4, bar;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra OTHERS;
)" + std::string(first) +
         "\n  bra DONE;\nOTHERS:\n" + std::string(others) +
         "\nDONE:\n  st.global.u32 [%rd1], 1;\n  ret;\n}\n";
}

constexpr std::string_view kBounds = ".maxntid 384, 1, 1 .minnctapersm 1";  // 168 registers
constexpr std::string_view kDec24 = "  setmaxnreg.dec.sync.aligned.u32 24;\n";
constexpr std::string_view kInc240 = "  setmaxnreg.inc.sync.aligned.u32 240;\n";

// Runs under every schedule with one verdict.
std::optional<FaultReport> run(const std::string& text, uint32_t threads = 384) {
  std::optional<FaultReport> first;
  bool any = false;
  under_every_schedule([&](LaunchSettings settings) {
    Machine machine("sm_90a");
    if (machine.load(text) == nullptr) return;
    const DeviceAddress out = machine.upload(std::vector<uint32_t>(384, 0));
    Arguments arguments;
    arguments.add(out);
    settings.instruction_limit = 100'000;
    const LaunchOutcome outcome = machine.run("k", {1}, {threads}, arguments, settings);
    if (outcome.fault) {
      if (any) {
        EXPECT_EQ(outcome.fault->kind, first->kind) << describe(outcome);
      }
      first = outcome.fault;
      any = true;
    } else {
      EXPECT_FALSE(any);
      const auto values = machine.download<uint32_t>(out, threads);
      EXPECT_EQ(values, std::vector<uint32_t>(threads, 1));
    }
  });
  return first;
}

std::string message(const std::optional<FaultReport>& fault) {
  return fault ? fault->to_string() : "no fault";
}

TEST(Setmaxnreg, TradesWhatTheLaunchAllotted) {
  // 168 each: one warpgroup gives 144, the two others take 72 each, and not one step more.
  EXPECT_FALSE(run(kernel(kBounds, kDec24, kInc240)));
  const auto more = run(kernel(kBounds, kDec24, "  setmaxnreg.inc.sync.aligned.u32 248;\n"));
  ASSERT_TRUE(more);
  EXPECT_EQ(more->kind, FaultKind::kDeadlock) << message(more);
  EXPECT_NE(message(more).find("more registers per thread"), std::string::npos) << message(more);
  // .maxnreg fixes the count too, and .reqntid does as .maxntid.
  EXPECT_FALSE(run(kernel(".maxnreg 168", kDec24, kInc240)));
  EXPECT_TRUE(run(kernel(".maxnreg 160", kDec24, kInc240)));
  EXPECT_FALSE(run(kernel(".reqntid 384 .minnctapersm 1", kDec24, kInc240)));
}

// Nobody gives: the first to take waits for ever.
TEST(Setmaxnreg, NothingIsFreeAtTheStart) {
  const auto fault = run(kernel(kBounds, kInc240, ""));
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, FaultKind::kDeadlock);
  EXPECT_NE(message(fault).find("72 more registers per thread, of which the block's pool has 0"),
            std::string::npos)
      << message(fault);
}

// The giver waits for the takers before it gives, or after.
TEST(Setmaxnreg, WaitsInsideAProtocol) {
  EXPECT_FALSE(run(kernel(kBounds, std::string(kDec24) + "  bar.sync 1, 384;\n",
                          std::string(kInc240) + "  bar.sync 1, 384;\n")));
  const auto fault = run(kernel(kBounds, "  bar.sync 1, 384;\n" + std::string(kDec24),
                                std::string(kInc240) + "  bar.sync 1, 384;\n"));
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, FaultKind::kDeadlock) << message(fault);
}

// What may have no effect has none: even an exchange that would never be met.
TEST(Setmaxnreg, HasNoEffectWithoutAFixedCount) {
  for (const char* directives : {"", ".maxntid 384, 1, 1", ".reqntid 384, 1, 1"}) {
    const auto fault = run(kernel(directives, kInc240, kInc240));
    EXPECT_FALSE(fault) << message(fault);
  }
}

// Asking again for what one has needs no meeting of the warpgroup.
TEST(Setmaxnreg, MayRepeatItsCountAtAnyTime) {
  constexpr std::string_view kAgain =
      "setmaxnreg.dec.sync.aligned.u32 40;\n setp.ge.u32 %p2, %r1, 96;\n @%p2 bra LATE;\n"
      "setmaxnreg.dec.sync.aligned.u32 40;\n bar.sync 2, 128;\n bra DONE;\nLATE:\n"
      "bar.sync 2, 128;\n setmaxnreg.dec.sync.aligned.u32 40;\n";
  const auto fault = run(kernel(kBounds, kAgain, ""));
  EXPECT_FALSE(fault) << message(fault);
}

TEST(Setmaxnreg, IsRefused) {
  const auto kind = [&](std::string_view directives, std::string_view first, const char* says,
                        uint32_t threads = 384) {
    const auto fault = run(kernel(directives, first, ""), threads);
    EXPECT_NE(message(fault).find(says), std::string::npos) << message(fault);
    return fault ? fault->kind : FaultKind::kRace;
  };
  // Against the direction.
  EXPECT_EQ(kind(kBounds, "setmaxnreg.dec.sync.aligned.u32 176;", "from 168"),
            FaultKind::kIllegalInstruction);
  EXPECT_EQ(kind(kBounds, "setmaxnreg.inc.sync.aligned.u32 160;", "from 168"),
            FaultKind::kIllegalInstruction);
  // Not the whole warpgroup, or not the same for all of it.
  EXPECT_EQ(kind(kBounds, kDec24, "whole warpgroup", 96), FaultKind::kDivergent);
  EXPECT_EQ(kind(kBounds,
                 "setp.lt.u32 %p2, %r1, 64;\n @%p2 bra LOW;\n"
                 "setmaxnreg.dec.sync.aligned.u32 32;\n bra DONE;\n LOW:\n"
                 "setmaxnreg.dec.sync.aligned.u32 40;\n",
                 "a different one"),
            FaultKind::kDivergent);
  // A second one before all warps have executed the first.
  constexpr std::string_view kLate =
      "setp.ge.u32 %p2, %r1, 96;\n @%p2 bra LATE;\n"
      "setmaxnreg.dec.sync.aligned.u32 40;\n setmaxnreg.dec.sync.aligned.u32 32;\n"
      "bar.sync 2, 128;\n bra DONE;\nLATE:\n bar.sync 2, 128;\n"
      "setmaxnreg.dec.sync.aligned.u32 40;\n setmaxnreg.dec.sync.aligned.u32 32;\n";
  EXPECT_EQ(kind(kBounds, kLate, "has executed the one before"), FaultKind::kDivergent);
  EXPECT_FALSE(run(kernel(kBounds,
                          "setmaxnreg.dec.sync.aligned.u32 40;\n bar.sync 2, 128;\n"
                          "setmaxnreg.dec.sync.aligned.u32 32;\n bar.sync 2, 128;\n"
                          "setmaxnreg.inc.sync.aligned.u32 168;\n",
                          "")));
}

// Figures that no launch can meet end in a refusal or a count, never in a crash.
TEST(Setmaxnreg, AbsurdDirectives) {
  for (const char* directives :
       {".maxntid 4294967295, 4294967295, 64 .minnctapersm 4294967295", ".maxntid 4294967295",
        ".minnctapersm 134217728 .maxntid 32", ".maxnreg 1", ".maxnreg 4294967295"}) {
    Machine machine("sm_90a");
    const auto loaded = machine.try_load(kernel(directives, kDec24, kInc240));
    if (loaded.ok()) {
      EXPECT_LE((*loaded)->kernel(0).registers, 256u) << directives;
    }
  }
}

}  // namespace
}  // namespace tilewright::emulator::test
