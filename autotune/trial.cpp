#include "autotune/trial.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "autotune/placed_tensor.h"
#include "autotune/random_masks.h"
#include "autotune/random_values.h"
#include "autotune/sequences.h"
#include "core/check.h"
#include "core/half.h"
#include "core/text.h"
#include "generator/forward_problem.h"
#include "reference/gradient_bound.h"

namespace tilewright {
namespace {

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

// Where the `index`-th tensor of a trial goes. Strided problems promise element alignment only, so
// with gaps each tensor gets odd paddings of its own; else paddings keep rows 16-byte aligned.
Placement placement(const Problem& problem, const TrialOptions& options, int64_t index) {
  if (!options.gaps) return {.layout = problem.layout};
  if (!problem.strided) {
    return {.layout = problem.layout, .row_padding = 16, .extra_rows = 1 + index};
  }
  return {.layout = index % 2 == 0
                        ? problem.layout
                        : (problem.layout == Layout::kBshd ? Layout::kBhsd : Layout::kBshd),
          .row_padding = 1 + 2 * index,
          .extra_rows = 2 + index,
          .offset = 1 + index};
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

// [1, rows, heads, dim] as [rows, heads, dim].
Tensor without_batch(const Tensor& tensor) {
  Tensor packed = tensor;
  packed.rank = 3;
  std::copy(tensor.shape.begin() + 1, tensor.shape.end(), packed.shape.begin());
  std::copy(tensor.strides.begin() + 1, tensor.strides.end(), packed.strides.begin());
  return packed;
}

Tensor dense_view(void* data, const TensorRequirement& requirement) {
  Tensor tensor;
  tensor.data = data;
  tensor.dtype = requirement.dtype;
  tensor.rank = static_cast<int>(requirement.shape.size());
  int64_t stride = 1;
  for (size_t dim = requirement.shape.size(); dim-- > 0;) {
    tensor.shape[dim] = requirement.shape[dim];
    tensor.strides[dim] = stride;
    stride *= requirement.shape[dim];
  }
  return tensor;
}

// A tensor of a trial by name: its values, of either type, and its place in a launch.
struct TrialField {
  std::string_view name;
  std::vector<float> TrialTensors::*values;
  Tensor LaunchTensors::*tensor;
  std::vector<int32_t> TrialTensors::*integers = nullptr;

  bool given(const TrialTensors& tensors) const {
    return values != nullptr ? !(tensors.*values).empty() : !(tensors.*integers).empty();
  }
};

const TrialField& field_named(std::string_view name) {
  static constexpr std::array<TrialField, 17> kFields = {{
      {"q", &TrialTensors::q, &LaunchTensors::q},
      {"k", &TrialTensors::k, &LaunchTensors::k},
      {"v", &TrialTensors::v, &LaunchTensors::v},
      {"out", &TrialTensors::out, &LaunchTensors::out},
      {"lse", &TrialTensors::lse, &LaunchTensors::lse},
      {"dout", &TrialTensors::dout, &LaunchTensors::dout},
      {"dq", &TrialTensors::dq, &LaunchTensors::dq},
      {"dk", &TrialTensors::dk, &LaunchTensors::dk},
      {"dv", &TrialTensors::dv, &LaunchTensors::dv},
      {"state", &TrialTensors::state, &LaunchTensors::state},
      {"normalizer", &TrialTensors::normalizer, &LaunchTensors::normalizer},
      {"state_out", &TrialTensors::state_out, &LaunchTensors::state_out},
      {"normalizer_out", &TrialTensors::normalizer_out, &LaunchTensors::normalizer_out},
      {"cu_seqlens_q", nullptr, &LaunchTensors::cu_seqlens_q, &TrialTensors::cu_seqlens_q},
      {"cu_seqlens_k", nullptr, &LaunchTensors::cu_seqlens_k, &TrialTensors::cu_seqlens_k},
      {"seqused_k", nullptr, &LaunchTensors::seqused_k, &TrialTensors::seqused_k},
      {"block_table", nullptr, &LaunchTensors::block_table, &TrialTensors::block_table},
  }};
  const auto field = std::find_if(kFields.begin(), kFields.end(),
                                  [&](const TrialField& each) { return each.name == name; });
  TW_CHECK(field != kFields.end(), "no trial tensor {}", name);
  return *field;
}

// One tensor of a trial: its demands, its host image and its device memory.
class PlacedArgument {
 public:
  PlacedArgument(const Problem& problem, const TensorRequirement& requirement,
                 const Placement& where)
      : requirement_(requirement),
        field_(field_named(requirement.name)),
        problem_layout_(problem.layout),
        placement_(requirement.contiguous ? Placement{} : where),
        image_(requirement.dtype, bshd_of(problem.layout, requirement), placement_) {}

  // Copies the image in afresh: the poison, and an input's values.
  Status fill(Session& session, const TrialTensors& inputs) {
    if (is_output()) {
      buffer_.reset();
    } else {
      if (field_.values != nullptr) {
        image_.store(inputs.*field_.values);
      } else {
        image_.store_integers(inputs.*field_.integers);
      }
      if (buffer_) return {};
    }
    TW_ASSIGN(Buffer buffer, Buffer::holding(session, image_.buffer()));
    buffer_.emplace(std::move(buffer));
    return {};
  }

  void give_to(LaunchTensors& tensors) const {
    const Tensor view = image_.view(buffer_->get());
    tensors.*field_.tensor = requirement_.contiguous ? dense_view(view.data, requirement_)
                             : requirement_.shape.size() == 3
                                 ? without_batch(in_layout(view, placement_.layout, Layout::kBshd))
                                 : in_layout(view, placement_.layout, problem_layout_);
  }

  bool is_output() const { return requirement_.role == TensorRole::kOutput; }
  const std::string& name() const { return requirement_.name; }
  const PlacedTensor& image() const { return image_; }
  Result<std::vector<std::byte>> read() const { return buffer_->read(image_.num_bytes()); }
  void load(std::span<const std::byte> bytes, TrialTensors& values) const {
    values.*field_.values = image_.load(bytes);
  }

 private:
  static std::array<int64_t, 4> bshd_of(Layout layout, const TensorRequirement& requirement) {
    const std::vector<int64_t>& shape = requirement.shape;
    if (requirement.contiguous) {
      return {1, 1, 1,
              std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>())};
    }
    if (shape.size() == 3) return {1, shape.at(0), shape.at(1), shape.at(2)};  // packed
    if (layout == Layout::kBshd) return {shape.at(0), shape.at(1), shape.at(2), shape.at(3)};
    return {shape.at(0), shape.at(2), shape.at(1), shape.at(3)};
  }

  TensorRequirement requirement_;
  TrialField field_;
  Layout problem_layout_;
  Placement placement_;
  PlacedTensor image_;
  std::optional<Buffer> buffer_;
};

// A schedule in device memory between guard bytes.
struct PlacedSchedule {
  std::vector<std::byte> image;
  Buffer buffer;
  DeviceSchedule device;

