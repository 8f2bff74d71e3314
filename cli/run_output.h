// The files that `run` writes: one per result of the problem's pass.
#pragma once

#include <string>
#include <vector>

#include "autotune/trial.h"
#include "cli/output_files.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::cli {

struct OutputFiles {
  std::string out, lse;    // forward
  std::string dq, dk, dv;  // backward

  bool any() const { return !(out + lse + dq + dk + dv).empty(); }
  // "--out", "--lse", … with their paths, empty ones too.
  std::vector<FileFlag> flags() const;
};

// kInvalidArgument names a file that was asked for of a tensor that the pass does not compute.
Status check_pass(Pass pass, const OutputFiles& files);

// Writes those asked for.
Status write_outputs(const OutputFiles& files, const Problem& problem,
                     const reference::Sizes& sizes, const TrialTensors& outputs);

}  // namespace tilewright::cli
