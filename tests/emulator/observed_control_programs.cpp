// Lanes that part, barriers, programs that do not end.
#include "tests/emulator/observed_programs.h"

namespace tilewright::emulator::test {
namespace {

constexpr std::string_view kAssertion = R"(
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 c);
.global .align 1 .b8 text[4] = {111, 111, 112, 0};
)";

// Calls __assertfail where %p3 holds.
std::string assertion(const char* condition) {
  return std::string(condition) +
         "  @!%p3 bra GOOD;\n  mov.u64 %rd10, text;\n  cvta.global.u64 %rd10, %rd10;\n"
         "  { .param .b64 m; st.param.b64 [m], %rd10; .param .b64 f; st.param.b64 [f], %rd10;\n"
         "  .param .b32 l; st.param.b32 [l], 7; .param .b64 n; st.param.b64 [n], %rd10;\n"
         "  .param .b64 c; st.param.b64 [c], 1;\n"
         "  call.uni __assertfail, (m, f, l, n, c); //!\n  }\nGOOD:\n";
}

}  // namespace

std::vector<ObservedProgram> control_programs() {
  using enum FaultKind;
  return {
      {kDivergent, "divergent_barrier",
       "  setp.lt.u32 %p3, %r1, 16;\n  @!%p3 bra L;\n  bar.sync 0; //!\nL:\n",
       "  @!%p2 bra L;\n  bar.sync 1, 32;\nL:\n", 64},
      {kDivergent, "guarded_barrier", "  setp.lt.u32 %p3, %r1, 16;\n  @%p3 bar.sync 0; //!\n",
       "  @%p2 bar.sync 0;\n"},
      {kDivergent, "lane_outside_its_mask", "  shfl.sync.idx.b32 %r10, %r1, 0, 0x1f, 0xffff; //!\n",
       "  setp.lt.u32 %p3, %r1, 16;\n  @%p3 shfl.sync.idx.b32 %r10, %r1, 0, 0x1f, 0xffff;\n", 32,
       "not in its own mask"},
      {kDivergent, "matrix_by_half_a_warp",
       "  setp.lt.u32 %p3, %r1, 16;\n  @%p3 exit;\n  mov.u32 %r10, 0;\n"
       "  movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r10; //!\n",
       "  mov.u32 %r10, 0;\n  movmatrix.sync.aligned.m8n8.trans.b16 %r11, %r10;\n"},

      {kDivergent, "lanes_never_come",
       "  setp.lt.u32 %p3, %r1, 16;\n  @!%p3 bra L;\n"
       "  shfl.sync.idx.b32 %r10, %r1, 0, 0x1f, 0xffffffff;\n  bar.warp.sync 0xffff;\n  ret;\n"
       "L:\n  bar.sync 3, 64; //!\n",
       "  setp.lt.u32 %p3, %r1, 16;\n  @!%p3 bra L;\n"
       "  shfl.sync.idx.b32 %r10, %r1, 0, 0x1f, 0xffff;\n  bar.warp.sync 0xffff;\nL:\n"
       "  bar.sync 3, 64;\n",
       64},
      {kDivergent, "barrier_behind_a_warp_barrier",
       // Lanes that have exited are not waited for; those that wait elsewhere are.
       "  setp.lt.u32 %p3, %r1, 16;\n  @%p3 bra L;\n  bar.sync 0; //!\nL:\n"
       "  bar.warp.sync 0xffffffff;\n",
       "  setp.lt.u32 %p3, %r1, 16;\n  @%p3 exit;\n  bar.sync 0;\n", 64},

      {kBarrier, "barrier_number", "  mov.u32 %r10, 16;\n  bar.sync %r10; //!\n",
       "  mov.u32 %r10, 15;\n  bar.sync %r10;\n", 32, "barrier 16"},
      {kBarrier, "barrier_count", "  mov.u32 %r10, 48;\n  bar.sync 1, %r10; //!\n",
       "  mov.u32 %r10, 64;\n  bar.sync 1, %r10;\n", 64, "multiple of 32"},
      {kBarrier, "barrier_counts_differ",
       "  and.b32 %r10, %r1, 32;\n  add.u32 %r10, %r10, 96;\n  bar.sync 1, %r10; //!\n",
       "  and.b32 %r10, %r1, 32;\n  sub.u32 %r10, %r10, %r10;\n  add.u32 %r10, %r10, 128;\n"
       "  bar.sync 1, %r10;\n",
       128, "others wait there with"},
      {kBarrier, "cluster_wait_without_arrival", "  barrier.cluster.wait; //!\n",
       "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n"},

      {kDeadlock, "barrier_missing", "  @!%p2 bra L;\n  bar.sync 1, 64; //!\nL:\n",
       "  @!%p2 bra L;\n  bar.sync 1, 64;\n  bra E;\nL:\n  bar.arrive 1, 64;\nE:\n", 64,
       "waits at barrier 1"},
      {kDeadlock, "arrival_missing",
       "  @%p1 mbarrier.init.shared.b64 [%r3], 2;\n  bar.sync 0;\n"
       "  @%p1 mbarrier.arrive.shared.b64 _, [%r3];\nW:\n"
       "  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; //!\n  @!%p3 bra W;\n",
       "  @%p1 mbarrier.init.shared.b64 [%r3], 1;\n  bar.sync 0;\n"
       "  @%p1 mbarrier.arrive.shared.b64 _, [%r3];\nW:\n"
       "  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n  @!%p3 bra W;\n",
       32, "1 of 2 arrivals"},
      {kDeadlock, "too_many_bytes_expected",
       "  @!%p1 bra L;\n  mbarrier.init.shared.b64 [%r3], 1;\n"
       "  mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;\n"
       "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 64, "
       "[%r3];\nW:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0; //!\n  @!%p3 bra W;\nL:\n",
       "  @!%p1 bra L;\n  mbarrier.init.shared.b64 [%r3], 1;\n"
       "  mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 64;\n"
       "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 64, "
       "[%r3];\nW:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n  @!%p3 bra W;\nL:\n",
       32, "64 bytes outstanding"},

      {kInstructionLimit, "endless", "L:\n  add.u32 %r10, %r1, 1; //?\n  bra L; //?\n",
       "  mov.u32 %r10, 0;\nL:\n  add.u32 %r10, %r10, 1;\n  setp.lt.u32 %p3, %r10, 3000;\n"
       "  @%p3 bra L;\n"},
      {kInstructionLimit, "endless_count",
       "  mov.u32 %r10, 0;\nL:\n  add.u32 %r10, %r10, 2; //?\n  setp.ne.u32 %p3, %r10, 3001; //?\n"
       "  @%p3 bra L; //?\n",
       "  mov.u32 %r10, 0;\nL:\n  add.u32 %r10, %r10, 2;\n  setp.ne.u32 %p3, %r10, 3000;\n"
       "  @%p3 bra L;\n"},
      {kInstructionLimit, "flag_never_set",
       "  st.shared.u32 [%r4], 0;\n  bar.sync 0;\nL:\n  ld.volatile.shared.u32 %r10, [%r2]; //?\n"
       "  setp.eq.u32 %p3, %r10, 0; //?\n  @%p3 bra L; //?\n",
       "  st.shared.u32 [%r4], 0;\n  bar.sync 0;\n  @%p1 st.volatile.shared.u32 [%r2], 1;\nL:\n"
       "  ld.volatile.shared.u32 %r10, [%r2];\n  setp.eq.u32 %p3, %r10, 0;\n  @%p3 bra L;\n"},

      {kTrap, "trap", "  setp.eq.u32 %p3, %r1, 3;\n  @%p3 trap; //!\n",
       "  setp.eq.u32 %p3, %r1, 33;\n  @%p3 trap;\n"},
      {kTrap, "trap_behind_a_branch",
       "  setp.lt.u32 %p3, %r1, 31;\n  @%p3 bra L;\n  trap; //!\nL:\n",
       "  setp.lt.u32 %p3, %r1, 32;\n  @%p3 bra L;\n  trap;\nL:\n"},
      {kTrap, "trap_in_the_second_warp", "  @!%p2 trap; //!\n", "  @!%p2 exit;\n", 64},

      {.kind = kAssert,
       .name = "assertion_of_all",
       .faulty = assertion("  setp.lt.u32 %p3, %r1, 99;\n"),
       .twin = assertion("  setp.gt.u32 %p3, %r1, 99;\n"),
       .says = "oop",
       .declarations = kAssertion},
      {.kind = kAssert,
       .name = "assertion_of_one",
       .faulty = assertion("  setp.eq.u32 %p3, %r1, 31;\n"),
       .twin = assertion("  setp.eq.u32 %p3, %r1, 32;\n"),
       .says = "thread (31, 0, 0)",
       .declarations = kAssertion},
      {.kind = kAssert,
       .name = "assertion_on_a_value",
       .faulty = assertion("  ld.global.f32 %f1, [%rd4];\n  setp.eq.f32 %p3, %f1, 0f3f800000;\n"),
       .twin = assertion("  ld.global.f32 %f1, [%rd4];\n  setp.ne.f32 %p3, %f1, 0f3f800000;\n"),
       .declarations = kAssertion},

      {kIllegalInstruction, "branch_index",
       "  ts: .branchtargets X, Y;\n  brx.idx %r1, ts; //!\nX:\n  add.u32 %r10, %r1, 1;\nY:\n",
       "  ts: .branchtargets X, Y;\n  and.b32 %r10, %r1, 1;\n  brx.idx %r10, ts;\nX:\n"
       "  add.u32 %r10, %r1, 1;\nY:\n",
       32, "branch index 2"},
      {.kind = kIllegalInstruction,
       .name = "call_of_no_function",
       .faulty = "  proto: .callprototype _ ();\n  mov.u64 %rd10, 16;\n"
                 "  call %rd10, (), proto; //!\n",
       .twin = "  proto: .callprototype _ ();\n  mov.u64 %rd10, f;\n  call %rd10, (), proto;\n",
       .says = "no function",
       .declarations = ".func f()\n{\n  ret;\n}\n"},
      {kIllegalInstruction, "branch_index_of_one_lane",
       "  ts: .branchtargets X, Y;\n  shr.u32 %r10, %r1, 4;\n  setp.eq.u32 %p3, %r1, 31;\n"
       "  @%p3 mov.u32 %r10, 77;\n  brx.idx %r10, ts; //!\nX:\n  add.u32 %r10, %r1, 1;\nY:\n",
       "  ts: .branchtargets X, Y;\n  shr.u32 %r10, %r1, 4;\n  brx.idx %r10, ts;\nX:\n"
       "  add.u32 %r10, %r1, 1;\nY:\n",
       32, "thread (31, 0, 0)"},
  };
}

}  // namespace tilewright::emulator::test
