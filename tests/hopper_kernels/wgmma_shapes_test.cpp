// Every overload of ptx::wgmma: each N, A from shared memory and from registers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/half.h"
#include "tests/hopper_kernels/compile.h"
#include "tests/hopper_kernels/device.h"

namespace tilewright::hopper_kernels {
namespace {

struct Case {
  const char* name;
  bool bfloat16;
  bool registers;
};

void PrintTo(const Case& test_case, std::ostream* out) { *out << test_case.name; }

class WgmmaShapes : public testing::TestWithParam<Case> {};

// Small integers: exact in both types and in every sum.
float a_value(int row, int k) { return static_cast<float>((row * 7 + k * 3) % 11 - 5); }
float b_value(int column, int k) { return static_cast<float>((column * 5 + k * 2) % 13 - 6); }

TEST_P(WgmmaShapes, EveryN) {
  const Dtype dtype = GetParam().bfloat16 ? Dtype::kBFloat16 : Dtype::kFloat16;
  const std::string text = fmt::format(
      "#include \"tests/hopper_kernels/wgmma_shapes.cuh\"\n"
      "using namespace tilewright;\n"
      "extern \"C\" __global__ void __launch_bounds__(128)\n"
      "tw_wgmma_shapes(const __grid_constant__ hopper_kernels::WgmmaShapesParams params) {{\n"
      "  hopper_kernels::wgmma_shapes<ptx::WgmmaInput::{}, {}>(params);\n"
      "}}\n",
      GetParam().bfloat16 ? "kBF16" : "kF16", GetParam().registers);
  const auto code =
      compile_kernel("tests/hopper_kernels/wgmma_shapes.cuh", "tw_wgmma_shapes", text);
  if (!code.ok() && code.error().code == ErrorCode::kCompilerUnavailable) {
    GTEST_SKIP() << code.error().message;
  }
  ASSERT_TRUE(code.ok()) << code.error().to_string();
  EXPECT_EQ(code->log.find("(C75"), std::string::npos) << code->log;

  std::vector<float> a, b;
  for (int i = 0; i < 64 * 16; ++i) a.push_back(a_value(i / 16, i % 16));
  for (int i = 0; i < 256 * 16; ++i) b.push_back(b_value(i / 16, i % 16));
  std::vector<std::byte> a_bytes(a.size() * 2), b_bytes(b.size() * 2);
  from_float(dtype, a, a_bytes.data());
  from_float(dtype, b, b_bytes.data());
  Device device({TW_EMULATOR_SCHEDULE_LAZY, 0});
  const size_t count = 32 * 64 * 256;
  struct {
    CUdeviceptr a, b, out;
  } params = {device.upload(a_bytes), device.upload(b_bytes),
              device.upload(std::vector<std::byte>(count * 4, std::byte{0xff}))};
  const Outcome outcome =
      device.launch(code->ptx, "tw_wgmma_shapes", {.grid_x = 32, .block = 128}, &params);
  ASSERT_EQ(outcome.verdict, Verdict::kRight) << outcome.detail;
  const std::vector<std::byte> bytes = device.download(params.out);
  std::vector<float> out(count);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  for (int n = 8; n <= 256; n += 8) {
    for (int row = 0; row < 64; ++row) {
      for (int column = 0; column < 256; ++column) {
        const float got = out[static_cast<size_t>(((n / 8 - 1) * 64 + row) * 256 + column)];
        float expected = 0;
        for (int k = 0; k < 16; ++k) expected += a_value(row, k) * b_value(column, k);
        if (column >= n) {
          ASSERT_TRUE(std::isnan(got)) << n << " " << row << " " << column;
        } else {
          ASSERT_EQ(got, expected) << n << " " << row << " " << column;
        }
      }
    }
  }
}

// Each list of operands with one type: the type is a word of the instruction and no more.
INSTANTIATE_TEST_SUITE_P(All, WgmmaShapes,
                         testing::Values(Case{"fp16_shared", false, false},
                                         Case{"bf16_registers", true, true}),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace tilewright::hopper_kernels
