// Divergence, loops, calls, barriers, exchange among lanes, atomics: results and determinism under
// every schedule.
#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

// Schedules and host threads that every program must give equal results under.
std::vector<LaunchSettings> all_settings() {
  std::vector<LaunchSettings> result;
  for (const Schedule schedule : {Schedule::kEager, Schedule::kLazy, Schedule::kRandom}) {
    for (const ObserverLevel observers :
         {ObserverLevel::kOff, ObserverLevel::kMemory, ObserverLevel::kFull}) {
      for (uint64_t seed = 1; seed <= (schedule == Schedule::kRandom ? 3u : 1u); ++seed) {
        LaunchSettings settings;
        settings.schedule = schedule;
        settings.observers = observers;
        settings.seed = seed;
        settings.host_threads = seed % 2 == 0 ? 2 : 1;
        settings.instruction_limit = 1'000'000;
        result.push_back(settings);
      }
    }
  }
  return result;
}

// A kernel `k(u64 out)` of one block whose thread t stores `%r0` to out[t]; `code` computes it from
// %tid.x in %r1.
std::string one_block(std::string_view code, std::string_view declarations = "") {
  return ".visible .entry k(.param .u64 out)\n{\n"
         "  .reg .pred %p<10>;\n  .reg .b32 %r<40>;\n  .reg .b64 %rd<20>;\n  .reg .f32 %f<10>;\n" +
         std::string(declarations) + "  mov.u32 %r1, %tid.x;\n  mov.u32 %r0, 0;\n" +
         std::string(code) +
         "  ld.param.u64 %rd1, [out];\n  mul.wide.u32 %rd2, %r1, 4;\n  add.s64 %rd3, %rd1, %rd2;\n"
         "  st.global.u32 [%rd3], %r0;\n  ret;\n}\n";
}

// Runs one_block(code) with `threads` threads and compares out[t] with expected(t).
template <class Expected>
void expect_values(std::string_view code, uint32_t threads, Expected&& expected,
                   std::string_view declarations = "", std::string_view target = "sm_80",
                   std::string_view before = "") {
  Machine machine(target);
  const std::string text = std::string(before) + one_block(code, declarations);
  ASSERT_NE(machine.load(text), nullptr);
  for (const LaunchSettings& settings : all_settings()) {
    const DeviceAddress out = machine.upload(std::vector<uint32_t>(threads, 0xdddddddd));
    Arguments arguments;
    arguments.add(out);
    const LaunchOutcome outcome = machine.run("k", {1}, {threads}, arguments, settings);
    ASSERT_FALSE(outcome.fault) << describe(outcome);
    const auto values = machine.download<uint32_t>(out, threads);
    for (uint32_t t = 0; t < threads; ++t) {
      ASSERT_EQ(values[t], static_cast<uint32_t>(expected(t)))
          << "thread " << t << ", schedule " << static_cast<int>(settings.schedule);
    }
  }
}

TEST(Control, IfElseRejoins) {
  expect_values(R"(
  and.b32 %r2, %r1, 1;
  setp.eq.u32 %p1, %r2, 0;
  @%p1 bra $even;
  mul.lo.u32 %r3, %r1, 3;
  bra.uni $join;
$even:
  add.u32 %r3, %r1, 100;
$join:
  activemask.b32 %r4;
  popc.b32 %r4, %r4;
  shl.b32 %r4, %r4, 16;
  or.b32 %r0, %r3, %r4;
)",
                96, [](uint32_t t) { return (t % 2 == 0 ? t + 100 : 3 * t) | 32u << 16; });
}

TEST(Control, NestedIfsRejoinFromTheInside) {
  expect_values(R"(
  setp.lt.u32 %p1, %r1, 20;
  @!%p1 bra $outer;
  setp.lt.u32 %p2, %r1, 7;
  @!%p2 bra $inner;
  add.u32 %r0, %r0, 1;
$inner:
  activemask.b32 %r5;
  popc.b32 %r5, %r5;
  mad.lo.u32 %r0, %r5, 10, %r0;
$outer:
  activemask.b32 %r6;
  popc.b32 %r6, %r6;
  mad.lo.u32 %r0, %r6, 1000, %r0;
)",
                32, [](uint32_t t) { return 32000 + (t < 20 ? 200 : 0) + (t < 7 ? 1 : 0); });
}

