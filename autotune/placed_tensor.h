// PlacedTensor: the host image of a device tensor inside a poisoned buffer. Every byte that is not
// an element is 0xFF, which is NaN in each floating type, so that a read beyond the tensor shows in
// the result and a write beyond it shows in the bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tilewright/problem.h"
#include "tilewright/result.h"
#include "tilewright/session.h"
#include "tilewright/tensor.h"

namespace tilewright {

// How a [batch, rows, heads, dim] tensor lies in memory, in elements.
struct Placement {
  Layout layout = Layout::kBshd;
  int64_t row_padding = 0;  // elements after each row of dim
  int64_t extra_rows = 0;   // rows after each sequence
  int64_t offset = 0;       // elements before the first
};

class PlacedTensor {
 public:
  PlacedTensor(Dtype dtype, std::array<int64_t, 4> bshd, const Placement& placement);

  // Stores contiguous bshd values, rounding to the tensor's type.
  void store(std::span<const float> values);
  // Of an int32 tensor, contiguous.
  void store_integers(std::span<const int32_t> values);
  // Contiguous bshd values of a buffer of this tensor's size.
  std::vector<float> load(std::span<const std::byte> buffer) const;

  std::span<const std::byte> buffer() const { return buffer_; }
  int64_t num_bytes() const { return static_cast<int64_t>(buffer_.size()); }
  // Whether `after` differs from this buffer only where elements are.
  bool differs_only_in_elements(std::span<const std::byte> after) const;
  // The device view, given the address of the buffer.
  Tensor view(void* device_buffer) const;

 private:
  int64_t element_index(int64_t batch, int64_t row, int64_t head, int64_t column) const;
  template <class Visit>
  void for_each_row(Visit&& visit) const;

  Dtype dtype_;
  std::array<int64_t, 4> bshd_;
  Layout layout_;
  std::array<int64_t, 4> strides_{};  // bshd
  int64_t first_ = 0;
  std::vector<std::byte> buffer_;
};

}  // namespace tilewright
