// From MMA accumulators to rows of a tensor of 16-bit elements in global memory.
#pragma once

#include "attention/types.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

// Four lanes hold 2 columns each of every 8-column fragment of their row; after exchanging words
// each holds the 8 columns of one fragment out of four (fragment lane % 4), and stores them at
// once.
__device__ __forceinline__ Chunk gather_quad(unsigned (&words)[4]) {
  const bool odd = threadIdx.x & 1;
  const bool upper = threadIdx.x & 2;
#pragma unroll
  for (int i = 0; i < 4; i += 2) {
    const unsigned received = ptx::shuffle_xor<1>(odd ? words[i] : words[i + 1]);
    (odd ? words[i] : words[i + 1]) = received;
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const unsigned received = ptx::shuffle_xor<2>(upper ? words[i] : words[i + 2]);
    (upper ? words[i] : words[i + 2]) = received;
  }
  return {{words[0], words[1], words[2], words[3]}};
}

// `dim_bytes`: from one element to the next, looked at only if kStrided.
template <bool kStrided>
__device__ __forceinline__ void store_chunk(char* to, const Chunk& chunk, long long dim_bytes) {
  if constexpr (kStrided) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned word = chunk.words[i];
      *reinterpret_cast<unsigned short*>(to + 2 * i * dim_bytes) =
          static_cast<unsigned short>(word);
      *reinterpret_cast<unsigned short*>(to + (2 * i + 1) * dim_bytes) =
          static_cast<unsigned short>(word >> 16);
    }
  } else {
    *reinterpret_cast<Chunk*>(to) = chunk;
  }
}

// Stores one row of a warp's accumulators, times `factor`: the upper (half 0) or lower one of the
// 16-row fragments. chunk_of(n) is the chunk of the tensor's row that fragment n is; those from
// num_chunks on do not exist. Called by the whole warp.
template <Dtype kDtype, bool kStrided, int kFragments, class ChunkOf>
__device__ __forceinline__ void store_row(const float (&acc)[kFragments][4], int half, float factor,
                                          bool row_exists, char* row, long long dim_bytes,
                                          int num_chunks, const ChunkOf& chunk_of) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int n = 0; n < kFragments; n += 4) {
    unsigned words[4] = {};
#pragma unroll
    for (int i = 0; i < 4 && n + i < kFragments; ++i) {
      words[i] = pack<kDtype>(acc[n + i][half * 2] * factor, acc[n + i][half * 2 + 1] * factor);
    }
    const Chunk chunk = gather_quad(words);
    const int fragment = n + lane % 4;
    const int place = chunk_of(fragment);
    if (row_exists && fragment < kFragments && place < num_chunks) {
      store_chunk<kStrided>(row + place * kChunkElements * dim_bytes, chunk, dim_bytes);
    }
  }
}

}  // namespace tilewright::attention
