// Tensor maps for TMA: what bind() asks for, and who makes them. The driver encodes them, which the
// runtime has and generator/ does not know.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "generator/launch.h"
#include "templates/attention/config/dtype.h"
#include "templates/attention/params/tensor_map.h"
#include "tilewright/result.h"

namespace tilewright {

// A tensor of four dimensions, innermost first, and the box that one copy moves, swizzled over 128
// bytes. What lies outside the tensor reads as zero.
struct TensorMapRequest {
  const void* data = nullptr;
  attention::Dtype dtype = attention::Dtype::kFloat16;
  std::array<int64_t, 4> extents = {};
  std::array<int64_t, 3> stride_bytes = {};  // of dims 1 to 3
  std::array<int, 4> box = {};
};

class TensorMapEncoder {
 public:
  TensorMapEncoder() = default;
  virtual ~TensorMapEncoder() = default;
  TensorMapEncoder(const TensorMapEncoder&) = delete;
  TensorMapEncoder& operator=(const TensorMapEncoder&) = delete;
  virtual Result<attention::TensorMap> encode(const TensorMapRequest& request) const = 0;
};

struct MappedTensor {
  std::string_view name;  // "q", for messages
  attention::Dtype dtype = attention::Dtype::kFloat16;
  int64_t head_dim = 0, rows = 0, heads = 0, batch = 0;  // none is 0
  int box_rows = 0;                                      // of 64 elements each
};

// The map (dim, row, head, batch) of 16-bit elements. kInvalidArgument names tensor and stride
// where a map cannot hold it.
Result<attention::TensorMap> map_rows(const TensorMapEncoder& encoder, const MappedTensor& tensor,
                                      const BoundTensor& bound);

}  // namespace tilewright
