#include "tilewright/kernel.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include "core/check.h"
#include "generator/family.h"
#include "generator/tile_schedule.h"
#include "runtime/kernel_state.h"
#include "runtime/tensor_check.h"
#include "runtime/tensor_map.h"
#include "tilewright/serving.h"

namespace tilewright {
namespace {

// Fills in what the shape leaves to the problem and lists what does not fit.
class ShapeCompleter {
 public:
  // `value`: the shape's dim. `fixed`: the problem's one, which must match if `binding`.
  int64_t complete(std::string_view name, int64_t value, std::optional<int64_t> fixed,
                   bool binding) {
    if (value == kFromProblem && !fixed) {
      add("{} is in neither the shape nor the problem", name);
    } else if (value != kFromProblem && value < 0) {
      add("{} is {}, which is negative", name, value);
    } else if (value != kFromProblem && binding && fixed && value != *fixed) {
      add("{} is {}, the problem fixes {}", name, value, *fixed);
    }
    return value == kFromProblem ? fixed.value_or(0) : value;
  }

  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    faults_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  Status status() && {
    if (faults_.empty()) return {};
    Error error = make_error(ErrorCode::kInvalidArgument, "{}", faults_.front());
    if (faults_.size() > 1) error.reasons = std::move(faults_);
    return error;
  }

