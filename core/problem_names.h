// The words of a problem's text form, in the order in which they are printed: one table each for
// parser, printer and messages.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tilewright/problem.h"

namespace tilewright::names {

template <class T>
struct Named {
  std::string_view name;
  T value;
};

using DimMember = std::optional<int64_t> Problem::*;
using FlagMember = bool Problem::*;

inline constexpr std::array kPasses = {
    Named<Pass>{"forward", Pass::kForward},
    Named<Pass>{"backward", Pass::kBackward},
    Named<Pass>{"linear-forward", Pass::kLinearForward},
    Named<Pass>{"linear-backward", Pass::kLinearBackward},
    Named<Pass>{"linear-step", Pass::kLinearStep},
    Named<Pass>{"standard", Pass::kStandard},
};

inline constexpr std::array kDims = {
    Named<DimMember>{"b", &Problem::batch},          Named<DimMember>{"hq", &Problem::num_heads_q},
    Named<DimMember>{"hkv", &Problem::num_heads_kv}, Named<DimMember>{"q", &Problem::seqlen_q},
    Named<DimMember>{"k", &Problem::seqlen_k},       Named<DimMember>{"qk", &Problem::head_dim_qk},
    Named<DimMember>{"v", &Problem::head_dim_v},
};

// The element types of Q, K and V.
inline constexpr std::array kDtypes = {
    Named<Dtype>{"fp16", Dtype::kFloat16},
    Named<Dtype>{"bf16", Dtype::kBFloat16},
    Named<Dtype>{"fp8e4m3", Dtype::kFloat8E4M3},
    Named<Dtype>{"fp8e5m2", Dtype::kFloat8E5M2},
};

// Those that `out=` takes.
inline constexpr std::array kOutDtypes = {
    Named<Dtype>{"fp16", Dtype::kFloat16},
    Named<Dtype>{"bf16", Dtype::kBFloat16},
};

inline constexpr std::array kScales = {
    Named<Fp8Scales>{"tensor", Fp8Scales::kTensor},
    Named<Fp8Scales>{"head", Fp8Scales::kHead},
    Named<Fp8Scales>{"block", Fp8Scales::kBlock},
};

inline constexpr std::array kLayouts = {
    Named<Layout>{"bshd", Layout::kBshd},
    Named<Layout>{"bhsd", Layout::kBhsd},
};

inline constexpr std::array kFeatures = {
    Named<FeatureMap>{"elu1", FeatureMap::kElu1},
    Named<FeatureMap>{"identity", FeatureMap::kIdentity},
};

inline constexpr std::array kFlags = {
    Named<FlagMember>{"rotate", &Problem::rotate},
    Named<FlagMember>{"alibi", &Problem::alibi},
    Named<FlagMember>{"bias", &Problem::bias},
    Named<FlagMember>{"sink", &Problem::sink},
    Named<FlagMember>{"varlen", &Problem::varlen},
    Named<FlagMember>{"strided", &Problem::strided},
    Named<FlagMember>{"deterministic", &Problem::deterministic},
};

inline constexpr std::array<std::string_view, 10> kMasks = {
    "causal",     "window", "prefix",    "global", "bigbird",
    "longformer", "chunk",  "documents", "blocks", "mask"};

// Items of the form key=value.
inline constexpr std::array<std::string_view, 10> kKeys = {"out",     "scales", "scale", "softcap",
                                                           "score",   "layout", "paged", "splits",
                                                           "feature", "dropout"};

template <class T, size_t kCount>
constexpr const Named<T>* find(const std::array<Named<T>, kCount>& table, std::string_view name) {
  for (const Named<T>& row : table) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// The name of `value`, or "" if the table lacks it.
template <class T, size_t kCount>
constexpr std::string_view name_of(const std::array<Named<T>, kCount>& table, T value) {
  for (const Named<T>& row : table) {
    if (row.value == value) return row.name;
  }
  return {};
}

}  // namespace tilewright::names
