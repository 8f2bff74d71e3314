#include "runtime/tensor_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>

#include "core/check.h"

namespace tilewright {
namespace {

// What a kernel copies at once: cp.async and TMA move 16 bytes.
constexpr int64_t kPromisedAlignment = 16;

constexpr int kMatrixRank = 4;  // q, k, v, out
constexpr int kLseRank = 3;

enum class Role { kInput, kOutput };

// The demands on one of q, k, v, out.
struct Matrix {
  std::string_view name;
  int64_t batch = 0, heads = 0, rows = 0, dim = 0;
  Dtype dtype = Dtype::kFloat16;
  Role role = Role::kInput;
};

struct Matrices {
  Matrix q, k, v, out;
};

Matrices matrices_of(const Problem& problem, const Shape& shape) {
  const Dtype dtype = problem.dtype.value_or(Dtype::kFloat16);
  const int64_t qk = problem.head_dim_qk.value_or(0);
  const int64_t v = problem.head_dim_v.value_or(qk);
  const Dtype out = problem.out_dtype.value_or(dtype);
  return {
      .q = {"q", shape.batch, shape.num_heads_q, shape.seqlen_q, qk, dtype, Role::kInput},
      .k = {"k", shape.batch, shape.num_heads_kv, shape.seqlen_k, qk, dtype, Role::kInput},
      .v = {"v", shape.batch, shape.num_heads_kv, shape.seqlen_k, v, dtype, Role::kInput},
      .out = {"out", shape.batch, shape.num_heads_q, shape.seqlen_q, v, out, Role::kOutput},
  };
}

// Where batch, row, head and dim stand among a tensor's dims.
struct Axes {
  int batch, row, head, dim;
};
constexpr Axes axes_of(Layout layout) {
  return layout == Layout::kBshd ? Axes{0, 1, 2, 3} : Axes{0, 2, 1, 3};
}

std::array<int64_t, kMatrixRank> extents_of(const Matrix& matrix, Layout layout) {
  const Axes axes = axes_of(layout);
  std::array<int64_t, kMatrixRank> extents{};
  extents[static_cast<size_t>(axes.batch)] = matrix.batch;
  extents[static_cast<size_t>(axes.row)] = matrix.rows;
  extents[static_cast<size_t>(axes.head)] = matrix.heads;
  extents[static_cast<size_t>(axes.dim)] = matrix.dim;
  return extents;
}

int64_t alignment_of(const Problem& problem, Dtype dtype) {
  return problem.strided ? size_in_bytes(dtype) : kPromisedAlignment;
}

bool is_empty(std::span<const int64_t> extents) {
  for (const int64_t extent : extents) {
    if (extent == 0) return true;
  }
  return false;
}

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
bool check_shape(std::string_view name, const Tensor& tensor, Dtype dtype,
                 std::span<const int64_t> extents, Faults& faults) {
  if (tensor.dtype != dtype) {
    faults.add("tensor {} is of type {}, the kernel needs {}", name, to_string(tensor.dtype),
               to_string(dtype));
  }
  const auto rank = static_cast<int>(extents.size());
  if (tensor.rank != rank) {
    faults.add("tensor {} has rank {}, the kernel needs {}", name, tensor.rank, rank);
    return false;
  }
  const std::span<const int64_t> shape(tensor.shape.data(), extents.size());
  if (!std::equal(shape.begin(), shape.end(), extents.begin())) {
    faults.add("tensor {} has shape [{}], the plan needs [{}]", name, fmt::join(shape, ", "),
               fmt::join(extents, ", "));
    return false;
  }
  return true;
}

bool check_address(std::string_view name, const Tensor& tensor, int64_t alignment, Faults& faults) {
  if (tensor.data == nullptr) {
    faults.add("tensor {} is missing: its address is null", name);
    return false;
  }
  const auto address = reinterpret_cast<uintptr_t>(tensor.data);
  if (address % static_cast<uintptr_t>(alignment) != 0) {
    faults.add("tensor {} is at {:#x}, which is not a multiple of the {} bytes promised", name,
               address, alignment);
  }
  return true;
}

// The stride of one dim, 0 where the extent is 1 and nobody steps.
int64_t canonical_stride(const Matrix& matrix, const Tensor& tensor, int dim, bool innermost,
                         const Problem& problem, Faults& faults) {
  const auto at = static_cast<size_t>(dim);
  const int64_t stride = tensor.strides[at];
  if (tensor.shape[at] <= 1) return innermost ? 1 : 0;
  if (matrix.role == Role::kOutput && stride == 0) {
    faults.add("tensor {} has stride 0 at dim {} of extent {}: its elements would overlap",
               matrix.name, dim, tensor.shape[at]);
  }
  if (problem.strided) return stride;
  if (innermost && stride != 1) {
    faults.add(
        "tensor {} has stride {} at its last dim, 1 is promised: add `strided` to the "
        "problem",
        matrix.name, stride);
  }
  const int64_t alignment = alignment_of(problem, matrix.dtype);
  // Modulo first: the product may overflow.
  const int64_t elements = alignment / size_in_bytes(matrix.dtype);
  if (!innermost && stride % elements != 0) {
    faults.add(
        "tensor {} has stride {} at dim {}, which is not a multiple of the {} bytes "
        "promised: add `strided` to the problem",
        matrix.name, stride, dim, alignment);
  }
  return stride;
}

attention::TensorStrides bind(const Problem& problem, const Matrix& matrix, const Tensor& tensor,
                              Faults& faults) {
  const std::array<int64_t, kMatrixRank> extents = extents_of(matrix, problem.layout);
  if (!check_shape(matrix.name, tensor, matrix.dtype, extents, faults)) return {};
  if (is_empty(extents)) return {0, 0, 0, 1};
  if (!check_address(matrix.name, tensor, alignment_of(problem, matrix.dtype), faults)) return {};
  const auto stride = [&](int dim) {
    return canonical_stride(matrix, tensor, dim, dim == kMatrixRank - 1, problem, faults);
  };
  const Axes axes = axes_of(problem.layout);
  return {.batch = stride(axes.batch),
          .head = stride(axes.head),
          .row = stride(axes.row),
          .dim = stride(axes.dim)};
}

// Optional; contiguous.
void check_lse(const Shape& shape, const Tensor& lse, Faults& faults) {
  if (lse.data == nullptr) return;
  const std::array<int64_t, kLseRank> extents = {shape.batch, shape.num_heads_q, shape.seqlen_q};
  if (!check_shape("lse", lse, Dtype::kFloat32, extents, faults) || is_empty(extents)) return;
  check_address("lse", lse, size_in_bytes(Dtype::kFloat32), faults);
  int64_t expected = 1;
  for (size_t dim = kLseRank; dim-- > 0;) {
    if (extents[dim] > 1 && lse.strides[dim] != expected) {
      faults.add("tensor lse has stride {} at dim {}, the kernel needs it contiguous: {}",
                 lse.strides[dim], dim, expected);
    }
    expected *= extents[dim];
  }
}

TensorRequirement requirement(const Problem& problem, const Matrix& matrix) {
  const auto extents = extents_of(matrix, problem.layout);
  return {.name = std::string(matrix.name),
          .dtype = matrix.dtype,
          .shape = {extents.begin(), extents.end()},
          .alignment_bytes = alignment_of(problem, matrix.dtype)};
}

}  // namespace

std::vector<TensorRequirement> forward_requirements(const Problem& problem, const Shape& shape) {
  const Matrices matrices = matrices_of(problem, shape);
  return {requirement(problem, matrices.q),
          requirement(problem, matrices.k),
          requirement(problem, matrices.v),
          requirement(problem, matrices.out),
          {.name = "lse",
           .dtype = Dtype::kFloat32,
           .shape = {shape.batch, shape.num_heads_q, shape.seqlen_q},
           .alignment_bytes = size_in_bytes(Dtype::kFloat32),
           .optional = true}};
}

Status bind_forward_tensors(const Problem& problem, const Shape& shape,
                            const LaunchTensors& tensors, attention::ForwardParams& params) {
  const Matrices matrices = matrices_of(problem, shape);
  Faults faults;
  params.q = tensors.q.data;
  params.k = tensors.k.data;
  params.v = tensors.v.data;
  params.out = tensors.out.data;
  params.lse = static_cast<float*>(tensors.lse.data);
  params.q_strides = bind(problem, matrices.q, tensors.q, faults);
  params.k_strides = bind(problem, matrices.k, tensors.k, faults);
  params.v_strides = bind(problem, matrices.v, tensors.v, faults);
  params.out_strides = bind(problem, matrices.out, tensors.out, faults);
  check_lse(shape, tensors.lse, faults);
  return std::move(faults).status();
}

}  // namespace tilewright
