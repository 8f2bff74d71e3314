// Register pressure on programs counted by hand.
#include "emulator/ptx/liveness.h"

#include "tests/emulator/ptx_test_support.h"

namespace tilewright::emulator::ptx {
namespace {

RegisterPressure pressure(const std::string& body) {
  const Module module = parse_or_fail(entry_text(body));
  return register_pressure(module, module.functions.at(0));
}

TEST(PtxLiveness, StraightLine) {
  EXPECT_EQ(pressure("ret;").registers, 0u);
  EXPECT_EQ(pressure("mov.u32 %r1, 0; ret;").registers, 1u);
  // %r1 and %r2 alive together, then the sum in the place of one.
  EXPECT_EQ(pressure("mov.u32 %r1, 0; mov.u32 %r2, 1; add.u32 %r3, %r1, %r2; "
                     "st.global.u32 [8], %r3; ret;")
                .registers,
            2u);
  // 64 bits count two, 16 bits one, predicates apart.
  const RegisterPressure mixed = pressure(
      "ld.param.u64 %d1, [k_param_0]; ld.global.u16 %h1, [%d1]; setp.eq.s16 %p1, %h1, 0; "
      "@%p1 st.global.u16 [%d1], %h1; ret;");
  EXPECT_EQ(mixed.registers, 3u);
  EXPECT_EQ(mixed.predicates, 1u);
}

TEST(PtxLiveness, ValuesLiveRoundALoop) {
  // %r1 … %r3 are read after the loop or in its next round.
  EXPECT_EQ(pressure("mov.u32 %r1, 0; mov.u32 %r2, 1; mov.u32 %r3, 2;\n"
                     "LOOP: add.u32 %r1, %r1, %r2; setp.lt.u32 %p1, %r1, 9; @%p1 bra LOOP;\n"
                     "st.global.u32 [8], %r3; st.global.u32 [8], %r1; ret;")
                .registers,
            3u);
  // Of two ways only one reads %r2: both arms together need no more than two.
  EXPECT_EQ(pressure("mov.u32 %r1, 0; @%p1 bra B; mov.u32 %r2, 1; add.u32 %r1, %r1, %r2; bra C;\n"
                     "B: mov.u32 %r3, 1; add.u32 %r1, %r1, %r3;\nC: st.global.u32 [8], %r1; ret;")
                .registers,
            2u);
}

TEST(PtxLiveness, GuardedWritesKeepTheOldValue) {
  // %r1 is alive beside %r2 and %r3 although it is written again before it is read.
  EXPECT_EQ(pressure("mov.u32 %r1, 0; mov.u32 %r2, 5; mov.u32 %r3, 6; st.global.u32 [8], %r3; "
                     "@%p1 mov.u32 %r1, 1; st.global.u32 [8], %r2; st.global.u32 [8], %r1; ret;")
                .registers,
            3u);
}

TEST(PtxLiveness, VectorsAndAccumulators) {
  EXPECT_EQ(pressure("ld.global.v4.f32 {%f1,%f2,%f3,%f4}, [8]; "
                     "st.global.v4.f32 [8], {%f1,%f2,%f3,%f4}; ret;")
                .registers,
            4u);
  EXPECT_EQ(pressure("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, %d1, "
                     "%d2, 1, 1, 1, 0, 0; ret;")
                .registers,
            8u);
}

TEST(PtxLiveness, CallsAddWhatIsAliveAcross) {
  const std::string functions =
      std::string(kHeader) +
      ".func leaf() { .reg .b32 %r<4>; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;"
      "st.global.u32 [0], %r1; st.global.u32 [0], %r2; st.global.u32 [0], %r3; ret; }\n"
      ".func self() { .reg .b32 %r; mov.u32 %r, 1; call self; st.global.u32 [0], %r; ret; }\n";
  const Module module =
      parse_or_fail(functions +
                    ".entry k() { .reg .b32 %r<3>; mov.u32 %r1, 0; mov.u32 %r2, 0; call leaf; "
                    "st.global.u32 [0], %r1; st.global.u32 [0], %r2; ret; }\n");
  EXPECT_EQ(estimate_registers(module, module.find_function("leaf")), 3u);
  EXPECT_EQ(estimate_registers(module, module.find_function("k")), 5u);
  EXPECT_EQ(estimate_registers(module, module.find_function("self")), 1u);
}

TEST(PtxLiveness, FirstOperands) {
  EXPECT_TRUE(writes_first_operand(Opcode::kAdd));
  EXPECT_TRUE(writes_first_operand(Opcode::kMmaSync));
  EXPECT_TRUE(writes_first_operand(Opcode::kMbarrierArrive));
  EXPECT_FALSE(writes_first_operand(Opcode::kSt));
  EXPECT_FALSE(writes_first_operand(Opcode::kRed));
  EXPECT_FALSE(writes_first_operand(Opcode::kStmatrix));
  EXPECT_FALSE(writes_first_operand(Opcode::kBarSync));
}

}  // namespace
}  // namespace tilewright::emulator::ptx
