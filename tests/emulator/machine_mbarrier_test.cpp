// mbarrier: phases, counts, transactions and states, one program per point; blocking waits under
// every schedule; and what misuse and deadlock are reported as.
#include <gtest/gtest.h>

#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

std::string kernel(std::string_view body) {
  return R"(
.visible .entry k(.param .u64 out)
{
  .reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %rd<16>;
  .shared .align 8 .b8 bar[32];
  .shared .align 128 .b8 data[512];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, bar;
  mov.u32 %r3, data;
  setp.eq.u32 %p1, %r1, 0;
)" + std::string(body) +
         "\n  ret;\n}\n";
}

struct Ran {
  LaunchOutcome outcome;
  std::vector<uint32_t> values;
};

Ran run(const std::string& text, uint32_t threads, const LaunchSettings& settings = {},
        size_t words = 64) {
  Machine machine("sm_90a");
  Ran ran;
  if (machine.load(text) == nullptr) return ran;
  const DeviceAddress out = machine.upload(std::vector<uint32_t>(words, 0xcccccccc));
  Arguments arguments;
  arguments.add(out);
  ran.outcome = machine.run("k", {1}, {threads}, arguments, settings);
  ran.values = machine.download<uint32_t>(out, words);
  return ran;
}

// One thread performs operations and stores what it saw.
TEST(Mbarrier, PhasesCountsAndStates) {
  const Ran ran = run(kernel(R"(
  mbarrier.init.shared.b64 [%r2], 3;
  mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 0;
  selp.u32 %r4, 1, 0, %p2;
  st.global.u32 [%rd1], %r4;
  mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 1;
  selp.u32 %r4, 1, 0, %p2;
  st.global.u32 [%rd1+4], %r4;
  mbarrier.arrive.shared.b64 %rd2, [%r2];
  mbarrier.pending_count.b64 %r5, %rd2;
  st.global.u32 [%rd1+8], %r5;
  mbarrier.arrive.shared.b64 %rd3, [%r2], 2;
  mbarrier.pending_count.b64 %r5, %rd3;
  st.global.u32 [%rd1+12], %r5;
  mbarrier.test_wait.shared.b64 %p2, [%r2], %rd3;
  selp.u32 %r4, 1, 0, %p2;
  st.global.u32 [%rd1+16], %r4;
  mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 0;
  selp.u32 %r4, 1, 0, %p2;
  st.global.u32 [%rd1+20], %r4;
  mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 1;
  selp.u32 %r4, 1, 0, %p2;
  st.global.u32 [%rd1+24], %r4;
  // Dropping one: this phase still needs three arrivals, the next two.
  mbarrier.arrive_drop.shared.b64 %rd4, [%r2];
  mbarrier.arrive.noComplete.shared.b64 %rd4, [%r2], 1;
  mbarrier.arrive.shared.b64 %rd4, [%r2];
  mbarrier.arrive.shared.b64 %rd5, [%r2];
  mbarrier.pending_count.b64 %r5, %rd5;
  st.global.u32 [%rd1+28], %r5;
  mbarrier.test_wait.shared.b64 %p2, [%r2], %rd4;
  selp.u32 %r4, 1, 0, %p2;
  st.global.u32 [%rd1+32], %r4;
  mbarrier.test_wait.shared.b64 %p2, [%r2], %rd5;
  selp.u32 %r4, 1, 0, %p2;
  st.global.u32 [%rd1+36], %r4;
  mbarrier.inval.shared.b64 [%r2];
  mbarrier.init.shared.b64 [%r2], 1;
)"),
                      1);
  ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
  const std::vector<uint32_t> expected = {0, 1, 3, 2, 1, 1, 0, 2, 1, 0};
  EXPECT_EQ(std::vector<uint32_t>(ran.values.begin(), ran.values.begin() + 10), expected);
}

// The phase completes only when arrivals and bytes are both there, in either order.
TEST(Mbarrier, Transactions) {
  const Ran ran = run(kernel(R"(
  mbarrier.init.shared.b64 [%r2], 1;
  mbarrier.init.shared.b64 [%r2+8], 1;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 4096;
  mbarrier.complete_tx.shared::cta.b64 [%r2], 1024;
  mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 0;
  selp.u32 %r4, 1, 0, %p2;
  st.global.u32 [%rd1], %r4;
  mbarrier.complete_tx.shared::cta.b64 [%r2], 3072;
  mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 0;
  selp.u32 %r4, 1, 0, %p2;
  st.global.u32 [%rd1+4], %r4;
  // Bytes before the expectation: negative, until the arrival brings both.
  mbarrier.complete_tx.shared::cta.b64 [%r2+8], 64;
  mbarrier.expect_tx.shared::cta.b64 [%r2+8], 32;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r2+8], 32;
  mbarrier.test_wait.parity.shared.b64 %p2, [%r2+8], 0;
  selp.u32 %r4, 1, 0, %p2;
  st.global.u32 [%rd1+8], %r4;
)"),
                      1);
  ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
  EXPECT_EQ(ran.values[0], 0u);
  EXPECT_EQ(ran.values[1], 1u);
  EXPECT_EQ(ran.values[2], 1u);
}

