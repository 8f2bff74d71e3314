// wgmma: its registers, its operands in shared memory, its descriptors.
#include "tests/emulator/observed_programs.h"

namespace tilewright::emulator::test {
namespace {

constexpr ObserverLevel kFull = ObserverLevel::kFull;

// Zeros in all of tile; A (64 × 16 halves) starts there, B (8 × 16) 4096 bytes further: %rd20 and
// %rd21 are their descriptors (K-major, no swizzle). %f1…%f4 accumulate, %r30…%r33 may hold A.
const std::string kFill =
    "  shl.b32 %r20, %r1, 4;\n  add.u32 %r20, %r20, %r2;\n  mov.u32 %r21, 0;\n"
    "  st.shared.v4.u32 [%r20], {%r21, %r21, %r21, %r21};@\n"
    "  st.shared.v4.u32 [%r20+2048], {%r21, %r21, %r21, %r21};\n"
    "  st.shared.v4.u32 [%r20+4096], {%r21, %r21, %r21, %r21};@\n"
    "  st.shared.v4.u32 [%r20+6144], {%r21, %r21, %r21, %r21};\n"
    "  shr.u32 %r22, %r2, 4;\n  cvt.u64.u32 %rd20, %r22;\n"
    "  or.b64 %rd20, %rd20, 0x1000080000;\n  add.s64 %rd21, %rd20, 256;\n"
    "  mov.u32 %r30, 0;\n  mov.u32 %r31, 0;\n  mov.u32 %r32, 0;\n  mov.u32 %r33, 0;\n"
    "  mov.f32 %f1, 0f00000000;\n  mov.f32 %f2, 0f00000000;\n"
    "  mov.f32 %f3, 0f00000000;\n  mov.f32 %f4, 0f00000000;\n";
std::string fill(const char* mark = "") {
  std::string text = kFill;
  for (size_t at = text.find('@'); at != std::string::npos; at = text.find('@')) {
    text.replace(at, 1, mark);
  }
  return text;
}
const std::string kReady = fill() + "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n";
const std::string kFence = "  wgmma.fence.sync.aligned;\n";
const std::string kCommit = "  wgmma.commit_group.sync.aligned;\n";
const std::string kWait = "  wgmma.wait_group.sync.aligned 0;\n";
std::string product(const char* mark = "", const char* a = "%rd20", const char* b = "%rd21") {
  const std::string end = a[0] == '{' ? ", 1, 1, 1, 0;" : ", 1, 1, 1, 0, 0;";
  return std::string("  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, ") +
         a + ", " + b + end + mark + "\n";
}
constexpr const char* kRegistersOfA = "{%r30, %r31, %r32, %r33}";

}  // namespace

std::vector<ObservedProgram> wgmma_programs() {
  using enum FaultKind;
  return {
      // ---- registers ----
      {kRegisters, "wgmma_without_a_fence", kReady + product(" //!") + kCommit + kWait,
       kReady + kFence + product() + kCommit + kWait, 128, "no wgmma.fence"},
      {kRegisters, "accumulator_written_behind_the_fence",
       kReady + kFence + "  mov.f32 %f2, 0f3F800000; //!\n" + product(" //!") + kCommit + kWait,
       kReady + "  mov.f32 %f2, 0f3F800000;\n" + kFence + product() + kCommit + kWait, 128, "",
       kFull},
      {kRegisters, "operand_written_behind_the_fence",
       kReady + kFence + "  mov.u32 %r31, 7; //!\n" + product(" //!", kRegistersOfA) + kCommit +
           kWait,
       kReady + "  mov.u32 %r31, 7;\n" + kFence + product("", kRegistersOfA) + kCommit + kWait, 128,
       "", kFull},
      {kRegisters, "accumulator_scaled_between_products",
       kReady + kFence + product() + kCommit + kWait + "  mul.f32 %f3, %f3, 0f40000000; //!\n" +
           product(" //!") + kCommit + kWait,
       kReady + kFence + product() + kCommit + kWait + "  mul.f32 %f3, %f3, 0f40000000;\n" +
           kFence + product() + product() + kCommit + kWait,
       128, "", kFull},
      {kRegisters, "accumulator_read_in_flight",
       kReady + kFence + product(" //!") + kCommit + "  add.f32 %f10, %f1, %f2; //!\n" + kWait,
       kReady + kFence + product() + kCommit + kWait + "  add.f32 %f10, %f1, %f2;\n", 128, "",
       kFull},
      {kRegisters, "accumulator_written_in_flight",
       kReady + kFence + product(" //!") + kCommit + "  mov.f32 %f1, 0f00000000; //!\n" + kWait,
       kReady + kFence + product() + kCommit + "  mov.f32 %f11, 0f00000000;\n" + kWait, 128, "",
       kFull},
      {kRegisters, "operand_written_in_flight",
       kReady + kFence + product(" //!", kRegistersOfA) + kCommit + "  mov.u32 %r30, 1; //!\n" +
           kWait,
       kReady + kFence + product("", kRegistersOfA) + kCommit + kWait + "  mov.u32 %r30, 1;\n", 128,
       "", kFull},
      {kRegisters, "accumulator_of_the_newest_group",
       kReady + kFence + product() + kCommit +
           "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f5, %f6, %f7, %f8}, %rd20, "
           "%rd21, 0, 1, 1, 0, 0; //!\n" +
           kCommit + "  wgmma.wait_group.sync.aligned 1;\n  add.f32 %f10, %f5, %f2; //!\n" + kWait,
       kReady + kFence + product() + kCommit +
           "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f5, %f6, %f7, %f8}, %rd20, "
           "%rd21, 0, 1, 1, 0, 0;\n" +
           kCommit + "  wgmma.wait_group.sync.aligned 1;\n  add.f32 %f10, %f1, %f2;\n" + kWait,
       128, "", kFull},

      // ---- operands in shared memory ----
      {kProxy, "wgmma_of_writes_without_a_proxy_fence",
       fill(" //!") + "  bar.sync 0;\n" + kFence + product(" //!") + kCommit + kWait,
       fill() + "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n" + kFence + product() + kCommit +
           kWait,
       128, "", kFull},
      {kProxy, "wgmma_behind_a_late_proxy_fence",
       fill(" //!") + "  bar.sync 0;\n  fence.proxy.async.shared::cta;\n" + kFence +
           product(" //!") + kCommit + kWait,
       fill() + "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n" + kFence + product() + kCommit +
           kWait,
       128, "", kFull},
      {kAsynchronous, "operand_overwritten_in_flight",
       kReady + kFence + product(" //!") + kCommit + "  @%p1 st.shared.u32 [%r2+4096], 1; //!\n" +
           kWait,
       kReady + kFence + product() + kCommit + kWait + "  @%p1 st.shared.u32 [%r2+4096], 1;\n", 128,
       "", kFull},
      {kAsynchronous, "operand_written_beside_the_barrier",
       // Warp 3's second write is not behind the barrier.
       kReady +
           "  setp.eq.u32 %p4, %r1, 96;\n  @%p4 st.shared.u32 [%r2+4096], 0; //!\n"
           "  fence.proxy.async.shared::cta;\n" +
           kFence + product(" //!") + kCommit + kWait,
       kReady +
           "  setp.eq.u32 %p4, %r1, 96;\n  @%p4 st.shared.u32 [%r2+4096], 0;\n"
           "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n" +
           kFence + product() + kCommit + kWait,
       128, "", kFull},

      // ---- descriptors ----
      {kDescriptor, "descriptor_beyond_the_block",
       kReady + "  add.s64 %rd22, %rd21, 512;\n" + kFence + product(" //!", "%rd20", "%rd22") +
           kCommit + kWait,
       kReady + "  add.s64 %rd22, %rd21, 128;\n" + kFence + product("", "%rd20", "%rd22") +
           kCommit + kWait,
       128, "names shared address"},
      {kDescriptor, "descriptor_with_reserved_bits",
       kReady + "  or.b64 %rd22, %rd21, 0x8000;\n" + kFence + product(" //!", "%rd20", "%rd22") +
           kCommit + kWait,
       kReady + "  or.b64 %rd22, %rd21, 0;\n" + kFence + product("", "%rd20", "%rd22") + kCommit +
           kWait,
       128, "must be 0"},
  };
}

}  // namespace tilewright::emulator::test
