// What binaries of the families linear_forward and linear_step bake in. Compiled by the host and by
// NVRTC.
#pragma once

#include "attention/config/dtype.h"
#include "attention/config/feature.h"

namespace tilewright::attention {

// Chunked linear attention, three kernels: templates/attention/linear_forward.cuh.
struct LinearForwardConfig {
  static constexpr const char* family() { return "linear_forward"; }

  Dtype dtype = Dtype::kFloat16;
  Feature feature = Feature::kElu1;
  int head_dim_qk = 128;
  int head_dim_v = 128;
  bool causal = false;   // a query sees the keys up to its own, else all
  bool strided = false;  // element alignment only: no 16-byte copies, any inner stride
  int tile_v = 64;       // columns of V of a block; divides head_dim_v
  int chunk = 256;       // keys between two states in memory; a multiple of tile_n

  constexpr int num_threads() const { return 128; }
  constexpr int tile_m() const { return 64; }  // query rows of a block, 16 per warp
  constexpr int tile_n() const { return 64; }  // keys of a step
  constexpr int slice() const { return 32; }   // rows of the state in shared memory at a time
  constexpr int slice_pitch() const { return tile_v + 4; }  // fp32: reads without bank conflicts
  constexpr bool normalized() const { return feature == Feature::kElu1; }
  constexpr int head_dim_qk_padded() const { return (head_dim_qk + 15) / 16 * 16; }
  constexpr int q_bytes() const { return tile_m() * head_dim_qk_padded() * 2; }
  constexpr int k_bytes() const { return tile_n() * head_dim_qk_padded() * 2; }
  constexpr int v_bytes() const { return tile_n() * tile_v * 2; }
  constexpr int slice_bytes() const { return slice() * slice_pitch() * 4; }
  // Dynamic shared memory: of a chunk's state; of an output tile, whose K and V lie where the
  // state's slices were.
  constexpr int states_shared_bytes() const { return k_bytes() + v_bytes(); }
  constexpr int output_shared_bytes() const {
    const int rest = k_bytes() + v_bytes() > slice_bytes() ? k_bytes() + v_bytes() : slice_bytes();
    return q_bytes() + rest;
  }
  // Floats of one state: S [head_dim_qk, head_dim_v], then z [head_dim_qk].
  constexpr int state_elements() const { return head_dim_qk * (head_dim_v + 1); }
  constexpr bool operator==(const LinearForwardConfig&) const = default;

  // f("name", reference to the field) for each field, in declaration order.
  template <class Self, class F>
  static constexpr void for_each_field(Self& self, F&& f) {
    f("dtype", self.dtype);
    f("feature", self.feature);
    f("head_dim_qk", self.head_dim_qk);
    f("head_dim_v", self.head_dim_v);
    f("causal", self.causal);
    f("strided", self.strided);
    f("tile_v", self.tile_v);
    f("chunk", self.chunk);
  }
};

// One step of a decoder: templates/attention/linear_step.cuh.
struct LinearStepConfig {
  static constexpr const char* family() { return "linear_step"; }

  Dtype dtype = Dtype::kFloat16;
  Feature feature = Feature::kElu1;
  int head_dim_qk = 128;
  int head_dim_v = 128;
  int num_warps = 4;  // each takes its share of the state's rows

  constexpr int num_threads() const { return num_warps * 32; }
  constexpr bool normalized() const { return feature == Feature::kElu1; }
  constexpr int heads_at_once() const { return 4; }  // query heads that share one pass of the state
  constexpr bool operator==(const LinearStepConfig&) const = default;

  template <class Self, class F>
  static constexpr void for_each_field(Self& self, F&& f) {
    f("dtype", self.dtype);
    f("feature", self.feature);
    f("head_dim_qk", self.head_dim_qk);
    f("head_dim_v", self.head_dim_v);
    f("num_warps", self.num_warps);
  }
};

}  // namespace tilewright::attention
