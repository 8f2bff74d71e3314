#include "runtime/tensor_specs.h"

#include <algorithm>

#include "core/ceil_div.h"

namespace tilewright {
namespace {

// What a kernel copies at once: cp.async and TMA move 16 bytes.
constexpr int64_t kPromisedAlignment = 16;

// The demands of one problem and shape, tensor by tensor.
class SpecMaker {
 public:
  SpecMaker(const Problem& problem, const Shape& shape)
      : problem_(problem),
        shape_(shape),
        dtype_(problem.dtype.value_or(Dtype::kFloat16)),
        out_dtype_(problem.out_dtype.value_or(dtype_)),
        dim_qk_(problem.head_dim_qk.value_or(0)),
        dim_v_(problem.head_dim_v.value_or(dim_qk_)) {}

  TensorSpecs specs() {
    matrix(TensorId::kQ, TensorRole::kInput, query_rows(dim_qk_), dtype_);
    keys(TensorId::kK, dim_qk_);
    keys(TensorId::kV, dim_v_);
    switch (problem_.pass) {
      case Pass::kBackward:
        add_backward();
        break;
      case Pass::kLinearForward:
      case Pass::kLinearStep:
        matrix(TensorId::kOut, TensorRole::kOutput, query_rows(dim_v_), out_dtype_);
        add_linear_state();
        break;
      default:
        matrix(TensorId::kOut, TensorRole::kOutput, query_rows(dim_v_), out_dtype_);
        row_statistics(TensorId::kLse, TensorRole::kOutput, /*optional=*/true);
        add_lengths();
    }
    return specs_;
  }

 private:
  struct Rows {
    int64_t rows, heads, dim;
  };
  Rows query_rows(int64_t dim) const {
    return {problem_.varlen ? shape_.total_q : shape_.seqlen_q, shape_.num_heads_q, dim};
  }
  Rows key_rows(int64_t dim) const {
    return {problem_.varlen ? shape_.total_k : shape_.seqlen_k, shape_.num_heads_kv, dim};
  }

  void add_lengths() {
    const bool paged = problem_.page_size.has_value();
    if (problem_.varlen) integers(TensorId::kCuSeqlensQ, 1, {shape_.batch + 1});
    if (problem_.varlen && !paged) integers(TensorId::kCuSeqlensK, 1, {shape_.batch + 1});
    if (!paged) return;
    const int64_t size = *problem_.page_size;
    integers(TensorId::kSequsedK, 1, {shape_.batch});
    integers(TensorId::kBlockTable, 2, {shape_.batch, ceil_div(shape_.seqlen_k, size)});
  }

  void integers(TensorId id, int rank, std::array<int64_t, kMaxTensorRank> extents) {
    specs_.add({.id = id,
                .role = TensorRole::kInput,
                .dtype = Dtype::kInt32,
                .rank = rank,
                .shape = extents,
                .alignment_bytes = size_in_bytes(Dtype::kInt32),
                .contiguous = true});
  }

  // K or V: as a matrix, or [num_pages, page_size, num_heads_kv, dim].
  void keys(TensorId id, int64_t dim) {
    if (!problem_.page_size) return matrix(id, TensorRole::kInput, key_rows(dim), dtype_);
    specs_.add({.id = id,
                .role = TensorRole::kInput,
                .dtype = dtype_,
                .rank = 4,
                .shape = {shape_.num_pages, *problem_.page_size, shape_.num_heads_kv, dim},
                .axes = {.batch = 0, .head = 2, .row = 1, .dim = 3},
                .alignment_bytes = alignment(dtype_)});
  }

  void add_backward() {
    matrix(TensorId::kOut, TensorRole::kInput, query_rows(dim_v_), dtype_);
    row_statistics(TensorId::kLse, TensorRole::kInput, /*optional=*/false);
    matrix(TensorId::kDout, TensorRole::kInput, query_rows(dim_v_), dtype_);
    matrix(TensorId::kDq, TensorRole::kOutput, query_rows(dim_qk_), out_dtype_);
    matrix(TensorId::kDk, TensorRole::kOutput, key_rows(dim_qk_), out_dtype_);
    matrix(TensorId::kDv, TensorRole::kOutput, key_rows(dim_v_), out_dtype_);
  }

