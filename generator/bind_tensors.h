// Pointers and strides that the parameters of every family hold under the same names.
#pragma once

#include "generator/launch.h"

namespace tilewright {

// Q, K, V and O, and lse where the family has it.
template <class Params>
void bind_attention(const BoundTensors& tensors, Params& params) {
  const auto strides = [&](TensorId id) { return tensors[id].strides; };
  params.q = tensors[TensorId::kQ].data;
  params.k = tensors[TensorId::kK].data;
  params.v = tensors[TensorId::kV].data;
  params.out = tensors[TensorId::kOut].data;
  if constexpr (requires { params.lse; }) {
    params.lse = static_cast<float*>(tensors[TensorId::kLse].data);
  }
  params.q_strides = strides(TensorId::kQ);
  params.k_strides = strides(TensorId::kK);
  params.v_strides = strides(TensorId::kV);
  params.out_strides = strides(TensorId::kOut);
}

}  // namespace tilewright