// Warp 0 fills a slot, warp 1 empties it, eight times over, through a full and an empty barrier.
std::string ring(bool waits_full, bool waits_empty) {
  return kernel(std::string(R"(
  @%p1 mbarrier.init.shared.b64 [%r2], 32;
  @%p1 mbarrier.init.shared.b64 [%r2+8], 32;
  bar.sync 0;
  and.b32 %r4, %r1, 31;
  shl.b32 %r5, %r4, 2;
  add.u32 %r5, %r5, %r3;
  mov.u32 %r6, 0;
  mov.u32 %r9, 0;
  setp.ge.u32 %p2, %r1, 32;
  @%p2 bra CONSUMER;
PRODUCER:
  and.b32 %r7, %r6, 1;
  xor.b32 %r7, %r7, 1;
)") +
                (waits_empty ? R"(
WAIT_EMPTY:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r2+8], %r7;
  @!%p3 bra WAIT_EMPTY;
)"
                             : "") +
                R"(
  add.u32 %r8, %r6, %r4;
  st.shared.u32 [%r5], %r8;
  mbarrier.arrive.shared.b64 _, [%r2];
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p4, %r6, 8;
  @%p4 bra PRODUCER;
  bra DONE;
CONSUMER:
  and.b32 %r7, %r6, 1;
)" +
                (waits_full ? R"(
WAIT_FULL:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r2], %r7, 0x989680;
  @!%p3 bra WAIT_FULL;
)"
                            : "") +
                R"(
  ld.shared.u32 %r8, [%r5];
  mad.lo.u32 %r9, %r9, 3, %r8;
  mbarrier.arrive.shared.b64 _, [%r2+8];
  add.u32 %r6, %r6, 1;
  setp.lt.u32 %p4, %r6, 8;
  @%p4 bra CONSUMER;
  mul.wide.u32 %rd2, %r4, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r9;
DONE:
)");
}

std::vector<uint32_t> ring_result() {
  std::vector<uint32_t> expected(32);
  for (uint32_t lane = 0; lane < 32; ++lane) {
    for (uint32_t n = 0; n < 8; ++n) expected[lane] = expected[lane] * 3 + n + lane;
  }
  return expected;
}

TEST(Mbarrier, ARingIsRightUnderEverySchedule) {
  under_every_schedule([](const LaunchSettings& settings) {
    const Ran ran = run(ring(true, true), 64, settings, 32);
    ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
    EXPECT_EQ(ran.values, ring_result());
  });
}

// Without one of its waits the ring goes wrong or is reported, under some schedule.
TEST(Mbarrier, AMissingWaitShows) {
  for (const bool full : {true, false}) {
    bool shown = false;
    under_every_schedule([&](const LaunchSettings& settings) {
      const Ran ran = run(ring(full, !full), 64, settings, 32);
      shown |= ran.outcome.fault.has_value() || ran.values != ring_result();
    });
    EXPECT_TRUE(shown) << full;
  }
}

TEST(Mbarrier, DeadlockNamesTheBarrier) {
  under_every_schedule([](const LaunchSettings& settings) {
    const std::string text = kernel(R"(
  @%p1 mbarrier.init.shared.b64 [%r2], 2;
  bar.sync 0;
  @%p1 mbarrier.arrive.shared.b64 _, [%r2];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;
  @!%p3 bra WAIT;
)");
    const Ran ran = run(text, 64, settings);
    ASSERT_TRUE(ran.outcome.fault);
    EXPECT_EQ(ran.outcome.fault->kind, FaultKind::kDeadlock);
    EXPECT_NE(ran.outcome.fault->other_party.find("mbarrier at 0x400 (phase 0, 1 of 2 arrivals"),
              std::string::npos)
        << describe(ran.outcome);
    EXPECT_EQ(ran.outcome.fault->ptx_line, line_of(text, "mbarrier.try_wait"));
  });
}

// A lane waits for an arrival that another lane of its warp makes behind the point where they meet.
TEST(Mbarrier, LanesOfOneWarpWaitForEachOther) {
  under_every_schedule([](const LaunchSettings& settings) {
    const Ran ran = run(kernel(R"(
  @%p1 mbarrier.init.shared.b64 [%r2], 31;
  bar.warp.sync 0xffffffff;
  @!%p1 bra MEET;
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;
  @!%p3 bra WAIT;
  st.global.u32 [%rd1], 7;
MEET:
  @!%p1 mbarrier.arrive.shared.b64 _, [%r2];
)"),
                        32, settings);
    ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
    EXPECT_EQ(ran.values[0], 7u);
  });
}

