// Masks by tile lists on an emulated device: against fp64, pair by pair, and what they cost.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>

#include "core/ceil_div.h"
#include "core/check.h"
#include "generator/generator.h"
#include "reference/visibility.h"
#include "runtime/session_access.h"
#include "tests/support/emulated_session.h"
#include "tests/support/exact_weights.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

class Sparse : public ::testing::TestWithParam<std::string> {};

TEST_P(Sparse, MatchesReference) { EXPECT_EQ(run_and_verify({.problem = GetParam()}), ""); }

INSTANTIATE_TEST_SUITE_P(Smoke, Sparse, ::testing::ValuesIn(sparse_smoke()),
                         [](const auto& test) { return test_name(test.param); });

class SparsePairs : public ::testing::TestWithParam<std::string> {};

TEST_P(SparsePairs, ShowExactlyTheVisibleKeys) {
  for (const char* sizes :
       {"b2 hq2 hkv1 q131 k203 qk8 v208 fp16 ", "hq2 hkv2 q143 k77 qk8 v80 fp16 "}) {
    const std::string text = sizes + GetParam();
    const Problem problem = *Problem::parse(text);
    const reference::Sizes size = *trial_sizes(problem);
    TrialTensors inputs = random_inputs(problem, size, 3);
    std::fill(inputs.q.begin(), inputs.q.end(), 0.0F);
    std::fill(inputs.v.begin(), inputs.v.end(), 0.0F);
    const int64_t row_elements = size.num_heads_kv * size.head_dim_v;
    for (int64_t row = 0; row < size.batch * size.seqlen_k; ++row) {
      for (int64_t head = 0; head < size.num_heads_kv; ++head) {
        const int64_t key = row % size.seqlen_k;
        inputs.v[static_cast<size_t>(row * row_elements + head * size.head_dim_v + key)] = 1.0F;
      }
    }
    const TrialOutputs outputs = outputs_of({.problem = text}, inputs);
    const int64_t elements = size.seqlen_q * size.num_heads_q * size.head_dim_v;
    for (int64_t batch = 0; batch < size.batch; ++batch) {
      const auto out =
          std::span<const float>(outputs.out)
              .subspan(static_cast<size_t>(batch * elements), static_cast<size_t>(elements));
      ASSERT_NO_FATAL_FAILURE(expect_exact_weights(problem, size, batch, inputs.view().masks, out));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Smoke, SparsePairs,
                         ::testing::Values("global={0,17,70}", "longformer=window:30,global:{5}",
                                           "bigbird=block:16", "bigbird=block:24,ends:0,random:1",
                                           "causal+prefix=33", "chunk=50", "documents", "blocks=16",
                                           "window=9,9,dilation:3",
                                           "causal=top-left+window=0,5 blocks=40",
                                           // An interval a row, without a list.
                                           "causal", "causal=top-left", "window=31,5",
                                           "window=0,64", "window=*,3 causal=top-left"),
                         [](const auto& test) { return test_name(test.param); });

struct Executed {
  std::optional<Schedule> schedule;
  uint64_t mma = 0, expected = 0;
  int64_t tiles = 0, live_tiles = 0;  // of all batches and heads; live ones found pair by pair
};

Executed execute(const std::string& text) {
  const Problem problem = *Problem::parse(text);
  const Arch& arch = SessionAccess::device(shared_session("emulated:a100")).arch();
  const Result<Choice> choice = choose_config(problem, arch);
  const auto& config = std::get<attention::ForwardSm80Config>(choice->config);
  const reference::Sizes sizes = *trial_sizes(problem);
  const TrialTensors inputs = random_inputs(problem, sizes, 1);
  reset_executed_instructions();
  TrialOutputs outputs = outputs_of({.problem = text, .options = {}}, inputs);
  Executed executed{.schedule = std::move(outputs.schedule),
                    .mma = executed_instructions("mma.sync")};
  const auto visible = reference::HeadVisibilities::make(
      problem, sizes.batch, sizes.num_heads_q, sizes.seqlen_q, sizes.seqlen_k, inputs.view().masks);
  TW_CHECK(visible.ok(), "{}", visible.error().message);
  for (int64_t batch = 0; batch < sizes.batch; ++batch) {
    for (int64_t head = 0; head < sizes.num_heads_q; ++head) {
      executed.tiles +=
          ceil_div(sizes.seqlen_q, config.tile_m) * ceil_div(sizes.seqlen_k, config.tile_n);
      executed.live_tiles += reference::count_live_tiles(
          visible->of(batch, head), sizes.seqlen_q, sizes.seqlen_k, config.tile_m, config.tile_n);
    }
  }
  executed.expected = static_cast<uint64_t>(executed.live_tiles) * mma_per_tile(config);
  return executed;
}

TEST(SparseCost, IsThatOfTheTilesThatAreNotEmpty) {
  for (const char* text :
       {"b2 hq4 hkv2 q515 k515 qk64 v64 fp16 longformer=window:64,global:{0}",
        "hq2 hkv1 q512 k512 qk64 v64 bf16 bigbird=block:64", "hq1 q700 k300 qk80 v48 fp16 chunk=64",
        "b2 hq2 q400 qk128 v128 fp16 documents", "hq3 q300 k450 qk64 v64 fp16 blocks=32 causal",
        "hq1 q300 qk64 v64 fp16 window=3,0,dilation:70"}) {
    const Executed executed = execute(text);
    ASSERT_TRUE(executed.schedule.has_value()) << text;
    const ScheduleLayout& layout = executed.schedule->layout;
    const Problem problem = *Problem::parse(text);
    const int64_t launches_of_a_list = problem.batch.value_or(1) * problem.num_heads_q.value_or(1) /
                                       (layout.num_batches * layout.num_heads);
    EXPECT_EQ(executed.schedule->live_tiles() * launches_of_a_list, executed.live_tiles) << text;
    EXPECT_GT(executed.live_tiles, 0) << text;
    EXPECT_LT(executed.live_tiles, executed.tiles) << text;
    EXPECT_EQ(executed.mma, executed.expected) << text;
  }
}

// Where the keys of a row are one interval, tiles outside of it do not run either.
TEST(SparseCost, IsThatOfTheTilesOfIntervals) {
  for (const char* text :
       {"b2 hq2 hkv1 q331 k515 qk64 v64 fp16 causal", "hq1 q515 k200 qk64 v64 bf16 causal",
        "hq2 hkv2 q515 k515 qk64 v64 fp16 window=100,30", "hq1 q700 k300 qk80 v48 fp16 window=9,*",
        "hq1 q400 k500 qk128 v128 bf16 causal=top-left window=120,*"}) {
    const Executed executed = execute(text);
    EXPECT_FALSE(executed.schedule.has_value()) << text;
    EXPECT_GT(executed.live_tiles, 0) << text;
    EXPECT_LT(executed.live_tiles, executed.tiles) << text;
    EXPECT_EQ(executed.mma, executed.expected) << text;
  }
}

// The bounds contradict each other: no row sees a key, and nothing is multiplied.
TEST(SparseCost, IsNothingWhereNoRowSeesAKey) {
  const Executed executed = execute("hq1 q400 k700 qk64 v64 bf16 causal=top-left window=200,*");
  EXPECT_EQ(executed.live_tiles, 0);
  EXPECT_EQ(executed.mma, 0u);
}

// Facts 6 and 7: the work of a window with few global tokens doubles with the length, not fourfold.
TEST(SparseCost, GrowsWithTheLengthNotItsSquare) {
  const std::string mask = " qk16 v16 fp16 window=64,64+global=1";
  const Executed one = execute("hq1 q1024" + mask), two = execute("hq1 q2048" + mask);
  EXPECT_EQ(one.mma, one.expected);
  EXPECT_EQ(two.mma, two.expected);
  EXPECT_NEAR(static_cast<double>(two.mma) / static_cast<double>(one.mma), 2, 0.15);
  const std::string bigbird = " qk16 v16 fp16 bigbird=block:64,random:2";
  const Executed short_bird = execute("hq1 q1024" + bigbird);
  const Executed long_bird = execute("hq1 q2048" + bigbird);
  EXPECT_EQ(long_bird.mma, long_bird.expected);
  EXPECT_NEAR(static_cast<double>(long_bird.mma) / static_cast<double>(short_bird.mma), 2, 0.15);
}

// A union that adds nothing is the causal mask, which another mechanism computes: bit for bit.
TEST(SparseBits, AreThoseOfTheSameMaskAsAnInterval) {
  const Problem problem = *Problem::parse("hq2 hkv1 q130 k150 qk64 v64 fp16 causal");
  const TrialTensors inputs = random_inputs(problem, *trial_sizes(problem), 3);
  const TrialOutputs interval = outputs_of({.problem = problem.to_string()}, inputs);
  const TrialOutputs list =
      outputs_of({.problem = "hq2 hkv1 q130 k150 qk64 v64 fp16 causal+prefix=0"}, inputs);
  EXPECT_FALSE(interval.schedule.has_value());
  EXPECT_TRUE(list.schedule.has_value());
  EXPECT_EQ(interval.out, list.out);
  EXPECT_EQ(interval.lse, list.lse);
}

class SparseSchedules : public ::testing::TestWithParam<std::string> {};

TEST_P(SparseSchedules, MatchReference) { EXPECT_EQ(verify_under_every_schedule(GetParam()), ""); }

INSTANTIATE_TEST_SUITE_P(Smoke, SparseSchedules,
                         ::testing::Values("hq2 hkv1 q67 k200 qk64 v64 fp16 causal+global={3,90}",
                                           "hq2 hkv1 q67 k200 qk128 v128 bf16 bigbird=block:16",
                                           "hq1 hkv1 q67 k200 qk256 v256 fp16 blocks=24"),
                         [](const auto& test) { return test_name(test.param); });

// A sample of the candidates; all of them are in level standard.
TEST(SparseCandidates, MatchReference) {
  const std::string text = "hq1 hkv1 q145 k145 qk64 v64 fp16 window=20,20+global={3,77}";
  const Arch& arch = SessionAccess::device(shared_session("emulated:a100")).arch();
  const std::vector<AnyConfig> configs = candidates(*Problem::parse(text), arch);
  ASSERT_GT(configs.size(), 20u);
  for (size_t index = 0; index < configs.size(); index += configs.size() / 6) {
    EXPECT_EQ(run_and_verify({.problem = text, .config = configs[index]}), "");
  }
}

// What a launch finds wrong with its schedule, before anything runs.
TEST(SparseErrors, NameTheSchedule) {
  Session& session = shared_session("emulated:a100");
  const Result<Kernel> kernel =
      session.prepare(*Problem::parse("hq2 hkv2 qk64 v64 fp16 bigbird=block:64"));
  ASSERT_TRUE(kernel.ok()) << kernel.error().to_string();
  const Shape shape = {1, 128, 128};
  const Result<LaunchPlan> plan = kernel->plan(shape);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->needs_schedule());
  const Result<Schedule> schedule = kernel->make_schedule(shape, {});
  ASSERT_TRUE(schedule.ok());
  const Result<void*> memory = session.allocate(1 << 17);
  ASSERT_TRUE(memory.ok());
  const auto message = [&](const DeviceSchedule& given) {
    Tensor tensor = {.data = *memory, .rank = 4, .shape = {1, 128, 2, 64}};
    tensor.strides = {128 * 128, 128, 64, 1};
    const Status status = kernel->launch(
        nullptr, *plan, {.q = tensor, .k = tensor, .v = tensor, .out = tensor, .schedule = given});
    return status.ok() ? std::string("accepted") : status.error().message;
  };
  const ScheduleLayout layout = schedule->layout;
  EXPECT_EQ(message({}), "tensor schedule is missing: its address is null");
  ScheduleLayout other = layout;
  other.seqlen_k = 192;
  EXPECT_EQ(message({*memory, other}),
            "the schedule is for 128 queries and 192 keys, the plan for 128 and 128");
  other = layout;
  other.tile_m = 32;
  EXPECT_EQ(message({*memory, other}),
            "the schedule is for tiles of 32 x 64, the kernel's are 64 x 64");
  other = layout;
  other.num_heads = 5;
  EXPECT_EQ(message({*memory, other}), "the schedule has lists for 5 heads, the plan has 2");
  EXPECT_EQ(message({static_cast<const std::byte*>(*memory) + 8, layout}).substr(0, 22),
            "tensor schedule is at ");
  EXPECT_TRUE(session.release(*memory).ok());

  const Result<Kernel> causal = session.prepare(*Problem::parse("hq2 hkv2 qk64 v64 fp16 causal"));
  ASSERT_TRUE(causal.ok());
  EXPECT_FALSE(causal->plan(shape)->needs_schedule());
  EXPECT_EQ(causal->make_schedule(shape, {}).error().message,
            "a launch of 'hq2 hkv2 qk64 v64 fp16 causal' takes no schedule");
}

}  // namespace
}  // namespace tilewright::testing
