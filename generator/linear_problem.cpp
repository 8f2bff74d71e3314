#include "generator/linear_problem.h"

#include <algorithm>
#include <variant>

#include "core/check.h"
#include "generator/bind_tensors.h"

namespace tilewright {
namespace {

// The causal mask, if that is all the mask there is.
const CausalMask* causal_mask(const Problem& problem) {
  if (problem.masks.size() != 1 || problem.masks[0].terms.size() != 1) return nullptr;
  return std::get_if<CausalMask>(&problem.masks[0].terms[0]);
}

}  // namespace

std::vector<std::string> unusual_linear_features(const Problem& problem) {
  Problem rest = problem;
  rest.feature = FeatureMap::kNone;
  std::vector<std::string> features = unusual_features(rest);
  if (problem.softcap) features.push_back("softcap");
  if (!problem.masks.empty() && causal_mask(problem) == nullptr) {
    features.push_back("a mask other than causal");
  }
  return features;
}

attention::Feature feature_of(const Problem& problem) {
  return problem.feature == FeatureMap::kIdentity ? attention::Feature::kIdentity
                                                  : attention::Feature::kElu1;
}

bool is_causal(const Problem& problem) { return causal_mask(problem) != nullptr; }

attention::LinearParams linear_params(const Problem& problem, const Shape& shape) {
  constexpr float kNormalizerEpsilon = 1e-6f;  // that of the paper's code
  attention::LinearParams params = {};
  const CausalMask* causal = causal_mask(problem);
  const bool top_left = causal != nullptr && causal->alignment == MaskAlignment::kTopLeft;
  params.offset = top_left ? 0 : shape.seqlen_k - shape.seqlen_q;
  params.num_heads_q = static_cast<int>(shape.num_heads_q);
  params.num_heads_kv = static_cast<int>(shape.num_heads_kv);
  params.group_size =
      static_cast<int>(shape.num_heads_q / std::max<int64_t>(1, shape.num_heads_kv));
  params.seqlen_q = static_cast<int>(shape.seqlen_q);
  params.seqlen_k = static_cast<int>(shape.seqlen_k);
  params.scale = static_cast<float>(problem.softmax_scale.value_or(1.0));
  params.epsilon = kNormalizerEpsilon;
  return params;
}

void bind_linear(const BoundTensors& tensors, attention::LinearParams& params) {
  const auto floats = [&](TensorId id) { return static_cast<float*>(tensors[id].data); };
  bind_attention(tensors, params);
  params.state = floats(TensorId::kState);
  params.normalizer = floats(TensorId::kNormalizer);
  params.state_out = floats(TensorId::kStateOut);
  params.normalizer_out = floats(TensorId::kNormalizerOut);
  params.chunk_states = static_cast<float*>(tensors.workspace);
}

}  // namespace tilewright
