// What reports of faults say beside kind and line (observed_programs.h), refusals at load and
// launch.
#include <gtest/gtest.h>

#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

constexpr std::string_view kHead = R"(
.visible .entry k(.param .u64 a, .param .u64 b)
{
  .reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .reg .f32 %f<8>; .reg .b16 %rs<4>;
  .shared .align 16 .b8 tile[256];
  .local .align 8 .b8 depot[64];
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd4, %rd1, %rd3;
  mov.u32 %r2, tile;
)";
constexpr std::string_view kTail = "  ret;\n}\n";

TEST(FaultDetails, UseAfterFreeNamesTheAllocation) {
  Machine machine;
  ASSERT_NE(
      machine.load(std::string(kHead) + "  ld.global.f32 %f1, [%rd4];\n" + std::string(kTail)),
      nullptr);
  const DeviceAddress a = machine.upload(std::vector<float>(64, 1.0f));
  ASSERT_TRUE(machine.memory().release(a).ok());
  Arguments arguments;
  arguments.add(a).add(a);
  const LaunchOutcome outcome = machine.run("k", {1}, {32}, arguments);
  ASSERT_TRUE(outcome.fault);
  EXPECT_EQ(outcome.fault->kind, FaultKind::kUseAfterFree);
  EXPECT_EQ(outcome.fault->address, a);
  EXPECT_NE(outcome.fault->message.find("freed"), std::string::npos);
}

TEST(FaultDetails, CudaLineComesFromLoc) {
  Machine machine;
  ASSERT_NE(machine.load(".file 1 \"kernel.cu\"\n" + std::string(kHead) +
                         "  .loc 1 42 3\n  trap;\n" + std::string(kTail)),
            nullptr);
  Arguments arguments;
  arguments.add(uint64_t{0}).add(uint64_t{0});
  const LaunchOutcome outcome = machine.run("k", {3}, {32}, arguments);
  ASSERT_TRUE(outcome.fault);
  EXPECT_EQ(outcome.fault->cuda_file, "kernel.cu");
  EXPECT_EQ(outcome.fault->cuda_line, 42u);
  EXPECT_EQ(outcome.fault->instruction, "trap;");
}

// The fault of the first block, however the blocks are spread. Block 5 faults after `first` rounds
// of a loop, block 6 after `second`, the others above at once: either of the two may be known
// first.
TEST(FaultDetails, TheFirstFaultyBlockIsReported) {
  Machine machine;
  ASSERT_NE(machine.load(std::string(kHead) + R"(
  mov.u32 %r3, %ctaid.x;
  setp.lt.u32 %p1, %r3, 5;
  @%p1 ret;
  setp.gt.u32 %p2, %r3, 6;
  @%p2 trap;
  setp.eq.u32 %p3, %r3, 5;
  selp.b64 %rd5, %rd1, %rd2, %p3;
  mov.u64 %rd6, 0;
$l:
  add.u64 %rd6, %rd6, 1;
  setp.lt.u64 %p4, %rd6, %rd5;
  @%p4 bra $l;
  trap;
)" + std::string(kTail)),
            nullptr);
  constexpr uint64_t kLong = 300'000;  // some milliseconds: every host thread has begun by then
  constexpr uint64_t kShort = 100'000;
  for (int run = 0; run < 12; ++run) {
    LaunchSettings settings;
    settings.host_threads = 1 + run % 4;
    Arguments arguments;
    arguments.add(run % 2 == 0 ? kLong : kShort).add(run % 2 == 0 ? kShort : kLong);
    const LaunchOutcome outcome = machine.run("k", {64}, {32}, arguments, settings);
    ASSERT_TRUE(outcome.fault);
    EXPECT_EQ(outcome.fault->block.x, 5u) << "run " << run;
  }
}