TEST(Control, LoopsOfDifferentLengthsRejoinBehind) {
  // Thread t adds 1 … t, with a break for multiples of 5 after 3 rounds.
  expect_values(R"(
  mov.u32 %r2, 0;
$loop:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra $end;
  add.u32 %r2, %r2, 1;
  add.u32 %r0, %r0, %r2;
  rem.u32 %r3, %r1, 5;
  setp.eq.u32 %p2, %r3, 0;
  setp.eq.and.u32 %p3, %r2, 3, %p2;
  @%p3 bra $end;
  bra $loop;
$end:
  activemask.b32 %r4;
  popc.b32 %r4, %r4;
  shl.b32 %r4, %r4, 16;
  add.u32 %r0, %r0, %r4;
)",
                64, [](uint32_t t) {
                  const uint32_t rounds = t % 5 == 0 ? std::min(t, 3u) : t;
                  return rounds * (rounds + 1) / 2 + (32u << 16);
                });
}

TEST(Control, EarlyExitLeavesTheOthersRunning) {
  expect_values(R"(
  setp.ge.u32 %p1, %r1, 8;
  mov.u32 %r0, 5;
  @%p1 bra $go;
  ld.param.u64 %rd5, [out];
  mul.wide.u32 %rd6, %r1, 4;
  add.s64 %rd5, %rd5, %rd6;
  st.global.u32 [%rd5], 77;
  exit;
$go:
  bar.sync 0;
  activemask.b32 %r2;
  popc.b32 %r0, %r2;
)",
                64, [](uint32_t t) { return t < 8    ? 77u
                                            : t < 32 ? 24u
                                                     : 32u; });
}

TEST(Control, IndexedBranch) {
  expect_values(R"(
  and.b32 %r2, %r1, 3;
  brx.idx %r2, $table;
$a:
  mov.u32 %r0, 10;
  bra $join;
$b:
  mov.u32 %r0, 11;
  bra $join;
$c:
  mov.u32 %r0, 12;
  bra $join;
$d:
  mov.u32 %r0, 13;
$join:
  activemask.b32 %r3;
  popc.b32 %r3, %r3;
  mad.lo.u32 %r0, %r3, 100, %r0;
)",
                32, [](uint32_t t) { return 3200 + 10 + t % 4; },
                "$table: .branchtargets $a, $b, $c, $d;\n");
}

constexpr std::string_view kFactorial = R"(
.func (.param .b32 func_retval0) factorial(.param .b32 factorial_param_0)
{
  .local .align 4 .b8 depot[16];
  .reg .pred %p<2>;
  .reg .b32 %r<8>;
  ld.param.u32 %r1, [factorial_param_0];
  mov.u32 %r7, 1;
  setp.lt.u32 %p1, %r1, 2;
  @%p1 bra $base;
  st.local.u32 [depot+8], %r1;
  add.u32 %r2, %r1, -1;
  { .reg .b32 temp_param_reg;
    .param .b32 param0;
    st.param.b32 [param0+0], %r2;
    .param .b32 retval0;
    call.uni (retval0), factorial, (param0);
    ld.param.b32 %r3, [retval0+0];
  }
  ld.local.u32 %r4, [depot+8];
  mul.lo.u32 %r7, %r3, %r4;
$base:
  st.param.b32 [func_retval0+0], %r7;
  ret;
}
)";

TEST(Control, RecursionKeepsFramesApart) {
  const auto factorial = [](uint32_t n) {
    uint32_t product = 1;
    for (uint32_t i = 2; i <= n; ++i) product *= i;
    return product;
  };
  expect_values(R"(
  rem.u32 %r2, %r1, 11;
  { .param .b32 param0;
    st.param.b32 [param0+0], %r2;
    .param .b32 retval0;
    call.uni (retval0), factorial, (param0);
    ld.param.b32 %r0, [retval0+0];
  }
  activemask.b32 %r3;
  setp.ne.u32 %p1, %r3, 0xffffffff;
  @%p1 mov.u32 %r0, 0;
)",
                32, [&](uint32_t t) { return factorial(t % 11); }, "", "sm_80", kFactorial);
}

constexpr std::string_view kTwoFunctions = R"(
.func (.param .b32 r) twice(.param .b32 x)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.func (.param .b32 r) square(.param .b32 x)
{ .reg .b32 %r<3>; ld.param.u32 %r1, [x]; mul.lo.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.global .align 8 .u64 table[2] = {twice, square};
)";

TEST(Control, IndirectCallsSplitByTarget) {
  expect_values(R"(
  and.b32 %r2, %r1, 1;
  mul.wide.u32 %rd4, %r2, 8;
  mov.u64 %rd5, table;
  add.s64 %rd5, %rd5, %rd4;
  ld.global.u64 %rd6, [%rd5];
  { .param .b32 param0;
    st.param.b32 [param0+0], %r1;
    .param .b32 retval0;
    prototype_0: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (retval0), %rd6, (param0), prototype_0;
    ld.param.b32 %r0, [retval0+0];
  }
)",
                32, [](uint32_t t) { return t % 2 == 0 ? 2 * t : t * t; }, "", "sm_80",
                kTwoFunctions);
}

