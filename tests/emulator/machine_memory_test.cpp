// DeviceMemory, and kernels that move data through every space.
#include <gtest/gtest.h>

#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

TEST(DeviceMemory, AllocatesInOrderWithGapsAndRefusesTheRest) {
  auto memory = DeviceMemory::create(1 << 20, 1 << 16);
  ASSERT_TRUE(memory.ok());
  auto first = (*memory)->allocate(100);
  auto second = (*memory)->allocate(100);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first % 256, 0u);
  EXPECT_GE(*second, *first + 100 + 4096);
  EXPECT_TRUE((*memory)->contains(*first, 100));
  EXPECT_FALSE((*memory)->contains(*first, 101));
  EXPECT_FALSE((*memory)->contains(*first - 1, 1));
  auto too_much = (*memory)->allocate(1 << 16);
  ASSERT_FALSE(too_much.ok());
  EXPECT_EQ(too_much.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE((*memory)->describe(*first + 100).find("0 bytes after the end"), std::string::npos);
}

TEST(DeviceMemory, AddressesOfTwoDevicesDiffer) {
  constexpr DeviceAddress kSecond = kGlobalBase + kDeviceStride;
  auto first = DeviceMemory::create(1 << 20);
  auto second = DeviceMemory::create(1 << 20, 0, kSecond);
  ASSERT_TRUE(first.ok() && second.ok());
  const auto a = (*first)->allocate(100);
  const auto b = (*second)->allocate(100);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(*b - *a, kDeviceStride);
  EXPECT_TRUE((*second)->contains(*b, 100));
  EXPECT_FALSE((*first)->contains(*b, 1));
  EXPECT_FALSE((*second)->contains(*a, 1));
  EXPECT_TRUE((*second)->in_range(*b));
  EXPECT_FALSE((*first)->in_range(*b));
  EXPECT_FALSE((*second)->in_range(*a));
  const uint32_t value = 7;
  uint32_t back = 0;
  ASSERT_TRUE((*second)->copy_in(*b + 96, &value, 4).ok());
  ASSERT_TRUE((*second)->copy_out(&back, *b + 96, 4).ok());
  EXPECT_EQ(back, value);
  EXPECT_FALSE((*first)->copy_in(*b, &value, 4).ok());
  EXPECT_TRUE((*second)->release(*b).ok());
  for (const DeviceAddress bad : {kSecond + 16, kGlobalLimit - 4096, kGlobalLimit}) {
    EXPECT_FALSE(DeviceMemory::create(1 << 20, 0, bad).ok()) << bad;
  }
}

TEST(DeviceMemory, ForgetsFreedMemoryAndReusesAddressesWhenNoneAreLeft) {
  auto memory = DeviceMemory::create(1 << 20);
  ASSERT_TRUE(memory.ok());
  DeviceMemory& m = **memory;
  const uint32_t value = 7;
  uint32_t back = 1;
  for (int i = 0; i < 400; ++i) {  // 400 times 512 KB: more than twice the range of addresses
    auto address = m.allocate(1 << 19);
    ASSERT_TRUE(address.ok()) << i;
    ASSERT_TRUE(m.copy_out(&back, *address, 4).ok());
    EXPECT_EQ(back, 0u);
    ASSERT_TRUE(m.copy_in(*address, &value, 4).ok());
    ASSERT_TRUE(m.release(*address).ok());
    EXPECT_FALSE(m.contains(*address, 1));
    EXPECT_FALSE(m.release(*address).ok());
  }
  EXPECT_EQ(m.allocated_bytes(), 0u);
}

