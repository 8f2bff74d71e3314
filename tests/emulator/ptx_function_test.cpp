// Function bodies: scopes, registers, labels, branches, tables, calls, locations.
#include "tests/emulator/ptx_test_support.h"

namespace tilewright::emulator::ptx {
namespace {

const Function& entry(const Module& module) {
  return module.functions.at(module.find_function("k"));
}

TEST(PtxFunction, RegistersAreNumberedInOrder) {
  const Module module =
      parse_or_fail(std::string(kHeader) +
                    ".entry k() { .reg .b32 %r<3>; .reg .f64 a, b; .reg .v4 .f32 v;"
                    ".reg .b32 x1<2>; mov.b32 %r2, x11; mov.f64 b, a;"
                    "mov.f32 v.y, v.w; ret; }\n");
  const Function& k = entry(module);
  EXPECT_EQ(k.registers.size(), 3u + 2 + 4 + 2);
  EXPECT_EQ(k.operands(k.instructions[0])[0].index, 2u);
  EXPECT_EQ(k.operands(k.instructions[0])[1].index, 10u);
  EXPECT_EQ(k.operands(k.instructions[1])[0].index, 4u);
  EXPECT_EQ(k.operands(k.instructions[2])[0].index, 6u);
  EXPECT_EQ(k.operands(k.instructions[2])[1].index, 8u);
  EXPECT_EQ(k.register_name(2), "%r2");
  EXPECT_EQ(k.register_name(4), "b");
  EXPECT_EQ(k.register_name(6), "v.y");
}

TEST(PtxFunction, BlocksShadowRegistersAndVariables) {
  const Module module = parse_or_fail(
      entry_text("{ .reg .b32 %r<2>; .reg .b32 t; mov.b32 t, %r1; { .reg .b32 t; mov.b32 t, %r5; } "
                 "mov.b32 t, 1; }\nmov.b32 %r1, 2;\n{ .reg .b32 t; mov.b32 t, 3; }"));
  const Function& k = entry(module);
  const auto destination = [&](size_t i) { return k.operands(k.instructions[i])[0].index; };
  EXPECT_EQ(k.register_name(destination(0)), "t");
  EXPECT_NE(destination(0), destination(1));
  EXPECT_EQ(destination(0), destination(2));
  EXPECT_NE(destination(0), destination(4));
  // %r1 of the inner block is not the outer one; %r5 is, for the inner range has only two.
  EXPECT_NE(k.operands(k.instructions[0])[1].index, destination(3));
  EXPECT_EQ(k.register_name(k.operands(k.instructions[1])[1].index), "%r5");
  EXPECT_FALSE(parse(entry_text("{ .reg .b32 t; } mov.b32 t, 1;")).ok());
}

TEST(PtxFunction, LabelsResolveInnermostFirst) {
  const Module module = parse_or_fail(
      entry_text("{ WAIT: bra DONE; bra WAIT; DONE: }\n{ WAIT: bra DONE; bra WAIT; DONE: }\n"
                 "{ bra OUT; }\nOUT: ret;"));
  const Function& k = entry(module);
  const auto target = [&](size_t i) { return k.operands(k.instructions[i])[0].index; };
  EXPECT_EQ(target(0), 2u);
  EXPECT_EQ(target(1), 0u);
  EXPECT_EQ(target(2), 4u);
  EXPECT_EQ(target(3), 2u);
  EXPECT_EQ(target(4), 5u);
  // Into a block is refused.
  EXPECT_FALSE(parse(entry_text("bra IN; { IN: ret; }")).ok());
}

TEST(PtxFunction, GuardsAndUniformBranches) {
  const Module module = parse_or_fail(
      entry_text("TOP: @%p1 bra TOP; @!%p2 bra.uni TOP; @%p3 ret; @%p1 add.s32 %r1, %r2, 3; ret;"));
  const Function& k = entry(module);
  EXPECT_EQ(k.register_name(k.instructions[0].guard), "%p1");
  EXPECT_FALSE(k.instructions[0].guard_negated);
  EXPECT_TRUE(k.instructions[1].guard_negated);
  EXPECT_TRUE(k.instructions[1].modifiers.has(Flag::kUni));
  EXPECT_EQ(k.instructions[2].opcode, Opcode::kRet);
  EXPECT_EQ(k.instructions[4].guard, kNoIndex);
}

TEST(PtxFunction, BranchTables) {
  const Module module = parse_or_fail(entry_text(
      "table: .branchtargets L0, L1, L0;\nbrx.idx.uni %r1, table;\nL0: exit;\nL1: ret;"));
  const Function& k = entry(module);
  ASSERT_EQ(k.branch_targets.size(), 1u);
  EXPECT_EQ(k.branch_targets[0].instructions, (std::vector<uint32_t>{1, 2, 1}));
  EXPECT_EQ(k.operands(k.instructions[0])[1].symbol, SymbolKind::kBranchTargets);
}

TEST(PtxFunction, BodyEndsInATerminator) {
  const Module module = parse_or_fail(entry_text("mov.b32 %r1, 0;"));
  EXPECT_EQ(entry(module).instructions.back().opcode, Opcode::kRet);
  EXPECT_EQ(parse_or_fail(entry_text("")).functions[0].instructions.size(), 1u);
  // A label behind the last instruction needs one too.
  const Module labelled = parse_or_fail(entry_text("bra END; END:"));
  EXPECT_EQ(entry(labelled).instructions.size(), 2u);
  EXPECT_EQ(entry(labelled).operands(entry(labelled).instructions[0])[0].index, 1u);
}

TEST(PtxFunction, DirectCall) {
  const Module module = parse_or_fail(
      std::string(kHeader) +
      ".func (.param .b32 r) f(.param .b32 a, .param .align 8 .b8 b[16]);\n" +
      ".entry k() { .reg .b32 %r<3>; { .param .b32 param0; st.param.b32 [param0+0], %r1;"
      ".param .align 8 .b8 param1[16]; .param .b32 retval0;"
      "call.uni (retval0), f, (param0, param1); ld.param.b32 %r2, [retval0+0]; } ret; }\n");
  const Function& k = entry(module);
  const Instruction& call = k.instructions[1];
  ASSERT_EQ(call.opcode, Opcode::kCall);
  const auto operands = k.operands(call);
  ASSERT_EQ(operands.size(), 4u);
  ASSERT_EQ(operands[0].count, 1);
  EXPECT_EQ(k.variables[k.elements(operands[0])[0].index].name, "retval0");
  EXPECT_EQ(operands[1].symbol, SymbolKind::kFunction);
  EXPECT_EQ(operands[1].index, module.find_function("f"));
  ASSERT_EQ(operands[2].count, 2);
  EXPECT_EQ(k.variables[k.elements(operands[2])[1].index].size, 16u);
  EXPECT_EQ(operands[3].kind, OperandKind::kNone);
  const Operand& address = k.operands(k.instructions[0])[0];
  EXPECT_EQ(address.kind, OperandKind::kAddress);
  EXPECT_EQ(address.base, AddressBase::kSymbol);
  EXPECT_EQ(address.symbol, SymbolKind::kFunctionVariable);
}

TEST(PtxFunction, IndirectCalls) {
  const Module module = parse_or_fail(
      std::string(kHeader) + ".func (.param .b32 r) f(.param .b32 a);\n" +
      ".entry k() { .reg .b32 %r<3>; .reg .b64 %d<3>; .param .b32 p; .param .b32 q;"
      "mov.u64 %d1, f; proto: .callprototype (.param .b32 _) _ (.param .b32 _) .noreturn;"
      "targets: .calltargets f; call (q), %d1, (p), proto; call (q), %d1, (p), targets; ret; }\n");
  const Function& k = entry(module);
  ASSERT_EQ(k.prototypes.size(), 1u);
  EXPECT_TRUE(k.prototypes[0].noreturn);
  EXPECT_EQ(k.prototypes[0].params[0].size, 4u);
  EXPECT_EQ(k.operands(k.instructions[0])[1].symbol, SymbolKind::kFunction);
  EXPECT_EQ(k.operands(k.instructions[1])[1].kind, OperandKind::kRegister);
  EXPECT_EQ(k.operands(k.instructions[1])[3].symbol, SymbolKind::kCallPrototype);
  EXPECT_EQ(k.operands(k.instructions[2])[3].symbol, SymbolKind::kCallTargets);
  EXPECT_EQ(k.call_targets[0].functions[0], module.find_function("f"));
}

TEST(PtxFunction, CallsWithoutListsAndWithRegisters) {
  const Module module =
      parse_or_fail(std::string(kHeader) + ".func n() { ret; }\n.func v(.reg .b32 %a) { ret; }\n" +
                    ".entry k() { .reg .b32 %r<3>; call n; call v, (%r1); call v, (7); ret; }\n");
  const Function& k = entry(module);
  EXPECT_EQ(k.operands(k.instructions[0])[0].count, 0);
  EXPECT_EQ(k.operands(k.instructions[0])[2].count, 0);
  EXPECT_EQ(k.elements(k.operands(k.instructions[1])[2])[0].kind, OperandKind::kRegister);
  EXPECT_EQ(k.elements(k.operands(k.instructions[2])[2])[0].value, 7);
}

TEST(PtxFunction, LocationsAndText) {
  const Module module = parse_or_fail(
      std::string(kHeader) +
      ".file 1 \"a.cu\"\n.entry k() {\n.loc 1 7 3\n"
      ".loc 1 12 5, function_name $L__info_string0+4, inlined_at 1 7 3\n  trap;\n ret;\n}\n");
  const Function& k = entry(module);
  EXPECT_EQ(k.location(k.instructions[0]).line, 12u);
  EXPECT_EQ(module.files[k.location(k.instructions[0]).file], "a.cu");
  EXPECT_EQ(k.instructions[0].line, 8u);
  EXPECT_EQ(k.instructions[0].column, 3u);
  EXPECT_EQ(module.instruction_text(k.instructions[0]), "trap;");
}

TEST(PtxFunction, LocalAndSharedVariables) {
  const Module module = parse_or_fail(
      entry_text(".local .align 16 .b8 __local_depot0[32];\n.shared .align 8 .b64 bar[2];\n"
                 "mov.u64 %d1, __local_depot0; cvta.local.u64 %d2, %d1; mov.u32 %r1, bar+8;"
                 "st.shared.u32 [bar+4], %r1; ret;"));
  const Function& k = entry(module);
  ASSERT_EQ(k.variables.size(), 2u);
  EXPECT_EQ(k.variables[0].space, StateSpace::kLocal);
  EXPECT_EQ(k.variables[1].size, 16u);
  const Operand& bar = k.operands(k.instructions[2])[1];
  EXPECT_EQ(bar.kind, OperandKind::kSymbol);
  EXPECT_EQ(bar.symbol, SymbolKind::kFunctionVariable);
  EXPECT_EQ(bar.value, 8);
}

}  // namespace
}  // namespace tilewright::emulator::ptx
