// One step of linear attention (Katharopoulos et al. 2020, section 3.4): the state takes one key
// and value, S += φ(k) vᵀ and z += φ(k), and answers the queries of its heads, Sᵀφ(q) / (φ(q)·z).
// O(head_dim_qk · head_dim_v) work and memory traffic, whatever came before.
//
// A block owns 32 columns of the state of one (batch, key head), a lane one column; its warps share
// the rows and add up what they found through shared memory.
#pragma once

#include "attention/config/linear.h"
#include "attention/feature.cuh"
#include "attention/params/linear.h"
#include "attention/types.cuh"
#include "ptx/warp.cuh"

namespace tilewright::attention {

template <LinearStepConfig kConfig>
struct LinearStep {
  static_assert(kConfig.head_dim_qk % 8 == 0 && kConfig.head_dim_v % 8 == 0,
                "head dims are multiples of 8");

  static constexpr int column_blocks() { return ceil_div(kConfig.head_dim_v, 32); }
  static constexpr int rows_per_warp() { return ceil_div(kConfig.head_dim_qk, kConfig.num_warps); }

  // One element of a row of a tensor of 16-bit elements.
  static __device__ __forceinline__ float element(const void* tensor, const TensorStrides& strides,
                                                  int batch, int head, int column) {
    const unsigned short* const from = static_cast<const unsigned short*>(tensor) +
                                       batch * strides.batch + head * strides.head +
                                       column * strides.dim;
    return unpack<kConfig.dtype>(*from).low;
  }

  struct Place {
    int batch, kv_head, column;
    bool has_column;  // the last block has fewer
  };
  static __device__ __forceinline__ Place place_of_block(const LinearParams& params) {
    const int block = static_cast<int>(ptx::block_index());
    const int batch_head = block / column_blocks();
    const int batch = batch_head / params.num_heads_kv;
    const int column = block % column_blocks() * 32 + static_cast<int>(threadIdx.x) % 32;
    return {batch, batch_head - batch * params.num_heads_kv, column, column < kConfig.head_dim_v};
  }

  // What the warps found for a few query heads: numerator and normaliser of each column.
  struct Shared {
    float out[kConfig.num_warps][kConfig.heads_at_once()][32];
    float normalizer[kConfig.num_warps][kConfig.heads_at_once()][32];
  };

  static __device__ __forceinline__ void run(const LinearParams& params, Shared& shared) {
    const Place place = place_of_block(params);
    const int warp = static_cast<int>(threadIdx.x) / 32;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const long long head_index =
        static_cast<long long>(place.batch) * params.num_heads_kv + place.kv_head;
    const long long first = head_index * kConfig.head_dim_qk * kConfig.head_dim_v + place.column;
    const long long first_z = head_index * kConfig.head_dim_qk;
    const float value = place.has_column ? element(params.v, params.v_strides, place.batch,
                                                   place.kv_head, place.column)
                                         : 0.0f;
    const int first_row = warp * rows_per_warp();
    const int end_row = first_row + rows_per_warp() < kConfig.head_dim_qk
                            ? first_row + rows_per_warp()
                            : kConfig.head_dim_qk;
    for (int head = 0; head < params.group_size; head += kConfig.heads_at_once()) {
      float out[kConfig.heads_at_once()] = {};
      float normalizer[kConfig.heads_at_once()] = {};
      for (int row = first_row; row < end_row; ++row) {
        const long long at = first + static_cast<long long>(row) * kConfig.head_dim_v;
        const float key = feature_of<kConfig.feature>(
            element(params.k, params.k_strides, place.batch, place.kv_head, row));
        // The state before is read by every group of heads, since state_out may be the same array
        // and is written after the last.
        float s = place.has_column && params.state != nullptr ? params.state[at] : 0.0f;
        s += key * value;
        const float z = kConfig.normalized() ? params.normalizer_out[first_z + row] : 0.0f;
#pragma unroll
        for (int i = 0; i < kConfig.heads_at_once(); ++i) {
          if (head + i >= params.group_size) break;
          const float query = feature_of<kConfig.feature>(
              params.scale * element(params.q, params.q_strides, place.batch,
                                     place.kv_head * params.group_size + head + i, row));
          out[i] += query * s;
          normalizer[i] += query * z;
        }
      }
      add_up(params, place, shared, out, normalizer, head, warp, lane);
    }
    write_state(params, place, value, first, first_row, end_row);
  }

  static __device__ __forceinline__ void add_up(const LinearParams& params, const Place& place,
                                                Shared& shared,
                                                const float (&out)[kConfig.heads_at_once()],
                                                const float (&normalizer)[kConfig.heads_at_once()],
                                                int head, int warp, int lane) {
#pragma unroll
    for (int i = 0; i < kConfig.heads_at_once(); ++i) {
      shared.out[warp][i][lane] = out[i];
      shared.normalizer[warp][i][lane] = normalizer[i];
    }
    __syncthreads();
    for (int i = warp; i < kConfig.heads_at_once() && head + i < params.group_size;
         i += kConfig.num_warps) {
      float sum = 0.0f;
      float weight = params.epsilon;
      for (int from = 0; from < kConfig.num_warps; ++from) {
        sum += shared.out[from][i][lane];
        weight += shared.normalizer[from][i][lane];
      }
      if constexpr (kConfig.normalized()) sum /= weight;
      if (!place.has_column) continue;
      const TensorStrides& strides = params.out_strides;
      unsigned short* const to = static_cast<unsigned short*>(params.out) +
                                 place.batch * strides.batch +
                                 (place.kv_head * params.group_size + head + i) * strides.head +
                                 place.column * strides.dim;
      *to = static_cast<unsigned short>(pack<kConfig.dtype>(sum, 0.0f));
    }
    __syncthreads();
  }

  static __device__ __forceinline__ void write_state(const LinearParams& params, const Place& place,
                                                     float value, long long first, int first_row,
                                                     int end_row) {
    if (!place.has_column) return;
    for (int row = first_row; row < end_row; ++row) {
      const float key = feature_of<kConfig.feature>(
          element(params.k, params.k_strides, place.batch, place.kv_head, row));
      const long long at = first + static_cast<long long>(row) * kConfig.head_dim_v;
      params.state_out[at] = (params.state != nullptr ? params.state[at] : 0.0f) + key * value;
    }
  }

  // z += φ(k), a kernel of its own before the other: every block of that one reads all of z, which
  // may be updated in place.
  static __device__ __forceinline__ void update_normalizer(const LinearParams& params) {
    const int batch_head = static_cast<int>(ptx::block_index());
    const int batch = batch_head / params.num_heads_kv;
    const int kv_head = batch_head - batch * params.num_heads_kv;
    for (int row = static_cast<int>(threadIdx.x); row < kConfig.head_dim_qk;
         row += kConfig.num_threads()) {
      const long long at = static_cast<long long>(batch_head) * kConfig.head_dim_qk + row;
      const float before = params.normalizer != nullptr ? params.normalizer[at] : 0.0f;
      params.normalizer_out[at] = before + feature_of<kConfig.feature>(element(
                                               params.k, params.k_strides, batch, kv_head, row));
    }
  }
};

template <LinearStepConfig kConfig>
__device__ __forceinline__ void linear_step_normalizer_cta(const LinearParams& params) {
  LinearStep<kConfig>::update_normalizer(params);
}

template <LinearStepConfig kConfig>
__device__ __forceinline__ void linear_step_cta(const LinearParams& params) {
  __shared__ typename LinearStep<kConfig>::Shared shared;
  LinearStep<kConfig>::run(params, shared);
}

}  // namespace tilewright::attention
