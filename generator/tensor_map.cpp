#include "generator/tensor_map.h"

#include "core/check.h"

namespace tilewright {

Result<attention::TensorMap> map_rows(const TensorMapEncoder& encoder, const MappedTensor& tensor,
                                      const BoundTensor& bound) {
  constexpr int64_t kElementBytes = 2;
  constexpr int64_t kMaxStride = (int64_t{1} << 40) / kElementBytes;
  constexpr int64_t kAlignment = 16 / kElementBytes;
  TensorMapRequest request = {.data = bound.data,
                              .dtype = tensor.dtype,
                              .extents = {tensor.head_dim, tensor.rows, tensor.heads, tensor.batch},
                              .box = {64, tensor.box_rows, 1, 1}};
  const std::array strides = {bound.strides.row, bound.strides.head, bound.strides.batch};
  constexpr std::array kDims = {"row", "head", "batch"};
  for (size_t dim = 0; dim < strides.size(); ++dim) {
    // Nobody steps along an extent of 1, but a map wants a stride there, too.
    const bool steps = request.extents[dim + 1] > 1;
    const int64_t row_of_its_own = (tensor.head_dim + kAlignment - 1) / kAlignment * kAlignment;
    const int64_t stride = steps ? strides[dim] : row_of_its_own;
    if (stride < 0 || stride >= kMaxStride) {
      return make_error(ErrorCode::kInvalidArgument,
                        "tensor {} has a {} stride of {}: a tensor map holds 0 to {}", tensor.name,
                        kDims[dim], stride, kMaxStride - 1);
    }
    request.stride_bytes[dim] = stride * kElementBytes;
  }
  Result<attention::TensorMap> map = encoder.encode(request);
  if (map.ok()) return map;
  Error error = map.error();
  error.message = fmt::format("tensor {}: {}", tensor.name, error.message);
  return error;
}

}  // namespace tilewright
