// Problem: which attention is asked for. A plain value with one stable text form (parse and
// to_string), used by the command line, test names, the cache and error messages:
//   b2 hq32 hkv8 q1024 k1024 qk128 v128 bf16 causal
// Terms and score pipeline: docs/semantics.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tilewright/result.h"

namespace tilewright {

enum class Pass { kForward, kBackward, kLinearForward, kLinearBackward, kLinearStep, kStandard };

enum class Dtype { kFloat16, kBFloat16, kFloat8E4M3, kFloat8E5M2, kFloat32, kInt32 };

// Memory order of Q, K, V and O: [batch, seqlen, heads, dim] or [batch, heads, seqlen, dim].
enum class Layout { kBshd, kBhsd };

enum class Fp8Scales { kNone, kTensor, kHead, kBlock };

enum class FeatureMap { kNone, kElu1, kIdentity };

// --- Masks. Indices are key positions; query i stands at i + seqlen_k - seqlen_q, except where a
// mask says otherwise. ---

enum class MaskAlignment { kBottomRight, kTopLeft };

// Key j visible to query i iff j <= i + offset; offset is seqlen_k - seqlen_q (bottom-right) or 0.
struct CausalMask {
  MaskAlignment alignment = MaskAlignment::kBottomRight;
  bool operator==(const CausalMask&) const = default;
};

// Inclusive distances: -left <= j - i' <= right; absent is unlimited. With dilation d only keys at
// a multiple of d from i' are visible (1 = none).
struct WindowMask {
  std::optional<int64_t> left;
  std::optional<int64_t> right;
  int64_t dilation = 1;
  bool operator==(const WindowMask&) const = default;
};

// Widens: keys below `length` are visible to every query.
struct PrefixMask {
  int64_t length = 0;
  bool operator==(const PrefixMask&) const = default;
};

// Widens: global positions see and are seen by all. Either the first `count`, or `indices`.
struct GlobalMask {
  int64_t count = 0;
  std::vector<int64_t> indices;
  bool operator==(const GlobalMask&) const = default;
};

// BigBird (Zaheer et al. 2020), internal-transformer construction; sizes in blocks.
struct BigBirdMask {
  int64_t block = 64;
  int64_t window = 3;
  int64_t global = 2;
  bool ends = true;  // global blocks are the first and last, else the first `global`
  int64_t random = 3;
  uint64_t seed = 0;
  bool operator==(const BigBirdMask&) const = default;
};

// Longformer (Beltagy et al. 2020): window w means floor(w/2) each side plus self, plus symmetric
// global positions.
struct LongformerMask {
  int64_t window = 512;
  std::vector<int64_t> global;
  bool operator==(const LongformerMask&) const = default;
};

// floor(j/size) == floor(i'/size) and j <= i'.
struct ChunkMask {
  int64_t size = 0;
  bool operator==(const ChunkMask&) const = default;
};

// Same document id; the ids are given to Kernel::make_schedule.
struct DocumentsMask {
  bool operator==(const DocumentsMask&) const = default;
};

// A block mask of `size` x `size` tiles over raw query rows and keys; given to
// Kernel::make_schedule.
struct BlocksMask {
  int64_t size = 128;
  bool operator==(const BlocksMask&) const = default;
};

// A user expression over q, k (raw indices), q_aligned and h, true where visible.
struct ExpressionMask {
  std::string expression;
  bool operator==(const ExpressionMask&) const = default;
};

using Mask = std::variant<CausalMask, WindowMask, PrefixMask, GlobalMask, BigBirdMask,
                          LongformerMask, ChunkMask, DocumentsMask, BlocksMask, ExpressionMask>;

// A key is visible if any of the terms shows it.
struct MaskUnion {
  std::vector<Mask> terms;
  bool operator==(const MaskUnion&) const = default;
};

// What was asked. Absent dims are not 1: a kernel made for the problem serves any value of them,
// head dims apart, which prepare() needs.
struct Problem {
  Pass pass = Pass::kForward;

  std::optional<int64_t> batch;
  std::optional<int64_t> num_heads_q;
  std::optional<int64_t> num_heads_kv;  // query head h reads key head h / group_size
  std::optional<int64_t> seqlen_q;
  std::optional<int64_t> seqlen_k;
  std::optional<int64_t> head_dim_qk;
  std::optional<int64_t> head_dim_v;

  std::optional<Dtype> dtype;
  std::optional<Dtype> out_dtype;
  Fp8Scales fp8_scales = Fp8Scales::kNone;
  bool rotate = false;  // fp8: incoherent processing by a Hadamard rotation of Q and K

  std::vector<MaskUnion> masks;  // a key is visible if every union shows it; empty: dense

  std::optional<double> softmax_scale;  // default 1/sqrt(head_dim_qk)
  std::optional<double> softcap;        // s = cap * tanh(s / cap)
  bool alibi = false;
  bool bias = false;
  bool sink = false;
  std::string score_expression;  // user score over score, q, k, q_aligned, h; empty: none

  bool varlen = false;  // packed sequences with cu_seqlens
  Layout layout = Layout::kBshd;
  bool strided = false;  // tensors promise element alignment only, any strides
  bool deterministic = false;
  std::optional<int64_t> page_size;
  std::optional<int64_t> num_splits;
  FeatureMap feature = FeatureMap::kNone;
  double dropout = 0.0;

  bool operator==(const Problem&) const = default;

  // Reads the text form (grammar: docs/semantics.md). On failure kParseError; the message quotes
  // the text with a caret line under the offending token.
  static Result<Problem> parse(std::string_view text);

  // The canonical text: parse(to_string()) == *this. Default values are left out.
  std::string to_string() const;
};

// Whether the values make sense together, independent of any kernel: positive dims, group_size
// exact, window distances not negative, … ; every violation is listed in Error::reasons.
Status validate(const Problem& problem);

// "fp16", "bf16", "fp8e4m3", "fp8e5m2", "fp32", "int32".
std::string_view to_string(Dtype dtype);
// Bytes of one element.
int64_t size_in_bytes(Dtype dtype);
// "forward", "backward", "linear-forward", …
std::string_view to_string(Pass pass);

}  // namespace tilewright
