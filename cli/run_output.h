// The files that `run` writes: one per result of the problem's pass.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/trial.h"
#include "cli/output_files.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::cli {

struct OutputFiles {
  std::string out, lse;                   // forward; linear passes have no lse
  std::string dq, dk, dv;                 // backward
  std::string state_out, normalizer_out;  // linear passes

  // "--out", "--lse", … with their paths, empty ones too.
  std::vector<FileFlag> flags() const;
};

// kInvalidArgument names a file that was asked for of a tensor that the pass does not compute.
Status check_pass(const Problem& problem, const OutputFiles& files);

// Rows of packed tensors that belong to no sequence, which no kernel writes, become 0.
void clear_rows_of_no_sequence(const Problem& problem, const TrialTensors& inputs,
                               TrialOutputs& outputs);

// How many values of a result are NaN or infinite; an lse of -inf, of a row without keys, is right.
struct NotFinite {
  std::string_view name;
  int64_t count = 0, of = 0;
};
std::vector<NotFinite> count_not_finite(const TrialOutputs& outputs);

// Writes those asked for, in the shapes of the plan.
Status write_outputs(const OutputFiles& files, const Problem& problem, const TrialOutputs& outputs);

}  // namespace tilewright::cli
