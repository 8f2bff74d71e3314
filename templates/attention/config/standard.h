// What a binary of the family `standard` bakes in. Compiled by the host and by NVRTC.
#pragma once

#include "attention/config/dtype.h"

namespace tilewright::attention {

// Attention with S and P in global memory, three kernels: templates/attention/standard.cuh.
struct StandardConfig {
  static constexpr const char* family() { return "standard"; }

  Dtype dtype = Dtype::kFloat16;
  int head_dim_qk = 128;
  int head_dim_v = 128;
  bool row_range = false;  // keys of a query row are one interval (causal, window)
  bool softcap = false;    // scores pass through cap * tanh(s / cap)
  bool strided = false;    // element alignment only: no 16-byte copies, any inner stride
  int tile_m = 64;         // query rows of a block; 16 per warp
  int tile_n = 64;         // keys of a block of scores, and of a step of the output

  constexpr int num_warps() const { return tile_m / 16; }
  constexpr int num_threads() const { return num_warps() * 32; }
  constexpr int head_dim_qk_padded() const { return (head_dim_qk + 15) / 16 * 16; }
  // Dynamic shared memory: of the block of Q and of K; of the tile of P and of V.
  constexpr int scores_shared_bytes() const { return (tile_m + tile_n) * head_dim_qk_padded() * 2; }
  constexpr int output_shared_bytes() const {
    return tile_m * tile_n * 2 + tile_n * head_dim_v * 2;
  }
  constexpr bool operator==(const StandardConfig&) const = default;

  // f("name", reference to the field) for each field, in declaration order.
  template <class Self, class F>
  static constexpr void for_each_field(Self& self, F&& f) {
    f("dtype", self.dtype);
    f("head_dim_qk", self.head_dim_qk);
    f("head_dim_v", self.head_dim_v);
    f("row_range", self.row_range);
    f("softcap", self.softcap);
    f("strided", self.strided);
    f("tile_m", self.tile_m);
    f("tile_n", self.tile_n);
  }
};

}  // namespace tilewright::attention
