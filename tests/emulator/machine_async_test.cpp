// cp.async under the three schedules: bytes land no earlier than the schedule says and no later
// than the covering wait, and a missing wait changes the result.
#include <gtest/gtest.h>

#include <numeric>

#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

// Each thread copies 16 bytes of `in` to shared memory in one of three groups (32 bytes apart), and
// after `wait` stores the words at 0, 64·16 and 128·16 of its place to out[3·t …].
std::string copy_kernel(std::string_view wait) {
  return R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<16>; .reg .b64 %rd<8>;
  .shared .align 16 .b8 tile[3072];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 16;
  add.s64 %rd4, %rd1, %rd3;
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 4;
  add.u32 %r4, %r2, %r3;
  cp.async.cg.shared.global [%r4], [%rd4], 16;
  cp.async.commit_group;
  cp.async.cg.shared.global [%r4+1024], [%rd4+1024], 16, 8;
  cp.async.commit_group;
  cp.async.ca.shared.global [%r4+2048], [%rd4+2048], 4;
  cp.async.commit_group;
)" + std::string(wait) +
         R"(
  ld.shared.u32 %r5, [%r4];
  ld.shared.u32 %r6, [%r4+1036];
  ld.shared.u32 %r7, [%r4+2048];
  mul.wide.u32 %rd5, %r1, 12;
  add.s64 %rd6, %rd2, %rd5;
  st.global.u32 [%rd6], %r5;
  st.global.u32 [%rd6+4], %r6;
  st.global.u32 [%rd6+8], %r7;
  ret;
}
)";
}

struct Landed {
  int of_group[3] = {0, 0, 0};  // threads that saw the copied value
  int poison = 0;               // words that held the poison pattern
};

Landed run(std::string_view wait, Schedule schedule, uint64_t seed = 0) {
  Machine machine;
  Landed result;
  if (machine.load(copy_kernel(wait)) == nullptr) return result;
  std::vector<uint32_t> in(768);
  std::iota(in.begin(), in.end(), 1000u);
  const DeviceAddress a = machine.upload(in);
  const DeviceAddress out = machine.allocate(64 * 12);
  Arguments arguments;
  arguments.add(a).add(out);
  LaunchSettings settings;
  settings.schedule = schedule;
  settings.seed = seed;
  const LaunchOutcome outcome = machine.run("k", {1}, {64}, arguments, settings);
  EXPECT_FALSE(outcome.fault) << describe(outcome);
  const auto values = machine.download<uint32_t>(out, 64 * 3);
  for (uint32_t t = 0; t < 64; ++t) {
    // The second copy reads 8 bytes only: its last word is filled with zero.
    const uint32_t expected[3] = {1000 + 4 * t, 0, 1512 + 4 * t};
    for (uint32_t g = 0; g < 3; ++g) {
      const uint32_t value = values[3 * t + g];
      result.of_group[g] += value == expected[g] ? 1 : 0;
      result.poison += value == 0xffffffffu ? 1 : 0;
      EXPECT_TRUE(value == expected[g] || value == 0xffffffffu) << value;
    }
  }
  return result;
}

TEST(CopyAsync, WaitingForEverythingIsRightUnderEverySchedule) {
  for (const std::string_view wait : {"  cp.async.wait_group 0;\n", "  cp.async.wait_all;\n"}) {
    for (const Schedule schedule : {Schedule::kEager, Schedule::kLazy, Schedule::kRandom}) {
      const Landed landed = run(wait, schedule, 3);
      EXPECT_EQ(landed.of_group[0] + landed.of_group[1] + landed.of_group[2], 192);
    }
  }
}

TEST(CopyAsync, LazyLandsExactlyWhatTheWaitCovers) {
  const Landed one = run("  cp.async.wait_group 1;\n", Schedule::kLazy);
  EXPECT_EQ(one.of_group[0], 64);
  EXPECT_EQ(one.of_group[1], 64);
  EXPECT_EQ(one.of_group[2], 0);
  const Landed two = run("  cp.async.wait_group 2;\n", Schedule::kLazy);
  EXPECT_EQ(two.of_group[0], 64);
  EXPECT_EQ(two.of_group[1] + two.of_group[2], 0);
  const Landed none = run("", Schedule::kLazy);
  EXPECT_EQ(none.poison, 192);
}

TEST(CopyAsync, AMissingWaitIsHiddenByEagerOnly) {
  EXPECT_EQ(run("", Schedule::kEager).poison, 0);
  EXPECT_GT(run("", Schedule::kLazy).poison, 0);
  // Random: some seed shows a part of the bytes, and the same seed shows the same part.
  bool some_in_between = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const int poison = run("  bar.sync 0;\n  bar.sync 0;\n", Schedule::kRandom, seed).poison;
    EXPECT_EQ(poison, run("  bar.sync 0;\n  bar.sync 0;\n", Schedule::kRandom, seed).poison);
    some_in_between |= poison > 0 && poison < 192;
  }
  EXPECT_TRUE(some_in_between);
}

// Lanes commit and wait on their own: half the warp commits one group more.
TEST(CopyAsync, GroupsArePerThread) {
  Machine machine;
  ASSERT_NE(machine.load(R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .pred %p<3>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
  .shared .align 16 .b8 tile[256];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 2;
  add.u32 %r4, %r2, %r3;
  cp.async.ca.shared.global [%r4], [%rd4], 4;
  cp.async.commit_group;
  setp.lt.u32 %p1, %r1, 16;
  @%p1 cp.async.commit_group;
  cp.async.wait_group 1;
  ld.shared.u32 %r5, [%r4];
  add.s64 %rd6, %rd2, %rd3;
  st.global.u32 [%rd6], %r5;
  ret;
}
)"),
            nullptr);
  const DeviceAddress in = machine.upload(std::vector<uint32_t>(32, 5));
  const DeviceAddress out = machine.allocate(128);
  Arguments arguments;
  arguments.add(in).add(out);
  LaunchSettings settings;
  settings.schedule = Schedule::kLazy;
  const LaunchOutcome outcome = machine.run("k", {1}, {32}, arguments, settings);
  ASSERT_FALSE(outcome.fault) << describe(outcome);
  const auto values = machine.download<uint32_t>(out, 32);
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(values[t], t < 16 ? 5u : 0xffffffffu) << t;
}

}  // namespace
}  // namespace tilewright::emulator::test
