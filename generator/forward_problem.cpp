#include "generator/forward_problem.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <variant>

#include "core/check.h"

namespace tilewright {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

// The name under which a mask is refused; empty if it bounds a row's keys by one interval.
std::string unusual_mask(const Mask& mask) {
  return std::visit(
      Overloaded{
          [](const CausalMask&) { return std::string(); },
          [](const WindowMask& window) {
            return window.dilation == 1 ? "" : fmt::format("window dilation {}", window.dilation);
          },
          [](const PrefixMask&) { return std::string("mask prefix"); },
          [](const GlobalMask&) { return std::string("mask global"); },
          [](const BigBirdMask&) { return std::string("mask bigbird"); },
          [](const LongformerMask&) { return std::string("mask longformer"); },
          [](const ChunkMask&) { return std::string("mask chunk"); },
          [](const DocumentsMask&) { return std::string("mask documents"); },
          [](const BlocksMask&) { return std::string("mask blocks"); },
          [](const ExpressionMask&) { return std::string("mask expression"); },
      },
      mask);
}

// Distances from the row's own key: nullopt is unbounded. `offset` brings a row to its key.
struct Bounds {
  std::optional<int64_t> left, right;
  bool bottom_right = true;
};

Bounds bounds_of(const Mask& mask) {
  if (const auto* causal = std::get_if<CausalMask>(&mask)) {
    return {
        .left = {}, .right = 0, .bottom_right = causal->alignment == MaskAlignment::kBottomRight};
  }
  const auto* window = std::get_if<WindowMask>(&mask);
  TW_CHECK(window != nullptr && window->dilation == 1, "mask {} is no interval", mask.index());
  return {.left = window->left, .right = window->right};
}

// Masks that no tile list holds, and how many there are whose data a launch could not tell apart.
std::vector<std::string> unlisted_masks(const Problem& problem) {
  std::vector<std::string> names;
  int num_blocks = 0;
  for (const MaskUnion& mask_union : problem.masks) {
    for (const Mask& mask : mask_union.terms) {
      if (std::holds_alternative<ExpressionMask>(mask)) names.push_back(unusual_mask(mask));
      num_blocks += std::holds_alternative<BlocksMask>(mask) ? 1 : 0;
    }
  }
  if (num_blocks > 1) names.push_back("more than one mask blocks");
  return names;
}

std::vector<std::string> masks_beyond_intervals(const Problem& problem) {
  std::vector<std::string> names;
  for (const MaskUnion& mask_union : problem.masks) {
    if (mask_union.terms.size() != 1) names.push_back("a union of masks");
    for (const Mask& mask : mask_union.terms) {
      std::string name = unusual_mask(mask);
      if (!name.empty()) names.push_back(std::move(name));
    }
  }
  return names;
}

}  // namespace

bool needs_tile_list(const Problem& problem) { return !masks_beyond_intervals(problem).empty(); }

bool lengths_vary(const Problem& problem) {
  return problem.varlen || problem.page_size.has_value();
}

bool has_row_bounds(const Problem& problem) {
  return std::any_of(problem.masks.begin(), problem.masks.end(), [](const MaskUnion& mask_union) {
    const Bounds bounds = bounds_of(mask_union.terms.at(0));
    return bounds.left.has_value() || bounds.right.has_value();
  });
}

RowInterval row_interval(const Problem& problem, int64_t seqlen_q, int64_t seqlen_k) {
  RowInterval interval = {-kUnboundedDistance, kUnboundedDistance};
  for (const MaskUnion& mask_union : problem.masks) {
    const Bounds bounds = bounds_of(mask_union.terms.at(0));
    const int64_t offset = bounds.bottom_right ? seqlen_k - seqlen_q : 0;
    if (bounds.left) {
      const int64_t left = std::min(*bounds.left, kUnboundedDistance);
      interval.row_left = std::max(interval.row_left, offset - left);
    }
    if (bounds.right) {
      const int64_t right = std::min(*bounds.right, kUnboundedDistance);
      interval.row_right = std::min(interval.row_right, offset + right);
    }
  }
  return interval;
}