 private:
  std::vector<std::string> faults_;
};

Result<Shape> complete_shape(const Problem& problem, const Shape& given) {
  ShapeCompleter completer;
  Shape shape;
  // Lengths and batch of the problem are hints: a kernel serves any.
  shape.batch = completer.complete("batch", given.batch, problem.batch, false);
  shape.seqlen_q = completer.complete("seqlen_q", given.seqlen_q, problem.seqlen_q, false);
  shape.seqlen_k = completer.complete("seqlen_k", given.seqlen_k, problem.seqlen_k, false);
  shape.num_heads_q =
      completer.complete("num_heads_q", given.num_heads_q, problem.num_heads_q, true);
  const std::optional<int64_t> heads_kv =
      problem.num_heads_kv ? problem.num_heads_kv : std::optional(shape.num_heads_q);
  shape.num_heads_kv = completer.complete("num_heads_kv", given.num_heads_kv, heads_kv,
                                          problem.num_heads_kv.has_value());
  const bool divides = shape.num_heads_kv == 0 ? shape.num_heads_q == 0
                                               : shape.num_heads_q % shape.num_heads_kv == 0;
  if (shape.num_heads_q == 0 && shape.num_heads_kv > 0) {
    completer.add("num_heads_q = 0 leaves the keys of num_heads_kv = {} without a query head",
                  shape.num_heads_kv);
  }
  if (!divides) {
    completer.add("num_heads_q = {} is not a multiple of num_heads_kv = {}", shape.num_heads_q,
                  shape.num_heads_kv);
  }
  const bool paged = problem.page_size.has_value();
  if (problem.varlen) shape.total_q = completer.complete("total_q", given.total_q, {}, false);
  if (problem.varlen && !paged) {
    shape.total_k = completer.complete("total_k", given.total_k, {}, false);
  }
  if (paged) shape.num_pages = completer.complete("num_pages", given.num_pages, {}, false);
  TW_TRY(std::move(completer).status());
  return shape;
}

// The lengths that a schedule is made for, where they vary.
Status check_mask_lengths(const Problem& problem, const Shape& shape, const MaskData& data) {
  const auto check_size = [&](std::string_view name, size_t size, int64_t wanted) -> Status {
    if (size == static_cast<size_t>(wanted)) return {};
    return make_error(ErrorCode::kInvalidArgument, "{} of the mask's data has {} numbers, not {}",
                      name, size, wanted);
  };
  const auto check_packed = [&](std::string_view name, std::span<const int32_t> cu_seqlens,
                                int64_t total, int64_t longest) -> Status {
    TW_TRY(check_size(name, cu_seqlens.size(), shape.batch + 1));
    return check_cu_seqlens(name, cu_seqlens, total, longest);
  };
  if (problem.varlen) {
    TW_TRY(check_packed("cu_seqlens_q", data.cu_seqlens_q, shape.total_q, shape.seqlen_q));
  }
  if (problem.varlen && !problem.page_size) {
    TW_TRY(check_packed("cu_seqlens_k", data.cu_seqlens_k, shape.total_k, shape.seqlen_k));
  }
  if (!problem.page_size) return {};
  TW_TRY(check_size("seqused_k", data.seqused_k.size(), shape.batch));
  for (size_t batch = 0; batch < data.seqused_k.size(); ++batch) {
    const int64_t keys = data.seqused_k[batch];
    if (keys >= 0 && keys <= shape.seqlen_k) continue;
    return make_error(ErrorCode::kInvalidArgument,
                      "seqused_k[{}] = {} keys, the plan's longest sequence has {}", batch, keys,
                      shape.seqlen_k);
  }
  return {};
}

// Geometry and parameters of a launch, everything checked.
Result<FamilyLaunch> bind_launch(const Kernel::State& state, const LaunchPlan& plan,
                                 const LaunchTensors& tensors) {
  TW_ASSIGN(const Shape shape, complete_shape(state.problem, plan.shape));
  const Family& family = family_of(state.config);
  TW_ASSIGN(FamilyLaunch launch,
            family.plan(state.problem, state.config, state.device->arch(), shape));
  TW_ASSIGN(const BoundTensors bound, check_tensors(state.problem, shape, tensors, launch));
  const DriverTensorMapEncoder encoder(state.device->driver());
  TW_TRY(family.bind(state.config, bound, encoder, launch));
  return launch;
}

void* address_of(AnyParams& params) {
  return std::visit([](auto& family_params) -> void* { return &family_params; }, params);
}

CUresult launch_step(const DriverTable& driver, CUstream stream, CUfunction function,
                     const LaunchGeometry& geometry, AnyParams& params) {
  const auto& [grid, block, cluster, shared_bytes] = geometry;
  void* parameters[] = {address_of(params)};
  CUlaunchAttribute attribute = {};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim.x = cluster.x;
  attribute.value.clusterDim.y = cluster.y;
  attribute.value.clusterDim.z = cluster.z;
  const CUlaunchConfig config = {.gridDimX = grid.x,
                                 .gridDimY = grid.y,
                                 .gridDimZ = grid.z,
                                 .blockDimX = block.x,
                                 .blockDimY = block.y,
                                 .blockDimZ = block.z,
                                 .sharedMemBytes = static_cast<unsigned int>(shared_bytes),
                                 .hStream = stream,
                                 .attrs = &attribute,
                                 .numAttrs = cluster == Dim3{} ? 0u : 1u};
  return driver.launch_kernel_ex(&config, function, parameters, nullptr);
}

}  // namespace

Result<LaunchPlan> Kernel::plan(const Shape& given) const {
  TW_ASSIGN(const Shape shape, complete_shape(state_->problem, given));
  TW_ASSIGN(const FamilyLaunch launch,
            family_of(state_->config)
                .plan(state_->problem, state_->config, state_->device->arch(), shape));
  LaunchPlan plan = {.shape = shape,
                     .steps = {},
                     .workspace_bytes = launch.workspace_bytes,
                     .schedule_tile_m = launch.schedule_tile.tile_m,
                     .schedule_tile_n = launch.schedule_tile.tile_n,
                     .tensors = tensor_requirements(state_->problem, shape)};
  for (const FamilyStep& step : launch.used_steps()) {
    plan.steps.push_back({.entry = state_->entries.at(static_cast<size_t>(step.entry)).name,
                          .grid = step.geometry.grid,
                          .block = step.geometry.block,
                          .cluster = step.geometry.cluster,
                          .shared_bytes = static_cast<uint32_t>(step.geometry.shared_bytes)});
  }
  return plan;
}

Result<Schedule> Kernel::make_schedule(const Shape& given, const MaskData& data) const {
  TW_ASSIGN(const Shape shape, complete_shape(state_->problem, given));
  TW_ASSIGN(const FamilyLaunch launch,
            family_of(state_->config)
                .plan(state_->problem, state_->config, state_->device->arch(), shape));
  if (!launch.needs_schedule()) {
    return make_error(ErrorCode::kInvalidArgument, "a launch of '{}' takes no schedule",
                      state_->problem.to_string());
  }
  TW_TRY(check_mask_lengths(state_->problem, shape, data));
  TW_ASSIGN(ScheduleBuild build,
            build_schedule(state_->problem, shape, launch.schedule_tile, data));
  return std::move(build.schedule);
}

Status Kernel::launch(CUstream_st* stream, const LaunchPlan& plan,
                      const LaunchTensors& tensors) const {
  const Device& device = *state_->device;
  TW_TRY(device.check_process());
  TW_ASSIGN(FamilyLaunch launch, bind_launch(*state_, plan, tensors));
  if (launch.empty()) return {};
  const ScopedContext context(device.driver(), device.context());
  TW_TRY(context.status());
  for (const FamilyStep& step : launch.used_steps()) {
    const KernelEntry& entry = state_->entries.at(static_cast<size_t>(step.entry));
    const CUresult result =
        launch_step(device.driver(), stream, entry.function, step.geometry, launch.params);
    if (result == CUDA_SUCCESS) continue;
    const Dim3& grid = step.geometry.grid;
    return device.driver().check(
        result, fmt::format("cannot launch {} for '{}' with grid {}x{}x{}", entry.name,
                            state_->problem.to_string(), grid.x, grid.y, grid.z));
  }
  return {};
}

Result<std::vector<std::byte>> Kernel::pack_params(const LaunchPlan& plan,
                                                   const LaunchTensors& tensors) const {
  TW_ASSIGN(FamilyLaunch launch, bind_launch(*state_, plan, tensors));
  return std::visit(
      [](const auto& params) {
        std::vector<std::byte> bytes(sizeof params);
        std::memcpy(bytes.data(), &params, sizeof params);
        return bytes;
      },
      launch.params);
}

const Problem& Kernel::problem() const { return state_->problem; }
std::string Kernel::config_text() const { return to_string(state_->config); }
std::string_view Kernel::provenance() const { return state_->provenance; }
std::span<const KernelEntry> Kernel::entries() const { return state_->entries; }
BinaryOrigin Kernel::origin() const { return state_->origin; }
double Kernel::compile_seconds() const {
  return state_->origin == BinaryOrigin::kCompiled ? state_->binary->code.seconds : 0;
}

std::string_view Kernel::source() const { return state_->binary->source; }
std::span<const std::byte> Kernel::cubin() const {
  return std::as_bytes(std::span(state_->binary->code.cubin));
}
std::string_view Kernel::ptx() const { return state_->binary->code.ptx; }

}  // namespace tilewright
