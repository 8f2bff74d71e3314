#include "autotune/trial.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "autotune/placed_tensor.h"
#include "core/check.h"
#include "core/half.h"
#include "core/text.h"

namespace tilewright {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): a mixing function good enough to number test values with.
uint64_t mix(uint64_t state) {
  state += 0x9E3779B97F4A7C15ULL;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
  return state ^ (state >> 31);
}

std::vector<float> normal_values(int64_t count, uint64_t seed, Dtype dtype) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t bits = mix(seed ^ mix(i));
    const double u = (static_cast<double>(bits >> 40) + 1.0) * 0x1p-24;
    const double angle = static_cast<double>(bits & 0xFFFFFF) * 0x1p-24 * 2.0 * std::numbers::pi;
    values[i] = static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(angle));
  }
  std::vector<std::byte> rounded(values.size() * static_cast<size_t>(size_in_bytes(dtype)));
  from_float(dtype, values, rounded.data());
  to_float(dtype, rounded.data(), values);
  return values;
}

// Device memory that is given back when it goes out of scope.
class Buffer {
 public:
  static Result<Buffer> make(Session& session, int64_t bytes) {
    TW_ASSIGN(void* pointer, session.allocate(bytes));
    return Buffer(session, pointer);
  }
  static Result<Buffer> holding(Session& session, std::span<const std::byte> bytes) {
    const auto count = static_cast<int64_t>(bytes.size());
    TW_ASSIGN(Buffer buffer, make(session, count));
    TW_TRY(session.copy_in(buffer.get(), bytes.data(), count));
    return buffer;
  }
  Buffer(Buffer&& other) noexcept
      : session_(other.session_), pointer_(std::exchange(other.pointer_, nullptr)) {}
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() {
    if (pointer_ != nullptr) (void)session_->release(pointer_).ok();
  }
  void* get() const { return pointer_; }
  Result<std::vector<std::byte>> read(int64_t bytes) const {
    std::vector<std::byte> host(static_cast<size_t>(bytes));
    TW_TRY(session_->copy_out(host.data(), pointer_, bytes));
    return host;
  }

 private:
  Buffer(Session& session, void* pointer) : session_(&session), pointer_(pointer) {}
  Session* session_;
  void* pointer_;
};

// Where each tensor of a trial goes. Strided problems promise element alignment only, so with gaps
// each tensor gets odd paddings of its own; else paddings keep rows 16-byte aligned.
Placement placement(const Problem& problem, const TrialOptions& options, int64_t tensor) {
  if (!options.gaps) return {.layout = problem.layout};
  if (!problem.strided) {
    return {.layout = problem.layout, .row_padding = 16, .extra_rows = 1 + tensor};
  }
  return {.layout = tensor % 2 == 0
                        ? problem.layout
                        : (problem.layout == Layout::kBshd ? Layout::kBhsd : Layout::kBshd),
          .row_padding = 1 + 2 * tensor,
          .extra_rows = 2 + tensor,
          .offset = 1 + tensor};
}

// A tensor whose memory order differs from the problem's layout still names its dims in the
// problem's order: the strides alone tell.
Tensor in_layout(Tensor tensor, Layout stored, Layout wanted) {
  if (stored != wanted) {
    std::swap(tensor.shape[1], tensor.shape[2]);
    std::swap(tensor.strides[1], tensor.strides[2]);
  }
  return tensor;
}

Tensor lse_view(void* data, const reference::Sizes& sizes) {
  Tensor tensor;
  tensor.data = data;
  tensor.dtype = Dtype::kFloat32;
  tensor.rank = 3;
  tensor.shape = {sizes.batch, sizes.num_heads_q, sizes.seqlen_q};
  tensor.strides = {sizes.num_heads_q * sizes.seqlen_q, sizes.seqlen_q, 1};
  return tensor;
}

}  // namespace

Result<reference::Sizes> trial_sizes(const Problem& problem) {
  if (!problem.seqlen_q || !problem.head_dim_qk) {
    return make_error(ErrorCode::kInvalidArgument, "'{}' needs {} to run", problem.to_string(),
                      !problem.seqlen_q ? "q (seqlen_q)" : "qk (head_dim_qk)");
  }
  reference::Sizes sizes;
  sizes.batch = problem.batch.value_or(1);
  sizes.num_heads_q = problem.num_heads_q.value_or(1);
  sizes.num_heads_kv = problem.num_heads_kv.value_or(sizes.num_heads_q);
  sizes.seqlen_q = *problem.seqlen_q;
  sizes.seqlen_k = problem.seqlen_k.value_or(sizes.seqlen_q);
  sizes.head_dim_qk = *problem.head_dim_qk;
  sizes.head_dim_v = problem.head_dim_v.value_or(sizes.head_dim_qk);
  return sizes;
}

TrialInputs random_inputs(const Problem& problem, const reference::Sizes& sizes, uint64_t seed) {
  const Dtype dtype = problem.dtype.value_or(Dtype::kFloat16);
  return {normal_values(sizes.q_elements(), mix(seed) + 1, dtype),
          normal_values(sizes.k_elements(), mix(seed) + 2, dtype),
          normal_values(sizes.v_elements(), mix(seed) + 3, dtype)};
}

