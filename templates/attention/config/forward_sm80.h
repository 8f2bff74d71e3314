// What a binary of forward_sm80 bakes in. Compiled by the host and by NVRTC, so the two cannot
// drift. A structural type: ints, bools and enums only. The field list (for_each_field) is the only
// list: text, JSON, hash and stub come from it.
#pragma once

#include "attention/config/dtype.h"

namespace tilewright::attention {

// Forward attention on mma.sync (sm_80 and up): templates/attention/forward_sm80.cuh.
struct ForwardSm80Config {
  // A function: a constant would become a variable of every compiled module.
  static constexpr const char* family() { return "forward_sm80"; }

  Dtype dtype = Dtype::kFloat16;
  int head_dim_qk = 128;
  int head_dim_v = 128;
  bool row_range = false;  // keys of a query row are one interval (causal, window)
  bool tile_list = false;  // key tiles come as a list, partly visible ones with a bit per pair
  bool split = false;      // each block takes a part of its keys; a second kernel combines
  bool varlen = false;     // packed sequences: lengths and rows come from cu_seqlens
  int page_size = 0;       // keys of a page; 0: K and V are not in pages
  bool softcap = false;    // scores pass through cap * tanh(s / cap)
  bool strided = false;    // element alignment only: no 16-byte copies, any inner stride
  int packed_heads = 1;    // query heads of a group that share a tile's rows
  int tile_m = 128;        // query rows of a block; 16 or 32 of them per warp
  int tile_n = 64;         // keys of a step
  int num_warps = 4;
  int stages = 1;               // K/V tiles in shared memory
  bool q_in_registers = false;  // else Q fragments are read from shared memory at every step
  int min_blocks_per_sm = 1;    // bounds the registers of a thread

  constexpr int num_threads() const { return num_warps * 32; }
  // Whether sequences of a launch have lengths of their own.
  constexpr bool lengths_vary() const { return varlen || page_size > 0; }
  constexpr int rows_per_warp() const { return tile_m / num_warps; }
  // The inner size of Q·K in steps of the MMA: what head_dim_qk costs.
  constexpr int head_dim_qk_padded() const { return (head_dim_qk + 15) / 16 * 16; }
  // MMA fragments: of 16 rows of a warp, 16 of the inner dimension, 8 keys, 8 output columns.
  constexpr int row_fragments() const { return rows_per_warp() / 16; }
  constexpr int depth_fragments() const { return head_dim_qk_padded() / 16; }
  constexpr int key_fragments() const { return tile_n / 8; }
  constexpr int out_fragments() const { return head_dim_v / 8; }
  constexpr int q_bytes() const { return tile_m * head_dim_qk_padded() * 2; }
  constexpr int stage_bytes() const { return tile_n * (head_dim_qk_padded() + head_dim_v) * 2; }
  // Q in registers leaves its shared memory before the last stage is first filled, so the two
  // overlap; with one stage there is no such moment.
  constexpr bool q_overlaps_last_stage() const { return q_in_registers && stages > 1; }
  constexpr int q_offset() const {
    return (q_overlaps_last_stage() ? stages - 1 : stages) * stage_bytes();
  }
  // Dynamic shared memory of a block.
  constexpr int shared_bytes() const {
    const int all_stages = stages * stage_bytes();
    const int end_of_q = q_offset() + q_bytes();
    return all_stages > end_of_q ? all_stages : end_of_q;
  }
  constexpr bool operator==(const ForwardSm80Config&) const = default;

  // f("name", reference to the field) for each field, in declaration order.
  template <class Self, class F>
  static constexpr void for_each_field(Self& self, F&& f) {
    f("dtype", self.dtype);
    f("head_dim_qk", self.head_dim_qk);
    f("head_dim_v", self.head_dim_v);
    f("row_range", self.row_range);
    f("tile_list", self.tile_list);
    f("split", self.split);
    f("varlen", self.varlen);
    f("page_size", self.page_size);
    f("softcap", self.softcap);
    f("strided", self.strided);
    f("packed_heads", self.packed_heads);
    f("tile_m", self.tile_m);
    f("tile_n", self.tile_n);
    f("num_warps", self.num_warps);
    f("stages", self.stages);
    f("q_in_registers", self.q_in_registers);
    f("min_blocks_per_sm", self.min_blocks_per_sm);
  }
};

}  // namespace tilewright::attention
