// What the families of linear attention ask of a problem, and the parameters they share.
#pragma once

#include <string>
#include <vector>

#include "generator/forward_problem.h"
#include "generator/launch.h"
#include "templates/attention/config/feature.h"
#include "templates/attention/params/linear.h"
#include "tilewright/kernel.h"
#include "tilewright/problem.h"

namespace tilewright {

// Names what the problem asks for beyond linear attention on fp16 or bf16 with feature elu1 or
// identity, dense or causal.
std::vector<std::string> unusual_linear_features(const Problem& problem);

attention::Feature feature_of(const Problem& problem);
bool is_causal(const Problem& problem);

// A config with the fields that both families take from the problem.
template <class Config>
Config linear_config(const Problem& problem) {
  Config config = attention_config<Config>(problem);
  config.feature = feature_of(problem);
  return config;
}

// All but tiles, chunks and pointers.
attention::LinearParams linear_params(const Problem& problem, const Shape& shape);
void bind_linear(const BoundTensors& tensors, attention::LinearParams& params);

}  // namespace tilewright