TEST(Mbarrier, MisuseIsReportedAtItsLine) {
  const struct {
    const char* body;
    const char* at;
    const char* message;
  } cases[] = {
      {"mbarrier.arrive.shared.b64 _, [%r2];", "mbarrier.arrive", "not initialised"},
      {"mbarrier.init.shared.b64 [%r2], 0;", "mbarrier.init", "count of 0"},
      {"mbarrier.init.shared.b64 [%r2], 1;\n mbarrier.arrive.shared.b64 _, [%r2], 2;",
       "mbarrier.arrive", "an arrival of 2"},
      {"mbarrier.init.shared.b64 [%r2], 1;\n mbarrier.arrive.noComplete.shared.b64 %rd2, [%r2], 1;",
       "mbarrier.arrive", ".noComplete"},
      {"mbarrier.init.shared.b64 [%r2], 2;\n mbarrier.init.shared.b64 [%r2], 1;",
       "mbarrier.init.shared.b64 [%r2], 1", "live"},
      {"mbarrier.init.shared.b64 [%r2], 1;\n mbarrier.inval.shared.b64 [%r2];\n"
       " mbarrier.test_wait.parity.shared.b64 %p2, [%r2], 0;",
       "mbarrier.test_wait", "not initialised"},
      {"mbarrier.init.shared.b64 [%r2], 1;\n st.shared.u32 [%r2], 5;\n"
       " mbarrier.arrive.shared.b64 _, [%r2];",
       "mbarrier.arrive", "overwritten"},
      {"mbarrier.init.shared.b64 [%r2], 1;\n mbarrier.expect_tx.shared::cta.b64 [%r2], 1048575;\n"
       " mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 1;",
       "mbarrier.arrive", "1048575 bytes"},
      {"mbarrier.init.shared.b64 [%r2], 1;\n mbarrier.arrive.shared.b64 %rd2, [%r2];\n"
       " mbarrier.arrive.shared.b64 _, [%r2];\n"
       " mbarrier.test_wait.shared.b64 %p2, [%r2], %rd2;",
       "mbarrier.test_wait", "neither"},
  };
  for (const auto& c : cases) {
    const std::string text = kernel(c.body);
    const Ran ran = run(text, 1);
    ASSERT_TRUE(ran.outcome.fault) << c.body;
    EXPECT_EQ(ran.outcome.fault->kind, FaultKind::kMbarrier) << describe(ran.outcome);
    EXPECT_EQ(ran.outcome.fault->ptx_line, line_of(text, c.at)) << describe(ran.outcome);
    EXPECT_NE(ran.outcome.fault->message.find(c.message), std::string::npos)
        << describe(ran.outcome);
  }
  const Ran misaligned = run(kernel("mbarrier.init.shared.b64 [%r2+4], 1;"), 1);
  ASSERT_TRUE(misaligned.outcome.fault);
  EXPECT_EQ(misaligned.outcome.fault->kind, FaultKind::kMisaligned);
}

// cp.async.mbarrier.arrive: the phase completes when every thread's copies are there.
std::string copies(std::string_view count, std::string_view arrive, bool waits) {
  return kernel("\n  @%p1 mbarrier.init.shared.b64 [%r2], " + std::string(count) + R"(;
  bar.sync 0;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  shl.b32 %r5, %r1, 2;
  add.u32 %r5, %r5, %r3;
  cp.async.ca.shared.global [%r5], [%rd3], 4;
)" + std::string(arrive) +
                (waits ? R"(
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r2], 0;
  @!%p3 bra WAIT;
)"
                       : "") +
                R"(
  xor.b32 %r6, %r5, 124;
  ld.shared.u32 %r7, [%r6];
  st.global.u32 [%rd3+128], %r7;
)");
}

TEST(Mbarrier, TracksCopiesOfCpAsync) {
  const std::string counted =
      copies("32", "cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];", true);
  const std::string neutral = copies("32",
                                     "cp.async.mbarrier.arrive.shared.b64 [%r2];\n"
                                     "mbarrier.arrive.shared.b64 _, [%r2];",
                                     true);
  const std::string unwaited =
      copies("32", "cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];", false);
  under_every_schedule([&](const LaunchSettings& settings) {
    for (const std::string& text : {counted, neutral}) {
      const Ran ran = run(text, 32, settings, 64);
      ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
      for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(ran.values[32 + t], 0xccccccccu);
    }
    const Ran wrong = run(unwaited, 32, settings, 64);
    EXPECT_TRUE(wrong.outcome.fault.has_value());
  });
}

}  // namespace
}  // namespace tilewright::emulator::test
