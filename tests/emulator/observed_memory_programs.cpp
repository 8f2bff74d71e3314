// Addresses, lifetimes, values that nobody wrote.
#include "tests/emulator/observed_programs.h"

namespace tilewright::emulator::test {

std::vector<ObservedProgram> memory_programs() {
  using enum FaultKind;
  return {
      {kOutOfBounds, "global_read_beyond", "  ld.global.f32 %f1, [%rd4+4000]; //!\n",
       "  ld.global.f32 %f1, [%rd4+3968];\n", 32, "0 bytes after the end"},
      {kOutOfBounds, "global_write_beyond", "  st.global.f32 [%rd4+3972], 0f00000000; //!\n",
       "  st.global.f32 [%rd4+3968], 0f00000000;\n"},
      {kOutOfBounds, "null", "  mov.u64 %rd10, 0;\n  ld.global.u32 %r10, [%rd10]; //!\n",
       "  mov.u64 %rd10, 0;\n  setp.gt.u32 %p3, %r1, 99;\n  @%p3 ld.global.u32 %r10, [%rd10];\n"},
      {kOutOfBounds, "generic_beyond", "  ld.f32 %f1, [%rd1+4096]; //!\n",
       "  ld.f32 %f1, [%rd1+4092];\n"},
      {kOutOfBounds, "shared_beyond", "  st.shared.u32 [%r3+64], 1; //!\n",
       "  @%p1 st.shared.u32 [%r3+60], 1;\n", 32, "shared"},
      {kOutOfBounds, "local_beyond", "  mov.u64 %rd10, depot;\n  st.local.u32 [%rd10+64], 1; //!\n",
       "  mov.u64 %rd10, depot;\n  st.local.u32 [%rd10+60], 1;\n", 32, "local"},
      {kOutOfBounds, "copy_source_beyond",
       "  cp.async.ca.shared.global [%r4], [%rd4+3972], 4; //!\n  cp.async.wait_all;\n",
       "  cp.async.ca.shared.global [%r4], [%rd4+3968], 4;\n  cp.async.wait_all;\n"},

      {kOutOfBounds, "copy_from_nowhere",
       "  mov.u64 %rd10, 0;\n  cp.async.ca.shared.global [%r4], [%rd10], 4, 4; //!\n"
       "  cp.async.wait_all;\n",
       // Of no bytes.
       "  mov.u64 %rd10, 0;\n  cp.async.ca.shared.global [%r4], [%rd10], 4, 0;\n"
       "  cp.async.wait_all;\n  ld.shared.u32 %r10, [%r4];\n"},

      {kUseAfterFree, "freed_read", "  ld.global.f32 %f1, [%rd3]; //!\n",
       "  ld.global.f32 %f1, [%rd1];\n", 32, "freed"},
      {kUseAfterFree, "freed_write", "  st.global.f32 [%rd3+16], 0f00000000; //!\n",
       "  st.global.f32 [%rd1+16], 0f00000000;\n"},
      {kUseAfterFree, "freed_atomic", "  red.global.add.u32 [%rd3+8], 1; //!\n",
       "  red.global.add.u32 [%rd1+8], 1;\n"},

      {kMisaligned, "misaligned_vector", "  ld.global.v2.f32 {%f1, %f2}, [%rd4]; //!\n",
       "  add.s64 %rd10, %rd4, %rd6;\n  ld.global.v2.f32 {%f1, %f2}, [%rd10];\n", 32,
       "multiple of 8"},
      {kMisaligned, "misaligned_shared", "  st.shared.u32 [%r2+2], 1; //!\n",
       "  @%p1 st.shared.u16 [%r2+2], 1;\n"},
      {kMisaligned, "misaligned_mbarrier", "  mbarrier.init.shared.b64 [%r3+4], 1; //!\n",
       "  @%p1 mbarrier.init.shared.b64 [%r3+8], 1;\n"},
      {kMisaligned, "misaligned_matrix",
       "  mov.u32 %r10, 0;\n  st.shared.v4.u32 [%r2], {%r10, %r10, %r10, %r10};\n  bar.sync 0;\n"
       "  and.b32 %r11, %r1, 1;\n  shl.b32 %r11, %r11, 3;\n  add.u32 %r11, %r11, %r2;\n"
       "  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r12}, [%r11]; //!\n",
       "  mov.u32 %r10, 0;\n  st.shared.v4.u32 [%r2], {%r10, %r10, %r10, %r10};\n  bar.sync 0;\n"
       "  ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r12}, [%r2];\n",
       32, "multiple of 16"},

      {kReadOnly, "parameter_write",
       "  mov.b64 %rd10, a;\n  cvta.param.u64 %rd11, %rd10;\n  st.u32 [%rd11], 1; //!\n",
       "  mov.b64 %rd10, a;\n  cvta.param.u64 %rd11, %rd10;\n  ld.u32 %r10, [%rd11];\n"},
      {.kind = kReadOnly,
       .name = "constant_write",
       .faulty = "  mov.u64 %rd10, table;\n  cvta.const.u64 %rd10, %rd10;\n"
                 "  st.u32 [%rd10+4], 1; //!\n",
       .twin =
           "  mov.u64 %rd10, table;\n  cvta.const.u64 %rd10, %rd10;\n  ld.u32 %r10, [%rd10+4];\n",
       .declarations = ".const .align 4 .u32 table[2] = {1, 2};"},
      {.kind = kReadOnly,
       .name = "constant_atomic",
       .faulty = "  mov.u64 %rd10, table;\n  cvta.const.u64 %rd10, %rd10;\n"
                 "  atom.add.u32 %r10, [%rd10], 1; //!\n",
       .twin = "  mov.u64 %rd10, table;\n  atom.add.u32 %r10, [%rd1], 1;\n",
       .declarations = ".const .align 4 .u32 table[2] = {1, 2};"},

      {kUninitialisedRead, "global_never_written", "  ld.global.f32 %f1, [%rd5]; //!\n",
       "  st.global.f32 [%rd5], 0f3f800000;\n  ld.global.f32 %f1, [%rd5];\n"},
      {kUninitialisedRead, "neighbour_never_written",
       "  st.global.f32 [%rd5], 0f3f800000;\n  ld.global.f32 %f1, [%rd5+128]; //!\n",
       "  st.global.f32 [%rd5], 0f3f800000;\n  st.global.f32 [%rd5+128], 0f3f800000;\n"
       "  ld.global.f32 %f1, [%rd5+128];\n"},
      {kUninitialisedRead, "shared_never_written", "  ld.shared.u32 %r10, [%r4]; //!\n",
       "  st.shared.u32 [%r4], 1;\n  ld.shared.u32 %r10, [%r4];\n"},
      {kUninitialisedRead, "register_never_written", "  add.u32 %r10, %r11, 1; //!\n",
       "  mov.u32 %r11, 1;\n  add.u32 %r10, %r11, 1;\n", 32, "%r11"},
      {kUninitialisedRead, "shuffle_never_written",
       "  shfl.sync.idx.b32 %r10, %r11, 0, 31, -1; //!\n",
       "  setp.eq.u32 %p3, %r1, 0;\n  @%p3 mov.u32 %r11, 1;\n"
       "  shfl.sync.idx.b32 %r10, %r11, 0, 31, -1;\n  add.u32 %r10, %r10, 1;\n",
       32, "%r11"},
      {kUninitialisedRead, "register_written_on_one_way",
       "  setp.lt.u32 %p3, %r1, 5;\n  @%p3 mov.u32 %r11, 1;\n  add.u32 %r10, %r11, 1; //!\n",
       "  setp.lt.u32 %p3, %r1, 5;\n  @%p3 mov.u32 %r11, 1;\n  @%p3 add.u32 %r10, %r11, 1;\n", 32,
       "%r11"},
  };
}

}  // namespace tilewright::emulator::test
