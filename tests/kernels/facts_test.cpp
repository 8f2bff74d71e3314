// The numbered facts about attention (docs/testing.md) as our kernels show them: what was executed,
// what a plan and its tensors need, what comes out. Those about counts alone are in
// tests/io_model/facts_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "io_model/closed_form.h"
#include "tests/support/emulated_session.h"
#include "tests/support/forward_run.h"

namespace tilewright::testing {
namespace {

constexpr const char* kAmpere = "emulated:a100";
constexpr const char* kHopper = "emulated:h100";

Shape square_shape(int64_t seqlen) { return {.batch = 1, .seqlen_q = seqlen, .seqlen_k = seqlen}; }

Kernel kernel_of(const char* device, const std::string& text) {
  const Result<Kernel> kernel = shared_session(device).prepare(*Problem::parse(text));
  TW_CHECK(kernel.ok(), "{}", kernel.error().to_string());
  return *kernel;
}

LaunchPlan plan_of(const char* device, const std::string& text, int64_t seqlen) {
  const Result<LaunchPlan> plan = kernel_of(device, text).plan(square_shape(seqlen));
  TW_CHECK(plan.ok(), "{}", plan.error().to_string());
  return *plan;
}

int64_t tensor_bytes(const LaunchPlan& plan, std::string_view name) {
  for (const TensorRequirement& each : plan.tensors) {
    if (each.name != name) continue;
    int64_t bytes = size_in_bytes(each.dtype);
    for (const int64_t extent : each.shape) bytes *= extent;
    return bytes;
  }
  return 0;
}

int64_t all_tensor_bytes(const LaunchPlan& plan) {
  int64_t bytes = 0;
  for (const TensorRequirement& each : plan.tensors) bytes += tensor_bytes(plan, each.name);
  return bytes;
}

const LaunchStep& step_named(const LaunchPlan& plan, std::string_view entry) {
  const auto found = std::find_if(plan.steps.begin(), plan.steps.end(),
                                  [&](const LaunchStep& step) { return step.entry == entry; });
  TW_CHECK(found != plan.steps.end(), "no step {}", entry);
  return *found;
}

// Fact 10: a step of linear attention moves the same bytes whatever came before it; a step of
// softmax attention reads every key again.
TEST(KernelFacts, 10BytesOfAStepAreConstant) {
  const std::string dims = " hq2 hkv1 qk64 v64 fp16";
  const LaunchPlan step = plan_of(kAmpere, "linear-step" + dims, 1);
  EXPECT_EQ(step.workspace_bytes, 0);
  const auto state_after = [&](int64_t seqlen) {
    const LaunchPlan chunked = plan_of(kAmpere, "linear-forward" + dims, seqlen);
    return tensor_bytes(chunked, "state_out") + tensor_bytes(chunked, "normalizer_out");
  };
  // What a step takes and leaves is what any number of keys before it left.
  EXPECT_EQ(tensor_bytes(step, "state") + tensor_bytes(step, "normalizer"), state_after(1));
  EXPECT_EQ(state_after(4096), state_after(1));
  const auto softmax_bytes = [&](int64_t seqlen_k) {
    const Result<Kernel> kernel = shared_session(kAmpere).prepare(*Problem::parse(dims.substr(1)));
    const LaunchPlan plan = *kernel->plan({.batch = 1, .seqlen_q = 1, .seqlen_k = seqlen_k});
    return tensor_bytes(plan, "k") + tensor_bytes(plan, "v");
  };
  EXPECT_EQ(softmax_bytes(8192), 2 * softmax_bytes(4096));
  EXPECT_LT(all_tensor_bytes(step), softmax_bytes(4096));
}

// Weights of one-hot queries and keys of length s among n = d = 64: with V the identity they are
// what comes out.
double row_entropy(const std::vector<float>& out, int64_t row, int64_t n) {
  double entropy = 0;
  for (int64_t key = 0; key < n; ++key) {
    const double weight = out[static_cast<size_t>(row * n + key)];
    if (weight > 0) entropy -= weight * std::log(weight);
  }
  return entropy;
}

// Fact 11: linear attention cannot single out one key; softmax does.
TEST(KernelFacts, 11LinearAttentionIsSmoother) {
  constexpr int64_t kSize = 64;
  const std::string dims = " hq1 hkv1 q64 k64 qk64 v64 fp16";
  for (const float s : {4.0F, 8.0F, 16.0F}) {
    TrialTensors inputs;
    inputs.q.assign(kSize * kSize, 0.0F);
    inputs.v = inputs.q;
    for (size_t i = 0; i < kSize; ++i) {
      inputs.q[i * kSize + i] = s;
      inputs.v[i * kSize + i] = 1.0F;
    }
    inputs.k = inputs.q;
    const TrialOutputs sharp = outputs_of({.problem = dims.substr(1)}, inputs);
    const TrialOutputs smooth = outputs_of({.problem = "linear-forward" + dims}, inputs);
    for (int64_t row = 0; row < kSize; ++row) {
      ASSERT_GT(row_entropy(smooth.out, row, kSize), row_entropy(sharp.out, row, kSize)) << s;
      const auto own = static_cast<size_t>(row * kSize + row);
      const double exponential = std::exp(s * s / 8);
      EXPECT_NEAR(sharp.out[own], exponential / (exponential + kSize - 1), 1e-3) << s;
      const double same = (s + 1) * (s + 1) + kSize - 1, other = 2 * (s + 1) + kSize - 2;
      EXPECT_NEAR(smooth.out[own], same / (same + (kSize - 1) * other), 1e-4) << s;
    }
  }
}

double max_error(const std::vector<float>& out, const std::vector<double>& expected) {
  TW_CHECK(out.size() == expected.size(), "{} values, not {}", out.size(), expected.size());
  double error = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    error = std::max(error, std::abs(static_cast<double>(out[i]) - expected[i]));
  }
  return error;
}

// Fact 12: flash attention is standard attention up to rounding. Both within the bound of their
// roundings, and neither the less exact for its order of work: which errs more is chance.
class FlashIsExact : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(FlashIsExact, 12AgreesWithStandardAttention) {
  const auto& [device, text] = GetParam();
  const Trial test = make_trial(text, 5);
  const auto expected = reference::attention_forward(test.problem, test.sizes, test.inputs.view());
  ASSERT_TRUE(expected.ok()) << expected.error().to_string();
  const TrialOutputs flash = outputs_of({.device = device, .problem = text}, test.inputs);
  const TrialOutputs standard =
      outputs_of({.device = device, .problem = std::string("standard ") + text}, test.inputs);
  for (const TrialOutputs* outputs : {&flash, &standard}) {
    const auto verdict = verify(test.problem, test.sizes, test.inputs, *outputs);
    ASSERT_TRUE(verdict.ok()) << verdict.error().to_string();
    EXPECT_TRUE(verdict->ok()) << verdict->detail();
  }
  EXPECT_GT(max_error(standard.out, expected->out), 0);
  EXPECT_LE(max_error(flash.out, expected->out), 1.5 * max_error(standard.out, expected->out));
}

INSTANTIATE_TEST_SUITE_P(
    Smoke, FlashIsExact,
    ::testing::Combine(::testing::Values(kAmpere, kHopper),
                       ::testing::Values("hq2 hkv1 q67 k131 qk64 v64 fp16 causal",
                                         "hq2 hkv1 q131 k389 qk80 v48 bf16",
                                         "hq1 hkv1 q97 k203 qk128 v128 fp16 window=60,20")),
    [](const auto& test) {
      const std::string text = std::get<1>(test.param);
      return std::string(std::get<0>(test.param)).substr(9) + "_" +
             (text.find("causal") != std::string::npos   ? "causal"
              : text.find("window") != std::string::npos ? "window"
                                                         : "dense");
    });

// FLOPs of the products that a run executed: every mma.sync of ours is 16 x 8 x 16.
double executed_flops(const std::string& text) {
  const Trial test = make_trial(text, 3);
  TrialTensors inputs = test.inputs;
  TW_CHECK(complete_inputs(test.problem, test.sizes, inputs).ok(), "no reference of {}", text);
  reset_executed_instructions();
  outputs_of({.problem = text, .options = {}}, inputs);
  return 2.0 * 16 * 8 * 16 * static_cast<double>(executed_instructions("mma.sync"));
}

// Fact 13, arithmetic: lengths that are whole tiles, so that every product is of a visible pair.
TEST(KernelFacts, 13FlashDoesMoreArithmetic) {
  using enum io_model::Algorithm;
  const std::string dims = "hq1 hkv1 q384 k384 qk64 v64 fp16";
  const io_model::Case c = io_model::Case::dense(384, 64);
  const double forward = executed_flops(dims), standard = executed_flops("standard " + dims),
               backward = executed_flops("backward " + dims);
  EXPECT_EQ(forward, io_model::matmul_flops(kFlash2Forward, c));
  EXPECT_EQ(standard, io_model::matmul_flops(kStandardIdealForward, c));
  EXPECT_EQ(backward, io_model::matmul_flops(kTwoPassBackward, c));
  // Standard attention keeps P, so its backward recomputes nothing.
  EXPECT_GT(backward, io_model::matmul_flops(kStandardIdealBackward, c));
  EXPECT_EQ(backward / forward, 14.0 / 4);
}

// Fact 13, traffic: what the flash kernels load and store even if no cache ever helped, against
// what standard attention's forward writes and reads of scores and weights alone.
TEST(KernelFacts, 13FlashMovesFewerBytes) {
  const std::string dims = "hq1 hkv1 qk64 v64 fp16";
  for (const int64_t seqlen : {4096, 8192}) {
    const LaunchPlan standard = plan_of(kAmpere, "standard " + dims, seqlen);
    const int64_t standard_bytes = 2 * standard.workspace_bytes + all_tensor_bytes(standard);
    for (const char* device : {kAmpere, kHopper}) {
      // Every block walks all keys, or all queries; its own rows it touches once.
      const LaunchPlan forward = plan_of(device, dims, seqlen);
      const LaunchPlan backward = plan_of(device, "backward " + dims, seqlen);
      const auto bytes = [&](std::initializer_list<const char*> names) {
        int64_t sum = 0;
        for (const char* name : names) sum += tensor_bytes(backward, name);
        return sum;
      };
      const int64_t query_side = bytes({"q", "dout"}) + backward.workspace_bytes;
      const int64_t forward_bytes =
          all_tensor_bytes(forward) + forward.steps.at(0).grid.x * bytes({"k", "v"});
      const int64_t backward_bytes =
          bytes({"out", "dout", "lse"}) + backward.workspace_bytes +
          step_named(backward, "tw_backward_dkdv").grid.x * query_side +
          bytes({"k", "v", "dk", "dv"}) +
          step_named(backward, "tw_backward_dq").grid.x * bytes({"k", "v"}) + query_side +
          bytes({"dq"});
      EXPECT_LT(forward_bytes, standard_bytes) << device << " " << seqlen;
      EXPECT_LT(forward_bytes + backward_bytes, standard_bytes) << device << " " << seqlen;
    }
  }
}

int64_t schedule_bytes(const char* device, const std::string& text, int64_t seqlen) {
  const Result<Schedule> schedule = kernel_of(device, text).make_schedule(square_shape(seqlen), {});
  TW_CHECK(schedule.ok(), "{}", schedule.error().to_string());
  return static_cast<int64_t>(schedule->bytes.size());
}

// What a pass needs beside inputs and results: workspace, row statistics, the state of a chunk, the
// list of its tiles.
int64_t extra_bytes(const char* device, const std::string& text, int64_t seqlen) {
  const LaunchPlan plan = plan_of(device, text, seqlen);
  return plan.workspace_bytes + tensor_bytes(plan, "lse") +
         (plan.needs_schedule() ? schedule_bytes(device, text, seqlen) : 0);
}

uint32_t most_shared_bytes(const LaunchPlan& plan) {
  uint32_t most = 0;
  for (const LaunchStep& step : plan.steps) most = std::max(most, step.shared_bytes);
  return most;
}

// Fact 14: extra memory is linear in the length; that of standard attention is not.
TEST(KernelFacts, 14ExtraMemoryIsLinear) {
  const std::string dims = "hq2 hkv1 qk64 v64 fp16";
  const auto growth = [](const char* device, const std::string& text) {
    return static_cast<double>(extra_bytes(device, text, 16384)) /
           static_cast<double>(extra_bytes(device, text, 8192));
  };
  const std::pair<const char*, std::string> flash[] = {{kAmpere, dims},
                                                       {kAmpere, dims + " causal"},
                                                       {kAmpere, dims + " splits=4"},
                                                       {kAmpere, "backward " + dims},
                                                       {kHopper, dims}};
  for (const auto& [device, text] : flash) {
    EXPECT_EQ(growth(device, text), 2) << device << " " << text;
    EXPECT_EQ(most_shared_bytes(plan_of(device, text, 16384)),
              most_shared_bytes(plan_of(device, text, 8192)))
        << device << " " << text;
  }
  // Beside what grows, a constant: one state more than chunks; the bits of the partial tiles, which
  // are stored once.
  for (const std::string& text :
       {"linear-forward " + dims, dims + " longformer=window:512,global:{0}"}) {
    const int64_t short_bytes = extra_bytes(kAmpere, text, 4096);
    const int64_t bytes = extra_bytes(kAmpere, text, 8192);
    EXPECT_EQ(extra_bytes(kAmpere, text, 16384) - bytes, 2 * (bytes - short_bytes)) << text;
  }
  EXPECT_NEAR(growth(kAmpere, "standard " + dims), 4, 0.01);
}

// Softmax over the keys that `visible` shows, in double, by nothing but its definition.
template <class Visible>
std::vector<double> masked_dense_row(const Trial& test, int64_t query, const Visible& visible) {
  const reference::Sizes& sizes = test.sizes;
  const auto d = sizes.head_dim_qk, dv = sizes.head_dim_v;
  std::vector<double> scores, out(static_cast<size_t>(dv), 0.0);
  double max = -HUGE_VAL, sum = 0;
  for (int64_t key = 0; key < sizes.seqlen_k; ++key) {
    double score = 0;
    for (int64_t i = 0; i < d; ++i) {
      score += static_cast<double>(test.inputs.q[static_cast<size_t>(query * d + i)]) *
               test.inputs.k[static_cast<size_t>(key * d + i)];
    }
    scores.push_back(visible(key) ? score / std::sqrt(static_cast<double>(d)) : -HUGE_VAL);
    max = std::max(max, scores.back());
  }
  if (max == -HUGE_VAL) return out;
  for (double& score : scores) sum += score = std::exp(score - max);
  for (int64_t key = 0; key < sizes.seqlen_k; ++key) {
    for (int64_t i = 0; i < dv; ++i) {
      out[static_cast<size_t>(i)] +=
          scores[static_cast<size_t>(key)] / sum * test.inputs.v[static_cast<size_t>(key * dv + i)];
    }
  }
  return out;
}

// Fact 16: flash attention composes with sparse patterns. Blocks drawn by chance, among them rows
// of blocks that see nothing, against the dense computation with a mask; less work than dense.
TEST(KernelFacts, 16BlockSparseFlashIsMaskedDense) {
  const std::string dims = "hq1 hkv1 q203 k331 qk64 v48 fp16";
  constexpr int64_t kBlock = 64;
  Trial test = make_trial(dims + " blocks=64", 21);
  const int64_t columns = (test.sizes.seqlen_k + kBlock - 1) / kBlock;
  // One row of blocks sees nothing.
  std::fill_n(test.inputs.blocks.begin() + columns, columns, uint8_t{0});
  const std::vector<uint8_t>& flags = test.inputs.blocks;
  reset_executed_instructions();
  const TrialOutputs sparse =
      outputs_of({.problem = dims + " blocks=64", .options = {}}, test.inputs);
  const uint64_t sparse_mma = executed_instructions("mma.sync");
  reset_executed_instructions();
  outputs_of({.problem = dims, .options = {}}, test.inputs);
  const double shown = static_cast<double>(std::count(flags.begin(), flags.end(), 1)) /
                       static_cast<double>(flags.size());
  EXPECT_LT(static_cast<double>(sparse_mma),
            (shown + 0.1) * static_cast<double>(executed_instructions("mma.sync")));
  const auto verdict = verify(test.problem, test.sizes, test.inputs, sparse);
  ASSERT_TRUE(verdict.ok() && verdict->ok()) << verdict->detail();
  const auto reference = reference::attention_forward(test.problem, test.sizes, test.inputs.view());
  for (int64_t query = 0; query < test.sizes.seqlen_q; ++query) {
    const std::vector<double> expected = masked_dense_row(test, query, [&](int64_t key) {
      return flags[static_cast<size_t>(query / kBlock * columns + key / kBlock)] != 0;
    });
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t at = static_cast<size_t>(query) * expected.size() + i;
      // The kernel is within the bound of `verdict` of this:
      ASSERT_NEAR(reference->out[at], expected[i], 1e-12) << "query " << query;
      if (query / kBlock == 1) {
        ASSERT_EQ(sparse.out[at], 0.0F) << "query " << query;
      }
    }
  }
}

}  // namespace
}  // namespace tilewright::testing
