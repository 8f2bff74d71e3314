// Module level: header, files, variables, initialisers, functions' headers, parameters.
#include "tests/emulator/ptx_test_support.h"

namespace tilewright::emulator::ptx {
namespace {

const Variable& variable(const Module& module, const std::string& name) {
  const uint32_t index = module.find_variable(name);
  EXPECT_NE(index, kNoIndex) << name;
  return module.variables.at(index);
}

const Function& function(const Module& module, const std::string& name) {
  const uint32_t index = module.find_function(name);
  EXPECT_NE(index, kNoIndex) << name;
  return module.functions.at(index);
}

TEST(PtxModule, Header) {
  const Module module =
      parse_or_fail("// text\n.version 8.3\n.target sm_89, debug\n.address_size 64\n");
  EXPECT_EQ(module.version_major, 8);
  EXPECT_EQ(module.version_minor, 3);
  EXPECT_EQ(module.target, (Target{.compute_capability = 89, .has_suffix = false}));
  EXPECT_EQ(parse_or_fail(kHeader).target, (Target{.compute_capability = 90, .has_suffix = true}));
}

TEST(PtxModule, CommentsFilesSectionsAndPragmas) {
  const Module module = parse_or_fail(
      std::string(kHeader) +
      "/* a\n   comment */ .file 1 \"a.cu\"\n.file 3 \"b.cu\", 5, 6\n.pragma \"nounroll\";\n"
      ".section .debug_str {\n$L__info: .b8 1,2\n.b32 $L__a-$L__b\n{ .b8 3 }\n}\n");
  ASSERT_EQ(module.files.size(), 4u);
  EXPECT_EQ(module.files[1], "a.cu");
  EXPECT_EQ(module.files[3], "b.cu");
}

TEST(PtxModule, VariablesHaveSizeAlignmentAndLinkage) {
  const Module module = parse_or_fail(
      std::string(kHeader) +
      ".visible .global .align 16 .b8 a[100];\n.global .v4 .f32 b;\n"
      ".extern .shared .align 1024 .b8 smem[];\n.weak .const .u64 c;\n"
      ".global .attribute(.managed) .align 4 .u32 d[2][3], e;\n.common .global .s16 g;\n");
  EXPECT_EQ(variable(module, "a").size, 100u);
  EXPECT_EQ(variable(module, "a").align, 16u);
  EXPECT_EQ(variable(module, "a").linkage, Linkage::kVisible);
  EXPECT_EQ(variable(module, "b").size, 16u);
  EXPECT_EQ(variable(module, "b").align, 16u);
  EXPECT_TRUE(variable(module, "smem").is_unsized);
  EXPECT_EQ(variable(module, "smem").space, StateSpace::kShared);
  EXPECT_EQ(variable(module, "smem").align, 1024u);
  EXPECT_EQ(variable(module, "c").space, StateSpace::kConst);
  EXPECT_EQ(variable(module, "c").linkage, Linkage::kWeak);
  EXPECT_TRUE(variable(module, "d").managed);
  EXPECT_EQ(variable(module, "d").size, 24u);
  EXPECT_EQ(variable(module, "e").size, 4u);
  EXPECT_EQ(variable(module, "g").linkage, Linkage::kCommon);
}

TEST(PtxModule, InitialisersAreBytes) {
  const Module module = parse_or_fail(
      std::string(kHeader) +
      ".global .u32 a[4] = {1, -2, 0x10 + 3 * (2 - 1)};\n.global .f32 f[2] = {0f3F800000, 0.5};\n"
      ".const .u16 n[2][2] = {{1, 2}, {3, 4}};\n.global .b8 s[] = {104, 105, 0};\n"
      ".global .u64 q = 1 << 40;\n.global .u32 t = (5 > 3) ? ~0 : 7;\n.global .s32 o = 017;\n");
  const std::vector<uint8_t> a = {1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x13, 0, 0, 0};
  EXPECT_EQ(variable(module, "a").initialiser, a);
  EXPECT_EQ(variable(module, "a").size, 16u);
  EXPECT_EQ(variable(module, "f").initialiser,
            (std::vector<uint8_t>{0, 0, 0x80, 0x3f, 0, 0, 0, 0x3f}));
  EXPECT_EQ(variable(module, "n").initialiser, (std::vector<uint8_t>{1, 0, 2, 0, 3, 0, 4, 0}));
  EXPECT_EQ(variable(module, "s").size, 3u);
  EXPECT_EQ(variable(module, "q").initialiser, (std::vector<uint8_t>{0, 0, 0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(variable(module, "t").initialiser, (std::vector<uint8_t>{255, 255, 255, 255}));
  EXPECT_EQ(variable(module, "o").initialiser[0], 15);
}

TEST(PtxModule, RelocationsNameVariablesAndFunctions) {
  const Module module = parse_or_fail(std::string(kHeader) +
                                      ".global .u32 x;\n.func f() { ret; }\n"
                                      ".global .u64 p[4] = {x, generic(x)+4, x-8, f};\n"
                                      ".global .b8 m[2] = {0xff(x), 0xff00(x)};\n");
  const Variable& p = variable(module, "p");
  ASSERT_EQ(p.relocations.size(), 4u);
  EXPECT_FALSE(p.relocations[0].generic);
  EXPECT_EQ(p.relocations[0].index, module.find_variable("x"));
  EXPECT_TRUE(p.relocations[1].generic);
  EXPECT_EQ(p.relocations[1].addend, 4);
  EXPECT_EQ(p.relocations[1].offset, 8u);
  EXPECT_EQ(p.relocations[2].addend, -8);
  EXPECT_EQ(p.relocations[3].kind, Relocation::Kind::kFunction);
  EXPECT_EQ(p.relocations[3].index, module.find_function("f"));
  const Variable& m = variable(module, "m");
  ASSERT_EQ(m.relocations.size(), 2u);
  EXPECT_EQ(m.relocations[0].shift, 0);
  EXPECT_EQ(m.relocations[1].shift, 8);
  EXPECT_EQ(m.relocations[1].size, 1);
  EXPECT_EQ(m.relocations[1].offset, 1u);
}

TEST(PtxModule, ExternVariableMayBeDefinedLater) {
  const Module module = parse_or_fail(std::string(kHeader) +
                                      ".extern .global .u32 x;\n.visible .global .u32 x = 3;\n");
  EXPECT_EQ(module.variables.size(), 1u);
  EXPECT_EQ(variable(module, "x").initialiser.size(), 4u);
  EXPECT_FALSE(parse(std::string(kHeader) + ".global .u32 x;\n.global .u32 x;\n").ok());
}

// Offsets are aligned relative to the constant bank: 0x160 on sm_80, 0x210 on sm_90.
TEST(PtxModule, EntryParametersAreLaidOutLikeTheConstantBank) {
  const std::string rest =
      "\n.address_size 64\n.entry k(.param .u8 a, .param .u64 .ptr .global .align 16 b, "
      ".param .align 128 .b8 c[128], .param .f32 d) { ret; }\n";
  const Module sm80 = parse_or_fail(".version 8.0\n.target sm_80" + rest);
  const Module sm90 = parse_or_fail(".version 8.0\n.target sm_90" + rest);
  const auto offsets = [](const Module& module) {
    std::vector<uint32_t> found;
    for (const Param& param : module.functions[0].params) found.push_back(param.offset);
    return found;
  };
  EXPECT_EQ(offsets(sm80), (std::vector<uint32_t>{0, 8, 0x20, 0xa0}));
  EXPECT_EQ(offsets(sm90), (std::vector<uint32_t>{0, 8, 0x70, 0xf0}));
  EXPECT_EQ(sm90.functions[0].param_bytes, 0xf4u);
  EXPECT_EQ(sm90.functions[0].params[2].size, 128u);
}

TEST(PtxModule, PerformanceDirectives) {
  const Module module = parse_or_fail(
      std::string(kHeader) +
      ".visible .entry k() .maxntid 384, 1, 1 .minnctapersm 2 .maxnreg 168 "
      ".explicitcluster .reqnctapercluster 2, 1 .blocksareclusters .pragma \"x\"; { ret; }\n"
      ".weak .entry l() .reqntid 64, 2 .maxclusterrank 8 { ret; }\n");
  const Performance& k = function(module, "k").performance;
  EXPECT_EQ(k.maxntid, (Dim3{384, 1, 1}));
  EXPECT_EQ(k.minnctapersm, 2u);
  EXPECT_EQ(k.maxnreg, 168u);
  EXPECT_TRUE(k.explicitcluster);
  EXPECT_TRUE(k.blocksareclusters);
  EXPECT_EQ(k.reqnctapercluster, (Dim3{2, 1, 1}));
  EXPECT_EQ(function(module, "l").performance.reqntid, (Dim3{64, 2, 1}));
  EXPECT_EQ(function(module, "l").performance.maxclusterrank, 8u);
  EXPECT_EQ(function(module, "l").linkage, Linkage::kWeak);
}

TEST(PtxModule, DeclarationsAndDefinitions) {
  const Module module = parse_or_fail(
      std::string(kHeader) +
      ".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
      ".func (.param .b32 r) f(.param .b32 a);\n.func g() .noreturn;\n"
      ".func (.param .b32 out) f(.param .b32 in) { ret; }\n"
      ".func (.reg .b32 %r0) h(.reg .b32 %a, .reg .pred %q) { mov.b32 %r0, %a; ret; }\n");
  EXPECT_FALSE(function(module, "vprintf").has_body);
  EXPECT_EQ(function(module, "vprintf").linkage, Linkage::kExtern);
  EXPECT_TRUE(function(module, "f").has_body);
  EXPECT_EQ(function(module, "f").params[0].name, "in");
  EXPECT_TRUE(function(module, "g").noreturn);
  const Function& h = function(module, "h");
  EXPECT_EQ(h.return_params[0].reg, 0u);
  EXPECT_EQ(h.params[0].reg, 1u);
  EXPECT_EQ(h.registers[2], Type::kPred);
  EXPECT_EQ(module.functions.size(), 4u);
}

}  // namespace
}  // namespace tilewright::emulator::ptx