Result<TrialOutputs> run_trial(Session& session, const Kernel& kernel,
                               const reference::Sizes& sizes, const TrialInputs& inputs,
                               const TrialOptions& options) {
  const Problem& problem = kernel.problem();
  const Dtype dtype = problem.dtype.value_or(Dtype::kFloat16);
  const std::array<Placement, 4> places = {
      placement(problem, options, 0), placement(problem, options, 1),
      placement(problem, options, 2), placement(problem, options, 3)};
  PlacedTensor q(dtype, {sizes.batch, sizes.seqlen_q, sizes.num_heads_q, sizes.head_dim_qk},
                 places[0]);
  PlacedTensor k(dtype, {sizes.batch, sizes.seqlen_k, sizes.num_heads_kv, sizes.head_dim_qk},
                 places[1]);
  PlacedTensor v(dtype, {sizes.batch, sizes.seqlen_k, sizes.num_heads_kv, sizes.head_dim_v},
                 places[2]);
  PlacedTensor out(problem.out_dtype.value_or(dtype),
                   {sizes.batch, sizes.seqlen_q, sizes.num_heads_q, sizes.head_dim_v}, places[3]);
  // One row of the lse per (batch, head): [batch, rows = 1, heads = num_heads_q, dim = seqlen_q].
  PlacedTensor lse(Dtype::kFloat32, {sizes.batch, 1, sizes.num_heads_q, sizes.seqlen_q}, {});
  q.store(inputs.q);
  k.store(inputs.k);
  v.store(inputs.v);

  TrialOutputs outputs;
  TW_ASSIGN(outputs.plan, kernel.plan({.batch = sizes.batch,
                                       .seqlen_q = sizes.seqlen_q,
                                       .seqlen_k = sizes.seqlen_k,
                                       .num_heads_q = sizes.num_heads_q,
                                       .num_heads_kv = sizes.num_heads_kv}));
  TW_ASSIGN(const Buffer q_buffer, Buffer::holding(session, q.buffer()));
  TW_ASSIGN(const Buffer k_buffer, Buffer::holding(session, k.buffer()));
  TW_ASSIGN(const Buffer v_buffer, Buffer::holding(session, v.buffer()));
  TW_ASSIGN(const Buffer workspace, Buffer::make(session, outputs.plan.workspace_bytes));

  std::vector<std::byte> first_out, first_lse;
  for (int run = 0; run < options.repeat; ++run) {
    TW_ASSIGN(const Buffer out_buffer, Buffer::holding(session, out.buffer()));
    TW_ASSIGN(const Buffer lse_buffer, Buffer::holding(session, lse.buffer()));
    const LaunchTensors tensors = {
        .q = in_layout(q.view(q_buffer.get()), places[0].layout, problem.layout),
        .k = in_layout(k.view(k_buffer.get()), places[1].layout, problem.layout),
        .v = in_layout(v.view(v_buffer.get()), places[2].layout, problem.layout),
        .out = in_layout(out.view(out_buffer.get()), places[3].layout, problem.layout),
        .lse = lse_view(lse.view(lse_buffer.get()).data, sizes),
        .workspace = workspace.get()};
    TW_TRY(kernel.launch(nullptr, outputs.plan, tensors));
    TW_TRY(session.synchronize());
    TW_ASSIGN(std::vector<std::byte> out_bytes, out_buffer.read(out.num_bytes()));
    TW_ASSIGN(std::vector<std::byte> lse_bytes, lse_buffer.read(lse.num_bytes()));
    if (!out.differs_only_in_elements(out_bytes) || !lse.differs_only_in_elements(lse_bytes)) {
      return make_error(ErrorCode::kDeviceFault, "{}: memory outside the outputs was written",
                        problem.to_string());
    }
    if (run == 0) {
      first_out = std::move(out_bytes);
      first_lse = std::move(lse_bytes);
    } else if (first_out != out_bytes || first_lse != lse_bytes) {
      return make_error(ErrorCode::kDeviceFault, "{}: run {} differs from run 0",
                        problem.to_string(), run);
    }
  }
  outputs.out = out.load(first_out);
  outputs.lse = lse.load(first_lse);
  return outputs;
}

std::string Verdict::detail() const {
  if (!out.ok) return "out: " + out.detail;
  if (!lse.ok) return "lse: " + lse.detail;
  return "";
}

Result<Verdict> verify(const Problem& problem, const reference::Sizes& sizes,
                       const TrialInputs& inputs, const TrialOutputs& outputs) {
  const Dtype dtype = problem.out_dtype.value_or(problem.dtype.value_or(Dtype::kFloat16));
  TW_ASSIGN(const reference::Forward expected,
            reference::attention_forward(problem, sizes, inputs.view()));
  TW_ASSIGN(const std::vector<float> plain,
            reference::attention_forward_same_precision(problem, sizes, inputs.view(), dtype));
  return Verdict{reference::compare_out(problem, sizes, dtype, outputs.out, expected, plain),
                 reference::compare_lse(problem, sizes, outputs.lse, expected)};
}

std::string reproducer(const Problem& problem, uint64_t seed) {
  const std::vector<std::string> words = {
      "tilewright",           "run", "--check", "--problem", problem.to_string(), "--seed",
      fmt::format("{}", seed)};
  return shell_command(words);
}

}  // namespace tilewright