TEST(Control, BarriersOrderSharedMemory) {
  // A reversal through shared memory, twice, with 4 warps.
  expect_values(R"(
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, buffer;
  add.u32 %r4, %r3, %r2;
  mul.lo.u32 %r5, %r1, 7;
  st.shared.u32 [%r4], %r5;
  bar.sync 0;
  sub.u32 %r6, 508, %r2;
  add.u32 %r6, %r3, %r6;
  ld.shared.u32 %r7, [%r6];
  bar.sync 0;
  add.u32 %r7, %r7, 1;
  st.shared.u32 [%r4], %r7;
  barrier.sync 1, 128;
  ld.shared.u32 %r0, [%r6];
)",
                128, [](uint32_t t) { return 7 * t + 1; }, "  .shared .align 4 .b8 buffer[512];\n");
}

TEST(Control, NamedBarriersHandOver) {
  // Warps 0 and 1 produce and arrive; warps 2 and 3 wait for them.
  expect_values(R"(
  mov.u32 %r3, buffer;
  shl.b32 %r2, %r1, 2;
  setp.ge.u32 %p1, %r1, 64;
  @%p1 bra $consume;
  add.u32 %r4, %r3, %r2;
  add.u32 %r5, %r1, 1000;
  st.shared.u32 [%r4], %r5;
  bar.arrive 5, 128;
  bra $done;
$consume:
  bar.sync 5, 128;
  sub.u32 %r2, %r2, 256;
  add.u32 %r4, %r3, %r2;
  ld.shared.u32 %r0, [%r4];
$done:
)",
                128, [](uint32_t t) { return t < 64 ? 0 : t - 64 + 1000; },
                "  .shared .align 4 .b8 buffer[256];\n");
}

TEST(Control, BarrierReductions) {
  expect_values(R"(
  setp.lt.u32 %p1, %r1, 37;
  bar.red.popc.u32 %r2, 0, %p1;
  bar.red.and.pred %p2, 0, %p1;
  bar.red.or.pred %p3, 0, !%p1;
  selp.u32 %r3, 1, 0, %p2;
  selp.u32 %r4, 1, 0, %p3;
  mad.lo.u32 %r0, %r3, 1000, %r2;
  mad.lo.u32 %r0, %r4, 10000, %r0;
)",
                64, [](uint32_t) { return 10037; });
}

TEST(Control, ShufflesVotesMatchesAndReductions) {
  expect_values(R"(
  shfl.sync.bfly.b32 %r2|%p1, %r1, 5, 0x1f, -1;
  shfl.sync.up.b32 %r3|%p2, %r1, 3, 0, -1;
  shfl.sync.down.b32 %r4, %r1, 2, 0x181f, -1;
  shfl.sync.idx.b32 %r5, %r1, 10, 0x181f, -1;
  setp.lt.u32 %p3, %r1, 9;
  vote.sync.ballot.b32 %r6, %p3, -1;
  vote.sync.any.pred %p4, %p3, -1;
  vote.sync.all.pred %p5, %p3, -1;
  shr.u32 %r7, %r1, 3;
  match.any.sync.b32 %r8, %r7, -1;
  redux.sync.add.s32 %r9, %r1, -1;
  add.u32 %r0, %r2, %r3;
  add.u32 %r0, %r0, %r4;
  add.u32 %r0, %r0, %r5;
  add.u32 %r0, %r0, %r6;
  add.u32 %r0, %r0, %r8;
  add.u32 %r0, %r0, %r9;
  @!%p2 add.u32 %r0, %r0, 100000;
  @!%p4 mov.u32 %r0, 0;
  @%p5 mov.u32 %r0, 0;
)",
                32, [](uint32_t t) {
                  const uint32_t up = t >= 3 ? t - 3 : t;
                  const uint32_t down = t % 8 + 2 <= 7 ? t + 2 : t;
                  const uint32_t idx = (t & ~7u) | 2;
                  const uint32_t match = 0xffu << (t & ~7u);
                  return (t ^ 5) + up + down + idx + 0x1ffu + match + 496 + (t < 3 ? 100000u : 0u);
                });
}

TEST(Control, SyncGathersDivergedLanes) {
  // Both halves of the warp reach one shuffle by different ways, one of them late.
  expect_values(R"(
  setp.lt.u32 %p1, %r1, 16;
  mov.u32 %r2, 0;
  @%p1 bra $meet;
$spin:
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, %r1;
  @%p2 bra $spin;
$meet:
  bar.warp.sync -1;
  shfl.sync.idx.b32 %r0, %r1, 31, 0x1f, -1;
)",
                32, [](uint32_t) { return 31; });
}

