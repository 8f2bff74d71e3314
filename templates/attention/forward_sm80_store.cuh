// How a block of forward_sm80 leaves its output: as rows of the tensors, or as a part of the keys
// for the kernel that combines. Asks for its work anew rather than keeping it through the loop:
// registers are the scarcest resource there.
#pragma once

#include "attention/forward_sm80_block.cuh"
#include "attention/row_store.cuh"

namespace tilewright::attention {

template <ForwardSm80Config kConfig>
struct ForwardSm80Store {
  using Block = ForwardSm80Block<kConfig>;
  using Work = typename Block::Work;
  using Output = typename Block::Output;
  using Softmax = typename Block::Softmax;

  static __device__ __forceinline__ void store_output(const ForwardParams& params,
                                                      const Output& out, Softmax& softmax) {
    softmax.finish();
    const Work work = Block::work_of_block(params);
    const Sequence sequence = Block::sequence_of(params, work.batch);
    const TensorStrides& strides = params.out_strides;
    char* const first_row =
        static_cast<char*>(params.out) +
        (work.batch * strides.batch + work.head * strides.head + sequence.first_q * strides.row) *
            2;
#pragma unroll
    for (int row = 0; row < 2 * kConfig.row_fragments(); ++row) {
      const RowPlace at = Block::place(work, row);
      const bool exists = at.query < sequence.seqlen_q;
      if (exists && params.lse != nullptr && Block::lane() % 4 == 0) {
        lse_of<kConfig.varlen>(params, work.batch, work.head + at.head, sequence)[at.query] =
            softmax.log_sum(row);
      }
      store_row<kConfig.dtype, kConfig.strided>(
          out[row / 2], row % 2, softmax.inverse_sum(row), exists,
          first_row + (at.head * strides.head + at.query * strides.row) * 2,
          kConfig.strided ? strides.dim * 2 : 2, kConfig.out_fragments(),
          [](int fragment) { return fragment; });
    }
  }

  static __device__ __forceinline__ void store_partial(const ForwardParams& params,
                                                       const Output& out, Softmax& softmax) {
    softmax.finish();
    const Work work = Block::work_of_block(params);
    const int seqlen_q = Block::sequence_of(params, work.batch).seqlen_q;
    const long long first_head =
        static_cast<long long>(ptx::block_index_y()) * params.num_batch_heads +
        work.batch * params.num_heads_q + work.head;
#pragma unroll
    for (int row = 0; row < 2 * kConfig.row_fragments(); ++row) {
      const RowPlace at = Block::place(work, row);
      if (at.query >= seqlen_q) continue;
      const long long index = (first_head + at.head) * params.seqlen_q + at.query;
      const float inverse_sum = softmax.inverse_sum(row);
      if (Block::lane() % 4 == 0) params.partial_lse[index] = softmax.log_sum(row);
      float* const to = params.partial_out + index * kConfig.head_dim_v + Block::lane() % 4 * 2;
#pragma unroll
      for (int n = 0; n < kConfig.out_fragments(); ++n) {
        const float(&pair)[4] = out[row / 2][n];
        to[8 * n] = pair[row % 2 * 2] * inverse_sum;
        to[8 * n + 1] = pair[row % 2 * 2 + 1] * inverse_sum;
      }
    }
  }
};

}  // namespace tilewright::attention
