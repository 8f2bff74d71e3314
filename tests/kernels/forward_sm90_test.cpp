// The family forward_sm90 on the emulated H100 against fp64: lengths, head dims, masks, layouts,
// schedules, every candidate, random problems; and what its tensor maps cannot hold.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>

#include "core/check.h"
#include "generator/generator.h"
#include "runtime/session_access.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kDevice = "emulated:h100";

const Arch& h100() { return SessionAccess::device(shared_session(kDevice)).arch(); }

std::string family_for(const std::string& text) {
  const Result<Problem> problem = Problem::parse(text);
  const Result<Choice> choice = choose_config(*problem, h100());
  return choice.ok() ? std::string(family_name(choice->config)) : choice.error().to_string();
}

std::string run(const std::string& problem, std::optional<AnyConfig> config = std::nullopt) {
  return run_and_verify({.device = kDevice, .problem = problem, .config = std::move(config)});
}

class ForwardSm90 : public ::testing::TestWithParam<std::string> {};

TEST_P(ForwardSm90, MatchesReference) {
  ASSERT_EQ(family_for(GetParam()), "forward_sm90");
  EXPECT_EQ(run(GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(
    Smoke, ForwardSm90,
    ::testing::Values(
        // Head dims: columns of 64 in part and in full, head_dim_v apart.
        "hq1 hkv1 q67 k131 qk64 v64 fp16", "hq2 hkv1 q67 k131 qk64 v64 bf16 causal",
        "hq1 hkv1 q65 k97 qk80 v80 bf16 causal", "hq1 hkv1 q65 k97 qk72 v40 fp16",
        "hq1 hkv1 q70 k101 qk96 v96 fp16", "hq1 hkv1 q131 k67 qk112 v112 bf16",
        "hq2 hkv1 q131 k131 qk128 v128 fp16 causal", "hq1 hkv1 q67 k131 qk192 v128 bf16 causal",
        "hq1 hkv1 q65 k129 qk256 v256 fp16 causal", "hq1 hkv1 q65 k67 qk8 v256 bf16",
        "hq1 hkv1 q65 k67 qk256 v8 fp16",
        // Lengths: one query or key, tile edges, several warpgroups of which some have no row.
        "hq2 hkv2 q1 k1 qk64 v64 fp16", "hq2 hkv2 q1 k257 qk64 v64 fp16",
        "hq2 hkv2 q129 k1 qk64 v64 fp16 causal", "hq2 hkv2 q64 k128 qk64 v64 fp16 causal",
        "hq2 hkv2 q127 k129 qk64 v64 fp16 causal=top-left", "hq1 hkv1 q193 k391 qk64 v64 bf16",
        "hq1 hkv1 q257 k131 qk64 v64 fp16 causal",
        // Groups, batches, layouts.
        "b2 hq8 hkv1 q33 k70 qk64 v64 bf16 causal", "b3 hq3 hkv3 q33 k65 qk64 v64 fp16",
        "b2 hq6 hkv2 q45 k97 qk64 v64 fp16 layout=bhsd",
        // Rows with no key; windows, also with no key; masked tiles at both ends.
        "hq1 hkv1 q257 k129 qk64 v64 bf16 causal", "hq1 hkv1 q200 k400 qk64 v64 fp16 window=17,0",
        "hq1 hkv1 q70 k700 qk64 v64 bf16 window=300,200",
        "hq1 hkv1 q230 k150 qk64 v64 fp16 window=64,64",
        "hq1 hkv1 q130 k130 qk64 v64 bf16 window=0,0",
        // Scores.
        "hq1 hkv1 q67 k131 qk64 v64 fp16 scale=0.03 causal",
        "hq1 hkv1 q67 k131 qk64 v64 bf16 softcap=2.5 causal",
        // Zero sizes.
        "b2 hq2 hkv1 q65 k0 qk64 v64 fp16", "b2 hq2 hkv1 q65 k0 qk64 v64 bf16 causal",
        "b0 hq2 hkv1 q65 k65 qk64 v64 fp16", "b2 hq2 hkv1 q0 k65 qk64 v64 fp16"),
    [](const auto& test) { return test_name(test.param); });

class ForwardSm90Schedules
    : public ::testing::TestWithParam<std::tuple<ScheduleCase, const char*>> {};

// Producer and consumers in any order, copies late or early: the ring goes round several times, and
// the full observer has nothing to report.
TEST_P(ForwardSm90Schedules, MatchesReference) {
  const auto& [schedule, config] = GetParam();
  const ScopedEmulatorSettings scope(schedule.settings);
  const std::string problem = "hq2 hkv1 q67 k200 qk64 v64 fp16 causal";
  const Result<AnyConfig> parsed = parse_config(config);
  ASSERT_TRUE(parsed.ok()) << parsed.error().to_string();
  EXPECT_EQ(run_and_verify({.device = kDevice,
                            .problem = problem,
                            .options = {.gaps = true, .repeat = 2},
                            .config = *parsed}),
            "");
}

constexpr const char* kSmallTiles[] = {
    "forward_sm90 head_dim_qk=64 head_dim_v=64 row_range=true tile_n=32",
    "forward_sm90 head_dim_qk=64 head_dim_v=64 row_range=true consumer_warpgroups=1 tile_n=16 "
    "stages=3",
    "forward_sm90 head_dim_qk=64 head_dim_v=64 row_range=true consumer_warpgroups=3 tile_n=48 "
    "stages=1"};

INSTANTIATE_TEST_SUITE_P(Smoke, ForwardSm90Schedules,
                         ::testing::Combine(::testing::ValuesIn(watched_schedules(4)),
                                            ::testing::ValuesIn(kSmallTiles)),
                         [](const auto& test) {
                           const std::string config = std::get<1>(test.param);
                           return std::get<0>(test.param).name +
                                  (config.find("stages=3") != std::string::npos   ? "_three_stages"
                                   : config.find("stages=1") != std::string::npos ? "_one_stage"
                                                                                  : "_two_stages");
                         });

class ForwardSm90CandidateSchedules : public ::testing::TestWithParam<ScheduleCase> {};

// So many keys that rings go round; other head dims in level standard.
TEST_P(ForwardSm90CandidateSchedules, EveryCandidateMatchesReference) {
  const ScopedEmulatorSettings scope(GetParam().settings);
  const std::string text = "hq1 hkv1 q77 k450 qk64 v64 fp16 causal";
  std::vector<AnyConfig> configs = candidates(*Problem::parse(text), h100());
  std::erase_if(configs, [](const AnyConfig& each) { return family_name(each) != "forward_sm90"; });
  EXPECT_GE(configs.size(), 8u);
  EXPECT_LE(configs.size(), 12u);
  for (const AnyConfig& config : configs) EXPECT_EQ(run(text, config), "");
}

INSTANTIATE_TEST_SUITE_P(Smoke, ForwardSm90CandidateSchedules,
                         ::testing::ValuesIn(watched_schedules(1)),
                         [](const auto& test) { return test.param.name; });

// Every launch fits the device, whatever the head dims; the default is a candidate.
TEST(ForwardSm90Candidates, FitTheDeviceAndHoldTheDefault) {
  for (int head_dim = 8; head_dim <= 256; head_dim += 8) {
    for (const int head_dim_v : {8, head_dim, 256}) {
      for (const char* rest : {"", " causal bf16 softcap=3", " q1", " q128"}) {
        const Problem problem =
            *Problem::parse(fmt::format("qk{} v{}{}", head_dim, head_dim_v, rest));
        std::vector<AnyConfig> all = candidates(problem, h100());
        std::erase_if(all,
                      [](const AnyConfig& each) { return family_name(each) != "forward_sm90"; });
        for (const AnyConfig& each : all) {
          const auto& config = std::get<attention::ForwardSm90Config>(each);
          const int columns_qk = (head_dim + 63) / 64;
          const int columns_v = (head_dim_v + 63) / 64;
          EXPECT_LE(128 * (columns_qk * config.tile_m() +
                           config.stages * config.tile_n * (columns_qk + columns_v)) +
                        8 * (1 + 4 * config.stages),
                    227 * 1024)
              << to_string(each);
        }
        const Result<Choice> choice = choose_config(problem, h100());
        ASSERT_TRUE(choice.ok());
        EXPECT_NE(std::find(all.begin(), all.end(), choice->config), all.end())
            << to_string(choice->config);
      }
    }
  }
}

// What it does not take goes to forward_sm80.
TEST(ForwardSm90Refusals, LeaveTheRestToForwardSm80) {
  for (const char* text :
       {"qk64 strided", "qk64 varlen paged=16", "qk64 splits=2", "qk64 global=1"}) {
    EXPECT_EQ(family_for(text), "forward_sm80") << text;
  }
  const Result<Choice> choice = choose_config(*Problem::parse("qk64"), *arch_from_target("sm_90"));
  ASSERT_TRUE(choice.ok());
  EXPECT_EQ(family_name(choice->config), "forward_sm80");
  ASSERT_EQ(choice->refusals.size(), 1u);
  EXPECT_EQ(choice->refusals[0].reason, "needs sm_90a, device is sm_90");
}

// A stride that no tensor map holds is named, and nothing is launched.
TEST(ForwardSm90Launch, NamesAStrideThatNoMapHolds) {
  Session& session = shared_session(kDevice);
  const Result<Kernel> kernel = session.prepare(*Problem::parse("hq1 hkv1 qk64 v64 fp16"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().to_string();
  const Result<LaunchPlan> plan = kernel->plan({.batch = 1, .seqlen_q = 3, .seqlen_k = 5});
  ASSERT_TRUE(plan.ok());
  alignas(64) static char memory[64];
  const auto tensor = [&](int64_t rows, int64_t row_stride) {
    Tensor made;
    made.data = memory;
    made.dtype = Dtype::kFloat16;
    made.rank = 4;
    made.shape = {1, rows, 1, 64};
    made.strides = {row_stride * rows, row_stride, 64, 1};
    return made;
  };
  LaunchTensors tensors = {.q = tensor(3, 64), .k = tensor(5, 64), .v = tensor(5, 64)};
  tensors.out = tensor(3, 64);
  for (const int64_t stride : {int64_t{-64}, int64_t{1} << 40}) {
    LaunchTensors bad = tensors;
    bad.k = tensor(5, stride);
    const Status status = kernel->launch(nullptr, *plan, bad);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message,
                HasSubstr(fmt::format("tensor k has a row stride of {}", stride)));
  }
}

// TILEWRIGHT_FUZZ_SEED and TILEWRIGHT_FUZZ_CASES repeat or widen a run.
uint64_t from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

class RandomProblem {
 public:
  explicit RandomProblem(uint64_t seed) : random_(seed) {}

  std::string make() {
    const int64_t heads_kv = pick<int64_t>({1, 2});
    const int64_t dim = pick<int64_t>({64, 64, 80, 96, 128});
    const bool varlen = between(0, 2) == 0;
    std::string text = fmt::format(
        "b{} hq{} hkv{} q{} k{} qk{} v{} {}", between(1, varlen ? 6 : 2),
        pick<int64_t>({1, 1, 2, 3}) * heads_kv, heads_kv, between(1, 150), between(0, 300), dim,
        pick<int64_t>({dim, dim, 64}), pick<const char*>({"fp16", "bf16"}));
    text += pick<std::string>({"", " causal", " causal", " causal=top-left",
                               fmt::format(" window={},{}", between(0, 150), between(0, 90))});
    text += pick<std::string>({"", "", "", fmt::format(" softcap={}", between(1, 40))});
    text += pick<std::string>({"", "", fmt::format(" scale=0.{}", between(1, 9))});
    return text + (varlen ? " varlen" : pick<std::string>({"", "", " layout=bhsd"}));
  }

 private:
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  template <class T>
  T pick(std::vector<T> choices) {
    return choices[static_cast<size_t>(between(0, static_cast<int64_t>(choices.size()) - 1))];
  }
  std::mt19937_64 random_;
};

TEST(ForwardSm90Fuzz, RandomProblemsMatchReference) {
  const uint64_t seed = from_environment("TILEWRIGHT_FUZZ_SEED", 20261130);
  const uint64_t cases = from_environment("TILEWRIGHT_FUZZ_CASES", 10);
  fmt::print("{} cases from seed {}\n", cases, seed);
  RandomProblem random(seed);
  for (uint64_t index = 0; index < cases; ++index) {
    const std::string problem = random.make();
    EXPECT_EQ(family_for(problem), "forward_sm90");
    EXPECT_EQ(run_and_verify({.device = kDevice, .problem = problem, .seed = seed + index}), "")
        << "seed " << seed << ", case " << index;
  }
}

}  // namespace
}  // namespace tilewright::testing