// Every lane exchanges, in order, a pair of words in one 16-byte cell of each space; then lanes
// that know the cell's value may change it.
TEST(WideAtomics, ExchangeAndCompare) {
  const auto text = [](std::string_view space, std::string_view cell) {
    return R"(
.visible .entry k(.param .u64 cell, .param .u64 out)
{
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<24>; .reg .b128 %q<8>;
  .shared .align 16 .b8 tile[16];
  ld.param.u64 %rd1, [cell];
  ld.param.u64 %rd2, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  st.shared.v2.u64 [%r2], {111, 222};
  cvt.u64.u32 %rd3, %r1;
  add.u64 %rd4, %rd3, 1000;
  mov.b128 %q1, {%rd3, %rd4};
  atom)" + std::string(space) +
           ".exch.b128 %q2, [" + std::string(cell) + R"(], %q1;
  mov.b128 {%rd5, %rd6}, %q2;
  // Lane 31 was the last: only a comparison with both of its words holds, and once.
  mov.u64 %rd7, 31; mov.u64 %rd8, 1031;
  setp.eq.u32 %p1, %r1, 3;
  @%p1 mov.u64 %rd8, 1030;
  mov.b128 %q3, {%rd7, %rd8};
  add.u64 %rd9, %rd3, 5000; add.u64 %rd10, %rd3, 6000;
  mov.b128 %q4, {%rd9, %rd10};
  setp.ge.u32 %p2, %r1, 3;
  @%p2 atom)" +
           std::string(space) + ".cas.b128 %q5, [" + std::string(cell) + R"(], %q3, %q4;
  @%p2 mov.b128 {%rd11, %rd12}, %q5;
  mul.lo.u64 %rd13, %rd3, 32;
  add.u64 %rd14, %rd2, %rd13;
  st.global.v2.u64 [%rd14], {%rd5, %rd6};
  @%p2 st.global.v2.u64 [%rd14+16], {%rd11, %rd12};
  ret;
}
)";
  };
  for (const bool in_shared : {false, true}) {
    Machine machine("sm_90");
    ASSERT_NE(machine.load(in_shared ? text(".shared", "%r2") : text(".global", "%rd1")), nullptr);
    const DeviceAddress cell = machine.upload(std::vector<uint64_t>{111, 222});
    const DeviceAddress out = machine.upload(std::vector<uint64_t>(128, 7));
    Arguments arguments;
    arguments.add(cell).add(out);
    const LaunchOutcome outcome = machine.run("k", {1}, {32}, arguments);
    ASSERT_FALSE(outcome.fault) << describe(outcome);
    const auto values = machine.download<uint64_t>(out, 128);
    for (uint64_t lane = 0; lane < 32; ++lane) {
      const uint64_t* v = &values[lane * 4];
      EXPECT_EQ(v[0], lane == 0 ? 111 : lane - 1);
      EXPECT_EQ(v[1], lane == 0 ? 222 : lane + 999);
      // Lane 3 compares with a wrong word, lane 4 succeeds, the rest see its values.
      EXPECT_EQ(v[2], lane < 3 ? 7 : lane <= 4 ? 31 : 5004u) << lane;
      EXPECT_EQ(v[3], lane < 3 ? 7 : lane <= 4 ? 1031 : 6004u) << lane;
    }
    // A cell at a multiple of 8 alone.
    Arguments off;
    off.add(cell + 8).add(out);
    if (in_shared) continue;
    const LaunchOutcome misaligned = machine.run("k", {1}, {32}, off);
    ASSERT_TRUE(misaligned.fault);
    EXPECT_EQ(misaligned.fault->kind, FaultKind::kMisaligned);
  }
}

constexpr std::string_view kVectorAdd = R"(
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p<2>;
  .reg .f32 %f<4>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<11>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  ld.param.u32 %r2, [n];
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, %ntid.x;
  mov.u32 %r5, %tid.x;
  mad.lo.s32 %r1, %r3, %r4, %r5;
  setp.ge.s32 %p1, %r1, %r2;
  @%p1 bra $done;
  cvta.to.global.u64 %rd4, %rd1;
  mul.wide.s32 %rd5, %r1, 4;
  add.s64 %rd6, %rd4, %rd5;
  cvta.to.global.u64 %rd7, %rd2;
  add.s64 %rd8, %rd7, %rd5;
  ld.global.f32 %f1, [%rd8];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f2, %f1;
  cvta.to.global.u64 %rd9, %rd3;
  add.s64 %rd10, %rd9, %rd5;
  st.global.f32 [%rd10], %f3;
$done:
  ret;
}
)";

