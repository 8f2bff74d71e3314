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

}  // namespace
}  // namespace tilewright::emulator::test
