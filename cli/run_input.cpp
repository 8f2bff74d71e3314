#include "cli/run_input.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "autotune/sequences.h"
#include "cli/npy_values.h"
#include "core/check.h"
#include "core/text.h"
#include "generator/forward_problem.h"
#include "runtime/tensor_check.h"

namespace tilewright::cli {
namespace {

// A tensor that may come from a file: its name in a launch, its flag, its values of either type,
// and which problems read it.
struct TensorInput {
  std::string_view name, flag;
  std::string InputFiles::*path;
  std::vector<float> TrialTensors::*values;
  std::vector<int32_t> TrialTensors::*integers;
  std::string_view readers;
};

constexpr std::array<TensorInput, 10> kInputs = {{
    {"q", "--q", &InputFiles::q, &TrialTensors::q, nullptr, ""},
    {"k", "--k", &InputFiles::k, &TrialTensors::k, nullptr, ""},
    {"v", "--v", &InputFiles::v, &TrialTensors::v, nullptr, ""},
    {"dout", "--dout", &InputFiles::dout, &TrialTensors::dout, nullptr, "the pass backward"},
    {"state", "--state", &InputFiles::state, &TrialTensors::state, nullptr, "linear passes"},
    {"normalizer", "--normalizer", &InputFiles::normalizer, &TrialTensors::normalizer, nullptr,
     "linear passes with feature=elu1"},
    {"cu_seqlens_q", "--cu-seqlens-q", &InputFiles::cu_seqlens_q, nullptr,
     &TrialTensors::cu_seqlens_q, "problems with varlen"},
    {"cu_seqlens_k", "--cu-seqlens-k", &InputFiles::cu_seqlens_k, nullptr,
     &TrialTensors::cu_seqlens_k, "problems with varlen and without paged"},
    {"seqused_k", "--seqused-k", &InputFiles::seqused_k, nullptr, &TrialTensors::seqused_k,
     "problems with paged"},
    {"block_table", "--block-table", &InputFiles::block_table, nullptr, &TrialTensors::block_table,
     "problems with paged"},
}};

// What a launch demands of its inputs from files: those of kInputs, by name.
class Demands {
 public:
  Demands(const Problem& problem, const Shape& shape)
      : requirements_(tensor_requirements(problem, shape)) {}

  const TensorRequirement* find(std::string_view name) const {
    for (const TensorRequirement& each : requirements_) {
      if (each.role == TensorRole::kInput && each.name == name) return &each;
    }
    return nullptr;
  }

 private:
  std::vector<TensorRequirement> requirements_;
};

// Which files there must be depends on the problem alone, not on its shape.
Status check_given(const Problem& problem, const InputFiles& files) {
  const Demands demands(problem, Shape{});
  if (lengths_vary(problem) && !demands.find("cu_seqlens_q") && !demands.find("seqused_k")) {
    return make_error(ErrorCode::kUnsupportedProblem, "the pass {} takes no {}",
                      to_string(problem.pass), problem.varlen ? "varlen" : "paged");
  }
  std::vector<std::string_view> needed;
  for (const TensorInput& input : kInputs) {
    const TensorRequirement* demand = demands.find(input.name);
    if (demand == nullptr && !(files.*input.path).empty()) {
      return make_error(ErrorCode::kInvalidArgument, "{}: read by {} only", input.flag,
                        input.readers);
    }
    if (demand != nullptr && !demand->optional) needed.push_back(input.flag);
  }
  for (const TensorInput& input : kInputs) {
    const TensorRequirement* demand = demands.find(input.name);
    if (demand == nullptr || demand->optional || !(files.*input.path).empty()) continue;
    return make_error(ErrorCode::kInvalidArgument, "{} is missing: {} come together", input.flag,
                      fmt::join(needed, ", "));
  }
  if (demands.find("normalizer") != nullptr && files.state.empty() != files.normalizer.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is missing: --state and --normalizer come together",
                      files.state.empty() ? "--state" : "--normalizer");
  }
  return {};
}

using Arrays = std::array<NpyArray, kInputs.size()>;

// Takes the dims that the problem's text lacks from files.
class DimReader {
 public:
  DimReader(const InputFiles& files, const Arrays& arrays, RunInput& input)
      : files_(files), arrays_(arrays), problem_(input.problem), tensors_(input.tensors) {}

