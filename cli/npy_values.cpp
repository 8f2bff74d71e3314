#include "cli/npy_values.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "core/check.h"
#include "core/half.h"

namespace tilewright::cli {
namespace {

// Which type of .npy carries a Dtype unchanged.
std::optional<NpyType> carrier(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return NpyType::kFloat16;
    case Dtype::kBFloat16:
      return NpyType::kUint16;
    case Dtype::kFloat8E4M3:
    case Dtype::kFloat8E5M2:
      return NpyType::kUint8;
    case Dtype::kFloat32:
      return NpyType::kFloat32;
    case Dtype::kInt32:
      return NpyType::kInt32;
    default:
      return std::nullopt;
  }
}

// Of [outer, inner, dim] for each batch: [inner, outer, dim].
std::vector<float> swap_rows_and_heads(std::span<const int64_t> shape,
                                       std::span<const float> values) {
  const int64_t batch = shape[0], outer = shape[1], inner = shape[2], dim = shape[3];
  std::vector<float> swapped(values.size());
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < outer; ++i) {
      for (int64_t j = 0; j < inner; ++j) {
        const float* from = values.data() + ((b * outer + i) * inner + j) * dim;
        std::copy(from, from + dim, swapped.data() + ((b * inner + j) * outer + i) * dim);
      }
    }
  }
  return swapped;
}

// Whether a tensor's file has its heads before its rows.
bool heads_first(const TensorRequirement& requirement, Layout layout) {
  return layout == Layout::kBhsd && requirement.shape.size() == 4 && !requirement.contiguous;
}

}  // namespace

Error wrong_file(const std::string& path, std::string_view field, std::string_view what) {
  return make_error(ErrorCode::kInvalidArgument, "{}: {}: {}", path, field, what);
}

Result<NpyArray> read_input_file(const std::string& path) {
  Result<NpyArray> array = read_npy(path);
  if (array.ok() || array.error().code != ErrorCode::kIoError) return array;
  return Error{ErrorCode::kInvalidArgument, array.error().message, {}};
}

Result<NpyArray> read_integer_file(const std::string& path) {
  TW_ASSIGN(NpyArray array, read_input_file(path));
  if (array.type != NpyType::kInt64) return array;
  const auto count = static_cast<size_t>(array.num_elements());
  NpyArray narrow{NpyType::kInt32, array.shape, {}};
  narrow.data.resize(count * sizeof(int32_t));
  for (size_t i = 0; i < count; ++i) {
    int64_t value = 0;
    std::memcpy(&value, array.data.data() + i * sizeof value, sizeof value);
    const auto kept = static_cast<int32_t>(value);
    if (kept != value) {
      return wrong_file(path, "data",
                        fmt::format("{} at element {} does not fit in int32", value, i));
    }
    std::memcpy(narrow.data.data() + i * sizeof kept, &kept, sizeof kept);
  }
  return narrow;
}

Status check_shape(const std::string& path, const NpyArray& array,
                   const TensorRequirement& requirement) {
  if (array.shape == requirement.shape) return {};
  return wrong_file(path, "shape",
                    fmt::format("[{}] is given, {} needs [{}]", fmt::join(array.shape, ", "),
                                requirement.name, fmt::join(requirement.shape, ", ")));
}

Status check_type(const std::string& path, NpyType type, const TensorRequirement& requirement,
                  bool dtype_was_given) {
  const Dtype dtype = requirement.dtype;
  if (type == carrier(dtype)) return {};
  if (dtype == Dtype::kInt32 || dtype == Dtype::kFloat32) {
    return wrong_file(path, "descr",
                      fmt::format("{} is given, {} needs {}", to_string(type), requirement.name,
                                  to_string(*carrier(dtype))));
  }
  if (type == NpyType::kFloat32) return {};
  const bool raw = type == NpyType::kUint16 || type == NpyType::kUint8;
  if (raw && !dtype_was_given) {
    return wrong_file(path, "descr",
                      fmt::format("{} carries {}: name the type in --problem", to_string(type),
                                  type == NpyType::kUint16 ? "bf16" : "fp8e4m3 or fp8e5m2"));
  }
  return wrong_file(path, "descr",
                    fmt::format("{} is not a type for {}, which comes as {} or float32 (rounded)",
                                to_string(type), to_string(dtype), to_string(*carrier(dtype))));
}

Result<std::vector<float>> float_values(const std::string& path, const NpyArray& array,
                                        const TensorRequirement& requirement, Layout layout,
                                        std::vector<std::string>& notes) {
  const Dtype dtype = requirement.dtype;
  std::vector<float> values(static_cast<size_t>(array.num_elements()));
  if (array.type == NpyType::kFloat32 && dtype != Dtype::kFloat32) {
    to_float(Dtype::kFloat32, array.data.data(), values);
    std::vector<std::byte> rounded(values.size() * static_cast<size_t>(size_in_bytes(dtype)));
    from_float(dtype, values, rounded.data());
    std::vector<float> back(values.size());
    to_float(dtype, rounded.data(), back);
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i]) && !std::isfinite(back[i])) {
        return wrong_file(
            path, "data",
            fmt::format("{} at element {} is beyond {}", values[i], i, to_string(dtype)));
      }
    }
    values = std::move(back);
    notes.push_back(fmt::format("{}: rounded from float32 to {}", path, to_string(dtype)));
  } else {
    to_float(dtype, array.data.data(), values);
  }
  if (!heads_first(requirement, layout)) return values;
  return swap_rows_and_heads(array.shape, values);
}

std::vector<int32_t> integer_values(const NpyArray& array) {
  std::vector<int32_t> values(static_cast<size_t>(array.num_elements()));
  if (!values.empty()) std::memcpy(values.data(), array.data.data(), array.data.size());
  return values;
}

NpyArray to_npy(const TensorRequirement& requirement, Layout layout,
                std::span<const float> values) {
  const std::vector<int64_t>& shape = requirement.shape;
  NpyArray array{*carrier(requirement.dtype), shape, {}};
  array.data.resize(values.size() * static_cast<size_t>(size_in_bytes(requirement.dtype)));
  if (!heads_first(requirement, layout)) {
    from_float(requirement.dtype, values, array.data.data());
    return array;
  }
  const std::array<int64_t, 4> bshd = {shape[0], shape[2], shape[1], shape[3]};
  from_float(requirement.dtype, swap_rows_and_heads(bshd, values), array.data.data());
  return array;
}

}  // namespace tilewright::cli
