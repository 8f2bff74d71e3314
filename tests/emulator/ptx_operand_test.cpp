// Operands, immediates, addresses and what the modifiers become.
#include <bit>

#include "tests/emulator/ptx_test_support.h"

namespace tilewright::emulator::ptx {
namespace {

// The first instruction of a one-entry module.
struct One {
  explicit One(const std::string& body) : module(parse_or_fail(entry_text(body))) {}
  const Function& function() const { return module.functions.at(0); }
  const Instruction& instruction() const { return function().instructions.at(0); }
  const Modifiers& modifiers() const { return instruction().modifiers; }
  const Operand& operand(size_t i) const { return function().operands(instruction())[i]; }
  Module module;
};

TEST(PtxOperand, IntegerImmediates) {
  EXPECT_EQ(One("mov.u32 %r1, 0xffffffff;").operand(1).value, 0xffffffff);
  EXPECT_EQ(One("mov.u32 %r1, -1;").operand(1).value, -1);
  EXPECT_EQ(One("mov.u32 %r1, 0b101;").operand(1).value, 5);
  EXPECT_EQ(One("mov.u32 %r1, 010;").operand(1).value, 8);
  EXPECT_EQ(One("mov.u32 %r1, 4294967295U;").operand(1).value, 4294967295);
  EXPECT_EQ(One("mov.u32 %r1, WARP_SZ*2;").operand(1).value, 64);
  EXPECT_EQ(One("mov.u64 %d1, (.s64)(7-9)/2;").operand(1).value, -1);
  EXPECT_EQ(One("mov.u32 %r1, !0 + ~0 % 3;").operand(1).value, 0);
  const Operand minus_one = One("mov.u32 %r1, -1;").operand(1);
  EXPECT_EQ(immediate_bits(minus_one, Type::kU32), 0xffffffffu);
  EXPECT_EQ(immediate_bits(minus_one, Type::kB64), ~uint64_t{0});
  EXPECT_EQ(immediate_bits(minus_one, Type::kU16), 0xffffu);
}

TEST(PtxOperand, FloatImmediates) {
  const Operand single = One("mov.f32 %f1, 0f7FC12345;").operand(1);
  EXPECT_EQ(single.immediate, ImmediateKind::kF32);
  EXPECT_EQ(immediate_bits(single, Type::kF32), 0x7fc12345u);
  const Operand wide = One("mov.f64 %d1, 0dBFF0000000000000;").operand(1);
  EXPECT_EQ(std::bit_cast<double>(immediate_bits(wide, Type::kF64)), -1.0);
  const Operand decimal = One("mov.f32 %f1, -1.5e1;").operand(1);
  EXPECT_EQ(immediate_bits(decimal, Type::kF32), std::bit_cast<uint32_t>(-15.0f));
  const Operand one = One("mov.f64 %d1, 0f3F800000;").operand(1);
  EXPECT_EQ(std::bit_cast<double>(immediate_bits(one, Type::kF64)), 1.0);
}

TEST(PtxOperand, SpecialRegisters) {
  const One tid("mov.u32 %r1, %tid.z;");
  EXPECT_EQ(tid.operand(1).kind, OperandKind::kSpecial);
  EXPECT_EQ(tid.operand(1).index, static_cast<uint32_t>(SpecialRegister::kTid));
  EXPECT_EQ(tid.operand(1).component, 2);
  EXPECT_EQ(One("mov.u64 %d1, %clock64;").operand(1).index,
            static_cast<uint32_t>(SpecialRegister::kClock64));
  const One numbered("mov.u32 %r1, %envreg31;");
  EXPECT_EQ(numbered.operand(1).index, static_cast<uint32_t>(SpecialRegister::kEnvreg));
  EXPECT_EQ(numbered.operand(1).component, 31);
  EXPECT_FALSE(parse(entry_text("mov.u32 %r1, %envreg32;")).ok());
  EXPECT_FALSE(parse(entry_text("mov.u32 %r1, %tid;")).ok());
  EXPECT_FALSE(parse(entry_text("mov.u32 %r1, %tid.w;")).ok());
  EXPECT_TRUE(parse(entry_text("mov.pred %p1, %is_explicit_cluster;")).ok());
}

TEST(PtxOperand, Addresses) {
  const One plus("ld.global.u32 %r1, [%d1+-8];");
  EXPECT_EQ(plus.operand(1).kind, OperandKind::kAddress);
  EXPECT_EQ(plus.operand(1).base, AddressBase::kRegister);
  EXPECT_EQ(plus.operand(1).value, -8);
  EXPECT_EQ(One("ld.global.u32 %r1, [%d1 - 8];").operand(1).value, -8);
  EXPECT_EQ(One("ld.global.u32 %r1, [%d1+0x10];").operand(1).value, 16);
  const One param("ld.param.u64 %d1, [k_param_0+0];");
  EXPECT_EQ(param.operand(1).symbol, SymbolKind::kParam);
  EXPECT_EQ(param.modifiers().space, StateSpace::kParam);
  const One absolute("ld.shared.u32 %r1, [64];");
  EXPECT_EQ(absolute.operand(1).base, AddressBase::kAbsolute);
  EXPECT_EQ(absolute.operand(1).value, 64);
}

TEST(PtxOperand, VectorsSinksAndPairs) {
  const One load("ld.global.v4.f32 {%f1, _, %f3, %f4}, [%d1];");
  EXPECT_EQ(load.modifiers().vector, 4);
  const auto elements = load.function().elements(load.operand(0));
  ASSERT_EQ(elements.size(), 4u);
  EXPECT_EQ(elements[1].kind, OperandKind::kSink);
  EXPECT_EQ(load.function().register_name(elements[3].index), "%f4");
  const One pair("setp.lt.and.s32 %p1|%p2, %r1, 5, !%p3;");
  EXPECT_EQ(pair.function().register_name(pair.operand(0).index), "%p1");
  EXPECT_EQ(pair.function().register_name(pair.operand(0).second), "%p2");
  EXPECT_TRUE(pair.operand(3).negated);
  const One elect("elect.sync _|%p1, -1;");
  EXPECT_EQ(elect.operand(0).index, kNoIndex);
  EXPECT_EQ(elect.function().register_name(elect.operand(0).second), "%p1");
  EXPECT_EQ(One("mov.b64 {%r1, %r2}, %d1;").operand(0).count, 2);
  EXPECT_EQ(One("mov.b32 %r1, {%h1, %h2};").operand(1).count, 2);
}

TEST(PtxOperand, TensorCopy) {
  const One copy(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%r1], [%d1, {%r2, 0, %r3}], [%r4], %h1, %d2;");
  const Modifiers& m = copy.modifiers();
  EXPECT_EQ(copy.instruction().opcode, Opcode::kCpAsyncBulkTensor);
  EXPECT_EQ(m.tensor_dims, 3);
  EXPECT_EQ(m.space, StateSpace::kSharedCluster);
  EXPECT_EQ(m.source_space, StateSpace::kGlobal);
  EXPECT_TRUE(m.has(Flag::kCompleteTx));
  EXPECT_TRUE(m.has(Flag::kMulticast));
  EXPECT_TRUE(m.has(Flag::kCacheHint));
  ASSERT_EQ(copy.operand(1).kind, OperandKind::kTensorAddress);
  ASSERT_EQ(copy.operand(1).count, 3);
  EXPECT_EQ(copy.function().elements(copy.operand(1))[1].value, 0);
}

TEST(PtxOperand, Wgmma) {
  const One both(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2,%f3,%f4}, %d1, %d2, %p1, 1, "
      "-1, 0, 1;");
  EXPECT_EQ(both.modifiers().shape, (Shape{.m = 64, .n = 8, .k = 16}));
  EXPECT_EQ(both.modifiers().types[0], Type::kF32);
  EXPECT_EQ(both.modifiers().types[2], Type::kBf16);
  EXPECT_EQ(both.operand(5).value, -1);
  const One regs(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, {%r1,%r2,%r3,%r4}, "
      "%d2, 1, 1, 1, 1;");
  EXPECT_EQ(regs.operand(1).count, 4);
}

TEST(PtxOperand, ModifiersInAnyOrder) {
  const One usual("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1,%r2,%r3,%r4}, [%r5];");
  const One other("ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16 {%r1,%r2,%r3,%r4}, [%r5];");
  EXPECT_EQ(usual.modifiers(), other.modifiers());
  EXPECT_EQ(One("red.global.v4.f32.add [%d1], {%f1,%f2,%f3,%f4};").modifiers(),
            One("red.global.add.v4.f32 [%d1], {%f1,%f2,%f3,%f4};").modifiers());
  EXPECT_EQ(One("mov .u32 %r1, %r2;").modifiers(), One("mov.u32 %r1, %r2;").modifiers());
  // Types keep their order.
  EXPECT_EQ(One("cvt.rn.f32.s32 %f1, %r1;").modifiers().types[0], Type::kF32);
  EXPECT_FALSE(parse(entry_text("cvt.rn.s32.f32 %r1, %f1;")).ok());
}

TEST(PtxOperand, OptionalOperandsInTheMiddle) {
  EXPECT_EQ(One("bar.red.popc.u32 %r1, 0, %p1;").instruction().num_operands, 3);
  EXPECT_EQ(One("bar.red.popc.u32 %r1, 0, 64, %p1;").instruction().num_operands, 4);
  const One hint("cp.async.cg.shared.global.L2::cache_hint [%r1], [%d1], 16, %d2;");
  EXPECT_EQ(hint.instruction().num_operands, 4);
}

}  // namespace
}  // namespace tilewright::emulator::ptx
