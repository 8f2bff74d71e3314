#include "autotune/placed_tensor.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"
#include "core/half.h"

namespace tilewright {
namespace {

constexpr std::byte kPoison{0xFF};
constexpr int64_t kGuardBytes = 256;

}  // namespace

PlacedTensor::PlacedTensor(Dtype dtype, std::array<int64_t, 4> bshd, const Placement& placement)
    : dtype_(dtype), bshd_(bshd), layout_(placement.layout) {
  const auto [batch, rows, heads, dim] = bshd;
  const int64_t row = dim + placement.row_padding;
  const int64_t stored_rows = rows + placement.extra_rows;
  strides_ = layout_ == Layout::kBshd
                 ? std::array<int64_t, 4>{stored_rows * heads * row, heads * row, row, 1}
                 : std::array<int64_t, 4>{heads * stored_rows * row, row, stored_rows * row, 1};
  const int64_t element = size_in_bytes(dtype);
  first_ = kGuardBytes / element + placement.offset;
  const int64_t bytes = 2 * kGuardBytes + (placement.offset + batch * strides_[0]) * element;
  buffer_.assign(static_cast<size_t>(bytes), kPoison);
}

int64_t PlacedTensor::element_index(int64_t batch, int64_t row, int64_t head,
                                    int64_t column) const {
  return first_ + batch * strides_[0] + row * strides_[1] + head * strides_[2] + column;
}

template <class Visit>
void PlacedTensor::for_each_row(Visit&& visit) const {
  int64_t flat = 0;
  for (int64_t batch = 0; batch < bshd_[0]; ++batch) {
    for (int64_t row = 0; row < bshd_[1]; ++row) {
      for (int64_t head = 0; head < bshd_[2]; ++head, flat += bshd_[3]) {
        visit(static_cast<size_t>(flat),
              static_cast<size_t>(element_index(batch, row, head, 0) * size_in_bytes(dtype_)));
      }
    }
  }
}

void PlacedTensor::store(std::span<const float> values) {
  const auto dim = static_cast<size_t>(bshd_[3]);
  for_each_row([&](size_t flat, size_t byte) {
    from_float(dtype_, values.subspan(flat, dim), buffer_.data() + byte);
  });
}

void PlacedTensor::store_integers(std::span<const int32_t> values) {
  TW_CHECK(dtype_ == Dtype::kInt32, "integers for a tensor of {}", to_string(dtype_));
  const auto dim = static_cast<size_t>(bshd_[3]);
  for_each_row([&](size_t flat, size_t byte) {
    std::memcpy(buffer_.data() + byte, values.data() + flat, dim * sizeof(int32_t));
  });
}

std::vector<float> PlacedTensor::load(std::span<const std::byte> buffer) const {
  TW_CHECK(buffer.size() == buffer_.size(), "{} bytes for a buffer of {}", buffer.size(),
           buffer_.size());
  std::vector<float> values(static_cast<size_t>(bshd_[0] * bshd_[1] * bshd_[2] * bshd_[3]));
  const auto dim = static_cast<size_t>(bshd_[3]);
  for_each_row([&](size_t flat, size_t byte) {
    to_float(dtype_, buffer.data() + byte, std::span(values).subspan(flat, dim));
  });
  return values;
}

bool PlacedTensor::differs_only_in_elements(std::span<const std::byte> after) const {
  std::vector<std::byte> expected = buffer_;
  const auto row_bytes = static_cast<size_t>(bshd_[3] * size_in_bytes(dtype_));
  for_each_row([&](size_t, size_t byte) {
    std::copy_n(after.begin() + static_cast<ptrdiff_t>(byte), row_bytes,
                expected.begin() + static_cast<ptrdiff_t>(byte));
  });
  return std::equal(expected.begin(), expected.end(), after.begin(), after.end());
}

Tensor PlacedTensor::view(void* device_buffer) const {
  Tensor tensor;
  tensor.data = static_cast<std::byte*>(device_buffer) + first_ * size_in_bytes(dtype_);
  tensor.dtype = dtype_;
  tensor.rank = 4;
  tensor.shape = {bshd_[0], bshd_[1], bshd_[2], bshd_[3]};
  tensor.strides = {strides_[0], strides_[1], strides_[2], 1};
  if (layout_ == Layout::kBhsd) {
    std::swap(tensor.shape[1], tensor.shape[2]);
    std::swap(tensor.strides[1], tensor.strides[2]);
  }
  return tensor;
}

}  // namespace tilewright
