#include "cli/run_input.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "core/check.h"
#include "core/half.h"
#include "core/npy.h"
#include "core/text.h"

namespace tilewright::cli {
namespace {

using Extents = std::array<int64_t, 4>;

// Which dim of the problem each extent of a tensor is, in bshd order.
struct TensorDims {
  std::string_view name;
  std::array<std::pair<std::string_view, std::optional<int64_t> Problem::*>, 4> dims;
};

constexpr std::array<TensorDims, 4> kTensors = {{
    {"q",
     {{{"b", &Problem::batch},
       {"q", &Problem::seqlen_q},
       {"hq", &Problem::num_heads_q},
       {"qk", &Problem::head_dim_qk}}}},
    {"k",
     {{{"b", &Problem::batch},
       {"k", &Problem::seqlen_k},
       {"hkv", &Problem::num_heads_kv},
       {"qk", &Problem::head_dim_qk}}}},
    {"v",
     {{{"b", &Problem::batch},
       {"k", &Problem::seqlen_k},
       {"hkv", &Problem::num_heads_kv},
       {"v", &Problem::head_dim_v}}}},
    {"dout",
     {{{"b", &Problem::batch},
       {"q", &Problem::seqlen_q},
       {"hq", &Problem::num_heads_q},
       {"v", &Problem::head_dim_v}}}},
}};

// The place of bshd extent `axis` in a tensor of this layout.
size_t position(Layout layout, size_t axis) {
  if (layout == Layout::kBhsd && (axis == 1 || axis == 2)) return 3 - axis;
  return axis;
}

// Takes a file's extents into the problem's dims, or finds that they disagree.
Status match_shape(const TensorDims& tensor, const std::string& path, const NpyArray& array,
                   Problem& problem) {
  if (array.shape.size() != 4) {
    return wrong_file(
        path, "shape",
        fmt::format("{} has {} extents, but 4 are needed: {}", tensor.name, array.shape.size(),
                    problem.layout == Layout::kBshd ? "[batch, seqlen, heads, dim]"
                                                    : "[batch, heads, seqlen, dim]"));
  }
  for (size_t axis = 0; axis < 4; ++axis) {
    const auto& [name, member] = tensor.dims[axis];
    const size_t place = position(problem.layout, axis);
    const int64_t extent = array.shape[place];
    std::optional<int64_t>& dim = problem.*member;
    if (dim && *dim != extent) {
      return wrong_file(path, "shape",
                        fmt::format("extent {} is {}, but the problem or an earlier file says {}{}",
                                    place, extent, name, *dim));
    }
    dim = extent;
  }
  return {};
}

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
    default:
      return std::nullopt;
  }
}