TEST(Machine, AddsVectors) {
  Machine machine;
  ASSERT_NE(machine.load(kVectorAdd), nullptr);
  const uint32_t n = 1000;
  std::vector<float> a(n), b(n);
  for (uint32_t i = 0; i < n; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = 0.5f * static_cast<float>(i);
  }
  const DeviceAddress da = machine.upload(a);
  const DeviceAddress db = machine.upload(b);
  const DeviceAddress dc = machine.upload(std::vector<float>(n + 24, -1.0f));
  Arguments arguments;
  arguments.add(da).add(db).add(dc).add(n);
  for (int threads = 1; threads <= 2; ++threads) {
    LaunchSettings settings;
    settings.host_threads = threads;
    const LaunchOutcome outcome = machine.run("vector_add", {8}, {128}, arguments, settings);
    ASSERT_FALSE(outcome.fault) << describe(outcome);
    const auto c = machine.download<float>(dc, n + 24);
    for (uint32_t i = 0; i < n; ++i) ASSERT_EQ(c[i], a[i] + b[i]) << i;
    for (uint32_t i = n; i < n + 24; ++i) ASSERT_EQ(c[i], -1.0f);
    EXPECT_EQ(outcome.counters.blocks, 8u);
    EXPECT_EQ(outcome.counters.opcodes.at("setp").warp_level, 32u);
    EXPECT_EQ(outcome.counters.opcodes.at("setp").thread_level, 1024u);
    EXPECT_EQ(outcome.counters.opcodes.at("st").thread_level, 1000u);
  }
}

TEST(Machine, PrintsInBlockOrder) {
  Machine machine;
  ASSERT_NE(machine.load(R"(
.extern .func (.param .b32 func_retval0) vprintf(.param .b64 p0, .param .b64 p1);
.global .align 1 .b8 $str[22] = {98, 61, 37, 100, 32, 37, 53, 46, 49, 102, 32, 37, 115, 32, 37, 108, 108, 120, 33, 10};
.global .align 1 .b8 $word[4] = {104, 105, 33};
.visible .entry k()
{
  .local .align 8 .b8 depot[32];
  .reg .b32 %r<4>; .reg .b64 %rd<8>; .reg .f64 %fd<3>;
  mov.u64 %rd1, depot;
  cvta.local.u64 %rd2, %rd1;
  mov.u32 %r1, %ctaid.x;
  st.local.u32 [%rd1], %r1;
  cvt.rn.f64.u32 %fd1, %r1;
  st.local.f64 [%rd1+8], %fd1;
  mov.u64 %rd3, $word;
  cvta.global.u64 %rd4, %rd3;
  st.local.u64 [%rd1+16], %rd4;
  mov.u64 %rd5, 0x123456789a;
  st.local.u64 [%rd1+24], %rd5;
  mov.u64 %rd6, $str;
  cvta.global.u64 %rd7, %rd6;
  { .param .b64 param0; .param .b64 param1; .param .b32 retval0;
    st.param.b64 [param0+0], %rd7;
    st.param.b64 [param1+0], %rd2;
    call.uni (retval0), vprintf, (param0, param1);
    ld.param.b32 %r2, [retval0+0]; }
  ret;
}
)"),
            nullptr);
  for (int threads = 1; threads <= 2; ++threads) {
    std::string text;
    LaunchSettings settings;
    settings.host_threads = threads;
    settings.print = [&](std::string_view piece) { text += piece; };
    const LaunchOutcome outcome = machine.run("k", {3}, {1}, {}, settings);
    ASSERT_FALSE(outcome.fault) << describe(outcome);
    EXPECT_EQ(text,
              "b=0   0.0 hi! 123456789a!\nb=1   1.0 hi! 123456789a!\nb=2   2.0 hi! 123456789a!\n");
  }
}

