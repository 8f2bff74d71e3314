// Where the elements of a tensor lie. Plain data, the same layout on the host and under NVRTC.
#pragma once

namespace tilewright::attention {

// Strides in elements of one of Q, K, V, O. `dim` is 1 unless the kernel is strided.
struct TensorStrides {
  long long batch;
  long long head;
  long long row;
  long long dim;
};

}  // namespace tilewright::attention