Status match_type(const std::string& path, NpyType type, bool dtype_was_given, Dtype dtype) {
  if (type == NpyType::kFloat32 || type == carrier(dtype)) return {};
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

std::vector<float> swap_rows_and_heads(const Extents& shape, std::span<const float> values) {
  const auto [batch, outer, inner, dim] = shape;
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

// Contiguous bshd values, rounded to the problem's type.
Result<std::vector<float>> values_of(const std::string& path, const NpyArray& array,
                                     const Problem& problem, std::vector<std::string>& notes) {
  const Dtype dtype = *problem.dtype;
  std::vector<float> values(static_cast<size_t>(array.num_elements()));
  if (array.type == NpyType::kFloat32) {
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
  if (problem.layout == Layout::kBshd) return values;
  return swap_rows_and_heads({array.shape[0], array.shape[1], array.shape[2], array.shape[3]},
                             values);
}

NpyArray to_npy(Dtype dtype, std::vector<int64_t> shape, std::span<const float> values) {
  NpyArray array{*carrier(dtype), std::move(shape), {}};
  array.data.resize(values.size() * static_cast<size_t>(size_in_bytes(dtype)));
  from_float(dtype, values, array.data.data());
  return array;
}

}  // namespace

std::vector<FileFlag> InputFiles::flags() const {
  return {{"--q", q},       {"--k", k},           {"--v", v},
          {"--dout", dout}, {"--blocks", blocks}, {"--documents", documents}};
}

bool InputFiles::any() const { return !q.empty() || !k.empty() || !v.empty() || !dout.empty(); }

Error wrong_file(const std::string& path, std::string_view field, std::string_view what) {
  return make_error(ErrorCode::kInvalidArgument, "{}: {}: {}", path, field, what);
}

Result<RunInput> input_from_files(Problem problem, const InputFiles& files) {
  const bool backward = problem.pass == Pass::kBackward;
  if (!backward && !files.dout.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--dout: the pass {} does not read it",
                      to_string(problem.pass));
  }
  std::vector<const std::string*> paths = {&files.q, &files.k, &files.v};
  if (backward) paths.push_back(&files.dout);
  for (size_t i = 0; i < paths.size(); ++i) {
    if (paths[i]->empty()) {
      return make_error(ErrorCode::kInvalidArgument, "--{} is missing: {} come together",
                        kTensors[i].name,
                        backward ? "--q, --k, --v and --dout" : "--q, --k and --v");
    }
  }
  const bool dtype_was_given = problem.dtype.has_value();
  if (!dtype_was_given) problem.dtype = Dtype::kFloat16;

  RunInput input;
  std::vector<NpyArray> arrays(paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    TW_ASSIGN(arrays[i], read_npy(*paths[i]));
    TW_TRY(match_type(*paths[i], arrays[i].type, dtype_was_given, *problem.dtype));
    TW_TRY(match_shape(kTensors[i], *paths[i], arrays[i], problem));
  }
  const std::array<std::vector<float>*, 4> targets = {&input.tensors.q, &input.tensors.k,
                                                      &input.tensors.v, &input.tensors.dout};
  for (size_t i = 0; i < paths.size(); ++i) {
    TW_ASSIGN(*targets[i], values_of(*paths[i], arrays[i], problem, input.notes));
    arrays[i].data = {};
  }
  TW_TRY(validate(problem));
  TW_ASSIGN(input.sizes, trial_sizes(problem));
  input.problem = std::move(problem);
  return input;
}

Result<RunInput> input_from_problem(Problem problem) {
  RunInput input;
  TW_ASSIGN(input.sizes, trial_sizes(problem));
  problem.batch = input.sizes.batch;
  problem.num_heads_q = input.sizes.num_heads_q;
  problem.num_heads_kv = input.sizes.num_heads_kv;
  problem.seqlen_q = input.sizes.seqlen_q;
  problem.seqlen_k = input.sizes.seqlen_k;
  problem.head_dim_qk = input.sizes.head_dim_qk;
  problem.head_dim_v = input.sizes.head_dim_v;
  if (!problem.dtype) problem.dtype = Dtype::kFloat16;
  TW_TRY(validate(problem));
  input.problem = std::move(problem);
  return input;
}

Status check_host_memory(Pass pass, const reference::Sizes& sizes, bool check) {
  // Per element: the float values, their rounded copy and the emulated device's copy; the reference
  // keeps three doubles and the plain result for each element of O, and five doubles and the plain
  // result for each gradient.
  const double in = static_cast<double>(sizes.q_elements()) +
                    static_cast<double>(sizes.k_elements()) +
                    static_cast<double>(sizes.v_elements());
  const double out = static_cast<double>(sizes.out_elements());
  double bytes = 12 * (in + out) + (check ? 32 * out : 0);
  if (pass == Pass::kBackward) bytes += 12 * (in + out) + (check ? 44 * in : 0);
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  if (bytes <= memory) return {};
  return make_error(ErrorCode::kOutOfMemory, "the tensors need {}, but this machine has {}",
                    bytes < 9e18 ? bytes_text(static_cast<int64_t>(bytes)) : "over 8000 PiB",
                    bytes_text(static_cast<int64_t>(memory)));
}

Status write_tensor(const std::string& path, Dtype dtype, Layout layout, const Extents& bshd,
                    std::span<const float> values) {
  if (layout == Layout::kBshd) {
    return write_npy(path, to_npy(dtype, {bshd.begin(), bshd.end()}, values));
  }
  return write_npy(
      path, to_npy(dtype, {bshd[0], bshd[2], bshd[1], bshd[3]}, swap_rows_and_heads(bshd, values)));
}

Status write_lse(const std::string& path, const reference::Sizes& sizes,
                 std::span<const float> values) {
  return write_npy(
      path, to_npy(Dtype::kFloat32, {sizes.batch, sizes.num_heads_q, sizes.seqlen_q}, values));
}

}  // namespace tilewright::cli
