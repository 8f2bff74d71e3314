#include "runtime/tensor_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "core/check.h"
#include "generator/forward_problem.h"
#include "runtime/tensor_specs.h"

namespace tilewright {
namespace {

// Collects what is wrong with the tensors of one launch.
class Faults {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    found_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  Status status() && {
    if (found_.empty()) return {};
    Error error = make_error(ErrorCode::kInvalidArgument, "{}", found_.front());
    if (found_.size() > 1) error.reasons = std::move(found_);
    return error;
  }

 private:
  std::vector<std::string> found_;
};

// Type, rank and shape; false where looking further makes no sense.
bool check_shape(const TensorSpec& spec, const Tensor& tensor, Faults& faults) {
  if (tensor.dtype != spec.dtype) {
    faults.add("tensor {} is of type {}, the kernel needs {}", spec.name(), to_string(tensor.dtype),
               to_string(spec.dtype));
  }
  if (tensor.rank != spec.rank) {
    faults.add("tensor {} has rank {}, the kernel needs {}", spec.name(), tensor.rank, spec.rank);
    return false;
  }
  const std::span<const int64_t> wanted = spec.extents();
  const std::span<const int64_t> shape(tensor.shape.data(), wanted.size());
  if (!std::equal(shape.begin(), shape.end(), wanted.begin())) {
    faults.add("tensor {} has shape [{}], the plan needs [{}]", spec.name(), fmt::join(shape, ", "),
               fmt::join(wanted, ", "));
    return false;
  }
  return true;
}

bool check_address(std::string_view name, const void* data, int64_t alignment, Faults& faults) {
  if (data == nullptr) {
    faults.add("tensor {} is missing: its address is null", name);
    return false;
  }
  const auto address = reinterpret_cast<uintptr_t>(data);
  if (address % static_cast<uintptr_t>(alignment) != 0) {
    faults.add("tensor {} is at {:#x}, which is not a multiple of the {} bytes promised", name,
               address, alignment);
  }
  return true;
}

void check_contiguous(const TensorSpec& spec, const Tensor& tensor, Faults& faults) {
  int64_t expected = 1;
  for (size_t dim = static_cast<size_t>(spec.rank); dim-- > 0;) {
    if (spec.shape[dim] > 1 && tensor.strides[dim] != expected) {
      faults.add("tensor {} has stride {} at dim {}, the kernel needs it contiguous: {}",
                 spec.name(), tensor.strides[dim], dim, expected);
    }
    expected *= spec.shape[dim];
  }
}

// The stride of one dim, 0 where the extent is 1 and nobody steps or the tensor has no such dim.
int64_t canonical_stride(const Problem& problem, const TensorSpec& spec, const Tensor& tensor,
                         int dim, Faults& faults) {
  if (dim < 0) return 0;
  const auto at = static_cast<size_t>(dim);
  const bool innermost = dim == spec.rank - 1;
  const int64_t stride = tensor.strides[at];
  if (tensor.shape[at] <= 1) return innermost ? 1 : 0;
  if (spec.role == TensorRole::kOutput && stride == 0) {
    faults.add("tensor {} has stride 0 at dim {} of extent {}: its elements would overlap",
               spec.name(), dim, tensor.shape[at]);
  }
  if (problem.strided) return stride;
  if (innermost && stride != 1) {
    faults.add(
        "tensor {} has stride {} at its last dim, 1 is promised: add `strided` to the "
        "problem",
        spec.name(), stride);
  }
  // Modulo first: the product may overflow.
  const int64_t elements = spec.alignment_bytes / size_in_bytes(spec.dtype);
  if (!innermost && stride % elements != 0) {
    faults.add(
        "tensor {} has stride {} at dim {}, which is not a multiple of the {} bytes "
        "promised: add `strided` to the problem",
        spec.name(), stride, dim, spec.alignment_bytes);
  }
  return stride;
}

BoundTensor check_tensor(const Problem& problem, const TensorSpec& spec, const Tensor& tensor,
                         Faults& faults) {
  BoundTensor bound = {.data = tensor.data, .strides = {0, 0, 0, 1}};
  if (spec.optional && tensor.data == nullptr) return bound;
  // One left out altogether is missing, not of a wrong type.
  if (tensor.data == nullptr && tensor.rank == 0 && !spec.empty()) {
    check_address(spec.name(), nullptr, spec.alignment_bytes, faults);
    return bound;
  }
  if (!check_shape(spec, tensor, faults) || spec.empty()) return bound;
  if (!check_address(spec.name(), tensor.data, spec.alignment_bytes, faults)) return bound;
  if (spec.contiguous) {
    check_contiguous(spec, tensor, faults);
    return bound;
  }
  const auto stride = [&](int dim) { return canonical_stride(problem, spec, tensor, dim, faults); };
  bound.strides = {.batch = stride(spec.axes.batch),
                   .head = stride(spec.axes.head),
                   .row = stride(spec.axes.row),
                   .dim = stride(spec.axes.dim)};
  return bound;
}

// Contents cannot be looked at; that tiles, lengths and lists fit can.
void check_schedule(const Problem& problem, const TileSize& tile, const Shape& shape,
                    const DeviceSchedule& schedule, Faults& faults) {
  constexpr int64_t kAlignment = 16;
  if (!check_address("schedule", schedule.data, kAlignment, faults)) return;
  const ScheduleLayout& layout = schedule.layout;
  if (layout.seqlen_q != shape.seqlen_q || layout.seqlen_k != shape.seqlen_k) {
    faults.add("the schedule is for {} queries and {} keys, the plan for {} and {}",
               layout.seqlen_q, layout.seqlen_k, shape.seqlen_q, shape.seqlen_k);
  }
  if (layout.tile_m != tile.tile_m || layout.tile_n != tile.tile_n) {
    faults.add("the schedule is for tiles of {} x {}, the kernel's are {} x {}", layout.tile_m,
               layout.tile_n, tile.tile_m, tile.tile_n);
  }
  const auto check_lists = [&](const char* name, int64_t lists, int64_t wanted, bool shared) {
    if (lists == wanted || (lists == 1 && shared)) return;
    faults.add("the schedule has lists for {} {}, the plan has {}", lists, name, wanted);
  };
  check_lists("batches", layout.num_batches, shape.batch, !lengths_vary(problem));
  check_lists("heads", layout.num_heads, shape.num_heads_q, true);
}

// Optional tensors that mean something only together.
void check_together(const BoundTensors& bound, const TensorSpecs& specs, Faults& faults) {
  const auto find = [&](TensorId id) {
    return std::find_if(specs.begin(), specs.end(),
                        [id](const TensorSpec& spec) { return spec.id == id; });
  };
  const auto state = find(TensorId::kState), normalizer = find(TensorId::kNormalizer);
  if (state == specs.end() || normalizer == specs.end()) return;
  if (state->empty() || normalizer->empty()) return;
  const bool has_state = bound[TensorId::kState].data != nullptr;
  if (has_state == (bound[TensorId::kNormalizer].data != nullptr)) return;
  faults.add("tensor {} is given without {}: a state is both",
             has_state ? state->name() : normalizer->name(),
             has_state ? normalizer->name() : state->name());
}

}  // namespace

std::vector<TensorRequirement> tensor_requirements(const Problem& problem, const Shape& shape) {
  std::vector<TensorRequirement> requirements;
  for (const TensorSpec& spec : tensor_specs(problem, shape)) {
    requirements.push_back({.name = std::string(spec.name()),
                            .role = spec.role,
                            .dtype = spec.dtype,
                            .shape = {spec.extents().begin(), spec.extents().end()},
                            .alignment_bytes = spec.alignment_bytes,
                            .contiguous = spec.contiguous,
                            .optional = spec.optional});
  }
  return requirements;
}

Result<BoundTensors> check_tensors(const Problem& problem, const Shape& shape,
                                   const LaunchTensors& tensors, const FamilyLaunch& launch) {
  constexpr int64_t kWorkspaceAlignment = 16;
  BoundTensors bound;
  Faults faults;
  const TensorSpecs specs = tensor_specs(problem, shape);
  for (const TensorSpec& spec : specs) {
    const Tensor& tensor = tensors.*tensor_fields()[static_cast<size_t>(spec.id)].member;
    bound[spec.id] = check_tensor(problem, spec, tensor, faults);
  }
  check_together(bound, specs, faults);
  if (launch.workspace_bytes > 0) {
    check_address("workspace", tensors.workspace, kWorkspaceAlignment, faults);
    bound.workspace = tensors.workspace;
  }
  if (launch.needs_schedule()) {
    check_schedule(problem, launch.schedule_tile, shape, tensors.schedule, faults);
    bound.schedule = tensors.schedule;
  }
  TW_TRY(std::move(faults).status());
  return bound;
}

}  // namespace tilewright
