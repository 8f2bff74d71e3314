// The attention algorithms whose I/O is counted here, by name. Each has a closed form
// (closed_form.h) and a program for the two-level machine (run.h), in the same stages and tiles.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tilewright/result.h"

namespace tilewright::io_model {

enum class Algorithm {
  // Forward: Q, K, V -> O (and statistics of the rows).
  kStandardIdealForward,  // whole operands in fast memory, each touched once per pass
  kStandardTiledForward,  // S and P materialised, blocked products
  kFlash1Forward,  // FlashAttention's order: key blocks outside, O and statistics in slow memory
  kFlash2Forward,  // FlashAttention-2's order: query blocks outside, O in fast memory
  kSquareForward,  // S materialised in square tiles (Saha and Ye 2024), P recomputed from it
  // Backward: Q, K, V, O, dO, L -> dQ, dK, dV.
  kStandardIdealBackward,   // given P
  kStandardTiledBackward,   // given P
  kFlash1Backward,          // FlashAttention's order, D recomputed in every pass
  kOnePassBackward,         // key blocks outside, dQ read and written per block
  kTwoPassBackward,         // dK and dV, then dQ; S and dP computed twice
  kSmallCacheBackward,      // "Algorithm 6" for dQ, dK, dV
  kSmallCacheKeptBackward,  // the same, given P
  // The paper's gradients of S = A1 X A2^T, h = A3 Y with respect to X and Y.
  kLargeCacheWeights,      // dX, kept in fast memory
  kSmallCacheWeights,      // dX, "Algorithm 6"
  kSmallCacheBothWeights,  // dX and dY
};

enum class Task { kForward, kBackward, kWeights };

struct AlgorithmInfo {
  Algorithm algorithm;
  std::string_view name;    // "two-pass"
  std::string_view family;  // "flash", "small-cache" or "standard"
  Task task;
  bool given_probabilities;       // P is an input: not comparable with those that compute it
  int matmul_flops_per_pair_dim;  // FLOPs in products, per visible pair and head dim
};

std::span<const AlgorithmInfo> algorithms();
const AlgorithmInfo& info(Algorithm algorithm);
// kNotFound lists the names.
Result<Algorithm> find_algorithm(std::string_view name);

}  // namespace tilewright::io_model
