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

}  // namespace tilewright::attention
