#include "tests/support/shapes.h"

#include <array>
#include <cctype>

#include "core/check.h"

namespace tilewright::testing {
namespace {

void append(std::vector<std::string>& to, std::vector<std::string> from) {
  to.insert(to.end(), from.begin(), from.end());
}

// Every head dim class with lengths that are no multiple of any tile.
std::vector<std::string> head_dims(int step) {
  constexpr std::array kLengths = {"q67 k131", "q131 k67", "q65 k65", "q33 k129"};
  std::vector<std::string> problems;
  for (int dim = 8; dim <= 256; dim += step) {
    const auto variant = static_cast<size_t>(dim / 8);
    problems.push_back(fmt::format("hq2 hkv1 {} qk{} v{} {}{}", kLengths[variant % 4], dim, dim,
                                   variant % 2 == 0 ? "fp16" : "bf16",
                                   variant % 3 == 0 ? " causal" : ""));
  }
  return problems;
}

// One query or key, tile edges, primes.
std::vector<std::string> lengths() {
  std::vector<std::string> problems;
  for (const char* mask : {"", " causal", " causal=top-left"}) {
    for (const char* pair : {"q1 k1", "q1 k128", "q1 k257", "q63 k64", "q64 k63", "q65 k127",
                             "q127 k129", "q128 k128", "q129 k1", "q257 k131", "q193 k191"}) {
      problems.push_back(fmt::format("hq2 hkv2 {} qk64 v64 fp16{}", pair, mask));
    }
  }
  return problems;
}

std::vector<std::string> features() {
  return {
      // Group sizes, batches.
      "b2 hq8 hkv1 q70 k70 qk64 v64 bf16 causal",
      "b3 hq5 hkv5 q33 k65 qk64 v64 fp16",
      "b2 hq6 hkv2 q129 k257 qk80 v48 bf16 causal",
      "b2 hq12 hkv4 q45 k97 qk128 v128 fp16 causal",
      // head_dim_v != head_dim_qk.
      "hq2 hkv1 q97 k101 qk192 v128 bf16 causal",
      "hq2 hkv1 q65 k101 qk24 v136 fp16",
      "hq1 hkv1 q65 k67 qk256 v8 bf16",
      "hq1 hkv1 q65 k67 qk8 v256 fp16 causal",
      // Rows with no key: the first 128 of 257.
      "hq2 hkv1 q257 k129 qk64 v64 bf16 causal",
      "hq2 hkv1 q257 k129 qk128 v128 fp16 causal",
      "hq1 hkv1 q129 k1 qk64 v64 fp16 causal",
      // Windows: one interval of keys a row, also none.
      "hq2 hkv1 q200 k200 qk64 v64 fp16 window=17,0",
      "hq2 hkv1 q150 k230 qk64 v64 bf16 window=31,5",
      "hq2 hkv1 q230 k150 qk128 v128 fp16 window=64,64",
      "hq1 hkv1 q140 k140 qk64 v64 fp16 window=*,3",
      "hq1 hkv1 q140 k140 qk64 v64 bf16 window=40,* causal",
      "hq1 hkv1 q130 k130 qk64 v64 bf16 window=0,0",
      // Scores.
      "hq2 hkv1 q67 k131 qk64 v64 fp16 scale=0.03 causal",
      "hq2 hkv1 q67 k131 qk128 v128 fp16 softcap=2.5 causal",
      "hq2 hkv1 q67 k131 qk64 v64 bf16 softcap=50",
      // Layouts and strides.
      "b2 hq3 hkv3 q67 k131 qk64 v64 fp16 layout=bhsd",
      "b2 hq4 hkv2 q67 k131 qk72 v40 bf16 causal layout=bhsd",
      "b2 hq4 hkv2 q67 k131 qk64 v64 fp16 strided causal",
      "b2 hq2 hkv1 q37 k45 qk80 v24 bf16 strided layout=bhsd",
      "b1 hq1 hkv1 q19 k133 qk128 v128 fp16 strided",
      // Zero sizes.
      "b2 hq2 hkv1 q65 k0 qk64 v64 fp16",
      "b2 hq2 hkv1 q65 k0 qk128 v128 bf16 causal",
      "b0 hq2 hkv1 q65 k65 qk64 v64 fp16",
      "b2 hq2 hkv1 q0 k65 qk64 v64 fp16",
  };
}

}  // namespace

std::vector<std::string> forward_smoke() {
  std::vector<std::string> problems = features();
  append(problems, head_dims(24));
  append(problems, lengths());
  return problems;
}

std::vector<std::string> sparse_smoke() {
  return {
      "b2 hq4 hkv2 q131 k131 qk64 v64 fp16 global=3",
      "hq2 hkv1 q67 k200 qk80 v48 bf16 causal=top-left+global={0,17,150} causal",
      "b2 hq2 hkv1 q257 k257 qk64 v64 bf16 longformer=window:64,global:{0,100}",
      "hq2 hkv1 q129 k193 qk128 v128 fp16 longformer=window:33",
      "b2 hq4 hkv2 q257 k257 qk64 v64 fp16 bigbird=block:32",
      "hq3 hkv1 q200 k331 qk64 v64 bf16 bigbird=block:24,ends:0,random:2,seed:5",
      "hq2 hkv2 q300 k300 qk128 v128 bf16 bigbird=block:64,random:1 causal",
      "hq2 hkv1 q131 k200 qk64 v64 fp16 causal+prefix=50",
      "hq2 hkv1 q130 k130 qk256 v256 bf16 causal+prefix=33",
      "hq2 hkv1 q200 k200 qk64 v64 fp16 chunk=50",
      "hq2 hkv1 q200 k100 qk64 v64 fp16 chunk=32",
      "b3 hq2 hkv1 q150 k150 qk64 v64 fp16 documents causal",
      "b2 hq2 hkv1 q70 k150 qk64 v64 bf16 documents",
      "b2 hq4 hkv2 q150 k230 qk64 v64 fp16 blocks=32",
      "hq2 hkv1 q150 k150 qk128 v128 bf16 blocks=128 causal",
      "hq2 hkv1 q131 k200 qk64 v64 fp16 window=5,3,dilation:3",
      "hq1 hkv1 q150 k150 qk64 v64 fp16 window=2,0,dilation:40",
      "hq2 hkv1 q131 k131 qk64 v64 fp16 window=17,0+global=2 softcap=5",
      "hq2 hkv1 q131 k131 qk64 v64 bf16 window=17,17+prefix=9 strided layout=bhsd",
      "hq8 hkv1 q45 k97 qk40 v136 fp16 causal+window=0,20 scale=0.3",
      // Rows and tiles with no key, one query, one key, none.
      "hq2 hkv1 q257 k129 qk64 v64 bf16 causal+causal=top-left window=40,0",
      "hq2 hkv1 q1 k257 qk64 v64 fp16 longformer=window:20,global:{0}",
      "hq2 hkv1 q257 k1 qk64 v64 fp16 bigbird=block:16",
      "b2 hq2 hkv1 q65 k0 qk64 v64 fp16 global=1",
      "b0 hq2 hkv1 q65 k65 qk64 v64 fp16 global=1",
      "b2 hq2 hkv1 q0 k65 qk64 v64 fp16 documents",
  };
}

std::vector<std::string> forward_standard() {
  std::vector<std::string> problems = head_dims(8);
  append(problems,
         {"b1 hq2 hkv1 q1021 k1531 qk128 v128 bf16 causal", "b2 hq4 hkv2 q777 k555 qk64 v64 fp16",
          "b65536 hq1 hkv1 q1 k3 qk8 v8 fp16", "b1 hq65537 hkv1 q2 k1 qk8 v8 bf16 causal"});
  return problems;
}

std::vector<std::string> backward_smoke() {
  return {
      // Every head dim class, odd lengths, masks of both alignments.
      "hq2 hkv1 q67 k131 qk16 v16 fp16 causal",
      "hq2 hkv1 q35 k45 qk24 v24 bf16",
      "hq2 hkv1 q67 k131 qk64 v64 fp16",
      "hq2 hkv1 q131 k67 qk80 v80 bf16 causal",
      "hq1 hkv1 q65 k65 qk128 v128 fp16 causal",
      "hq1 hkv1 q33 k97 qk160 v160 bf16",
      "hq1 hkv1 q65 k33 qk200 v200 fp16 causal",
      "hq1 hkv1 q35 k67 qk256 v256 bf16",
      // head_dim_v != head_dim_qk.
      "hq2 hkv1 q33 k69 qk192 v128 bf16 causal",
      "hq1 hkv1 q35 k37 qk256 v8 fp16",
      "hq1 hkv1 q35 k37 qk8 v256 bf16 causal",
      "b2 hq6 hkv2 q65 k129 qk80 v48 bf16 causal",
      // Groups and batches.
      "b2 hq8 hkv1 q35 k35 qk32 v32 bf16 causal",
      "b3 hq5 hkv5 q33 k17 qk32 v32 fp16",
      // One query or key, tile edges.
      "hq2 hkv2 q1 k1 qk64 v64 fp16",
      "hq2 hkv2 q1 k129 qk64 v64 fp16 causal",
      "hq2 hkv2 q129 k1 qk64 v64 bf16 causal",
      "hq2 hkv2 q64 k64 qk64 v64 fp16 causal=top-left",
      "hq2 hkv2 q63 k65 qk64 v64 bf16 causal=top-left",
      // Windows: one interval of keys a row, also none.
      "hq2 hkv1 q100 k100 qk32 v32 fp16 window=17,0",
      "hq2 hkv1 q75 k115 qk32 v32 bf16 window=31,5",
      "hq2 hkv1 q115 k75 qk32 v32 fp16 window=24,24",
      "hq1 hkv1 q70 k70 qk32 v32 bf16 window=0,0",
      // Scores.
      "hq2 hkv1 q67 k67 qk64 v64 fp16 scale=0.7 causal",
      "hq2 hkv1 q67 k67 qk64 v64 bf16 softcap=2.5 causal",
      "hq1 hkv1 q35 k67 qk256 v256 fp16 softcap=50 scale=0.5",
      "hq1 hkv1 q35 k67 qk32 v32 fp16 scale=0",
      // Layouts and strides.
      "b2 hq4 hkv2 q35 k67 qk72 v40 bf16 causal layout=bhsd",
      "b2 hq4 hkv2 q35 k67 qk64 v64 fp16 strided causal",
      "b2 hq2 hkv1 q37 k45 qk80 v24 bf16 strided layout=bhsd",
      // Zero sizes.
      "b2 hq2 hkv1 q35 k0 qk64 v64 fp16",
      "b2 hq2 hkv1 q0 k35 qk64 v64 bf16 causal",
      "b0 hq2 hkv1 q35 k35 qk64 v64 fp16",
  };
}

std::vector<std::string> backward_standard() {
  std::vector<std::string> problems = head_dims(8);
  append(problems,
         {"b1 hq2 hkv1 q521 k631 qk128 v128 bf16 causal", "b2 hq4 hkv2 q377 k255 qk64 v64 fp16",
          "b65536 hq1 hkv1 q1 k3 qk8 v8 fp16", "b1 hq65537 hkv1 q2 k1 qk8 v8 bf16 causal"});
  return problems;
}

std::string test_name(const std::string& problem) {
  std::string name;
  for (const char c : problem) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (c == '-') {
      name += "minus";
    } else if (c == '*') {
      name += "all";
    } else if (!name.empty() && name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

}  // namespace tilewright::testing
