#include "tests/hopper_kernels/attention_subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "core/half.h"
#include "tests/hopper_kernels/compile.h"
#include "tests/hopper_kernels/device.h"

namespace tilewright::hopper_kernels {
namespace {

constexpr uint64_t kDataSeed = 20261201;

class AttentionSubject final : public Subject {
 public:
  AttentionSubject(std::string name, const AttentionConfig& config, const AttentionProblem& problem)
      : name_(std::move(name)),
        config_(config),
        problem_(problem),
        dtype_(config.bfloat16 ? Dtype::kBFloat16 : Dtype::kFloat16),
        q_(random_tensor(1, problem.seqlen_q)),
        k_(random_tensor(2, problem.seqlen_k)),
        v_(random_tensor(3, problem.seqlen_k)) {}

  std::string name() const override { return name_; }
  SlotLayout layout() const override { return {32, config_.kv_bytes()}; }

  Result<CompiledCode> compile() const override {
    const std::string text = fmt::format(
        "#include \"tests/hopper_kernels/attention.cuh\"\n"
        "using namespace tilewright::hopper_kernels;\n"
        "consteval AttentionConfig config() {{\n"
        "  return {{.bfloat16 = {}, .head_dim = {}, .tile_n = {}, .stages = {}}};\n"
        "}}\n"
        "extern \"C\" __global__ void __launch_bounds__(config().num_threads(), 1)\n"
        "tw_attention(const __grid_constant__ AttentionParams params) {{\n"
        "  attention<config()>(params);\n"
        "}}\n",
        config_.bfloat16, config_.head_dim, config_.tile_n, config_.stages);
    return compile_kernel("tests/hopper_kernels/attention.cuh", "tw_attention", text);
  }

  Outcome run(const std::string& ptx, const Schedule& schedule) const override {
    Device device(schedule);
    const std::vector<std::byte> nothing(q_.size() * 2, std::byte{0xff});  // NaN
    const CUdeviceptr out = device.upload(nothing);
    AttentionParams params{};
    params.q = map(device, device.upload(bytes_of(q_)), problem_.seqlen_q, config_.tile_m());
    params.k = map(device, device.upload(bytes_of(k_)), problem_.seqlen_k, config_.tile_n);
    params.v = map(device, device.upload(bytes_of(v_)), problem_.seqlen_k, config_.tile_n);
    params.out = map(device, out, problem_.seqlen_q, 64);
    params.seqlen_q = problem_.seqlen_q;
    params.seqlen_k = problem_.seqlen_k;
    params.scale_log2 = static_cast<float>(scale() * std::numbers::log2e);
    const int query_tiles = (problem_.seqlen_q + config_.tile_m() - 1) / config_.tile_m();
    const Outcome outcome =
        device.launch(ptx, "tw_attention",
                      {.grid_x = static_cast<unsigned>(query_tiles),
                       .grid_y = static_cast<unsigned>(problem_.heads),
                       .block = static_cast<unsigned>(config_.num_threads()),
                       .shared_bytes = static_cast<unsigned>(config_.shared_bytes())},
                      &params);
    if (outcome.verdict != Verdict::kRight) return outcome;
    const std::string changed = device.check_unchanged(std::span(&out, 1));
    if (!changed.empty()) return {Verdict::kWrong, changed};
    std::vector<float> values(q_.size());
    to_float(dtype_, device.download(out).data(), values);
    return compare(values);
  }

 private:
  double scale() const { return 1 / std::sqrt(static_cast<double>(config_.head_dim)); }

  size_t at(int head, int row, int seqlen) const {
    return static_cast<size_t>(head * seqlen + row) * static_cast<size_t>(config_.head_dim);
  }

  // Values up to 2, rounded to the kernel's type: scores that differ by several units.
  std::vector<float> random_tensor(uint64_t stream, int seqlen) const {
    std::mt19937_64 random(kDataSeed + stream);
    std::uniform_real_distribution<float> uniform(-2, 2);
    std::vector<float> values(at(problem_.heads, 0, seqlen));
    for (float& each : values) each = uniform(random);
    std::vector<std::byte> rounded = bytes_of(values);
    to_float(dtype_, rounded.data(), values);
    return values;
  }

  std::vector<std::byte> bytes_of(const std::vector<float>& values) const {
    std::vector<std::byte> bytes(values.size() * 2);
    from_float(dtype_, values, bytes.data());
    return bytes;
  }

  TensorMap map(Device& device, CUdeviceptr address, int seqlen, int box_rows) const {
    const auto row_bytes = static_cast<uint64_t>(config_.head_dim * 2);
    return device.tensor_map(
        {.type =
             config_.bfloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
         .address = address,
         .extents = {static_cast<uint64_t>(config_.head_dim), static_cast<uint64_t>(seqlen),
                     static_cast<uint64_t>(problem_.heads)},
         .strides = {row_bytes, row_bytes * static_cast<uint64_t>(seqlen)},
         .box = {64, static_cast<uint32_t>(box_rows), 1}});
  }

  // P is rounded once and O once, half an ulp each of at most sum p|v|; the rest, exp2.approx of
  // scores and sums in fp32, is below one more.
  Outcome compare(const std::vector<float>& out) const {
    const double half_ulp = config_.bfloat16 ? std::ldexp(1, -9) : std::ldexp(1, -12);
    const auto dim = static_cast<size_t>(config_.head_dim);
    for (int head = 0; head < problem_.heads; ++head) {
      for (int query = 0; query < problem_.seqlen_q; ++query) {
        const float* q = &q_[at(head, query, problem_.seqlen_q)];
        std::vector<double> weights;
        for (int key = 0; key < problem_.seqlen_k; ++key) {
          const float* k = &k_[at(head, key, problem_.seqlen_k)];
          double score = 0;
          for (size_t d = 0; d < dim; ++d) score += static_cast<double>(q[d]) * k[d];
          weights.push_back(score * scale());
        }
        const double maximum = *std::max_element(weights.begin(), weights.end());
        double total = 0;
        for (double& each : weights) total += each = std::exp(each - maximum);
        for (size_t d = 0; d < dim; ++d) {
          double sum = 0;
          double magnitude = 0;
          for (int key = 0; key < problem_.seqlen_k; ++key) {
            const double term = weights[static_cast<size_t>(key)] / total *
                                v_[at(head, key, problem_.seqlen_k) + d];
            sum += term;
            magnitude += std::fabs(term);
          }
          const double got = out[at(head, query, problem_.seqlen_q) + d];
          const double bound = 3 * half_ulp * magnitude;
          if (!(std::fabs(got - sum) <= bound)) {
            return {Verdict::kWrong, fmt::format("out[{}][{}][{}] is {}, not {} (bound {:.3g})",
                                                 head, query, d, got, sum, bound)};
          }
        }
      }
    }
    return {};
  }

  std::string name_;
  AttentionConfig config_;
  AttentionProblem problem_;
  Dtype dtype_;
  std::vector<float> q_, k_, v_;
};

}  // namespace

std::unique_ptr<Subject> make_attention(std::string name, const AttentionConfig& config,
                                        const AttentionProblem& problem) {
  return std::make_unique<AttentionSubject>(std::move(name), config, problem);
}

}  // namespace tilewright::hopper_kernels
