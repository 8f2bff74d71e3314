// What a binary of backward_sm80 bakes in. Compiled by the host and by NVRTC, so the two cannot
// drift. A structural type: ints, bools and enums only. The field list (for_each_field) is the only
// list: text, JSON, hash and stub come from it.
#pragma once

#include "attention/config/dtype.h"

namespace tilewright::attention {

// Gradients of attention on mma.sync (sm_80 and up): templates/attention/backward_sm80.cuh.
struct BackwardSm80Config {
  // A function: a constant would become a variable of every compiled module.
  static constexpr const char* family() { return "backward_sm80"; }

  Dtype dtype = Dtype::kFloat16;
  int head_dim_qk = 128;
  int head_dim_v = 128;
  bool row_range = false;  // keys of a query row are one interval (causal, window)
  bool softcap = false;    // scores pass through cap * tanh(s / cap)
  bool strided = false;    // element alignment only: no 16-byte copies, any inner stride
  // The pass for dK and dV: a block owns keys and walks the query rows that see them.
  int dkdv_tile_m = 32;  // query rows of a step
  int dkdv_tile_n = 64;  // keys of a block
  int dkdv_warps = 4;
  int dkdv_column_warps = 1;  // warps that share the same keys and split the columns of dK and dV
  int dkdv_stages = 1;        // Q/dO tiles in shared memory
  // The pass for dQ: a block owns query rows and walks the keys that they see.
  int dq_tile_m = 64;  // query rows of a block
  int dq_tile_n = 32;  // keys of a step
  int dq_warps = 4;
  int dq_stages = 1;  // K/V tiles in shared memory

  // The inner size of Q·K and of dO·V in steps of the MMA: what a head dim costs.
  static constexpr int padded(int dim, int multiple) {
    return (dim + multiple - 1) / multiple * multiple;
  }
  constexpr int depth_qk() const { return padded(head_dim_qk, 16); }
  constexpr int depth_v() const { return padded(head_dim_v, 16); }

  constexpr int preprocess_threads() const { return 128; }
  // Lanes that add up one row of dO ∘ O: a power of two, 8 elements each.
  constexpr int preprocess_lanes() const {
    int lanes = 1;
    while (lanes * 8 < head_dim_v) lanes *= 2;
    return lanes;
  }
  constexpr int preprocess_rows() const { return preprocess_threads() / preprocess_lanes(); }

  constexpr int dkdv_threads() const { return dkdv_warps * 32; }
  constexpr int dkdv_rows_per_warp() const { return dkdv_tile_n * dkdv_column_warps / dkdv_warps; }
  // Columns of tiles: column warps take pairs of 8 columns in turn, so all have the same number.
  constexpr int dkdv_columns_qk() const { return padded(head_dim_qk, 16 * dkdv_column_warps); }
  constexpr int dkdv_columns_v() const { return padded(head_dim_v, 16 * dkdv_column_warps); }
  constexpr int dkdv_keys_bytes() const {
    return dkdv_tile_n * (dkdv_columns_qk() + dkdv_columns_v()) * 2;
  }
  // Q, dO and {lse, D} of a step.
  constexpr int dkdv_stage_bytes() const {
    return dkdv_tile_m * ((dkdv_columns_qk() + dkdv_columns_v()) * 2 + 8);
  }
  // P and dS, where warps exchange them.
  constexpr int dkdv_exchange_bytes() const {
    return dkdv_column_warps == 1 ? 0 : 2 * dkdv_tile_n * dkdv_tile_m * 2;
  }
  constexpr int dkdv_exchange_offset() const {
    return dkdv_keys_bytes() + dkdv_stages * dkdv_stage_bytes();
  }
  constexpr int dkdv_shared_bytes() const { return dkdv_exchange_offset() + dkdv_exchange_bytes(); }

  constexpr int dq_threads() const { return dq_warps * 32; }
  constexpr int dq_rows_per_warp() const { return dq_tile_m / dq_warps; }
  constexpr int dq_queries_bytes() const { return dq_tile_m * (depth_qk() + depth_v()) * 2; }
  constexpr int dq_stage_bytes() const { return dq_tile_n * (depth_qk() + depth_v()) * 2; }
  constexpr int dq_shared_bytes() const {
    return dq_queries_bytes() + dq_stages * dq_stage_bytes();
  }
  constexpr bool operator==(const BackwardSm80Config&) const = default;

  // f("name", reference to the field) for each field, in declaration order.
  template <class Self, class F>
  static constexpr void for_each_field(Self& self, F&& f) {
    f("dtype", self.dtype);
    f("head_dim_qk", self.head_dim_qk);
    f("head_dim_v", self.head_dim_v);
    f("row_range", self.row_range);
    f("softcap", self.softcap);
    f("strided", self.strided);
    f("dkdv_tile_m", self.dkdv_tile_m);
    f("dkdv_tile_n", self.dkdv_tile_n);
    f("dkdv_warps", self.dkdv_warps);
    f("dkdv_column_warps", self.dkdv_column_warps);
    f("dkdv_stages", self.dkdv_stages);
    f("dq_tile_m", self.dq_tile_m);
    f("dq_tile_n", self.dq_tile_n);
    f("dq_warps", self.dq_warps);
    f("dq_stages", self.dq_stages);
  }
};

}  // namespace tilewright::attention