  Status read() {
    const bool paged = problem_.page_size.has_value();
    std::optional<int64_t> page = problem_.page_size;
    const Axis heads_q = {"num_heads_q", &problem_.num_heads_q};
    const Axis heads_kv = {"num_heads_kv", &problem_.num_heads_kv};
    const Axis dim_qk = {"head_dim_qk", &problem_.head_dim_qk};
    const Axis dim_v = {"head_dim_v", &problem_.head_dim_v};
    std::optional<int64_t> total_q, total_k, num_pages;
    const Axis rows_q = {"total_q", &total_q}, rows_k = {"total_k", &total_k};
    TW_TRY(take("q", problem_.varlen ? Axes{rows_q, heads_q, dim_qk}
                                     : matrix({"seqlen_q", &problem_.seqlen_q}, heads_q, dim_qk)));
    if (problem_.varlen) {
      TW_TRY(read_lengths("cu_seqlens_q", problem_.seqlen_q));
      if (!paged) TW_TRY(read_lengths("cu_seqlens_k", problem_.seqlen_k));
    }
    if (paged) TW_TRY(read_table());
    const auto keys = [&](const Axis& dim) {
      if (paged) return Axes{{"num_pages", &num_pages}, {"page_size", &page}, heads_kv, dim};
      if (problem_.varlen) return Axes{rows_k, heads_kv, dim};
      return matrix({"seqlen_k", &problem_.seqlen_k}, heads_kv, dim);
    };
    TW_TRY(take("k", keys(dim_qk)));
    TW_TRY(take("v", keys(dim_v)));
    tensors_.total_q = total_q.value_or(0);
    tensors_.total_k = total_k.value_or(0);
    tensors_.num_pages = num_pages.value_or(0);
    return {};
  }

 private:
  struct Axis {
    std::string_view name;
    std::optional<int64_t>* dim;
  };
  using Axes = std::vector<Axis>;

  Axes matrix(const Axis& rows, const Axis& heads, const Axis& dim) {
    const Axis batch = {"batch", &problem_.batch};
    if (problem_.layout == Layout::kBshd) return {batch, rows, heads, dim};
    return {batch, heads, rows, dim};
  }

  const NpyArray& array(size_t index) const { return arrays_.at(index); }
  static size_t index_of(std::string_view name) {
    size_t index = 0;
    while (kInputs.at(index).name != name) ++index;
    return index;
  }

  // Dims that are known already are not looked at: check_shape() does.
  Status take(std::string_view name, const Axes& axes) {
    const size_t index = index_of(name);
    const std::vector<int64_t>& shape = array(index).shape;
    if (shape.size() != axes.size()) {
      std::vector<std::string_view> names;
      for (const Axis& axis : axes) names.push_back(axis.name);
      return wrong_file(
          files_.*kInputs.at(index).path, "shape",
          fmt::format("[{}] is given, {} needs {} extents: [{}]", fmt::join(shape, ", "), name,
                      axes.size(), fmt::join(names, ", ")));
    }
    for (size_t i = 0; i < axes.size(); ++i) {
      if (!*axes[i].dim) *axes[i].dim = shape[i];
    }
    return {};
  }

  // The batch, and the longest sequence of these prefix sums.
  Status read_lengths(std::string_view name, std::optional<int64_t>& longest) {
    std::optional<int64_t> entries;
    TW_TRY(take(name, {{"batch + 1", &entries}}));
    if (!problem_.batch) problem_.batch = std::max<int64_t>(0, *entries - 1);
    if (longest) return {};
    const std::vector<int32_t> sums = integer_values(array(index_of(name)));
    longest = 0;
    for (size_t i = 1; i < sums.size(); ++i) {
      longest = std::max(*longest, int64_t{sums[i]} - sums[i - 1]);
    }
    return {};
  }

  // The most keys of a sequence: those of a row of the table.
  Status read_table() {
    std::optional<int64_t> width;
    const Axis batch = {"batch", &problem_.batch};
    TW_TRY(take("block_table", {batch, {"pages of a sequence", &width}}));
    TW_TRY(take("seqused_k", {batch}));
    if (problem_.seqlen_k) return {};
    int64_t keys = 0;
    if (__builtin_mul_overflow(*width, *problem_.page_size, &keys)) {
      return wrong_file(files_.block_table, "shape", "the number of keys does not fit in 64 bits");
    }
    problem_.seqlen_k = keys;
    return {};
  }

