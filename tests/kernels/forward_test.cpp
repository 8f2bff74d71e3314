// Forward attention on emulated devices against fp64, problem by problem (tests/support/shapes.h).
#include <gtest/gtest.h>

#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

class Forward : public ::testing::TestWithParam<std::string> {};

TEST_P(Forward, MatchesReference) { EXPECT_EQ(run_and_verify({.problem = GetParam()}), ""); }

INSTANTIATE_TEST_SUITE_P(Smoke, Forward, ::testing::ValuesIn(forward_smoke()),
                         [](const auto& test) { return test_name(test.param); });

struct ScheduleCase {
  const char* name;
  EmulatorSettings settings;
};

class ForwardSchedules : public ::testing::TestWithParam<std::tuple<ScheduleCase, std::string>> {};

// Every legal order of the asynchronous copies, and more than one host thread, give the same bits,
// and the full observer has nothing to report.
TEST_P(ForwardSchedules, MatchesReference) {
  const auto& [schedule, problem] = GetParam();
  const ScopedEmulatorSettings scope(schedule.settings);
  EXPECT_EQ(run_and_verify({.problem = problem, .options = {.gaps = true, .repeat = 2}}), "");
}

INSTANTIATE_TEST_SUITE_P(
    Smoke, ForwardSchedules,
    ::testing::Combine(
        ::testing::Values(ScheduleCase{"eager", {.observers = TW_EMULATOR_OBSERVERS_FULL}},
                          ScheduleCase{"lazy",
                                       {.schedule = TW_EMULATOR_SCHEDULE_LAZY,
                                        .observers = TW_EMULATOR_OBSERVERS_FULL}},
                          ScheduleCase{"random1",
                                       {.schedule = TW_EMULATOR_SCHEDULE_RANDOM,
                                        .seed = 1,
                                        .observers = TW_EMULATOR_OBSERVERS_FULL}},
                          ScheduleCase{"random2",
                                       {.schedule = TW_EMULATOR_SCHEDULE_RANDOM,
                                        .seed = 2,
                                        .observers = TW_EMULATOR_OBSERVERS_FULL,
                                        .host_threads = 2}}),
        ::testing::Values("hq2 hkv1 q67 k200 qk64 v64 fp16 causal",
                          "hq2 hkv1 q67 k200 qk128 v128 bf16 causal",
                          "hq1 hkv1 q67 k200 qk256 v256 fp16", "hq1 hkv1 q33 k129 qk80 v48 bf16")),
    [](const auto& test) {
      return std::string(std::get<0>(test.param).name) + "_" + test_name(std::get<1>(test.param));
    });

// The same kernels where shared memory is smaller, and by the default of a Hopper device.
class ForwardDevices : public ::testing::TestWithParam<std::tuple<const char*, std::string>> {};

TEST_P(ForwardDevices, MatchesReference) {
  const auto& [device, problem] = GetParam();
  EXPECT_EQ(run_and_verify({.device = std::string("emulated:") + device, .problem = problem}), "");
}

INSTANTIATE_TEST_SUITE_P(
    Smoke, ForwardDevices,
    ::testing::Combine(::testing::Values("h100", "rtx3090", "rtx4090"),
                       ::testing::Values("hq2 hkv1 q67 k131 qk64 v64 fp16 causal",
                                         "hq2 hkv1 q67 k131 qk128 v128 bf16",
                                         "hq1 hkv1 q67 k131 qk256 v256 fp16 causal")),
    [](const auto& test) {
      return std::string(std::get<0>(test.param)) + "_" + test_name(std::get<1>(test.param));
    });

}  // namespace
}  // namespace tilewright::testing
