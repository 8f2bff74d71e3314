// The attention test kernel on one problem each.
#pragma once

#include <memory>
#include <string>

#include "tests/hopper_kernels/attention_config.h"
#include "tests/hopper_kernels/subject.h"

namespace tilewright::hopper_kernels {

struct AttentionProblem {
  int heads = 1, seqlen_q = 1, seqlen_k = 1;
};

std::unique_ptr<Subject> make_attention(std::string name, const AttentionConfig& config,
                                        const AttentionProblem& problem);

}  // namespace tilewright::hopper_kernels
