// What a binary of forward_sm90 bakes in. Compiled by the host and by NVRTC, so the two cannot
// drift. A structural type: ints, bools and enums only. The field list (for_each_field) is the only
// list: text, JSON, hash and stub come from it.
#pragma once

#include "attention/config/dtype.h"

namespace tilewright::attention {

// Forward attention on TMA and wgmma (sm_90a): templates/attention/forward_sm90.cuh.
struct ForwardSm90Config {
  // A function: a constant would become a variable of every compiled module.
  static constexpr const char* family() { return "forward_sm90"; }

  Dtype dtype = Dtype::kFloat16;
  int head_dim_qk = 128;
  int head_dim_v = 128;
  bool row_range = false;       // keys of a query row are one interval (causal, window)
  bool varlen = false;          // packed sequences: lengths and rows come from cu_seqlens
  bool softcap = false;         // scores pass through cap * tanh(s / cap)
  int consumer_warpgroups = 2;  // each computes 64 query rows of the block
  int tile_n = 128;             // keys of a step
  int stages = 2;               // K tiles, and V tiles, in shared memory

  // One warpgroup more: the producer.
  constexpr int num_threads() const { return 128 * (consumer_warpgroups + 1); }
  constexpr int tile_m() const { return 64 * consumer_warpgroups; }
  // The inner size of Q·K in steps of the MMA: what head_dim_qk costs there.
  constexpr int head_dim_qk_padded() const { return (head_dim_qk + 15) / 16 * 16; }
  // Registers a thread once the roles part; the block holds 65536. A single consumer needs no
  // exchange: each of 256 threads may have the most there are.
  constexpr bool exchanges_registers() const { return consumer_warpgroups > 1; }
  constexpr int producer_registers() const { return consumer_warpgroups == 2 ? 24 : 32; }
  constexpr int consumer_registers() const {
    return consumer_warpgroups == 1 ? 255 : consumer_warpgroups == 2 ? 240 : 160;
  }

  // Tiles are columns of 64 elements (128 bytes, one line of the swizzle) side by side.
  static constexpr int columns(int head_dim) { return (head_dim + 63) / 64; }
  constexpr int q_bytes() const { return tile_m() * columns(head_dim_qk) * 128; }
  constexpr int k_bytes() const { return tile_n * columns(head_dim_qk) * 128; }
  constexpr int v_bytes() const { return tile_n * columns(head_dim_v) * 128; }
  constexpr int k_offset() const { return q_bytes(); }
  constexpr int v_offset() const { return k_offset() + stages * k_bytes(); }
  constexpr int barrier_offset() const { return v_offset() + stages * v_bytes(); }
  // Q full; K full, K empty, V full, V empty of every stage; varlen: V cleared.
  constexpr int num_barriers() const { return 1 + 4 * stages + (varlen ? 1 : 0); }
  // Dynamic shared memory of a block.
  constexpr int shared_bytes() const { return barrier_offset() + 8 * num_barriers(); }
  constexpr bool operator==(const ForwardSm90Config&) const = default;

  // f("name", reference to the field) for each field, in declaration order.
  template <class Self, class F>
  static constexpr void for_each_field(Self& self, F&& f) {
    f("dtype", self.dtype);
    f("head_dim_qk", self.head_dim_qk);
    f("head_dim_v", self.head_dim_v);
    f("row_range", self.row_range);
    f("varlen", self.varlen);
    f("softcap", self.softcap);
    f("consumer_warpgroups", self.consumer_warpgroups);
    f("tile_n", self.tile_n);
    f("stages", self.stages);
  }
};

}  // namespace tilewright::attention
