#include "cli/run_output.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "cli/npy_values.h"
#include "core/check.h"
#include "runtime/tensor_check.h"

namespace tilewright::cli {
namespace {

// A result: its name in a launch, its flag and its values.
struct TensorOutput {
  std::string_view name, flag;
  std::string OutputFiles::*path;
  std::vector<float> TrialTensors::*values;
};

constexpr std::array<TensorOutput, 7> kOutputs = {{
    {"out", "--out", &OutputFiles::out, &TrialTensors::out},
    {"lse", "--lse", &OutputFiles::lse, &TrialTensors::lse},
    {"dq", "--dq", &OutputFiles::dq, &TrialTensors::dq},
    {"dk", "--dk", &OutputFiles::dk, &TrialTensors::dk},
    {"dv", "--dv", &OutputFiles::dv, &TrialTensors::dv},
    {"state_out", "--state-out", &OutputFiles::state_out, &TrialTensors::state_out},
    {"normalizer_out", "--normalizer-out", &OutputFiles::normalizer_out,
     &TrialTensors::normalizer_out},
}};

const TensorRequirement* find_output(const std::vector<TensorRequirement>& tensors,
                                     std::string_view name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& each) {
    return each.role == TensorRole::kOutput && each.name == name;
  });
  return found == tensors.end() ? nullptr : &*found;
}

}  // namespace

std::vector<FileFlag> OutputFiles::flags() const {
  std::vector<FileFlag> flags;
  for (const TensorOutput& output : kOutputs) flags.push_back({output.flag, this->*output.path});
  return flags;
}

Status check_pass(const Problem& problem, const OutputFiles& files) {
  const std::vector<TensorRequirement> tensors = tensor_requirements(problem, Shape{});
  for (const TensorOutput& output : kOutputs) {
    if ((files.*output.path).empty() || find_output(tensors, output.name) != nullptr) continue;
    return make_error(ErrorCode::kInvalidArgument, "{}: the pass {} does not compute it",
                      output.flag, to_string(problem.pass));
  }
  return {};
}

void clear_rows_of_no_sequence(const Problem& problem, const TrialTensors& inputs,
                               TrialOutputs& outputs) {
  if (!problem.varlen || inputs.total_q == 0) return;
  const auto total = static_cast<size_t>(inputs.total_q);
  const auto used = static_cast<size_t>(inputs.cu_seqlens_q.back());
  const size_t width = outputs.out.size() / total;
  std::fill(outputs.out.begin() + static_cast<ptrdiff_t>(used * width), outputs.out.end(), 0.0F);
  for (size_t row = 0; row < outputs.lse.size(); ++row) {
    if (row % total >= used) outputs.lse[row] = 0.0F;
  }
}

std::vector<NotFinite> count_not_finite(const TrialOutputs& outputs) {
  std::vector<NotFinite> counts;
  for (const TensorOutput& output : kOutputs) {
    const std::vector<float>& values = outputs.*output.values;
    const bool is_lse = output.values == &TrialTensors::lse;
    const auto count = std::count_if(values.begin(), values.end(), [&](float value) {
      const bool no_keys = is_lse && value == -std::numeric_limits<float>::infinity();
      return !std::isfinite(value) && !no_keys;
    });
    if (count > 0) counts.push_back({output.name, count, std::ssize(values)});
  }
  return counts;
}

Status write_outputs(const OutputFiles& files, const Problem& problem,
                     const TrialOutputs& outputs) {
  for (const TensorOutput& output : kOutputs) {
    const std::string& path = files.*output.path;
    if (path.empty()) continue;
    const TensorRequirement* tensor = find_output(outputs.plan.tensors, output.name);
    TW_CHECK(tensor != nullptr, "no output {}", output.name);
    TW_TRY(write_npy(path, to_npy(*tensor, problem.layout, outputs.*output.values)));
  }
  return {};
}

}  // namespace tilewright::cli
