// GEMM test kernels on one problem each.
#pragma once

#include <memory>
#include <string>

#include "tests/hopper_kernels/gemm_config.h"
#include "tests/hopper_kernels/subject.h"

namespace tilewright::hopper_kernels {

struct GemmProblem {
  int m = 1, n = 1, k = 1;
  int num_splits = 1;
  unsigned blocks = 1;  // of the grid; a multiple of the cluster
};

std::unique_ptr<Subject> make_gemm(std::string name, const GemmConfig& config,
                                   const GemmProblem& problem);

}  // namespace tilewright::hopper_kernels