// Constants, initialised globals, a pointer in a global, vectors, bytes with sign, local memory
// through generic addresses, parameters at run-time offsets.
TEST(Machine, ReachesEverySpace) {
  Machine machine;
  const LoadedModule* module = machine.load(R"(
.const .align 4 .u32 scale[3] = {10, 20, 30};
.global .align 4 .u32 data[4] = {1, 2, 3};
.global .align 8 .u64 pointer = generic(data) + 8;
.visible .entry k(.param .align 4 .b8 pair[8], .param .u64 out, .param .u8 small)
{
  .local .align 8 .b8 depot[16];
  .reg .b32 %r<24>; .reg .b64 %rd<16>; .reg .b16 %rs<4>;
  mov.u64 %rd1, scale;
  ld.const.u32 %r1, [%rd1+4];
  ld.global.v2.u32 {%r2, %r3}, [data];
  ld.global.u64 %rd2, [pointer];
  ld.u32 %r4, [%rd2];
  mov.b64 %rd3, pair;
  ld.param.u32 %r5, [%rd3+4];
  ld.param.v2.u32 {%r6, %r7}, [pair];
  ld.param.s8 %r8, [small];
  ld.param.u8 %rs1, [small];
  mov.u64 %rd4, depot;
  cvta.local.u64 %rd5, %rd4;
  st.local.u8 [%rd4+3], %rs1;
  ld.s8 %r9, [%rd5+3];
  ld.param.u64 %rd6, [out];
  st.global.v4.u32 [%rd6], {%r1, %r2, %r3, %r4};
  st.global.v4.u32 [%rd6+16], {%r5, %r6, %r7, %r8};
  cvt.s64.s32 %rd7, %r9;
  st.global.u64 [%rd6+32], %rd7;
  mov.b32 %r10, {%rs1, %rs1};
  mov.b64 {%r11, %r12}, %rd7;
  st.global.v2.u32 [%rd6+40], {%r10, %r12};
  ret;
}
)");
  ASSERT_NE(module, nullptr);
  EXPECT_EQ(module->variables().at("scale").bytes, 12u);
  const DeviceAddress out = machine.allocate(48);
  Arguments arguments;
  arguments.add(uint32_t{7}).add(uint32_t{8}).add(out).add(uint8_t{0xfe});
  LaunchSettings settings;
  settings.observers = ObserverLevel::kMemory;
  const LaunchOutcome outcome = machine.run("k", {1}, {1}, arguments, settings);
  ASSERT_FALSE(outcome.fault) << describe(outcome);
  const std::vector<uint32_t> expected = {
      20, 1, 2, 3, 8, 7, 8, 0xfffffffeu, 0xfffffffeu, 0xffffffffu, 0x00fe00feu, 0xffffffffu};
  EXPECT_EQ(machine.download<uint32_t>(out, 12), expected);
}

// A parameter with a large alignment, such as a tensor map: aligned in the constant bank, and so is
// its generic address.
TEST(Machine, AlignsTheGenericAddressesOfParameters) {
  Machine machine("sm_90");
  ASSERT_NE(machine.load(R"(
.visible .entry k(.param .u64 out, .param .align 128 .b8 wide[128])
{
  .reg .pred %p1; .reg .b32 %r<4>; .reg .b64 %rd<5>;
  mov.b64 %rd1, wide;
  cvta.param.u64 %rd2, %rd1;
  isspacep.param %p1, %rd2;
  selp.u32 %r3, 1, 0, %p1;
  and.b64 %rd3, %rd2, 127;
  cvt.u32.u64 %r1, %rd3;
  ld.u32 %r2, [%rd2+124];
  ld.param.u64 %rd4, [out];
  st.global.v2.u32 [%rd4], {%r1, %r2};
  st.global.u32 [%rd4+8], %r3;
  ret;
}
)"),
            nullptr);
  const DeviceAddress out = machine.allocate(12);
  Arguments arguments;
  arguments.add(out);
  for (int i = 8; i < 0x70; ++i) arguments.add(uint8_t{0});  // 0x210 + 0x70 is a multiple of 128
  for (uint32_t i = 0; i < 32; ++i) arguments.add(100 + i);
  LaunchSettings settings;
  settings.observers = ObserverLevel::kMemory;
  const LaunchOutcome outcome = machine.run("k", {1}, {1}, arguments, settings);
  ASSERT_FALSE(outcome.fault) << describe(outcome);
  EXPECT_EQ(machine.download<uint32_t>(out, 3), (std::vector<uint32_t>{0, 131, 1}));
}

}  // namespace
}  // namespace tilewright::emulator::test
