// Packed sequences on forward_sm90: lengths and masks, every candidate under every schedule, and
// neighbours of a sequence that hold NaN and infinity. What other families pack is held to the same
// rule of neighbours.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "autotune/random_values.h"
#include "core/check.h"
#include "generator/generator.h"
#include "runtime/session_access.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"
#include "tests/support/shapes.h"

namespace tilewright::testing {
namespace {

constexpr const char* kDevice = "emulated:h100";

std::vector<AnyConfig> hopper_candidates(const std::string& text) {
  const Arch& arch = SessionAccess::device(shared_session(kDevice)).arch();
  std::vector<AnyConfig> configs = candidates(*Problem::parse(text), arch);
  std::erase_if(configs, [](const AnyConfig& each) { return family_name(each) != "forward_sm90"; });
  return configs;
}

class ForwardSm90Varlen : public ::testing::TestWithParam<std::string> {};

TEST_P(ForwardSm90Varlen, MatchesReference) {
  const auto kernel = shared_session(kDevice).prepare(*Problem::parse(GetParam()));
  ASSERT_TRUE(kernel.ok()) << kernel.error().to_string();
  EXPECT_TRUE(kernel->config_text().starts_with("forward_sm90")) << kernel->config_text();
  for (const uint64_t seed : {7, 8, 9}) {
    EXPECT_EQ(run_and_verify({.device = kDevice, .problem = GetParam(), .seed = seed}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Smoke, ForwardSm90Varlen,
    ::testing::Values(
        "b5 hq2 hkv1 q67 k131 qk64 v64 fp16 varlen causal",
        "b6 hq4 hkv2 q230 k70 qk80 v48 bf16 varlen causal",
        "b3 hq2 hkv2 q33 k165 qk128 v128 fp16 varlen", "b3 hq1 hkv1 q70 k97 qk96 v200 bf16 varlen",
        "b4 hq2 hkv1 q70 k240 qk64 v72 bf16 varlen window=31,5",
        "b4 hq1 hkv1 q200 k140 qk64 v64 fp16 varlen causal=top-left window=40,*",
        "b4 hq2 hkv1 q70 k140 qk64 v64 fp16 varlen softcap=15 scale=0.3",
        "b3 hq1 hkv1 q66 k129 qk256 v256 bf16 varlen causal",
        "b7 hq8 hkv1 q1 k257 qk64 v64 bf16 varlen causal",
        "b3 hq1 hkv1 q129 k1 qk64 v64 fp16 varlen", "b1 hq2 hkv1 q9 k0 qk64 v64 fp16 varlen",
        "b2 hq2 hkv1 q0 k9 qk64 v64 fp16 varlen", "b0 hq2 hkv1 q9 k9 qk64 v64 fp16 varlen"),
    [](const auto& test) { return test_name(test.param); });

class ForwardSm90VarlenSchedules : public ::testing::TestWithParam<ScheduleCase> {};

// Whoever comes first, and however late copies are: the full observer has nothing to report.
TEST_P(ForwardSm90VarlenSchedules, EveryCandidateMatchesReference) {
  const ScopedEmulatorSettings scope(GetParam().settings);
  for (const char* problem : {"b4 hq1 hkv1 q70 k137 qk64 v64 fp16 varlen causal",
                              "b3 hq1 hkv1 q65 k75 qk64 v72 bf16 varlen"}) {
    const std::vector<AnyConfig> configs = hopper_candidates(problem);
    EXPECT_GE(configs.size(), 8u);
    for (const AnyConfig& config : configs) {
      EXPECT_EQ(run_and_verify({.device = kDevice, .problem = problem, .config = config}), "");
    }
  }
}

// Small tiles: the ring goes round several times.
TEST_P(ForwardSm90VarlenSchedules, RingsMatchReference) {
  const ScopedEmulatorSettings scope(GetParam().settings);
  for (const char* tile : {"tile_n=32", "consumer_warpgroups=1 tile_n=16 stages=3",
                           "consumer_warpgroups=3 tile_n=48 stages=1"}) {
    const Result<AnyConfig> config = parse_config(fmt::format(
        "forward_sm90 head_dim_qk=64 head_dim_v=136 row_range=true varlen=true {}", tile));
    ASSERT_TRUE(config.ok()) << config.error().to_string();
    EXPECT_EQ(run_and_verify({.device = kDevice,
                              .problem = "b4 hq2 hkv1 q67 k203 qk64 v136 fp16 varlen window=120,4",
                              .options = {.gaps = true, .repeat = 2},
                              .config = *config}),
              "");
  }
}

INSTANTIATE_TEST_SUITE_P(Smoke, ForwardSm90VarlenSchedules,
                         ::testing::ValuesIn(watched_schedules(2)),
                         [](const auto& test) { return test.param.name; });

struct Lengths {
  int32_t q, k;
};

constexpr int64_t kSpareRows = 5;

std::vector<int32_t> prefix_sums(const std::vector<Lengths>& lengths, int32_t Lengths::*side) {
  std::vector<int32_t> sums = {0};
  for (const Lengths& each : lengths) sums.push_back(sums.back() + each.*side);
  return sums;
}

struct PackedCase {
  std::string text;
  Problem problem;
  reference::Sizes sizes;
  TrialTensors inputs;
};

// Sequences of these lengths, then rows of none.
PackedCase packed_case(const std::string& features, const std::vector<Lengths>& lengths,
                       int64_t spare_rows = kSpareRows) {
  const auto longest = [&](int32_t Lengths::*side) {
    int32_t most = 0;
    for (const Lengths& each : lengths) most = std::max(most, each.*side);
    return most;
  };
  PackedCase made;
  made.text = fmt::format("b{} hq2 hkv1 q{} k{} qk64 v72 varlen {}", lengths.size(),
                          longest(&Lengths::q), longest(&Lengths::k), features);
  made.problem = *Problem::parse(made.text);
  made.sizes = *trial_sizes(made.problem);
  TrialTensors& inputs = made.inputs;
  inputs.cu_seqlens_q = prefix_sums(lengths, &Lengths::q);
  inputs.cu_seqlens_k = prefix_sums(lengths, &Lengths::k);
  inputs.total_q = inputs.cu_seqlens_q.back() + spare_rows;
  inputs.total_k = inputs.cu_seqlens_k.back() + spare_rows;
  const Dtype dtype = made.problem.dtype.value_or(Dtype::kFloat16);
  inputs.q = normal_values(inputs.total_q * 2 * 64, 1, dtype);
  inputs.k = normal_values(inputs.total_k * 64, 2, dtype);
  inputs.v = normal_values(inputs.total_k * 72, 3, dtype);
  return made;
}

// Rows [first, end) of a tensor become one value.
void fill_rows(std::vector<float>& tensor, int64_t total, int64_t first, int64_t end, float value) {
  const auto row = static_cast<int64_t>(tensor.size()) / total;
  std::fill(tensor.begin() + first * row, tensor.begin() + end * row, value);
}

void fill_sequence(PackedCase& test, size_t batch, float value) {
  TrialTensors& inputs = test.inputs;
  const auto& [q, k] = std::pair(inputs.cu_seqlens_q, inputs.cu_seqlens_k);
  fill_rows(inputs.q, inputs.total_q, q[batch], q[batch + 1], value);
  fill_rows(inputs.k, inputs.total_k, k[batch], k[batch + 1], value);
  fill_rows(inputs.v, inputs.total_k, k[batch], k[batch + 1], value);
}

// The outputs of one sequence: rows of out, then those of lse of each head.
std::vector<float> outputs_of_sequence(const PackedCase& test, const TrialOutputs& outputs,
                                       size_t batch) {
  const int64_t first = test.inputs.cu_seqlens_q[batch];
  const int64_t end = test.inputs.cu_seqlens_q[batch + 1];
  std::vector<float> values(outputs.out.begin() + first * 2 * 72,
                            outputs.out.begin() + end * 2 * 72);
  for (int64_t head = 0; head < 2; ++head) {
    const auto of_head = outputs.lse.begin() + head * test.inputs.total_q;
    values.insert(values.end(), of_head + first, of_head + end);
  }
  return values;
}

class PackedNeighbours
    : public ::testing::TestWithParam<std::tuple<const char*, const char*, const char*>> {};

// Whatever the rows before and after a sequence hold, and those of no sequence: the same bits.
TEST_P(PackedNeighbours, ChangeNothing) {
  const auto& [device, features, tile] = GetParam();
  const std::vector<Lengths> lengths = {{3, 40}, {67, 33}, {0, 70},  {5, 1}, {90, 129},
                                        {7, 0},  {1, 95},  {70, 64}, {2, 3}};
  PackedCase clean = packed_case(features, lengths);
  std::optional<AnyConfig> config;
  if (*tile != '\0') {
    config = *parse_config(fmt::format("forward_sm90 head_dim_qk=64 head_dim_v=72 varlen=true{} {}",
                                       clean.problem.masks.empty() ? "" : " row_range=true", tile));
  }
  const ForwardRun run = {.device = device, .problem = clean.text, .config = config};
  const TrialOutputs expected = outputs_of(run, clean.inputs);
  const Result<Verdict> verdict = verify(clean.problem, clean.sizes, clean.inputs, expected);
  ASSERT_TRUE(verdict.ok()) << verdict.error().to_string();
  ASSERT_TRUE(verdict->ok()) << verdict->detail();
  for (const size_t parity : {0, 1}) {
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      PackedCase dirty = clean;
      for (size_t batch = 0; batch < lengths.size(); ++batch) {
        if (batch % 2 == parity) fill_sequence(dirty, batch, value);
      }
      TrialTensors& inputs = dirty.inputs;
      fill_rows(inputs.q, inputs.total_q, inputs.cu_seqlens_q.back(), inputs.total_q, value);
      fill_rows(inputs.k, inputs.total_k, inputs.cu_seqlens_k.back(), inputs.total_k, value);
      fill_rows(inputs.v, inputs.total_k, inputs.cu_seqlens_k.back(), inputs.total_k, value);
      const TrialOutputs outputs = outputs_of(run, inputs);
      for (size_t batch = 0; batch < lengths.size(); ++batch) {
        if (batch % 2 == parity) continue;
        EXPECT_EQ(outputs_of_sequence(clean, expected, batch),
                  outputs_of_sequence(dirty, outputs, batch))
            << "sequence " << batch << " among neighbours of " << value;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Smoke, PackedNeighbours,
                         ::testing::Values(std::tuple(kDevice, "fp16", ""),
                                           std::tuple(kDevice, "bf16 causal", ""),
                                           std::tuple(kDevice, "fp16 window=20,3",
                                                      "consumer_warpgroups=1 tile_n=16 stages=3"),
                                           std::tuple(kDevice, "bf16 softcap=9",
                                                      "consumer_warpgroups=3 tile_n=48 stages=1 "
                                                      "softcap=true dtype=bf16"),
                                           std::tuple("emulated:a100", "fp16", ""),
                                           std::tuple("emulated:a100", "bf16 causal", "")),
                         [](const auto& test) {
                           return test_name(fmt::format("{}_{}", std::get<0>(test.param) + 9,
                                                        std::get<1>(test.param)));
                         });

// Tensors without a row, though the plan's longest lengths are not 0: no map has an extent of 0.
TEST(ForwardSm90VarlenEmpty, TensorsWithoutRows) {
  for (const std::vector<Lengths>& lengths :
       {std::vector<Lengths>{{4, 0}, {9, 0}}, {{0, 4}, {0, 9}}, {{0, 0}, {0, 0}}}) {
    PackedCase test = packed_case("fp16 causal", lengths, 0);
    test.sizes.seqlen_q = test.sizes.seqlen_k = 12;
    test.text = fmt::format("b{} hq2 hkv1 q12 k12 qk64 v72 varlen fp16 causal", lengths.size());
    const TrialOutputs outputs = outputs_of({.device = kDevice, .problem = test.text}, test.inputs);
    const Result<Verdict> verdict = verify(test.problem, test.sizes, test.inputs, outputs);
    ASSERT_TRUE(verdict.ok()) << verdict.error().to_string();
    EXPECT_TRUE(verdict->ok()) << verdict->detail();
  }
}

}  // namespace
}  // namespace tilewright::testing
