// Every config the generator may pick is right, not only the favourite: all candidates of each head
// dim class, on lengths that leave ragged tiles both ways.
#include <gtest/gtest.h>

#include "generator/generator.h"
#include "runtime/session_access.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

// The configs of a problem from `first` on in steps of `step`.
void expect_all_right(const std::string& text, size_t first, size_t step) {
  const Result<Problem> problem = Problem::parse(text);
  ASSERT_TRUE(problem.ok()) << problem.error().to_string();
  const std::string device = "emulated:a100";
  const Arch& arch = SessionAccess::device(shared_session(device)).arch();
  const std::vector<AnyConfig> configs = candidates(*problem, arch);
  ASSERT_GT(configs.size(), first + 1);
  for (size_t i = first; i < configs.size(); i += step) {
    EXPECT_EQ(run_and_verify({.device = device, .problem = text, .config = configs[i]}), "");
  }
}

class Candidates : public ::testing::TestWithParam<std::string> {};

TEST_P(Candidates, AllMatchReference) { expect_all_right(GetParam(), 0, 1); }

INSTANTIATE_TEST_SUITE_P(Smoke, Candidates,
                         ::testing::Values("hq1 hkv1 q145 k145 qk64 v64 fp16 causal",
                                           "hq1 hkv1 q145 k145 qk128 v128 bf16"),
                         [](const auto& test) { return test_name(test.param); });

class SampledCandidates : public ::testing::TestWithParam<std::string> {};

// The first is the default, which other tests run.
TEST_P(SampledCandidates, MatchReference) { expect_all_right(GetParam(), 1, 8); }

INSTANTIATE_TEST_SUITE_P(Smoke, SampledCandidates,
                         ::testing::Values("backward hq2 hkv1 q67 k70 qk64 v64 fp16 causal",
                                           "backward hq1 hkv1 q35 k67 qk128 v72 bf16"),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace tilewright::testing