TEST(FaultDetails, MemoryOfUnobservedKernelsCountsAsWritten) {
  Machine machine;
  ASSERT_NE(machine.load(std::string(kHead) +
                         "  add.s64 %rd5, %rd2, %rd3;\n  ld.global.f32 %f1, [%rd5];\n" +
                         std::string(kTail)),
            nullptr);
  const DeviceAddress b = machine.allocate(256);
  Arguments arguments;
  arguments.add(b).add(b);
  EXPECT_FALSE(machine.run("k", {1}, {32}, arguments).fault);
  LaunchSettings settings;
  settings.observers = ObserverLevel::kMemory;
  const LaunchOutcome outcome = machine.run("k", {1}, {32}, arguments, settings);
  EXPECT_FALSE(outcome.fault) << describe(outcome);
}

TEST(Load, RefusalsNameFileLineAndText) {
  Machine machine;
  const auto refused = [&](std::string_view body) {
    auto loaded = machine.try_load(body);
    EXPECT_FALSE(loaded.ok());
    return loaded.ok() ? std::string() : loaded.error().to_string();
  };
  const std::string unknown = refused(".entry k()\n{\n  frobnicate.u32 %r1;\n}\n");
  EXPECT_NE(unknown.find("test.ptx:6"), std::string::npos) << unknown;
  const std::string no_function =
      refused(".extern .func helper();\n.entry k()\n{\n  call helper;\n  ret;\n}\n");
  EXPECT_NE(no_function.find("helper"), std::string::npos) << no_function;
  EXPECT_NE(no_function.find("test.ptx:7"), std::string::npos) << no_function;
  Machine ampere("sm_80");
  auto newer = LoadedModule::load(".version 8.0\n.target sm_90\n.address_size 64\n",
                                  {.file_name = "x.ptx", .arch = ampere.arch()}, ampere.memory());
  ASSERT_FALSE(newer.ok());
  EXPECT_NE(newer.error().message.find("sm_90"), std::string::npos);
}

TEST(Launch, LimitsAreChecked) {
  Machine machine;
  const LoadedModule* module =
      machine.load(".entry k(.param .u32 x) .maxntid 64, 1, 1\n{\n  ret;\n}\n");
  ASSERT_NE(module, nullptr);
  const uint32_t x = 0;
  LaunchRequest request;
  request.module = module;
  request.kernel = 0;
  request.block = {64};
  request.parameters = std::as_bytes(std::span(&x, 1));
  EXPECT_TRUE(check_launch(request, machine.arch()).ok());
  const auto refused = [&](auto&& change) {
    LaunchRequest changed = request;
    change(changed);
    return !check_launch(changed, machine.arch()).ok();
  };
  EXPECT_TRUE(refused([](LaunchRequest& r) { r.block = {65}; }));
  EXPECT_TRUE(refused([](LaunchRequest& r) { r.block = {0}; }));
  EXPECT_TRUE(refused([](LaunchRequest& r) { r.grid = {1, 65536, 1}; }));
  EXPECT_TRUE(refused([](LaunchRequest& r) { r.parameters = {}; }));
  EXPECT_TRUE(refused([](LaunchRequest& r) { r.dynamic_shared_bytes = 166913; }));
  EXPECT_FALSE(refused([](LaunchRequest& r) { r.dynamic_shared_bytes = 166912; }));
  EXPECT_TRUE(refused([](LaunchRequest& r) { r.cluster = {2}; }));
}

// Worked by hand from the limits of an SM.
TEST(Launch, OccupancyFollowsTheRules) {
  const Arch sm_90 = *arch_from_target("sm_90");
  const Arch sm_86 = *arch_from_target("sm_86");
  KernelAttributes kernel;
  kernel.registers = 168;
  EXPECT_EQ(blocks_per_sm(kernel, sm_90, 384, 0), 1);
  kernel.registers = 128;
  EXPECT_EQ(blocks_per_sm(kernel, sm_86, 128, 40 * 1024), 2);
  EXPECT_EQ(blocks_per_sm(kernel, sm_86, 128, 0), 4);
  kernel.registers = 32;
  EXPECT_EQ(blocks_per_sm(kernel, sm_90, 32, 0), 32);
  EXPECT_EQ(blocks_per_sm(kernel, sm_90, 1024, 0), 2);
  EXPECT_EQ(blocks_per_sm(kernel, sm_90, 128, 228 * 1024), 0);
}

}  // namespace
}  // namespace tilewright::emulator::test
