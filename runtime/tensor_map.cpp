#include "runtime/tensor_map.h"

#include <algorithm>
#include <bit>

#include "core/check.h"

namespace tilewright {

static_assert(sizeof(attention::TensorMap) == sizeof(CUtensorMap) &&
              alignof(attention::TensorMap) >= 64);

Result<attention::TensorMap> DriverTensorMapEncoder::encode(const TensorMapRequest& request) const {
  using attention::Dtype;
  TW_CHECK(request.dtype == Dtype::kFloat16 || request.dtype == Dtype::kBFloat16, "dtype {}",
           static_cast<int>(request.dtype));
  constexpr auto kRank = static_cast<cuuint32_t>(std::tuple_size_v<decltype(request.extents)>);
  std::array<cuuint64_t, kRank> extents;
  std::array<cuuint64_t, kRank - 1> strides;
  std::array<cuuint32_t, kRank> box;
  std::array<cuuint32_t, kRank> element_strides;
  std::copy(request.extents.begin(), request.extents.end(), extents.begin());
  std::copy(request.stride_bytes.begin(), request.stride_bytes.end(), strides.begin());
  std::copy(request.box.begin(), request.box.end(), box.begin());
  element_strides.fill(1);
  alignas(64) CUtensorMap map = {};
  TW_TRY(driver_.check(
      driver_.tensor_map_encode_tiled(
          &map,
          request.dtype == Dtype::kFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                           : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
          kRank, const_cast<void*>(request.data), extents.data(), strides.data(), box.data(),
          element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
          CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "cannot encode a tensor map"));
  return std::bit_cast<attention::TensorMap>(map);
}

}  // namespace tilewright
