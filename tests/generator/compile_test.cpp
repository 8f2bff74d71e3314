// Every kind of config through NVRTC and ptxas: default configs and a sample of candidates for each
// architecture, none with spills; and configs that must not compile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "generator/generator.h"
#include "runtime/offline.h"

namespace tilewright {
namespace {

using attention::BackwardSm80Config;
using attention::ForwardSm80Config;
using attention::ForwardSm90Config;
using testing::HasSubstr;

struct Case {
  const char* problem;
  const char* target;
  int num_candidates = 0;  // in addition to the default
};

void PrintTo(const Case& test_case, std::ostream* out) {
  *out << test_case.problem << " on " << test_case.target;
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.target) + "_" + info.param.problem;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(c); }, '_');
  return name;
}

class Compile : public testing::TestWithParam<Case> {};

void expect_compiles(const Problem& problem, const AnyConfig& config, const char* target) {
  const auto result = compile_offline({}, problem, config, target);
  if (!result.ok() && result.error().code == ErrorCode::kCompilerUnavailable) {
    GTEST_SKIP() << result.error().message;
  }
  ASSERT_TRUE(result.ok()) << to_string(config) << "\n" << result.error().to_string();
  for (const KernelResources& resources : result->binary->code.resources) {
    EXPECT_GT(resources.registers, 0);
    EXPECT_EQ(resources.spill_store_bytes, 0) << to_string(config);
    EXPECT_EQ(resources.spill_load_bytes, 0) << to_string(config);
  }
  // wgmmas that ptxas runs one by one (C7510, C7517) are as slow as none.
  EXPECT_EQ(result->binary->code.log.find("C75"), std::string::npos) << result->binary->code.log;
  if (family_name(config) == "forward_sm90") {
    EXPECT_THAT(result->binary->code.ptx, HasSubstr("wgmma.mma_async"));
    EXPECT_THAT(result->binary->code.ptx, HasSubstr("cp.async.bulk.tensor.4d"));
  }
  // Constants of templates must not become variables of the module.
  EXPECT_EQ(result->binary->code.ptx.find("\n.global"), std::string::npos) << to_string(config);
}