  Result<bool> is_as_before() const {
    TW_ASSIGN(const std::vector<std::byte> bytes, buffer.read(static_cast<int64_t>(image.size())));
    return bytes == image;
  }
};

Result<PlacedSchedule> place_schedule(Session& session, const Schedule& schedule) {
  constexpr size_t kGuardBytes = 256;
  std::vector<std::byte> image(schedule.bytes.size() + 2 * kGuardBytes, std::byte{0xFF});
  std::copy(schedule.bytes.begin(), schedule.bytes.end(), image.begin() + kGuardBytes);
  TW_ASSIGN(Buffer buffer, Buffer::holding(session, image));
  const auto* const data = static_cast<std::byte*>(buffer.get()) + kGuardBytes;
  return PlacedSchedule{std::move(image), std::move(buffer), {data, schedule.layout}};
}

// One launch, after which every output is read and checked for writes beyond its elements, and
// every input for writes.
Result<std::vector<std::vector<std::byte>>> run_once(Session& session, const Kernel& kernel,
                                                     const LaunchPlan& plan, LaunchTensors tensors,
                                                     const TrialTensors& inputs,
                                                     std::vector<PlacedArgument>& arguments) {
  for (PlacedArgument& argument : arguments) {
    TW_TRY(argument.fill(session, inputs));
    argument.give_to(tensors);
  }
  TW_TRY(kernel.launch(nullptr, plan, tensors));
  TW_TRY(session.synchronize());
  std::vector<std::vector<std::byte>> results;
  for (const PlacedArgument& argument : arguments) {
    TW_ASSIGN(std::vector<std::byte> bytes, argument.read());
    if (!argument.is_output()) {
      if (std::ranges::equal(bytes, argument.image().buffer())) continue;
      return make_error(ErrorCode::kDeviceFault, "{}: the input {} was written",
                        kernel.problem().to_string(), argument.name());
    }
    if (!argument.image().differs_only_in_elements(bytes)) {
      return make_error(ErrorCode::kDeviceFault, "{}: memory outside {} was written",
                        kernel.problem().to_string(), argument.name());
    }
    results.push_back(std::move(bytes));
  }
  return results;
}

Result<Verdict> verify_gradients(const Problem& problem, const reference::Sizes& sizes,
                                 const TrialTensors& inputs, const TrialOutputs& outputs,
                                 Dtype dtype) {
  TW_ASSIGN(const reference::ExpectedGradients expected,
            reference::expected_gradients(problem, sizes,
                                          {.forward = inputs.view(), .dout = inputs.dout}, dtype));
  Verdict verdict;
  verdict.outputs.emplace_back("dq", reference::compare(outputs.dq, expected.dq, dtype));
  verdict.outputs.emplace_back("dk", reference::compare(outputs.dk, expected.dk, dtype));
  verdict.outputs.emplace_back("dv", reference::compare(outputs.dv, expected.dv, dtype));
  return verdict;
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

void add_random_state(const Problem& problem, const reference::Sizes& sizes, uint64_t seed,
                      TrialTensors& inputs) {
  const int64_t rows = sizes.batch * sizes.num_heads_kv * sizes.head_dim_qk;
  inputs.state = normal_values(rows * sizes.head_dim_v, mix(seed) + 5, Dtype::kFloat32);
  if (!reference::has_normalizer(problem)) return;
  inputs.normalizer = normal_values(rows, mix(seed) + 6, Dtype::kFloat32);
  // A sum of features, which are positive: as of a few keys.
  for (float& value : inputs.normalizer) value = 3.0f + std::abs(value);
}

TrialTensors random_inputs(const Problem& problem, const reference::Sizes& sizes, uint64_t seed) {
  TrialTensors inputs;
  if (lengths_vary(problem)) {
    inputs = random_sequences(problem, sizes, seed);
    add_random_mask_data(problem, sizes, mix(seed) + 5, inputs);
    return inputs;
  }
  const Dtype dtype = problem.dtype.value_or(Dtype::kFloat16);
  inputs.q = normal_values(sizes.q_elements(), mix(seed) + 1, dtype);
  inputs.k = normal_values(sizes.k_elements(), mix(seed) + 2, dtype);
  inputs.v = normal_values(sizes.v_elements(), mix(seed) + 3, dtype);
  if (problem.pass == Pass::kBackward) {
    inputs.dout = normal_values(sizes.out_elements(), mix(seed) + 4, dtype);
  }
  if (problem.pass == Pass::kLinearStep) add_random_state(problem, sizes, seed, inputs);
  add_random_mask_data(problem, sizes, mix(seed) + 5, inputs);
  return inputs;
}

Status complete_inputs(const Problem& problem, const reference::Sizes& sizes,
                       TrialTensors& inputs) {
  if (problem.pass != Pass::kBackward) return {};
  TW_ASSIGN(const reference::Forward forward,
            reference::attention_forward(problem, sizes, inputs.view()));
  inputs.out = rounded(std::vector<float>(forward.out.begin(), forward.out.end()),
                       problem.dtype.value_or(Dtype::kFloat16));
  inputs.lse.assign(forward.lse.begin(), forward.lse.end());
  return {};
}

Result<TrialOutputs> run_trial(Session& session, const Kernel& kernel,
                               const reference::Sizes& sizes, const TrialTensors& inputs,
                               const TrialOptions& options) {
  const Problem& problem = kernel.problem();
  TrialOutputs outputs;
  const Shape shape = trial_shape(problem, sizes, inputs);
  TW_TRY(check_sequences(problem, inputs, shape));
  TW_ASSIGN(outputs.plan, kernel.plan(shape));
  std::vector<PlacedArgument> arguments;
  for (const TensorRequirement& requirement : outputs.plan.tensors) {
    const bool given = field_named(requirement.name).given(inputs);
    if (requirement.optional && requirement.role == TensorRole::kInput && !given) continue;
    const auto index = static_cast<int64_t>(arguments.size());
    arguments.emplace_back(problem, requirement, placement(problem, options, index));
  }
  std::optional<PlacedSchedule> schedule;
  if (outputs.plan.needs_schedule()) {
    TW_ASSIGN(outputs.schedule, kernel.make_schedule(outputs.plan.shape, inputs.mask_data()));
    TW_ASSIGN(PlacedSchedule placed, place_schedule(session, *outputs.schedule));
    schedule.emplace(std::move(placed));
  }
  // NaN, as what an earlier launch left there may be.
  const std::vector<std::byte> poison(static_cast<size_t>(outputs.plan.workspace_bytes),
                                      std::byte{0xFF});
  std::vector<std::vector<std::byte>> first;
  for (int run = 0; run < options.repeat; ++run) {
    TW_ASSIGN(const Buffer workspace, Buffer::holding(session, poison));
    TW_ASSIGN(std::vector<std::vector<std::byte>> results,
              run_once(session, kernel, outputs.plan,
                       {.workspace = workspace.get(),
                        .schedule = schedule ? schedule->device : DeviceSchedule{}},
                       inputs, arguments));
    if (schedule) {
      TW_ASSIGN(const bool is_as_before, schedule->is_as_before());
      if (!is_as_before) {
        return make_error(ErrorCode::kDeviceFault, "{}: the schedule was written",
                          problem.to_string());
      }
    }
    if (run == 0) {
      first = std::move(results);
    } else if (first != results) {
      return make_error(ErrorCode::kDeviceFault, "{}: run {} differs from run 0",
                        problem.to_string(), run);
    }
  }
  size_t next = 0;
  for (const PlacedArgument& argument : arguments) {
    if (argument.is_output()) argument.load(first.at(next++), outputs);
  }
  return outputs;
}

bool Verdict::ok() const {
  return std::all_of(outputs.begin(), outputs.end(),
                     [](const auto& output) { return output.second.ok; });
}

std::string Verdict::detail() const {
  for (const auto& [name, comparison] : outputs) {
    if (!comparison.ok) return name + ": " + comparison.detail;
  }
  return "";
}

namespace {

bool is_linear(const Problem& problem) {
  return problem.pass == Pass::kLinearForward || problem.pass == Pass::kLinearStep;
}

Result<Verdict> verify_linear(const Problem& problem, const reference::Sizes& sizes,
                              const TrialTensors& inputs, const TrialOutputs& outputs) {
  const Dtype dtype = problem.dtype.value_or(Dtype::kFloat16);
  TW_ASSIGN(
      const reference::ExpectedLinear expected,
      reference::expected_linear(
          problem, sizes, {inputs.q, inputs.k, inputs.v, inputs.state, inputs.normalizer}, dtype));
  Verdict verdict;
  const auto add = [&](const char* name, const std::vector<float>& values,
                       const reference::ExpectedTensor& tensor, Dtype type) {
    verdict.outputs.emplace_back(name, reference::compare(values, tensor, type));
  };
  add("out", outputs.out, expected.out, dtype);
  add("state_out", outputs.state_out, expected.state, Dtype::kFloat32);
  if (reference::has_normalizer(problem)) {
    add("normalizer_out", outputs.normalizer_out, expected.normalizer, Dtype::kFloat32);
  }
  return verdict;
}

}  // namespace

Result<Verdict> verify(const Problem& problem, const reference::Sizes& sizes,
                       const TrialTensors& inputs, const TrialOutputs& outputs) {
  if (is_linear(problem)) return verify_linear(problem, sizes, inputs, outputs);
  if (lengths_vary(problem)) return verify_sequences(problem, sizes, inputs, outputs);
  const Dtype dtype = problem.out_dtype.value_or(problem.dtype.value_or(Dtype::kFloat16));
  if (problem.pass == Pass::kBackward) {
    return verify_gradients(problem, sizes, inputs, outputs, dtype);
  }
  TW_ASSIGN(const reference::Forward expected,
            reference::attention_forward(problem, sizes, inputs.view()));
  TW_ASSIGN(const std::vector<float> plain,
            reference::attention_forward_same_precision(problem, sizes, inputs.view(), dtype));
  Verdict verdict;
  verdict.outputs.emplace_back(
      "out", reference::compare_out(problem, sizes, dtype, outputs.out, expected, plain));
  verdict.outputs.emplace_back("lse",
                               reference::compare_lse(problem, sizes, outputs.lse, expected));
  return verdict;
}

std::string reproducer(const Problem& problem, uint64_t seed) {
  const std::vector<std::string> words = {
      "tilewright",           "run", "--check", "--problem", problem.to_string(), "--seed",
      fmt::format("{}", seed)};
  return shell_command(words);
}

}  // namespace tilewright
