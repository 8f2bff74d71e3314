// Random problems from a printed seed: every option crossed with odd sizes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <random>

#include "core/check.h"
#include "tests/support/forward_run.h"

namespace tilewright::testing {
namespace {

class RandomProblem {
 public:
  explicit RandomProblem(uint64_t seed) : random_(seed) {}

  // sparse: masks that are mostly no interval a row.
  std::string make(bool sparse) {
    const int64_t group = pick<int64_t>({1, 1, 2, 3, 8});
    const int64_t heads_kv = pick<int64_t>({1, 2});
    // Few head dims, so that few kernels are compiled; the rest of a problem is free.
    const int64_t dim = pick<int64_t>({8, 40, 64, 80, 128});
    const int64_t dim_v = pick<int64_t>({dim, dim, dim == 64 ? 48 : 64});
    std::string text = fmt::format("b{} hq{} hkv{} q{} k{} qk{} v{} {}", between(1, 2),
                                   group * heads_kv, heads_kv, between(1, 150), between(0, 200),
                                   dim, dim_v, pick<const char*>({"fp16", "bf16"}));
    text += sparse
                ? sparse_masks()
                : pick<std::string>({"", " causal", " causal", " causal=top-left",
                                     fmt::format(" window={},{}", between(0, 90), between(0, 90))});
    text += pick<std::string>({"", "", "", fmt::format(" softcap={}", between(1, 40))});
    text += pick<std::string>({"", "", fmt::format(" scale=0.{}", between(1, 9))});
    text += pick<std::string>({"", "", " layout=bhsd"});
    text += pick<std::string>({"", "", "", " strided"});
    return text;
  }

  std::string make_serving() {
    const int64_t heads_kv = pick<int64_t>({1, 2});
    const int64_t dim = pick<int64_t>({40, 64, 80});
    // Half of the queries are so short that the heads of a group share tiles.
    std::string text = fmt::format("b{} hq{} hkv{} q{} k{} qk{} v{} {}", between(1, 6),
                                   pick<int64_t>({1, 2, 3, 5, 7, 8}) * heads_kv, heads_kv,
                                   between(1, pick<int64_t>({17, 100})), between(0, 300), dim,
                                   pick<int64_t>({dim, 48}), pick<const char*>({"fp16", "bf16"}));
    text += pick<std::string>({" varlen", " varlen", ""});
    text += pick<std::string>({"", fmt::format(" paged={}", pick<int64_t>({1, 7, 16, 64}))});
    text += pick<std::string>({"", fmt::format(" splits={}", between(2, 9))});
    text += pick<std::string>({"", " causal", " causal=top-left",
                               fmt::format(" window={},{}", between(0, 90), between(0, 90)),
                               sparse_masks(), sparse_masks()});
    text += pick<std::string>({"", "", fmt::format(" softcap={}", between(1, 40))});
    return text + pick<std::string>({"", "", " strided"});
  }

  std::string make_linear() {
    std::string text = linear_problem("linear-forward", between(0, 200), between(0, 400));
    return text + pick<std::string>({"", " causal", " causal", " causal=top-left"});
  }
  std::string make_step() { return linear_problem("linear-step", 1, 1); }

 private:
  // A mask that narrows, and so may stand anywhere; `blocks` at most once a problem.
  std::string narrowing_mask() {
    const int64_t block = pick<int64_t>({4, 16, 23, 32, 64});
    return pick<std::string>(
        {"causal", "causal=top-left", "documents",
         fmt::format("window={},{}", between(0, 60), between(0, 60)),
         fmt::format("window={},{},dilation:{}", between(0, 9), between(0, 9), between(2, 40)),
         fmt::format("longformer=window:{},global:{{{},{}}}", between(0, 80), between(0, 20),
                     between(21, 200)),
         fmt::format("bigbird=block:{},window:{},global:{},ends:{},random:{},seed:{}", block,
                     1 + 2 * between(0, 1), between(0, 2), between(0, 1), between(0, 3),
                     between(0, 999)),
         fmt::format("chunk={}", between(1, 150))});
  }
  std::string sparse_masks() {
    std::string text = fmt::format(" {}", narrowing_mask());
    const int64_t more = between(0, 5);
    if (more == 1) text += fmt::format("+prefix={}", between(0, 210));
    if (more == 2) text += fmt::format("+global={}", between(0, 9));
    if (more == 3) text += fmt::format("+{}", narrowing_mask());
    if (more == 4) text += fmt::format(" {}", narrowing_mask());
    if (between(0, 3) == 0) text += fmt::format(" blocks={}", pick<int64_t>({8, 17, 64, 128}));
    return text;
  }
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  std::string linear_problem(const char* pass, int64_t seqlen_q, int64_t seqlen_k) {
    const int64_t heads_kv = pick<int64_t>({1, 2});
    std::string text =
        fmt::format("{} b{} hq{} hkv{} q{} k{} qk{} v{} {}", pass, between(1, 2),
                    pick<int64_t>({1, 1, 2, 3, 8}) * heads_kv, heads_kv, seqlen_q, seqlen_k,
                    pick<int64_t>({8, 40, 64, 80}), pick<int64_t>({24, 48, 64, 88}),
                    pick<const char*>({"fp16", "bf16"}));
    text += pick<std::string>({" feature=elu1", " feature=identity"});
    text += pick<std::string>({"", "", fmt::format(" scale=0.{}", between(1, 9))});
    text += pick<std::string>({"", "", " layout=bhsd"});
    return text + pick<std::string>({"", "", "", " strided"});
  }
  template <class T>
  T pick(std::vector<T> choices) {
    return choices[static_cast<size_t>(between(0, static_cast<int64_t>(choices.size()) - 1))];
  }
  std::mt19937_64 random_;
};

// TILEWRIGHT_FUZZ_SEED and TILEWRIGHT_FUZZ_CASES repeat or widen a run.
uint64_t from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

struct FuzzCase {
  const char* name;
  std::string (*make)(RandomProblem& random);
  uint64_t cases;
};

class Fuzz : public ::testing::TestWithParam<FuzzCase> {};

TEST_P(Fuzz, RandomProblemsMatchReference) {
  const uint64_t seed = from_environment("TILEWRIGHT_FUZZ_SEED", 20261130);
  const uint64_t cases = from_environment("TILEWRIGHT_FUZZ_CASES", GetParam().cases);
  fmt::print("{} cases from seed {}\n", cases, seed);
  RandomProblem random(seed);
  for (uint64_t index = 0; index < cases; ++index) {
    const std::string problem = GetParam().make(random);
    EXPECT_EQ(run_and_verify({.problem = problem, .seed = seed + index}), "")
        << "seed " << seed << ", case " << index;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Smoke, Fuzz,
    ::testing::Values(
        FuzzCase{"forward", [](RandomProblem& random) { return random.make(false); }, 40},
        FuzzCase{
            "standard",
            [](RandomProblem& random) { return fmt::format("standard {}", random.make(false)); },
            12},
        FuzzCase{
            "backward",
            [](RandomProblem& random) { return fmt::format("backward {}", random.make(false)); },
            12},
        FuzzCase{"sparse", [](RandomProblem& random) { return random.make(true); }, 20},
        FuzzCase{"serving", [](RandomProblem& random) { return random.make_serving(); }, 15},
        FuzzCase{"linear_forward", [](RandomProblem& random) { return random.make_linear(); }, 12},
        FuzzCase{"linear_step", [](RandomProblem& random) { return random.make_step(); }, 12}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace tilewright::testing