TEST_P(Compile, DefaultAndCandidatesDoNotSpill) {
  const auto problem = Problem::parse(GetParam().problem);
  ASSERT_TRUE(problem.ok());
  const auto arch = arch_from_target(GetParam().target);
  ASSERT_TRUE(arch.ok());
  const auto choice = choose_config(*problem, *arch);
  ASSERT_TRUE(choice.ok()) << choice.error().to_string();
  expect_compiles(*problem, choice->config, GetParam().target);
  const std::vector<AnyConfig> all = candidates(*problem, *arch);
  for (int i = 0; i < GetParam().num_candidates; ++i) {
    const size_t index = (all.size() - 1) * static_cast<size_t>(i) /
                         static_cast<size_t>(std::max(1, GetParam().num_candidates - 1));
    expect_compiles(*problem, all[index], GetParam().target);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sm80, Compile,
    testing::Values(Case{"qk8 v8", "sm_80"}, Case{"qk64 v64 bf16 causal", "sm_80", 3},
                    Case{"qk80 v48 bf16 causal softcap=30", "sm_80"},
                    Case{"qk120 v120 causal", "sm_80"}, Case{"qk104 v104 bf16 causal", "sm_80"},
                    Case{"qk128 v128", "sm_80", 2}, Case{"qk128 v128 bf16 causal", "sm_80"},
                    Case{"qk128 v128 causal softcap=50", "sm_80"},
                    Case{"qk128 v128 causal strided", "sm_80"}, Case{"qk192 v128 causal", "sm_80"},
                    Case{"qk256 v256 bf16 causal", "sm_80"}, Case{"q1 qk128 v128", "sm_80"}),
    case_name);
INSTANTIATE_TEST_SUITE_P(TileLists, Compile,
                         testing::Values(Case{"qk64 v64 bf16 global=1", "sm_80", 3},
                                         Case{"qk128 v128 causal+prefix=9", "sm_80", 3},
                                         Case{"qk128 v128 bf16 bigbird", "sm_80"},
                                         Case{"qk128 v128 causal+prefix=9 softcap=50", "sm_80"},
                                         Case{"qk128 v128 causal+prefix=9 strided", "sm_80"},
                                         Case{"qk80 v48 chunk=9", "sm_80"},
                                         Case{"qk256 v256 bf16 global=1", "sm_80"},
                                         Case{"qk192 v128 bigbird", "sm_80"},
                                         Case{"qk256 v256 bigbird", "sm_80"},
                                         Case{"qk128 v128 documents", "sm_90"}),
                         case_name);
INSTANTIATE_TEST_SUITE_P(
    Others, Compile,
    testing::Values(Case{"qk64 v64", "sm_86"}, Case{"qk128 v128 bf16 causal", "sm_86"},
                    Case{"qk256 v256 causal", "sm_89"}, Case{"qk128 v128 causal", "sm_90"},
                    Case{"qk104 v104 bf16 causal", "sm_90"},
                    Case{"qk64 v64 bf16 strided", "sm_90a"},
                    Case{"qk128 v128 bf16 causal splits=4 varlen paged=16", "sm_80", 2},
                    Case{"q1 qk128 v128 paged=16 splits=4", "sm_86"},
                    Case{"hq8 hkv1 q1 qk128 v128 bf16 causal splits=4 varlen paged=16", "sm_80", 3},
                    Case{"hq7 hkv1 q5 qk128 v128 causal softcap=50", "sm_80", 3},
                    Case{"hq10 hkv2 q3 qk80 v48 causal strided", "sm_89"},
                    Case{"hq6 hkv2 q1 qk256 v256 causal paged=16", "sm_86", 3},
                    Case{"hq12 hkv1 q4 qk192 v128", "sm_90"},
                    Case{"qk128 v128 bf16 causal+prefix=64 splits=4 varlen paged=16", "sm_80", 2},
                    Case{"qk256 v256 chunk=100 varlen", "sm_90a"},
                    Case{"qk64 v64 varlen causal", "sm_89"},
                    Case{"standard qk256 v256 bf16 causal", "sm_80"},
                    Case{"linear-forward qk256 v256 bf16 causal", "sm_80", 2},
                    Case{"linear-forward qk72 v40 strided feature=identity", "sm_86"},
                    Case{"linear-step qk128 v128 bf16", "sm_86"},
                    Case{"standard qk72 v40 strided softcap=9", "sm_86"}),
    case_name);
INSTANTIATE_TEST_SUITE_P(
    Backward, Compile,
    testing::Values(Case{"backward qk8 v8", "sm_80"},
                    Case{"backward qk64 v64 bf16 causal", "sm_80", 3},
                    Case{"backward qk80 v48 causal softcap=30", "sm_80"},
                    Case{"backward qk128 v128 causal", "sm_80", 2},
                    Case{"backward qk128 v128 bf16 causal softcap=9 strided", "sm_86"},
                    Case{"backward qk192 v128 bf16 causal", "sm_80"},
                    Case{"backward qk256 v8 causal", "sm_90"},
                    Case{"backward qk8 v256 bf16 causal", "sm_80"},
                    Case{"backward qk256 v256 bf16 causal", "sm_80"},
                    Case{"backward qk256 v256 causal softcap=9 strided", "sm_89"},
                    Case{"backward qk256 v256 causal", "sm_90a", 2}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Sm90aVarlen, Compile,
    testing::Values(Case{"qk64 v64 bf16 causal varlen", "sm_90a", 2},
                    Case{"qk96 v96 causal varlen", "sm_90a", 2},
                    Case{"qk128 v128 varlen", "sm_90a", 3},
                    Case{"qk128 v128 bf16 causal softcap=50 varlen", "sm_90a", 2},
                    Case{"qk192 v128 bf16 causal varlen", "sm_90a"},
                    Case{"qk256 v256 window=100,9 softcap=9 varlen", "sm_90a", 2},
                    Case{"q1 qk256 v256 varlen", "sm_90a"}),
    case_name);
INSTANTIATE_TEST_SUITE_P(Sm90a, Compile,
                         testing::Values(Case{"qk64 v64 bf16 causal", "sm_90a", 2},
                                         Case{"qk96 v96 causal", "sm_90a"},
                                         Case{"qk128 v128", "sm_90a", 3},
                                         Case{"qk128 v128 bf16 causal softcap=50", "sm_90a", 2},
                                         Case{"qk192 v128 bf16 causal", "sm_90a"},
                                         Case{"qk256 v256 window=100,9 softcap=9", "sm_90a", 2},
                                         Case{"q1 qk256 v256", "sm_90a"}),
                         case_name);

// Configs that no candidate list holds: the template refuses them in words.
TEST(MustNotCompile, ImpossibleConfigsNameTheRule) {
  const std::pair<AnyConfig, const char*> cases[] = {
      {ForwardSm80Config{.head_dim_qk = 65}, "head_dim_qk must be a multiple of 8 from 8 to 256"},
      {ForwardSm80Config{.head_dim_v = 264}, "head_dim_v must be a multiple of 8 from 8 to 256"},
      {ForwardSm80Config{.tile_n = 40}, "tile_n must be a multiple of 16"},
      {ForwardSm80Config{.tile_m = 192}, "tile_m must be 16 or 32 rows per warp"},
      {ForwardSm80Config{.stages = 0}, "at least one stage"},
      {ForwardSm80Config{.tile_list = true, .packed_heads = 2},
       "a tile list is of the rows of one head"},
      {ForwardSm80Config{.packed_heads = 0}, "a tile has rows of one head or more"},
      {ForwardSm80Config{.row_range = true, .tile_list = true},
       "a tile list says all that a row range would"},
      {ForwardSm80Config{.dtype = attention::Dtype::kFloat8E4M3},
       "forward_sm80 takes fp16 and bf16"},
      {BackwardSm80Config{.head_dim_qk = 65}, "head_dim_qk must be a multiple of 8 from 8 to 256"},
      {BackwardSm80Config{.dkdv_tile_m = 24}, "dkdv_tile_m must be a multiple of 16"},
      {BackwardSm80Config{.dkdv_tile_n = 48}, "dkdv_tile_n must be 16 or 32 keys per warp"},
      {BackwardSm80Config{.dkdv_column_warps = 3}, "dkdv_column_warps must divide dkdv_warps"},
      {BackwardSm80Config{.dq_tile_m = 192}, "dq_tile_m must be 16 or 32 rows per warp"},
      {BackwardSm80Config{.dq_tile_n = 24}, "dq_tile_n must be a multiple of 16"},
      {BackwardSm80Config{.dtype = attention::Dtype::kFloat8E4M3},
       "backward_sm80 takes fp16 and bf16"},
      {ForwardSm90Config{.head_dim_qk = 65}, "head_dim_qk must be a multiple of 8 from 8 to 256"},
      {ForwardSm90Config{.consumer_warpgroups = 4}, "one to three consumer warpgroups"},
      {ForwardSm90Config{.tile_n = 40}, "tile_n must be a multiple of 16"},
      {ForwardSm90Config{.dtype = attention::Dtype::kFloat8E4M3},
       "forward_sm90 takes fp16 and bf16"},
  };
  for (const auto& [config, message] : cases) {
    const bool hopper = family_name(config) == "forward_sm90";
    const auto result = compile_offline({}, Problem{}, config, hopper ? "sm_90a" : "sm_80");
    ASSERT_FALSE(result.ok()) << message;
    if (result.error().code == ErrorCode::kCompilerUnavailable) {
      GTEST_SKIP() << result.error().message;
    }
    EXPECT_EQ(result.error().code, ErrorCode::kCompileError);
    EXPECT_THAT(result.error().to_string(), HasSubstr(message));
  }
}

}  // namespace
}  // namespace tilewright
