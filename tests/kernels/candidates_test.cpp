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

class Candidates : public ::testing::TestWithParam<std::string> {};

TEST_P(Candidates, AllMatchReference) {
  const Result<Problem> problem = Problem::parse(GetParam());
  ASSERT_TRUE(problem.ok()) << problem.error().to_string();
  const std::string device = "emulated:a100";
  const Arch& arch = SessionAccess::device(shared_session(device)).arch();
  const std::vector<AnyConfig> configs = candidates(*problem, arch);
  ASSERT_GT(configs.size(), 1u);
  for (const AnyConfig& config : configs) {
    EXPECT_EQ(run_and_verify({.device = device, .problem = GetParam(), .config = config}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Smoke, Candidates,
                         ::testing::Values("hq1 hkv1 q145 k145 qk64 v64 fp16 causal",
                                           "hq1 hkv1 q145 k145 qk128 v128 bf16"),
                         [](const auto& test) { return test_name(test.param); });

}  // namespace
}  // namespace tilewright::testing
