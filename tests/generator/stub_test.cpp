// The generated text, byte for byte: what the cache key is computed from and a reader sees.
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "generator/generator.h"

namespace tilewright {
namespace {

using attention::ForwardSm80Config;

KernelSource emit_config(const ForwardSm80Config& config) {
  return emit(Problem{}, AnyConfig(config));
}

TEST(Stub, OfADefaultConfigHasNoFields) {
  const KernelSource source = emit_config({});
  EXPECT_EQ(source.family, "forward_sm80");
  EXPECT_EQ(source.template_path, "attention/forward_sm80.cuh");
  EXPECT_EQ(source.entry_names, std::vector<std::string>{"tw_forward"});
  EXPECT_EQ(source.text, R"(// tilewright forward_sm80 (generated))"
                         "\n#include \"attention/forward_sm80.cuh\"\n"
                         R"(using namespace tilewright::attention;
consteval ForwardSm80Config config() {
  return {};
}
extern "C" __global__ void __launch_bounds__(config().num_threads(), config().min_blocks_per_sm)
tw_forward(const __grid_constant__ ForwardParams params) { forward_sm80_cta<config()>(params); }
)");
}

TEST(Stub, PrintsOnlyNonDefaultFieldsInOrder) {
  const KernelSource source = emit_config({.dtype = attention::Dtype::kBFloat16,
                                           .head_dim_qk = 80,
                                           .head_dim_v = 48,
                                           .row_range = true,
                                           .softcap = true,
                                           .tile_n = 32,
                                           .stages = 3,
                                           .q_in_registers = true});
  EXPECT_EQ(
      source.text,
      R"(// tilewright forward_sm80 dtype=bf16 head_dim_qk=80 head_dim_v=48 row_range=true softcap=true tile_n=32 stages=3 q_in_registers=true (generated))"
      "\n#include \"attention/forward_sm80.cuh\"\n"
      R"(using namespace tilewright::attention;
consteval ForwardSm80Config config() {
  return {.dtype = Dtype::kBFloat16, .head_dim_qk = 80, .head_dim_v = 48, .row_range = true,
          .softcap = true, .tile_n = 32, .stages = 3, .q_in_registers = true};
}
extern "C" __global__ void __launch_bounds__(config().num_threads(), config().min_blocks_per_sm)
tw_forward(const __grid_constant__ ForwardParams params) { forward_sm80_cta<config()>(params); }
)");
}

TEST(Stub, IsShort) {
  ForwardSm80Config config;
  int index = 0;
  ForwardSm80Config::for_each_field(config, [&](const char*, auto& field) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, int>) {
      field = ++index + 1000;
    } else {
      field = static_cast<Field>(1);
    }
  });
  const std::string text = emit_config(config).text;
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 14);
  std::istringstream lines(text);
  std::string line;
  std::getline(lines, line);  // the comment names every field and may be long
  while (std::getline(lines, line)) EXPECT_LE(line.size(), 100u) << line;
}

TEST(Stub, DependsOnTheConfigAlone) {
  const auto a = Problem::parse("b2 hq4 q16 k16 qk128 v128");
  const auto b = Problem::parse("hq1 qk128 v128 scale=3");
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(emit(*a, ForwardSm80Config{}).text, emit(*b, ForwardSm80Config{}).text);
}

}  // namespace
}  // namespace tilewright