  const InputFiles& files_;
  const Arrays& arrays_;
  Problem& problem_;
  TrialTensors& tensors_;
};

// The values, of files that are what `demands` say.
Status read_values(const InputFiles& files, const Demands& demands, Arrays& arrays,
                   RunInput& input) {
  for (size_t i = 0; i < kInputs.size(); ++i) {
    const TensorInput& tensor = kInputs[i];
    const std::string& path = files.*tensor.path;
    if (path.empty()) continue;
    if (tensor.integers != nullptr) {
      input.tensors.*tensor.integers = integer_values(arrays[i]);
    } else {
      TW_ASSIGN(input.tensors.*tensor.values,
                float_values(path, arrays[i], *demands.find(tensor.name), input.problem.layout,
                             input.notes));
    }
    arrays[i].data = {};
  }
  return {};
}

}  // namespace

std::vector<FileFlag> InputFiles::flags() const {
  std::vector<FileFlag> flags;
  for (const TensorInput& input : kInputs) flags.push_back({input.flag, this->*input.path});
  flags.push_back({"--blocks", blocks});
  flags.push_back({"--documents", documents});
  return flags;
}

bool InputFiles::any() const {
  return std::any_of(kInputs.begin(), kInputs.end(),
                     [&](const TensorInput& input) { return !(this->*input.path).empty(); });
}

Result<RunInput> input_from_files(Problem problem, const InputFiles& files) {
  TW_TRY(validate(problem));
  TW_TRY(check_given(problem, files));
  const bool dtype_was_given = problem.dtype.has_value();
  if (!dtype_was_given) problem.dtype = Dtype::kFloat16;

  RunInput input;
  input.problem = std::move(problem);
  Arrays arrays;
  const Demands types(input.problem, Shape{});
  for (size_t i = 0; i < kInputs.size(); ++i) {
    const std::string& path = files.*kInputs[i].path;
    if (path.empty()) continue;
    TW_ASSIGN(arrays[i],
              kInputs[i].integers != nullptr ? read_integer_file(path) : read_input_file(path));
    TW_TRY(check_type(path, arrays[i].type, *types.find(kInputs[i].name), dtype_was_given));
  }
  TW_TRY(DimReader(files, arrays, input).read());
  TW_ASSIGN(input.sizes, trial_sizes(input.problem));
  const Shape shape = trial_shape(input.problem, input.sizes, input.tensors);
  const Demands demands(input.problem, shape);
  for (size_t i = 0; i < kInputs.size(); ++i) {
    const std::string& path = files.*kInputs[i].path;
    if (path.empty()) continue;
    TW_TRY(check_shape(path, arrays[i], *demands.find(kInputs[i].name)));
  }
  TW_TRY(validate(input.problem));
  TW_TRY(read_values(files, demands, arrays, input));
  TW_TRY(check_sequences(input.problem, input.tensors, shape));
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

Status check_host_memory(const RunInput& input, bool check) {
  // Per element: the float values, their rounded copy and the emulated device's copy; the reference
  // keeps three doubles and the plain result for each element of O, and five doubles and the plain
  // result for each gradient.
  const TrialTensors& tensors = input.tensors;
  const reference::Sizes sizes = stored_sizes(input.problem, input.sizes);
  double q = static_cast<double>(sizes.q_elements());
  double keys = static_cast<double>(sizes.k_elements()) + static_cast<double>(sizes.v_elements());
  if (!tensors.q.empty()) {
    q = static_cast<double>(tensors.q.size());
    keys = static_cast<double>(tensors.k.size() + tensors.v.size());
  }
  const double out =
      q / static_cast<double>(sizes.head_dim_qk) * static_cast<double>(sizes.head_dim_v);
  double bytes = 12 * (q + keys + out) + (check ? 32 * out : 0);
  if (input.problem.pass == Pass::kBackward) {
    bytes += 12 * (q + keys + out) + (check ? 44 * (q + keys) : 0);
  }
  const double memory = static_cast<double>(::sysconf(_SC_PHYS_PAGES)) *
                        static_cast<double>(::sysconf(_SC_PAGE_SIZE));
  if (bytes <= memory) return {};
  return make_error(ErrorCode::kOutOfMemory, "the tensors need {}, but this machine has {}",
                    bytes < 9e18 ? bytes_text(static_cast<int64_t>(bytes)) : "over 8000 PiB",
                    bytes_text(static_cast<int64_t>(memory)));
}

}  // namespace tilewright::cli
