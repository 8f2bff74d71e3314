// What an attention test kernel bakes in, and its parameters: shared by the host and the device.
#pragma once

#include "tests/hopper_kernels/gemm_config.h"

namespace tilewright::hopper_kernels {

struct AttentionConfig {
  bool bfloat16 = false;
  int head_dim = 64;  // of Q, K and V: a multiple of 64
  int tile_n = 64;    // keys of a step
  int stages = 2;

  static constexpr int consumers() { return 2; }  // warpgroups, 64 queries each; they alternate
  static constexpr int tile_m() { return 128; }
  static constexpr int num_threads() { return 384; }
  // Tiles are columns of 128 bytes (64 elements) side by side.
  constexpr int columns() const { return head_dim / 64; }
  constexpr int q_bytes() const { return tile_m() * head_dim * 2; }
  constexpr int kv_bytes() const { return tile_n * head_dim * 2; }
  constexpr int k_offset() const { return q_bytes(); }
  constexpr int v_offset() const { return k_offset() + stages * kv_bytes(); }
  constexpr int barrier_offset() const { return v_offset() + stages * kv_bytes(); }
  // Q full; K full, K empty, V full, V empty of every stage.
  constexpr int shared_bytes() const { return barrier_offset() + 8 * (1 + 4 * stages); }
};

// [heads][seqlen][head_dim], a block per query tile and head.
struct AttentionParams {
  TensorMap q, k, v, out;
  int seqlen_q, seqlen_k;
  float scale_log2;  // softmax_scale · log2(e)
};

}  // namespace tilewright::hopper_kernels
