// Every kind of fault is reported at its place, and its near twins run silently.
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

constexpr uint32_t kAnyThread = 0xffffffff;

struct Case {
  std::string_view name;
  std::string_view code;  // the faulty instruction is marked by `//!`; no mark: must be silent
  FaultKind kind = FaultKind::kTrap;
  uint32_t threads = 32;
  uint32_t faulty_thread = 0;
  std::string_view says = "";  // part of the message
};

void PrintTo(const Case& c, std::ostream* stream) { *stream << c.name; }

// `a` points at 64 floats that the host wrote, `b` at 64 floats that nobody wrote.
LaunchOutcome run_case(const Case& c, const LaunchSettings& settings, uint32_t* expected_line) {
  Machine machine;
  const std::string body = std::string(kHead) + std::string(c.code) + std::string(kTail);
  if (machine.load(body) == nullptr) return {};
  if (c.code.find("//!") != std::string_view::npos) *expected_line = line_of(body, "//!");
  const DeviceAddress a = machine.upload(std::vector<float>(64, 1.0f));
  const DeviceAddress b = machine.allocate(256);
  Arguments arguments;
  arguments.add(a).add(b);
  return machine.run("k", {1}, {c.threads}, arguments, settings);
}

class Faults : public testing::TestWithParam<Case> {};

TEST_P(Faults, ReportedInPlaceOrSilent) {
  const Case& c = GetParam();
  for (const Schedule schedule : {Schedule::kEager, Schedule::kLazy, Schedule::kRandom}) {
    LaunchSettings settings;
    settings.schedule = schedule;
    settings.observers = ObserverLevel::kMemory;
    settings.instruction_limit = 100'000;
    uint32_t line = 0;
    const LaunchOutcome outcome = run_case(c, settings, &line);
    if (line == 0) {
      EXPECT_FALSE(outcome.fault) << describe(outcome);
      continue;
    }
    ASSERT_TRUE(outcome.fault);
    EXPECT_EQ(outcome.fault->kind, c.kind) << describe(outcome);
    EXPECT_EQ(outcome.fault->ptx_line, line) << describe(outcome);
    EXPECT_EQ(outcome.fault->kernel, "k");
    if (c.faulty_thread != kAnyThread) {
      EXPECT_EQ(outcome.fault->thread.x, c.faulty_thread) << describe(outcome);
    }
    EXPECT_NE(describe(outcome).find(c.says), std::string::npos) << describe(outcome);
  }
}