  // A state need not be given: it is zero. A step must have somewhere to leave it.
  void add_linear_state() {
    const bool step = problem_.pass == Pass::kLinearStep;
    const bool normalized = problem_.feature != FeatureMap::kIdentity;
    const auto add = [&](TensorId id, TensorRole role, bool optional) {
      const bool matrix = id == TensorId::kState || id == TensorId::kStateOut;
      specs_.add({.id = id,
                  .role = role,
                  .dtype = Dtype::kFloat32,
                  .rank = matrix ? 4 : 3,
                  .shape = {shape_.batch, shape_.num_heads_kv, dim_qk_, matrix ? dim_v_ : 0},
                  .alignment_bytes = size_in_bytes(Dtype::kFloat32),
                  .contiguous = true,
                  .optional = optional});
    };
    add(TensorId::kState, TensorRole::kInput, /*optional=*/true);
    add(TensorId::kStateOut, TensorRole::kOutput, /*optional=*/!step);
    if (!normalized) return;
    add(TensorId::kNormalizer, TensorRole::kInput, /*optional=*/true);
    add(TensorId::kNormalizerOut, TensorRole::kOutput, /*optional=*/!step);
  }

  // [batch, rows, heads, dim], or as the layout says; packed [rows, heads, dim].
  void matrix(TensorId id, TensorRole role, const Rows& rows, Dtype dtype) {
    if (problem_.varlen) {
      specs_.add({.id = id,
                  .role = role,
                  .dtype = dtype,
                  .rank = 3,
                  .shape = {rows.rows, rows.heads, rows.dim},
                  .axes = {.head = 1, .row = 0, .dim = 2},
                  .alignment_bytes = alignment(dtype)});
      return;
    }
    const bool bshd = problem_.layout == Layout::kBshd;
    specs_.add({.id = id,
                .role = role,
                .dtype = dtype,
                .rank = 4,
                .shape = {shape_.batch, bshd ? rows.rows : rows.heads,
                          bshd ? rows.heads : rows.rows, rows.dim},
                .axes = bshd ? TensorAxes{.batch = 0, .head = 2, .row = 1, .dim = 3}
                             : TensorAxes{.batch = 0, .head = 1, .row = 2, .dim = 3},
                .alignment_bytes = alignment(dtype)});
  }

  int64_t alignment(Dtype dtype) const {
    return problem_.strided ? size_in_bytes(dtype) : kPromisedAlignment;
  }

  // float32 [batch, num_heads_q, seqlen_q], packed [num_heads_q, total_q]
  void row_statistics(TensorId id, TensorRole role, bool optional) {
    specs_.add(
        {.id = id,
         .role = role,
         .dtype = Dtype::kFloat32,
         .rank = problem_.varlen ? 2 : 3,
         .shape = problem_.varlen
                      ? std::array<int64_t, kMaxTensorRank>{shape_.num_heads_q, shape_.total_q}
                      : std::array<int64_t, kMaxTensorRank>{shape_.batch, shape_.num_heads_q,
                                                            shape_.seqlen_q},
         .alignment_bytes = size_in_bytes(Dtype::kFloat32),
         .contiguous = true,
         .optional = optional});
  }

  const Problem& problem_;
  const Shape& shape_;
  Dtype dtype_, out_dtype_;
  int64_t dim_qk_, dim_v_;
  TensorSpecs specs_;
};

}  // namespace

const std::array<TensorField, kNumTensors>& tensor_fields() {
  static constexpr std::array<TensorField, kNumTensors> kFields = {{
      {"q", &LaunchTensors::q},
      {"k", &LaunchTensors::k},
      {"v", &LaunchTensors::v},
      {"out", &LaunchTensors::out},
      {"lse", &LaunchTensors::lse},
      {"dout", &LaunchTensors::dout},
      {"dq", &LaunchTensors::dq},
      {"dk", &LaunchTensors::dk},
      {"dv", &LaunchTensors::dv},
      {"state", &LaunchTensors::state},
      {"normalizer", &LaunchTensors::normalizer},
      {"state_out", &LaunchTensors::state_out},
      {"normalizer_out", &LaunchTensors::normalizer_out},
      {"cu_seqlens_q", &LaunchTensors::cu_seqlens_q},
      {"cu_seqlens_k", &LaunchTensors::cu_seqlens_k},
      {"seqused_k", &LaunchTensors::seqused_k},
      {"block_table", &LaunchTensors::block_table},
  }};
  return kFields;
}

bool TensorSpec::empty() const {
  const auto all = extents();
  return std::find(all.begin(), all.end(), 0) != all.end();
}

TensorSpecs tensor_specs(const Problem& problem, const Shape& shape) {
  return SpecMaker(problem, shape).specs();
}

}  // namespace tilewright
