// Refusals: what is wrong, where, and in which instruction.
#include <gmock/gmock.h>

#include "tests/emulator/ptx_test_support.h"

namespace tilewright::emulator::ptx {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string error_of(const std::string& text) {
  const Result<Module> module = parse(text);
  EXPECT_FALSE(module.ok()) << text;
  if (module.ok()) return {};
  EXPECT_EQ(module.error().code, ErrorCode::kParseError);
  return module.error().message;
}

// Of a body whose second line is at fault.
std::string body_error(const std::string& line) {
  return error_of(entry_text("mov.u32 %r1, 0;\n" + line));
}
std::string at(int column) { return std::to_string(kBodyLine + 1) + ":" + std::to_string(column); }

TEST(PtxErrors, NameLineColumnAndInstruction) {
  EXPECT_EQ(body_error("  frob.s32 %r1, %r2;"),
            at(3) + ": unknown instruction 'frob.s32': frob.s32 %r1, %r2;");
  EXPECT_EQ(body_error("  add.frob.s32 %r1,\n %r2, 1;"),
            at(3) + ": unknown modifier '.frob': add.frob.s32 %r1, %r2, 1;");
  EXPECT_EQ(body_error("add.sat.u32 %r1, %r2, 1;"),
            at(1) + ": 'add' has no form '.sat.u32': add.sat.u32 %r1, %r2, 1;");
  EXPECT_EQ(body_error("@%p1 add.u32 %r1, %r99, 1;"),
            at(19) + ": unknown name '%r99': @%p1 add.u32 %r1, %r99, 1;");
  EXPECT_EQ(body_error("/* a */ bra NOWHERE;"), at(13) + ": unknown label 'NOWHERE': bra NOWHERE;");
}

TEST(PtxErrors, Operands) {
  EXPECT_THAT(body_error("add.u32 %r1, %r2;"), HasSubstr("2 operands, expected 3"));
  EXPECT_THAT(body_error("add.u32 %d1, %r2, 3;"), HasSubstr("operand 1 is not a 32-bit register"));
  EXPECT_THAT(body_error("add.u32 %p1, %r2, 3;"), HasSubstr("operand 1"));
  EXPECT_THAT(body_error("add.u32 %r1, !%p1, 3;"), HasSubstr("operand 2"));
  EXPECT_THAT(body_error("and.pred %p1, %p2, %r1;"), HasSubstr("operand 3 is not a predicate"));
  EXPECT_THAT(body_error("ld.global.v2.f32 {%f1, %f2, %f3}, [%d1];"),
              HasSubstr("operand 1 is not a vector of 2 32-bit registers"));
  EXPECT_THAT(body_error("ld.global.u32 %h1, [%d1];"), HasSubstr("operand 1"));
  EXPECT_THAT(body_error("ld.global.u32 %r1, [%h1];"), HasSubstr("32 or 64 bits"));
  EXPECT_THAT(body_error("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, "
                         "{%r1,%r2,%r3}, {%r1,%r2}, {%f1,%f2,%f3,%f4};"),
              HasSubstr("operand 2 is not a vector of 4 32-bit registers"));
  EXPECT_THAT(body_error("cp.async.bulk.prefetch.tensor.3d.L2.global [%d1, {%r1, %r2}];"),
              HasSubstr("3 coordinates"));
  EXPECT_THAT(body_error("mbarrier.arrive.shared::cluster.b64 %d1, [%r1];"),
              HasSubstr("operand 1 is not '_'"));
}

TEST(PtxErrors, Constants) {
  EXPECT_THAT(body_error("bar.sync 16;"), HasSubstr("operand 1 is 16, allowed are 0 to 15"));
  EXPECT_THAT(body_error("lop3.b32 %r1, %r1, %r2, %r3, 256;"),
              HasSubstr("operand 5 is 256, allowed are 0 to 255"));
  EXPECT_TRUE(parse(entry_text("lop3.b32 %r1, %r1, %r2, %r3, 255;")).ok());
  EXPECT_THAT(body_error("setmaxnreg.inc.sync.aligned.u32 30;"), HasSubstr("30 registers"));
  EXPECT_THAT(body_error("cp.async.cg.shared.global [%r1], [%d1], 8;"), HasSubstr("8 bytes"));
  EXPECT_THAT(body_error("cp.async.wait_group %r1;"), HasSubstr("integer constant"));
  EXPECT_THAT(body_error("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, "
                         "%d1, %d2, 1, 0, 1, 0, 0;"),
              HasSubstr("operand 5 is 0"));
  EXPECT_THAT(body_error("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1,%f2,%f3,%f4}, "
                         "%d1, %d2, 1, 1, 1, 0;"),
              HasSubstr("7 operands, expected 8"));
}

TEST(PtxErrors, Im2colIsNamed) {
  EXPECT_THAT(body_error("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::"
                         "complete_tx::bytes [%r1], [%d1, {%r1,%r1,%r1}], [%r1], {%r1};"),
              HasSubstr("im2col copies are not built"));
  EXPECT_THAT(body_error("cp.async.bulk.tensor.3d.global.shared::cta.im2col_no_offs.bulk_group "
                         "[%d1, {%r1,%r1,%r1}], [%r1];"),
              HasSubstr("im2col copies are not built"));
}

TEST(PtxErrors, Targets) {
  const std::string body = ".entry k() { wgmma.fence.sync.aligned; ret; }";
  EXPECT_THAT(error_of(".version 8.0\n.target sm_90\n.address_size 64\n" + body),
              StartsWith("4:14: 'wgmma.fence.sync.aligned' needs sm_90a, the module is for sm_90"));
  EXPECT_THAT(error_of(".version 8.0\n.target sm_80\n" + body), HasSubstr("needs sm_90a"));
  EXPECT_THAT(error_of(".version 8.0\n.target sm_80\n.entry k() { .reg .b32 r; "
                       "ld.shared::cluster.u32 r, [0]; }"),
              HasSubstr("needs sm_90,"));
  EXPECT_THAT(error_of(".version 9.0\n.target sm_85\n"),
              StartsWith("2:9: 'sm_85' is not a target"));
  EXPECT_THAT(error_of(".version 9.0\n.target sm_80a\n"), HasSubstr("'sm_80a' is not a target"));
  EXPECT_THAT(error_of(".version 7.7\n.target sm_90\n"),
              HasSubstr(".version 7.7 does not know the target sm_90, which came with 7.8"));
  EXPECT_TRUE(parse(".version 7.8\n.target sm_90\n").ok());
  EXPECT_TRUE(parse(".version 9.1\n.target sm_20\n").ok()) << "old targets stay";
}

TEST(PtxErrors, DirectivesOfZero) {
  const auto kernel = [](const std::string& directive) {
    return std::string(kHeader) + ".entry k() " + directive + " { ret; }";
  };
  for (const char* name :
       {".maxntid", ".reqntid", ".reqnctapercluster", ".minnctapersm", ".maxnreg"}) {
    EXPECT_THAT(error_of(kernel(std::string(name) + " 0")), HasSubstr("a number above 0")) << name;
    EXPECT_TRUE(parse(kernel(std::string(name) + " 8")).ok()) << name;
  }
  for (const char* name : {".maxntid", ".reqntid", ".reqnctapercluster"}) {
    EXPECT_THAT(error_of(kernel(std::string(name) + " 2, 0")), HasSubstr("above 0")) << name;
    EXPECT_THAT(error_of(kernel(std::string(name) + " 2, 1, 0")), HasSubstr("above 0")) << name;
  }
}

TEST(PtxErrors, ModuleLevel) {
  EXPECT_THAT(error_of(""), StartsWith("1:1: expected '.version', found the end of the text"));
  EXPECT_THAT(error_of(".version 8\n.target sm_90"), HasSubstr("expected a version"));
  EXPECT_THAT(error_of(".version 8.0\n.target compute_90"), HasSubstr("expected a target"));
  EXPECT_THAT(error_of(".version 8.0\n.target sm_90\n.address_size 32"), HasSubstr("64-bit"));
  const std::string head = kHeader;
  EXPECT_THAT(error_of(head + ".global .texref t;"), HasSubstr("expected a type, found '.texref'"));
  EXPECT_THAT(error_of(head + ".global .u32 a[2] = {1,2,3};"), HasSubstr("longer than"));
  EXPECT_THAT(error_of(head + ".global .align 3 .u32 a;"), HasSubstr("power of two"));
  EXPECT_THAT(error_of(head + ".shared .u32 a = 1;"), HasSubstr("initialisers"));
  EXPECT_THAT(error_of(head + ".global .u32 a = 1/0;"), HasSubstr("division by zero"));
  EXPECT_THAT(error_of(head + ".global .b8 a[1099511627776][1099511627776];"),
              HasSubstr("bad array size"));
  EXPECT_THAT(error_of(head + ".entry k(.param .align 8 .b8 a[32768]) { ret; }"),
              HasSubstr("32764"));
  EXPECT_THAT(error_of(head + ".entry k() { ret; } .entry k() { ret; }"), HasSubstr("twice"));
  EXPECT_THAT(error_of(head + ".func f(.param .b32 a); .func f(.param .b64 a) { ret; }"),
              HasSubstr("other parameters"));
  EXPECT_THAT(error_of(head + ".entry k() { ret;"), HasSubstr("is not closed"));
  EXPECT_THAT(error_of(head + ".section .x { {"), HasSubstr("is not closed"));
  EXPECT_THAT(error_of(head + "/* open"), HasSubstr("'/* open'"));
}

TEST(PtxErrors, Calls) {
  const std::string head = std::string(kHeader) +
                           ".func f(.param .b32 a);\n.entry k() { .reg .b64 "
                           ".v2 x; .param .b32 p; .param .b64 q; ";
  const std::string good = std::string(kHeader) +
                           ".func f(.param .b32 a);\n.entry k() { .reg .b64 x; .reg .b32 y;"
                           ".param .b32 p; .param .b64 q; ";
  EXPECT_TRUE(parse(good + "call f, (p); }").ok());
  EXPECT_THAT(error_of(head), HasSubstr("expected"));
  EXPECT_THAT(error_of(good + "call f; }"), HasSubstr("arguments do not fit"));
  EXPECT_THAT(error_of(good + "call f, (q); }"), HasSubstr("arguments do not fit"));
  EXPECT_THAT(error_of(good + "call (p), f, (p); }"), HasSubstr("results do not fit"));
  EXPECT_THAT(error_of(good + "call x, (p); }"), HasSubstr("prototype"));
  EXPECT_THAT(error_of(good + "call y, (p); }"), HasSubstr("64-bit register"));
  EXPECT_THAT(error_of(good + "call k, (p); }"), HasSubstr("entry"));
}

// Depth and size limits answer, whatever the nesting.
TEST(PtxErrors, Limits) {
  const std::string head = kHeader;
  const auto repeat = [](const std::string& piece, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += piece;
    return text;
  };
  EXPECT_THAT(error_of(head + ".global .u32 a = " + repeat("(", 100000)), HasSubstr("deeply"));
  EXPECT_THAT(error_of(head + ".global .u32 a = " + repeat("-", 100000)), HasSubstr("deeply"));
  EXPECT_THAT(error_of(head + ".global .u32 a = " + repeat("1?", 100000)), HasSubstr("deeply"));
  EXPECT_THAT(error_of(head + ".global .u32 a = " + repeat("generic(", 100000)),
              HasSubstr("'generic'"));
  EXPECT_THAT(error_of(head + ".global .u32 a[9] = " + repeat("{", 100000)), HasSubstr("deeply"));
  EXPECT_THAT(error_of(head + ".entry k() " + repeat("{", 100000)), HasSubstr("deeply"));
  EXPECT_THAT(error_of(entry_text(".reg .b32 %x<4000000000>;")), HasSubstr("too many registers"));
  EXPECT_THAT(error_of(head + ".file 4000000000 \"a\""), HasSubstr("too large"));
  EXPECT_THAT(body_error("add" + repeat(".s32", 1000) + " %r1, %r2, 3;"), HasSubstr("modifiers"));
  EXPECT_THAT(body_error("mov.b64 {" + repeat("%r1,", 1000) + "%r1}, %d1;"), HasSubstr("too long"));
  EXPECT_THAT(body_error("exit " + repeat("%r1,", 1000) + "%r1;"), HasSubstr("too many operands"));
  // The quotation of a hostile line is short and printable.
  EXPECT_LT(body_error("x\x01" + repeat("y", 100000)).size(), 600u);
}

}  // namespace
}  // namespace tilewright::emulator::ptx