const Case kCases[] = {
    {"global_read_beyond", "  ld.global.f32 %f1, [%rd4+200]; //!\n", FaultKind::kOutOfBounds, 32,
     14, "0 bytes after the end"},
    {"global_read_inside", "  ld.global.f32 %f1, [%rd4+128];\n"},
    {"global_write_beyond", "  st.global.f32 [%rd4+132], 0f00000000; //!\n",
     FaultKind::kOutOfBounds, 32, 31},
    {"global_write_last", "  st.global.f32 [%rd4+128], 0f00000000;\n"},
    {"null", "  mov.u64 %rd5, 0;\n  ld.global.u32 %r3, [%rd5]; //!\n", FaultKind::kOutOfBounds, 1},
    {"guarded_null",
     "  mov.u64 %rd5, 0;\n  setp.gt.u32 %p1, %r1, 99;\n  @%p1 ld.global.u32 %r3, [%rd5];\n"},
    {"misaligned", "  ld.global.v2.f32 {%f1, %f2}, [%rd4]; //!\n", FaultKind::kMisaligned, 32, 1,
     "multiple of 8"},
    {"aligned_vector", "  add.s64 %rd4, %rd4, %rd3;\n  ld.global.v2.f32 {%f1, %f2}, [%rd4];\n"},
    {"generic_beyond", "  ld.f32 %f1, [%rd4+256]; //!\n", FaultKind::kOutOfBounds, 32, 0},
    {"never_written_global", "  add.s64 %rd5, %rd2, %rd3;\n  ld.global.f32 %f1, [%rd5]; //!\n",
     FaultKind::kUninitialisedRead, 32, 0},
    {"written_before_read",
     "  add.s64 %rd5, %rd2, %rd3;\n  st.global.f32 [%rd5], 0f3f800000;\n"
     "  ld.global.f32 %f1, [%rd5];\n"},
    {"neighbour_never_written",
     "  add.s64 %rd5, %rd2, %rd3;\n  st.global.f32 [%rd5], 0f3f800000;\n"
     "  ld.global.f32 %f1, [%rd5+4]; //!\n",
     FaultKind::kUninitialisedRead, 32, 31},
    {"shared_beyond", "  ld.shared.u32 %r3, [%r2+256]; //!\n", FaultKind::kOutOfBounds, 1, 0,
     "shared"},
    {"shared_write_last", "  st.shared.u32 [%r2+252], 1;\n"},
    {"shared_never_written", "  ld.shared.u32 %r3, [%r2+4]; //!\n", FaultKind::kUninitialisedRead,
     1},
    {"shared_written", "  st.shared.u32 [%r2+4], 1;\n  ld.shared.u32 %r3, [%r2+4];\n", {}, 1},
    {"shared_misaligned", "  st.shared.u32 [%r2+2], 1; //!\n", FaultKind::kMisaligned, 1},
    {"local_beyond", "  mov.u64 %rd5, depot;\n  st.local.u32 [%rd5+64], 1; //!\n",
     FaultKind::kOutOfBounds, 1, 0, "local"},
    {"local_inside", "  mov.u64 %rd5, depot;\n  st.local.u32 [%rd5+60], 1;\n"},
    {"parameter_write",
     "  mov.b64 %rd5, a;\n  cvta.param.u64 %rd6, %rd5;\n  st.u32 [%rd6], 1; //!\n",
     FaultKind::kReadOnly, 1},
    {"parameter_read",
     "  mov.b64 %rd5, b;\n  cvta.param.u64 %rd6, %rd5;\n  ld.u64 %rd7, [%rd6];\n"},
    {"register_never_written", "  add.u32 %r4, %r5, 1; //!\n", FaultKind::kUninitialisedRead, 1, 0,
     "%r5"},
    {"register_written_on_one_way",
     "  setp.lt.u32 %p1, %r1, 5;\n  @%p1 mov.u32 %r5, 1;\n  add.u32 %r4, %r5, 1; //!\n",
     FaultKind::kUninitialisedRead, 32, 5, "%r5"},
    {"register_written_where_read",
     "  setp.lt.u32 %p1, %r1, 5;\n  @%p1 mov.u32 %r5, 1;\n  @%p1 add.u32 %r4, %r5, 1;\n"},
    {"shuffle_from_the_lane_that_wrote",
     "  setp.eq.u32 %p1, %r1, 0;\n  @%p1 mov.u32 %r5, 1;\n"
     "  shfl.sync.idx.b32 %r4, %r5, 0, 31, -1;\n  add.u32 %r4, %r4, 1;\n"},
    {"shuffle_never_written", "  shfl.sync.idx.b32 %r4, %r5, 0, 31, -1; //!\n",
     FaultKind::kUninitialisedRead, 32, 0, "%r5"},
    {"trap", "  setp.eq.u32 %p1, %r1, 3;\n  @%p1 trap; //!\n", FaultKind::kTrap, 32, 3},
    {"no_trap", "  setp.eq.u32 %p1, %r1, 33;\n  @%p1 trap;\n"},
    {"divergent_barrier", "  setp.lt.u32 %p1, %r1, 16;\n  @!%p1 bra $l;\n  bar.sync 0; //!\n$l:\n",
     FaultKind::kDivergent, 32, 0},
    {"warp_uniform_barrier",
     "  setp.lt.u32 %p1, %r1, 32;\n  @!%p1 bra $l;\n  bar.sync 1, 32;\n$l:\n",
     {},
     64},
    {"barrier_after_exit", "  setp.lt.u32 %p1, %r1, 16;\n  @%p1 exit;\n  bar.sync 0;\n", {}, 64},
    {"guarded_barrier", "  setp.lt.u32 %p1, %r1, 16;\n  @%p1 bar.sync 0; //!\n",
     FaultKind::kDivergent, 32, 0},
    {"barrier_number", "  mov.u32 %r3, 16;\n  bar.sync %r3; //!\n", FaultKind::kBarrier, 32, 0,
     "barrier 16"},
    {"barrier_count", "  mov.u32 %r3, 48;\n  bar.sync 1, %r3; //!\n", FaultKind::kBarrier, 64,
     kAnyThread, "multiple of 32"},
    {"barrier_counts_differ",
     "  and.b32 %r3, %r1, 32;\n  add.u32 %r3, %r3, 96;\n"
     "  bar.sync 1, %r3; //!\n",
     FaultKind::kBarrier, 128, kAnyThread, "others wait there with"},
    {"barrier_counts_equal",
     "  add.u32 %r3, %r1, 96;\n  sub.u32 %r3, %r3, %r1;\n  bar.sync 1, %r3;\n",
     {},
     96},
    {"barrier_missing",
     "  setp.lt.u32 %p1, %r1, 32;\n  @!%p1 bra $l;\n  bar.sync 1, 64; //!\n$l:\n",
     FaultKind::kDeadlock, 64, 0, "waits at barrier 1"},
    {"barrier_paired",
     "  setp.lt.u32 %p1, %r1, 32;\n  @!%p1 bra $l;\n  bar.sync 1, 64;\n  bra $e;\n$l:\n"
     "  bar.arrive 1, 64;\n$e:\n",
     {},
     64},
    {"lane_outside_its_mask", "  shfl.sync.idx.b32 %r3, %r1, 0, 0x1f, 0xffff; //!\n",
     FaultKind::kDivergent, 32, 16, "not in its own mask"},
    {"lane_in_its_mask",
     "  setp.lt.u32 %p1, %r1, 16;\n  @%p1 shfl.sync.idx.b32 %r3, %r1, 0, 0x1f, 0xffff;\n"},
    {"lanes_never_come",
     "  setp.lt.u32 %p1, %r1, 16;\n  @!%p1 bra $l;\n"
     "  shfl.sync.idx.b32 %r3, %r1, 0, 0x1f, 0xffffffff;\n  bar.warp.sync 0xffff;\n  ret;\n"
     "$l:\n  bar.sync 3, 64; //!\n",
     FaultKind::kDivergent, 64, kAnyThread, ""},
    {"endless", "$l:\n  add.u32 %r3, %r1, 1; //!\n  bra $l;\n", FaultKind::kInstructionLimit, 1},
    {"long_but_finite",
     "  mov.u32 %r3, 0;\n$l:\n  add.u32 %r3, %r3, 1;\n  setp.lt.u32 %p1, %r3, 3000;\n"
     "  @%p1 bra $l;\n"},
    {"branch_index",
     "  ts: .branchtargets $x, $y;\n  brx.idx %r1, ts; //!\n$x:\n  add.u32 %r3, %r1, 1;\n$y:\n",
     FaultKind::kIllegalInstruction, 32, 2, "branch index 2"},
    {"copy_not_awaited",
     "  cp.async.ca.shared.global [%r2], [%rd1], 16;\n  cp.async.commit_group;\n"
     "  ld.shared.u32 %r3, [%r2]; //!\n",
     FaultKind::kAsynchronous, 1, 0, "in flight"},
    {"copy_awaited",
     "  cp.async.ca.shared.global [%r2], [%rd1], 16;\n  cp.async.commit_group;\n"
     "  cp.async.wait_group 0;\n  ld.shared.u32 %r3, [%r2];\n"},
    {"copy_source_beyond",
     "  cp.async.ca.shared.global [%r2], [%rd1+252], 4;\n"
     "  cp.async.ca.shared.global [%r2], [%rd1+256], 4; //!\n",
     FaultKind::kOutOfBounds, 1},
    {"copy_of_nothing_from_nowhere",
     "  mov.u64 %rd5, 0;\n  cp.async.ca.shared.global [%r2], [%rd5], 16, 0;\n"
     "  cp.async.wait_all;\n  ld.shared.u32 %r3, [%r2+12];\n"},
};

INSTANTIATE_TEST_SUITE_P(All, Faults, testing::ValuesIn(kCases),
                         [](const auto& c) { return std::string(c.param.name); });

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

// ptx-hopper.md 9.2's worked examples.
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
