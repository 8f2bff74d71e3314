// Level standard: every head dim, longer sequences, batch and heads beyond 65,535, and all
// candidates of more head dim classes and of devices with less shared memory.
#include <gtest/gtest.h>

#include "generator/generator.h"
#include "runtime/offline.h"
#include "runtime/session_access.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

class ForwardStandard : public ::testing::TestWithParam<std::string> {};

TEST_P(ForwardStandard, MatchesReference) {
  EXPECT_EQ(run_and_verify({.problem = GetParam()}), "");
}

INSTANTIATE_TEST_SUITE_P(Standard, ForwardStandard, ::testing::ValuesIn(forward_standard()),
                         [](const auto& test) { return test_name(test.param); });

class BackwardStandard : public ::testing::TestWithParam<std::string> {};

TEST_P(BackwardStandard, MatchesReference) {
  EXPECT_EQ(run_and_verify({.problem = "backward " + GetParam()}), "");
}

INSTANTIATE_TEST_SUITE_P(Standard, BackwardStandard, ::testing::ValuesIn(backward_standard()),
                         [](const auto& test) { return test_name(test.param); });

class CandidatesStandard : public ::testing::TestWithParam<std::tuple<const char*, std::string>> {};

TEST_P(CandidatesStandard, AllMatchReference) {
  const auto& [profile, text] = GetParam();
  const std::string device = std::string("emulated:") + profile;
  const Result<Problem> problem = Problem::parse(text);
  ASSERT_TRUE(problem.ok()) << problem.error().to_string();
  const Arch& arch = SessionAccess::device(shared_session(device)).arch();
  for (const AnyConfig& config : candidates(*problem, arch)) {
    EXPECT_EQ(run_and_verify({.device = device, .problem = text, .config = config}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Standard, CandidatesStandard,
    ::testing::Combine(
        ::testing::Values("a100", "rtx3090"),
        ::testing::Values("hq1 hkv1 q145 k145 qk64 v64 fp16 causal",
                          "hq1 hkv1 q145 k145 qk128 v128 bf16",
                          "hq1 hkv1 q145 k145 qk80 v48 bf16 causal",
                          "hq1 hkv1 q97 k145 qk192 v128 fp16",
                          "hq1 hkv1 q97 k97 qk256 v256 bf16 causal",
                          "hq1 hkv1 q145 k145 qk64 v64 fp16 window=20,20+global={3,77}",
                          "hq2 hkv1 q130 k145 qk80 v48 bf16 bigbird=block:16",
                          "hq2 hkv1 q97 k145 qk64 v64 fp16 causal strided softcap=9",
                          "backward hq2 hkv1 q67 k145 qk64 v64 fp16 causal",
                          "backward hq1 hkv1 q67 k131 qk128 v128 bf16 causal softcap=9 strided",
                          "backward hq1 hkv1 q67 k131 qk192 v256 fp16 causal")),
    [](const auto& test) {
      return std::string(std::get<0>(test.param)) + "_" + test_name(std::get<1>(test.param));
    });

class PackedHeadsStandard : public ::testing::TestWithParam<std::string> {};

TEST_P(PackedHeadsStandard, AllCandidatesAreRightUnderAllSchedules) {
  EXPECT_EQ(verify_packed_candidates("emulated:a100", GetParam(), 1), "");
}

INSTANTIATE_TEST_SUITE_P(Standard, PackedHeadsStandard,
                         ::testing::Values("hq3 hkv1 q5 k131 qk64 v64 fp16 causal",
                                           "b2 hq7 hkv1 q2 k70 qk128 v128 bf16 varlen paged=16",
                                           "hq5 hkv1 q17 k67 qk80 v48 fp16 splits=2 strided"),
                         [](const auto& test) { return test_name(test.param); });

class CandidatesSm90Standard : public ::testing::TestWithParam<std::string> {};

TEST_P(CandidatesSm90Standard, AllMatchReferenceUnderAllSchedules) {
  const std::string device = "emulated:h100";
  const Arch& arch = SessionAccess::device(shared_session(device)).arch();
  for (const AnyConfig& config : candidates(*Problem::parse(GetParam()), arch)) {
    if (family_name(config) != "forward_sm90") continue;
    for (const ScheduleCase& schedule : watched_schedules(1)) {
      const ScopedEmulatorSettings scope(schedule.settings);
      EXPECT_EQ(run_and_verify({.device = device, .problem = GetParam(), .config = config}), "")
          << schedule.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Standard, CandidatesSm90Standard,
                         ::testing::Values("hq1 hkv1 q97 k450 qk128 v128 bf16 causal",
                                           "hq1 hkv1 q145 k145 qk128 v128 bf16",
                                           "hq1 hkv1 q145 k145 qk80 v48 bf16 causal",
                                           "hq1 hkv1 q97 k145 qk192 v128 fp16 window=40,17",
                                           "hq1 hkv1 q97 k97 qk256 v256 bf16 causal softcap=9"),
                         [](const auto& test) { return test_name(test.param); });

// Every head dim of forward_sm90, each with the masks in turn: right, without spills, its wgmmas
// not serialised.
class HeadDimsSm90Standard : public ::testing::TestWithParam<int> {};

TEST_P(HeadDimsSm90Standard, DefaultsMatchReferenceAndDoNotSpill) {
  const int dim = GetParam();
  const Arch arch = *arch_from_target("sm_90a");
  const char* const masks[] = {"", " causal", " window=70,20"};
  for (const char* mask : masks) {
    for (const int dim_v : {dim, 264 - dim}) {
      const std::string text = fmt::format("hq2 hkv1 q70 k200 qk{} v{} {}{}", dim, dim_v,
                                           dim % 16 == 0 ? "fp16" : "bf16", mask);
      EXPECT_EQ(run_and_verify({.device = "emulated:h100", .problem = text}), "");
      const Problem problem = *Problem::parse(text);
      const Result<Choice> choice = choose_config(problem, arch);
      ASSERT_TRUE(choice.ok());
      ASSERT_EQ(family_name(choice->config), "forward_sm90");
      const auto compiled = compile_offline({}, problem, choice->config, "sm_90a");
      ASSERT_TRUE(compiled.ok()) << compiled.error().to_string();
      for (const KernelResources& resources : compiled->binary->code.resources) {
        EXPECT_EQ(resources.spill_store_bytes + resources.spill_load_bytes, 0) << text;
      }
      EXPECT_EQ(compiled->binary->code.log.find("C75"), std::string::npos) << text;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Standard, HeadDimsSm90Standard, ::testing::Range(8, 257, 8));

}  // namespace
}  // namespace tilewright::testing
