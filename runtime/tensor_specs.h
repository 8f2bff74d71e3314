// Which tensors a launch of a problem has and what each must look like. The demands are the
// problem's alone, whatever family computes it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "generator/launch.h"
#include "tilewright/kernel.h"
#include "tilewright/problem.h"

namespace tilewright {

inline constexpr size_t kNumTensors = static_cast<size_t>(TensorId::kCount);

// A tensor's name and its place among those of a launch.
struct TensorField {
  std::string_view name;
  Tensor LaunchTensors::*member;
};

// By TensorId.
const std::array<TensorField, kNumTensors>& tensor_fields();

// Where batch, head, row and dim stand among a tensor's dims; -1: it has no such dim.
struct TensorAxes {
  int batch = -1, head = -1, row = -1, dim = -1;
};

struct TensorSpec {
  TensorId id = TensorId::kQ;
  TensorRole role = TensorRole::kInput;
  Dtype dtype = Dtype::kFloat16;
  int rank = 0;
  std::array<int64_t, kMaxTensorRank> shape = {};
  TensorAxes axes = {};
  int64_t alignment_bytes = 0;  // of the address, and of every stride but the innermost
  bool contiguous = false;      // dense row-major
  bool optional = false;

  std::string_view name() const { return tensor_fields()[static_cast<size_t>(id)].name; }
  std::span<const int64_t> extents() const { return {shape.data(), static_cast<size_t>(rank)}; }
  bool empty() const;
};

// Fixed capacity, so that a launch allocates nothing.
class TensorSpecs {
 public:
  void add(const TensorSpec& spec) { specs_.at(count_++) = spec; }
  const TensorSpec* begin() const { return specs_.data(); }
  const TensorSpec* end() const { return specs_.data() + count_; }

 private:
  std::array<TensorSpec, kNumTensors> specs_ = {};
  size_t count_ = 0;
};

// `shape` is complete.
TensorSpecs tensor_specs(const Problem& problem, const Shape& shape);

}  // namespace tilewright
