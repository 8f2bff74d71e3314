// Hand-written Hopper kernels, compiled by NVRTC and run on the emulated driver: the right answer
// under every schedule, observers `full` silent, nothing serialised or spilled by ptxas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hopper_kernels/subject.h"

namespace tilewright::hopper_kernels {
namespace {

using testing::HasSubstr;
using testing::Not;

class HopperKernels : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    for (auto& each : all_subjects()) {
      if (each->name() == GetParam()) subject_ = std::move(each);
    }
    ASSERT_NE(subject_, nullptr);
    auto compiled = subject_->compile();
    if (!compiled.ok() && compiled.error().code == ErrorCode::kCompilerUnavailable) {
      GTEST_SKIP() << compiled.error().message;
    }
    ASSERT_TRUE(compiled.ok()) << compiled.error().to_string();
    code_ = *std::move(compiled);
  }

  std::unique_ptr<Subject> subject_;
  CompiledCode code_;
};

TEST_P(HopperKernels, RightUnderEverySchedule) {
  std::vector<Schedule> schedules = {{TW_EMULATOR_SCHEDULE_EAGER, 0},
                                     {TW_EMULATOR_SCHEDULE_LAZY, 0}};
  for (const uint64_t seed : {1, 2, 3}) schedules.push_back({TW_EMULATOR_SCHEDULE_RANDOM, seed});
  for (const Schedule& schedule : schedules) {
    const Outcome outcome = subject_->run(code_.ptx, schedule);
    EXPECT_EQ(outcome.verdict, Verdict::kRight)
        << to_string(schedule) << ": " << to_string(outcome.verdict) << ": " << outcome.detail;
  }
}

TEST_P(HopperKernels, PtxasKeepsWgmmaAsynchronousAndDoesNotSpill) {
  EXPECT_THAT(code_.log,
              Not(HasSubstr("(C75")));  // C7510 and its neighbours: serialised, waits added
  EXPECT_EQ(code_.resources.at(0).spill_store_bytes, 0);
  EXPECT_EQ(code_.resources.at(0).spill_load_bytes, 0);
  EXPECT_THAT(code_.ptx, Not(HasSubstr("\n.global")));
}

std::vector<std::string> subject_names() {
  std::vector<std::string> names;
  for (const auto& each : all_subjects()) names.push_back(each->name());
  return names;
}

INSTANTIATE_TEST_SUITE_P(All, HopperKernels, testing::ValuesIn(subject_names()),
                         [](const auto& each) { return each.param; });

}  // namespace
}  // namespace tilewright::hopper_kernels
