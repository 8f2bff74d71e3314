// Linear attention in fp64 in its three forms, which agree up to rounding: parallel (every pair,
// the oracle), chunked and recurrent. (Katharopoulos et al. 2020, "Transformers are RNNs".)
//
// With φ the feature map, applied to scale·q and to k, and N(i) the keys that query i sees:
//   out_i = Σ_j φ(q_i)·φ(k_j) v_j / (Σ_j φ(q_i)·φ(k_j) + ε)     elu1: φ(x) = x + 1 or e^x, x <= 0
//   out_i = Σ_j φ(q_i)·φ(k_j) v_j                               identity: no normaliser
// The scale is 1 unless the problem gives one; a row that sees no key gives 0. No feature named
// means elu1.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "reference/attention.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::reference {

// What is added to the normaliser, as in the paper's code.
inline constexpr double kNormalizerEpsilon = 1e-6;

bool has_normalizer(const Problem& problem);
// φ(x), and its derivative.
double feature(const Problem& problem, double x);
double feature_slope(const Problem& problem, double x);
double linear_scale(const Problem& problem);

// What a sequence leaves behind, one for each key head: with S_t = S_{t-1} + φ(k_t) v_tᵀ
//   state      [batch, num_heads_kv, head_dim_qk, head_dim_v]: S, out = Sᵀ φ(q)
//   normalizer [batch, num_heads_kv, head_dim_qk]: z = Σ φ(k); empty without a normaliser
// A row of S belongs to one key feature, so that a gate scales rows, a decay scales all, and the
// delta rule subtracts φ(k) (φ(k)ᵀ S), all without a change of layout.
struct LinearState {
  std::vector<double> state, normalizer;
};

// Tensors as in Inputs. The state before the first key is that of the sequence so far; empty
// spans are a state of zeros.
struct LinearInputs {
  std::span<const float> q, k, v;
  std::span<const float> state = {}, normalizer = {};
};

struct LinearForward {
  std::vector<double> out;  // [batch, seqlen_q, num_heads_q, head_dim_v]
  LinearState after;        // all keys, whether or not a query sees them
};

// Dense or causal (both alignments). kUnsupportedProblem names what has no reference.
Result<LinearForward> linear_attention_parallel(const Problem& problem, const Sizes& sizes,
                                                const LinearInputs& inputs);
// Blocks of `chunk` queries: what comes before a block from the state, the rest pair by pair.
Result<LinearForward> linear_attention_chunked(const Problem& problem, const Sizes& sizes,
                                               const LinearInputs& inputs, int64_t chunk);
// One key at a time. With seqlen_q = seqlen_k = 1 it is one step of a decoder.
Result<LinearForward> linear_attention_recurrent(const Problem& problem, const Sizes& sizes,
                                                 const LinearInputs& inputs);

// Shaped as q, k and v.
struct LinearGradients {
  std::vector<double> dq, dk, dv;
};

// Pair by pair, without a state before (kUnsupportedProblem). dout as out.
Result<LinearGradients> linear_attention_backward(const Problem& problem, const Sizes& sizes,
                                                  const LinearInputs& inputs,
                                                  std::span<const float> dout);

// --- For the bounds. ---

// kUnsupportedProblem, or kInvalidArgument where the state has the wrong size.
Status check_linear(const Problem& problem, const Sizes& sizes, const LinearInputs& inputs);
// How many keys query i sees; they are the first ones.
int64_t num_visible_keys(const Problem& problem, const Sizes& sizes, int64_t query);

}  // namespace tilewright::reference