TEST(Control, SubgroupsShuffleUnderTheirOwnMasks) {
  // Lanes below and above 16 exchange within their halves from different branches.
  expect_values(R"(
  setp.lt.u32 %p1, %r1, 16;
  @%p1 bra $low;
  shfl.sync.bfly.b32 %r0, %r1, 1, 0x1f, 0xffff0000;
  bra $join;
$low:
  shfl.sync.bfly.b32 %r0, %r1, 2, 0x1f, 0x0000ffff;
$join:
  selp.b32 %r2, 0x0000ffff, 0xffff0000, %p1;
  shfl.sync.idx.b32 %r3, %r0, 0, 0x1000, %r2;
  add.u32 %r0, %r0, 0;
)",
                32, [](uint32_t t) { return t < 16 ? t ^ 2 : t ^ 1; });
}

TEST(Control, SpinlockWithinAWarpMakesProgress) {
  // Every lane takes the same lock in turn: needs lanes that make progress one by one.
  expect_values(R"(
  mov.u32 %r3, lock;
  mov.u32 %r4, counter;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $ready;
  st.shared.u32 [%r3], 0;
  st.shared.u32 [%r4], 0;
$ready:
  bar.sync 0;
$again:
  atom.shared.cas.b32 %r5, [%r3], 0, 1;
  setp.ne.u32 %p2, %r5, 0;
  @%p2 bra $again;
  ld.volatile.shared.u32 %r6, [%r4];
  add.u32 %r6, %r6, 1;
  st.volatile.shared.u32 [%r4], %r6;
  atom.shared.exch.b32 %r7, [%r3], 0;
  bar.sync 0;
  ld.shared.u32 %r0, [%r4];
)",
                64, [](uint32_t) { return 64; },
                "  .shared .align 4 .b32 lock;\n  .shared .align 4 .b32 counter;\n");
}

TEST(Control, GuardedInstructionsKeepOtherLanes) {
  expect_values(R"(
  mov.u32 %r0, 1;
  setp.gt.u32 %p1, %r1, 15;
  @%p1 add.u32 %r0, %r1, 100;
  mov.b64 %rd5, 0;
  cvt.u64.u32 %rd6, %r1;
  @!%p1 mov.b64 %rd5, %rd6;
  cvt.u32.u64 %r2, %rd5;
  add.u32 %r0, %r0, %r2;
  @%p1 shfl.sync.idx.b32 %r0, %r0, 20, 0x1f, 0xffff0000;
)",
                32, [](uint32_t t) { return t > 15 ? 120 : 1 + t; });
}

constexpr std::string_view kTicket = R"(
.visible .entry ticket(.param .u64 counter, .param .u64 order)
{
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra $end;
  ld.param.u64 %rd1, [counter];
  ld.param.u64 %rd2, [order];
  mov.u32 %r2, %ctaid.x;
$wait:
  ld.volatile.global.u32 %r3, [%rd1];
  setp.ne.u32 %p2, %r3, %r2;
  @%p2 bra $wait;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r3;
  atom.global.add.u32 %r4, [%rd1], 1;
$end:
  ret;
}
)";

TEST(Control, BlocksThatWaitForOneAnotherAllProgress) {
  Machine machine;
  ASSERT_NE(machine.load(kTicket), nullptr);
  for (const LaunchSettings& settings : all_settings()) {
    const DeviceAddress counter = machine.upload(std::vector<uint32_t>{0});
    const DeviceAddress order = machine.upload(std::vector<uint32_t>(40, 99));
    Arguments arguments;
    arguments.add(counter).add(order);
    const LaunchOutcome outcome = machine.run("ticket", {40}, {64}, arguments, settings);
    ASSERT_FALSE(outcome.fault) << describe(outcome);
    const auto values = machine.download<uint32_t>(order, 40);
    for (uint32_t i = 0; i < 40; ++i) EXPECT_EQ(values[i], i);
  }
}

TEST(Control, IntegerReductionsAcrossBlocksAndThreads) {
  Machine machine;
  ASSERT_NE(machine.load(R"(
.visible .entry sum(.param .u64 out)
{
  .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  red.global.add.u32 [%rd1], %r1;
  red.global.max.u32 [%rd1+4], %r1;
  ret;
}
)"),
            nullptr);
  for (int threads = 1; threads <= 2; ++threads) {
    const DeviceAddress out = machine.upload(std::vector<uint32_t>{0, 0});
    Arguments arguments;
    arguments.add(out);
    LaunchSettings settings;
    settings.host_threads = threads;
    const LaunchOutcome outcome = machine.run("sum", {100}, {256}, arguments, settings);
    ASSERT_FALSE(outcome.fault) << describe(outcome);
    const auto values = machine.download<uint32_t>(out, 2);
    EXPECT_EQ(values[0], 100u * 255 * 256 / 2);
    EXPECT_EQ(values[1], 255u);
  }
}

}  // namespace
}  // namespace tilewright::emulator::test
