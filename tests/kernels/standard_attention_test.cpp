// The family `standard` on emulated devices against fp64 and against forward_sm80.
#include <gtest/gtest.h>

#include "runtime/session_access.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

class StandardAttention : public ::testing::TestWithParam<std::string> {};

TEST_P(StandardAttention, MatchesReference) {
  EXPECT_EQ(run_and_verify({.problem = "standard " + GetParam()}), "");
}

INSTANTIATE_TEST_SUITE_P(
    Smoke, StandardAttention,
    ::testing::Values("hq1 hkv1 q1 k1 qk8 v8 fp16", "hq2 hkv1 q67 k131 qk64 v64 fp16 causal",
                      "b2 hq6 hkv2 q129 k70 qk80 v48 bf16 causal",
                      "hq2 hkv1 q65 k129 qk128 v128 bf16", "hq1 hkv1 q33 k65 qk256 v256 fp16",
                      "hq2 hkv1 q130 k60 qk40 v24 fp16 causal=top-left",
                      "hq2 hkv2 q63 k127 qk24 v136 bf16 window=31,5",
                      "b2 hq4 hkv2 q66 k66 qk64 v64 bf16 softcap=20 scale=0.7 strided",
                      "hq2 hkv1 q70 k90 qk64 v72 fp16 layout=bhsd causal",
                      "hq2 hkv2 q5 k0 qk64 v64 fp16", "hq2 hkv2 q0 k9 qk64 v64 fp16",
                      "b0 hq2 hkv2 q5 k9 qk64 v64 fp16", "hq2 hkv1 q40 k50 qk64 v64 fp16 scale=0"),
    [](const auto& test) { return test_name(test.param); });

// Three kernels, each of which reads what the one before wrote.
TEST(StandardAttentionSchedules, GiveTheSameBits) {
  for (const char* problem : {"standard hq2 hkv1 q67 k131 qk64 v64 fp16 causal",
                              "standard b2 hq3 hkv1 q33 k70 qk80 v48 bf16 window=9,5",
                              "standard hq2 hkv1 q35 k67 qk24 v136 fp16 strided softcap=9"}) {
    EXPECT_EQ(verify_under_every_schedule(problem), "");
  }
}

// The workspace grows with the product of the lengths; forward_sm80 needs none.
TEST(StandardAttentionPlan, HasThreeStepsAndQuadraticWorkspace) {
  Session& session = shared_session("emulated:a100");
  const auto standard = session.prepare(*Problem::parse("standard hq2 hkv1 qk64 v64 fp16"));
  ASSERT_TRUE(standard.ok()) << standard.error().to_string();
  const auto plan = standard->plan({.batch = 3, .seqlen_q = 100, .seqlen_k = 130});
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->steps.size(), 3u);
  EXPECT_EQ(plan->steps[0].entry, "tw_standard_scores");
  EXPECT_EQ(plan->steps[2].entry, "tw_standard_output");
  EXPECT_EQ(plan->workspace_bytes, int64_t{3} * 2 * 100 * (192 * (4 + 2) + 4));
  const auto flash = session.prepare(*Problem::parse("hq2 hkv1 qk64 v64 fp16"));
  ASSERT_TRUE(flash.ok());
  EXPECT_EQ(flash->plan({.batch = 3, .seqlen_q = 100, .seqlen_k = 130})->workspace_bytes, 0);
}

TEST(StandardAttentionPlan, MissingWorkspaceIsNamed) {
  Session& session = shared_session("emulated:a100");
  const auto kernel = session.prepare(*Problem::parse("standard hq1 hkv1 qk64 v64 fp16"));
  ASSERT_TRUE(kernel.ok());
  const auto plan = kernel->plan({.batch = 1, .seqlen_q = 4, .seqlen_k = 4});
  ASSERT_TRUE(plan.ok());
  const Status status = kernel->launch(nullptr, *plan, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(status.error().to_string().find("workspace"), std::string::npos)
      << status.error().to_string();
}

}  // namespace
}  // namespace tilewright::testing
