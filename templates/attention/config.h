// Configs of the kernel families: what a binary bakes in. Compiled by the host and by NVRTC, so
// the two cannot drift. Structural types: ints, bools and enums only. Each config's field list
// (for_each_field) is the only list: text, JSON, hash and stub come from it.
#pragma once

namespace tilewright::attention {

enum class Dtype : int { kFloat16, kBFloat16, kFloat8E4M3, kFloat8E5M2 };

// Forward attention on mma.sync (sm_80 and up): templates/attention/forward_sm80.cuh.
struct ForwardSm80Config {
  Dtype dtype = Dtype::kFloat16;
  int head_dim_qk = 128;
  int head_dim_v = 128;
  bool row_range = false;  // keys of a query row are one interval (causal, window)
  bool softcap = false;
  bool strided = false;  // element alignment only: no 16-byte copies
  int tile_m = 64;       // query rows of a block; 16 per warp
  int tile_n = 64;       // keys of a step
  int stages = 2;        // K/V tiles in flight
  int num_warps = 4;

  constexpr int num_threads() const { return num_warps * 32; }
  constexpr bool operator==(const ForwardSm80Config&) const = default;

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
    f("stages", self.stages);
    f("num_warps", self.num_warps);
  }
};

}  // namespace tilewright::attention
