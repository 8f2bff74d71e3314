// Compiled CUDA: the texts of tests/data/ptx, and time for a large one.
#include <fmt/format.h>

#include <ctime>

#include "emulator/ptx/control_flow.h"
#include "emulator/ptx/liveness.h"
#include "tests/emulator/ptx_test_support.h"

namespace tilewright::emulator::ptx {
namespace {

size_t count(const Function& function, Opcode opcode) {
  size_t found = 0;
  for (const Instruction& instruction : function.instructions) {
    if (instruction.opcode == opcode) ++found;
  }
  return found;
}

TEST(PtxReal, EveryTextParsesAndFlows) {
  for (const char* name : {"basics", "hopper", "ampere"}) {
    const Module module = parse_or_fail(read_ptx(name));
    for (const Function& function : module.functions) {
      if (!function.has_body) continue;
      const ControlFlow flow = build_control_flow(module, function);
      EXPECT_FALSE(flow.blocks.empty());
      EXPECT_GT(register_pressure(module, function).registers, 0u) << function.name;
    }
  }
}

TEST(PtxReal, Hopper) {
  const Module module = parse_or_fail(read_ptx("hopper"));
  const Function& kernel = module.functions.at(module.find_function("hopper"));
  EXPECT_TRUE(kernel.is_entry);
  EXPECT_EQ(kernel.performance.maxntid.x, 384u);
  EXPECT_EQ(kernel.performance.minnctapersm, 1u);
  EXPECT_EQ(kernel.performance.reqnctapercluster, (Dim3{2, 1, 1}));
  EXPECT_EQ(kernel.params.at(0).size, 128u);
  EXPECT_EQ(count(kernel, Opcode::kWgmmaMmaAsync), 4u);
  EXPECT_EQ(count(kernel, Opcode::kCpAsyncBulkTensor), 3u);
  EXPECT_EQ(count(kernel, Opcode::kSetmaxnregInc), 1u);
  EXPECT_EQ(count(kernel, Opcode::kMbarrierTryWait), 1u);
  EXPECT_EQ(module.files.at(1), "hopper.cu");
  for (const Instruction& instruction : kernel.instructions) {
    if (instruction.opcode != Opcode::kMmaSync) continue;
    EXPECT_EQ(instruction.modifiers.shape, (Shape{.m = 16, .n = 8, .k = 16}));
    EXPECT_GT(kernel.location(instruction).line, 0u);
    EXPECT_TRUE(module.instruction_text(instruction).starts_with("mma.sync"));
  }
}

TEST(PtxReal, Basics) {
  const Module module = parse_or_fail(read_ptx("basics"));
  const uint32_t functions = module.find_variable("functions");
  ASSERT_NE(functions, kNoIndex);
  EXPECT_EQ(module.variables[functions].relocations.size(), 2u);
  EXPECT_EQ(module.variables[functions].relocations[0].kind, Relocation::Kind::kFunction);
  const uint32_t table = module.find_variable("table");
  ASSERT_NE(table, kNoIndex);
  EXPECT_EQ(module.variables[table].size, 64u);
  EXPECT_EQ(module.variables[table].initialiser.at(8), 3);
  const Function& kernel = module.functions.at(module.find_function("basics"));
  EXPECT_GE(count(kernel, Opcode::kCall), 3u);
  EXPECT_FALSE(kernel.prototypes.empty());
}

// A hundred thousand instructions. Processor time, for the machine may be busy; the bound is loose,
// for builds with checks.
TEST(PtxReal, LargeTextsParseFast) {
  std::string body;
  for (int i = 0; i < 20000; ++i) {
    body += fmt::format(
        "add.s32 %r{0}, %r2, 7;\nmul.ftz.f32 %f{0}, %f1, 0f3F800000;\n"
        "ld.global.v2.f32 {{%f{0}, %f3}}, [%d4+16];\nfma.rn.f32 %f{0}, %f1, %f2, %f3;\n"
        "L{1}: @%p1 bra L{1};\n",
        i % 19 + 1, i);
  }
  const std::string text = entry_text(body);
  const std::clock_t start = std::clock();
  const Module module = parse_or_fail(text);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(module.functions.at(0).instructions.size(), 100001u);
  EXPECT_LT(seconds, 5.0);
}

}  // namespace
}  // namespace tilewright::emulator::ptx
