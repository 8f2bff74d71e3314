// Gradients of attention on mma.sync.m16n8k16, for sm_80 and up, deterministic by construction:
// every element of dQ, dK and dV is summed by one warp in a fixed order, and nothing is added to
// memory. Three kernels, one after another on the stream:
//   preprocess  D = rowsum(dO ∘ O) and lse in base 2, into the workspace  (backward_preprocess.cuh)
//   dkdv        dK and dV, key tile by key tile                                 (backward_dkdv.cuh)
//   dq          dQ, query tile by query tile                                      (backward_dq.cuh)
// The last two both recompute P from Q, K and lse, and dP from dO and V: 14 n²d instead of the
// 10 n²d operations of one pass that adds to dQ in memory (docs/io-complexity.md, two-pass).
#pragma once

#include "attention/backward_dkdv.cuh"
#include "attention/backward_dq.cuh"
#include "attention/backward_preprocess.cuh"
#include "attention/config/backward_sm80.h"
#include "attention/params/backward.h"
#include "attention/types.cuh"

namespace tilewright::attention {

template <BackwardSm80Config kConfig>
struct BackwardSm80 {
  static_assert(kConfig.dtype == Dtype::kFloat16 || kConfig.dtype == Dtype::kBFloat16,
                "backward_sm80 takes fp16 and bf16");
  static_assert(kConfig.head_dim_qk % 8 == 0 && kConfig.head_dim_qk >= 8 &&
                    kConfig.head_dim_qk <= 256,
                "head_dim_qk must be a multiple of 8 from 8 to 256");
  static_assert(kConfig.head_dim_v % 8 == 0 && kConfig.head_dim_v >= 8 && kConfig.head_dim_v <= 256,
                "head_dim_v must be a multiple of 8 from 8 to 256");
};

template <BackwardSm80Config kConfig>
__device__ __forceinline__ void backward_preprocess_cta(const BackwardParams& params) {
  (void)BackwardSm80<kConfig>{};
  BackwardPreprocess<kConfig>::run(params);
}

template <BackwardSm80Config kConfig>
__device__ __forceinline__ void backward_dkdv_cta(const BackwardParams& params) {
  extern __shared__ SharedBytes shared[];
  BackwardDkdv<kConfig>::run(params, static_cast<unsigned>(__cvta_generic_to_shared(shared)));
}

template <BackwardSm80Config kConfig>
__device__ __forceinline__ void backward_dq_cta(const BackwardParams& params) {
  extern __shared__ SharedBytes shared[];
  BackwardDq<kConfig>::run(params, static_cast<unsigned>(__cvta_generic_to_shared(shared)));
}

}  // namespace tilewright::attention
