// Configs that the generator may pick are right, not only the favourite: a sample of the
// candidates, on lengths that leave ragged tiles both ways. Level standard runs all of them.
#include <gtest/gtest.h>

#include "generator/generator.h"
#include "runtime/session_access.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

class SampledCandidates : public ::testing::TestWithParam<std::string> {};

TEST_P(SampledCandidates, MatchReference) {
  constexpr size_t kStep = 8;
  const Result<Problem> problem = Problem::parse(GetParam());
  ASSERT_TRUE(problem.ok()) << problem.error().to_string();
  const std::string device = "emulated:a100";
  const Arch& arch = SessionAccess::device(shared_session(device)).arch();
  const std::vector<AnyConfig> configs = candidates(*problem, arch);
  ASSERT_GT(configs.size(), kStep);
  // The first is the default, which other tests run.
  for (size_t i = 1; i < configs.size(); i += kStep) {
    EXPECT_EQ(run_and_verify({.device = device, .problem = GetParam(), .config = configs[i]}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Smoke, SampledCandidates,
                         ::testing::Values("hq1 hkv1 q145 k145 qk64 v64 fp16 causal",
                                           "hq1 hkv1 q145 k145 qk128 v128 bf16",
                                           "backward hq2 hkv1 q67 k70 qk64 v64 fp16 causal",
                                           "backward hq1 hkv1 q35 k67 qk128 v72 bf16"),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace tilewright::testing
