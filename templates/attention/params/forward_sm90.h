// The parameters of forward_sm90: those of every forward kernel, and Q, K and V as tensor maps of
// four dimensions (dim, row, head, batch); packed tensors are one batch. The maps of K and V, and
// that of Q, are not valid where there are no keys: no kernel reads them then.
#pragma once

#include "attention/params/forward.h"
#include "attention/params/tensor_map.h"

namespace tilewright::attention {

struct ForwardSm90Params {
  TensorMap q_map, k_map, v_map;
  ForwardParams forward;
};

}  // namespace tilewright::attention
