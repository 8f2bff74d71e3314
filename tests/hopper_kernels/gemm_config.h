// What a GEMM test kernel bakes in, and its parameters: shared by the host and the device.
#pragma once

namespace tilewright::hopper_kernels {

// A tensor map as the device sees it: opaque, filled by cuTensorMapEncodeTiled.
struct alignas(64) TensorMap {
  unsigned long long words[16];
};

enum class Epilogue : int {
  kStore,       // C = A·B in fp32, stored by every thread
  kReduceFull,  // C += A·B in fp32: shared memory, then a tensor reduction
  kReduceHalf,  // C += A·B in the input's type: stmatrix, then a tensor reduction
};

struct GemmConfig {
  bool bfloat16 = false;
  int tile_n = 64;
  int stages = 3;
  int consumers = 2;  // warpgroups, 64 rows of C each
  int cluster = 1;    // blocks that share the tiles of B, each loading its part for all
  Epilogue epilogue = Epilogue::kStore;

  static constexpr int tile_k() { return 64; }  // 128 bytes: one line of the swizzle
  constexpr int tile_m() const { return 64 * consumers; }
  constexpr int num_threads() const { return 128 * (consumers + 1); }
  // Registers a thread after the roles part: what the launch gives 256 or 384 threads, 256 or 168,
  // taken from the producer and given to the consumers.
  constexpr int producer_registers() const { return consumers == 1 ? 56 : 40; }
  constexpr int consumer_registers() const { return consumers == 1 ? 256 : 232; }
  constexpr int a_bytes() const { return tile_m() * 128; }
  constexpr int b_bytes() const { return tile_n * 128; }
  constexpr int stage_bytes() const { return a_bytes() + b_bytes(); }
  // Staging of one warpgroup: boxes of 64 rows of 128 bytes.
  constexpr int boxes() const {
    return epilogue == Epilogue::kStore        ? 0
           : epilogue == Epilogue::kReduceFull ? tile_n / 32
                                               : tile_n / 64;
  }
  constexpr int staging_bytes() const { return boxes() * 64 * 128; }
  constexpr int staging_offset() const { return stages * stage_bytes(); }
  constexpr int barrier_offset() const { return staging_offset() + consumers * staging_bytes(); }
  constexpr int shared_bytes() const { return barrier_offset() + stages * 16; }
};

// C[m][n] from A[m][k] and B[n][k], both with k contiguous. k is cut into num_splits parts.
struct GemmParams {
  TensorMap a, b, c;
  float* out;  // kStore only
  int m, n, k;
  int out_pitch;
  int num_splits;
};

}  // namespace tilewright::hopper_kernels