AlignedInterval aligned_interval(const Problem& problem) {
  AlignedInterval interval = {kUnboundedDistance, kUnboundedDistance, kUnboundedDistance};
  for (const MaskUnion& mask_union : problem.masks) {
    const Bounds bounds = bounds_of(mask_union.terms.at(0));
    // Only causal masks are ever top-left, and they bound no left.
    if (bounds.left) interval.left = std::min(interval.left, *bounds.left);
    int64_t& right = bounds.bottom_right ? interval.aligned_right : interval.right;
    if (bounds.right) right = std::min(right, *bounds.right);
  }
  return interval;
}

std::vector<std::string> unusual_features(const Problem& problem, MaskSupport masks) {
  std::vector<std::string> features;
  const auto add_if = [&](bool present, std::string name) {
    if (present) features.push_back(std::move(name));
  };
  const Dtype dtype = problem.dtype.value_or(Dtype::kFloat16);
  add_if(dtype != Dtype::kFloat16 && dtype != Dtype::kBFloat16,
         fmt::format("type {}", to_string(dtype)));
  const Dtype out_dtype = problem.out_dtype.value_or(dtype);
  add_if(out_dtype != dtype, fmt::format("out={} from {}", to_string(out_dtype), to_string(dtype)));
  add_if(problem.fp8_scales != Fp8Scales::kNone, "scales");
  add_if(problem.rotate, "rotate");
  for (std::string& name : masks == MaskSupport::kIntervals ? masks_beyond_intervals(problem)
                                                            : unlisted_masks(problem)) {
    features.push_back(std::move(name));
  }
  add_if(problem.alibi, "alibi");
  add_if(problem.bias, "bias");
  add_if(problem.sink, "sink");
  add_if(!problem.score_expression.empty(), "score expression");
  add_if(problem.softmax_scale.value_or(1) < 0, "a negative scale");
  add_if(problem.varlen, "varlen");
  add_if(problem.page_size.has_value(), "paged");
  add_if(problem.num_splits.value_or(1) != 1, "splits");
  add_if(problem.feature != FeatureMap::kNone, "feature");
  add_if(problem.dropout != 0, "dropout");
  return features;
}

ScoreFactors score_factors(const Problem& problem, int64_t head_dim_qk) {
  const double scale =
      problem.softmax_scale.value_or(1.0 / std::sqrt(static_cast<double>(head_dim_qk)));
  if (problem.softcap) {
    return {static_cast<float>(*problem.softcap * std::numbers::log2e),
            static_cast<float>(scale / *problem.softcap)};
  }
  // A scale of 0 would turn a masked score of −inf into NaN; by the smallest number of all even the
  // largest float becomes a score below 2^-20, and weights are the same.
  return {std::max(static_cast<float>(scale * std::numbers::log2e),
                   std::numeric_limits<float>::denorm_min()),
          0.0f};
}

Status check_lengths(const Shape& shape, std::string_view family) {
  for (const auto& [name, length] :
       {std::pair("seqlen_q", shape.seqlen_q), std::pair("seqlen_k", shape.seqlen_k),
        std::pair("total_q", shape.total_q), std::pair("total_k", shape.total_k)}) {
    if (length <= kMaxLength) continue;
    return make_error(ErrorCode::kUnsupportedProblem, "{}={} exceeds {}, the most that {} takes",
                      name, length, kMaxLength, family);
  }
  return {};
}

void check_packed_layout(const Problem& problem, std::vector<std::string>& reasons) {
  if (lengths_vary(problem) && problem.layout != Layout::kBshd) {
    reasons.push_back("varlen and paged have one layout: leave out layout=bhsd");
  }
}

}  // namespace tilewright
