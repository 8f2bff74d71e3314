#include "cli/run_output.h"

#include <array>

#include "cli/run_input.h"
#include "core/check.h"

namespace tilewright::cli {
namespace {

using Extents = std::array<int64_t, 4>;

// A result with rows of a head dim: its file, its values and where its extents come from.
struct RowsResult {
  std::string OutputFiles::*path;
  std::vector<float> TrialTensors::*values;
  bool of_keys;   // rows and heads of K and V, else of Q
  bool of_width;  // the width of V, else of Q and K
};

constexpr std::array<RowsResult, 4> kRowsResults = {{
    {&OutputFiles::out, &TrialTensors::out, false, true},
    {&OutputFiles::dq, &TrialTensors::dq, false, false},
    {&OutputFiles::dk, &TrialTensors::dk, true, false},
    {&OutputFiles::dv, &TrialTensors::dv, true, true},
}};

Extents extents(const RowsResult& result, const reference::Sizes& sizes) {
  return {sizes.batch, result.of_keys ? sizes.seqlen_k : sizes.seqlen_q,
          result.of_keys ? sizes.num_heads_kv : sizes.num_heads_q,
          result.of_width ? sizes.head_dim_v : sizes.head_dim_qk};
}

}  // namespace

std::vector<FileFlag> OutputFiles::flags() const {
  return {{"--out", out}, {"--lse", lse}, {"--dq", dq}, {"--dk", dk}, {"--dv", dv}};
}

namespace {

bool computes(Pass pass, std::string_view flag) {
  if (flag.starts_with("--d")) return pass == Pass::kBackward;
  const bool linear = pass == Pass::kLinearForward || pass == Pass::kLinearStep;
  return pass != Pass::kBackward && !(linear && flag == "--lse");
}

}  // namespace

Status check_pass(Pass pass, const OutputFiles& files) {
  for (const FileFlag& file : files.flags()) {
    if (file.path.empty() || computes(pass, file.flag)) continue;
    return make_error(ErrorCode::kInvalidArgument, "{}: the pass {} does not compute it", file.flag,
                      to_string(pass));
  }
  return {};
}

Status write_outputs(const OutputFiles& files, const Problem& problem,
                     const reference::Sizes& sizes, const TrialTensors& outputs) {
  const Dtype dtype = problem.out_dtype.value_or(*problem.dtype);
  for (const RowsResult& result : kRowsResults) {
    const std::string& path = files.*result.path;
    if (path.empty()) continue;
    TW_TRY(
        write_tensor(path, dtype, problem.layout, extents(result, sizes), outputs.*result.values));
  }
  if (!files.lse.empty()) TW_TRY(write_lse(files.lse, sizes, outputs.lse));
  return {};
}

}  // namespace tilewright::cli
