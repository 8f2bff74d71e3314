#include "core/check.h"
#include "core/problem_cursor.h"
#include "core/problem_names.h"
#include "core/text.h"

namespace tilewright {
namespace {

std::string quote(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  quoted += '\'';
  return quoted;
}

std::string braces(const std::vector<int64_t>& values) {
  return fmt::format("{{{}}}", fmt::join(values, ","));
}

std::string distance(const std::optional<int64_t>& value) {
  return value ? fmt::to_string(*value) : "*";
}

// Arguments in key:value form, "" if all have their default.
class KeyedArguments {
 public:
  template <class T>
  void add(std::string_view key, const T& value, const T& fallback) {
    if (value == fallback) return;
    text_ += fmt::format("{}{}:{}", text_.empty() ? "=" : ",", key, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

struct MaskPrinter {
  std::string operator()(const CausalMask& mask) const {
    return mask.alignment == MaskAlignment::kTopLeft ? "causal=top-left" : "causal";
  }
  std::string operator()(const WindowMask& mask) const {
    std::string text = fmt::format("window={},{}", distance(mask.left), distance(mask.right));
    if (mask.dilation != 1) text += fmt::format(",dilation:{}", mask.dilation);
    return text;
  }
  std::string operator()(const PrefixMask& mask) const {
    return fmt::format("prefix={}", mask.length);
  }
  std::string operator()(const GlobalMask& mask) const {
    return fmt::format("global={}",
                       mask.indices.empty() ? fmt::to_string(mask.count) : braces(mask.indices));
  }
  std::string operator()(const BigBirdMask& mask) const {
    const BigBirdMask fallback;
    KeyedArguments arguments;
    arguments.add("block", mask.block, fallback.block);
    arguments.add("window", mask.window, fallback.window);
    arguments.add("global", mask.global, fallback.global);
    arguments.add("ends", mask.ends ? 1 : 0, fallback.ends ? 1 : 0);
    arguments.add("random", mask.random, fallback.random);
    arguments.add("seed", mask.seed, fallback.seed);
    return fmt::format("bigbird{}", arguments.text());
  }
  std::string operator()(const LongformerMask& mask) const {
    KeyedArguments arguments;
    arguments.add("window", mask.window, LongformerMask{}.window);
    if (!mask.global.empty()) arguments.add("global", braces(mask.global), std::string());
    return fmt::format("longformer{}", arguments.text());
  }
  std::string operator()(const ChunkMask& mask) const { return fmt::format("chunk={}", mask.size); }
  std::string operator()(const DocumentsMask&) const { return "documents"; }
  std::string operator()(const BlocksMask& mask) const {
    return fmt::format("blocks={}", mask.size);
  }
  std::string operator()(const ExpressionMask& mask) const {
    return fmt::format("mask={}", quote(mask.expression));
  }
};

std::string union_text(const MaskUnion& mask_union) {
  std::string text;
  for (const Mask& mask : mask_union.terms) {
    if (!text.empty()) text += '+';
    text += mask_text(mask);
  }
  return text;
}

class Items {
 public:
  void add(std::string_view item) {
    if (!text_.empty()) text_ += ' ';
    text_ += item;
  }
  void add(std::string_view key, std::string_view value) { add(fmt::format("{}={}", key, value)); }
  void flag(const Problem& problem, names::FlagMember member) {
    if (problem.*member) add(names::name_of(names::kFlags, member));
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

void add_types(const Problem& problem, Items& items) {
  if (problem.dtype) items.add(to_string(*problem.dtype));
  if (problem.out_dtype) items.add("out", to_string(*problem.out_dtype));
  if (problem.fp8_scales != Fp8Scales::kNone) {
    items.add("scales", names::name_of(names::kScales, problem.fp8_scales));
  }
  items.flag(problem, &Problem::rotate);
}

void add_score(const Problem& problem, Items& items) {
  if (problem.softmax_scale) items.add("scale", number_text(*problem.softmax_scale));
  if (problem.softcap) items.add("softcap", number_text(*problem.softcap));
  items.flag(problem, &Problem::alibi);
  items.flag(problem, &Problem::bias);
  items.flag(problem, &Problem::sink);
  if (!problem.score_expression.empty()) items.add("score", quote(problem.score_expression));
}

void add_options(const Problem& problem, Items& items) {
  items.flag(problem, &Problem::varlen);
  if (problem.layout != Layout::kBshd) {
    items.add("layout", names::name_of(names::kLayouts, problem.layout));
  }
  items.flag(problem, &Problem::strided);
  items.flag(problem, &Problem::deterministic);
  if (problem.page_size) items.add("paged", fmt::to_string(*problem.page_size));
  if (problem.num_splits) items.add("splits", fmt::to_string(*problem.num_splits));
  if (problem.feature != FeatureMap::kNone) {
    items.add("feature", names::name_of(names::kFeatures, problem.feature));
  }
  if (problem.dropout != 0) items.add("dropout", number_text(problem.dropout));
}

}  // namespace

std::string mask_text(const Mask& mask) { return std::visit(MaskPrinter{}, mask); }

std::string_view mask_name(const Mask& mask) {
  static_assert(std::variant_size_v<Mask> == names::kMasks.size());
  return names::kMasks[mask.index()];  // the same order
}

std::string Problem::to_string() const {
  Items items;
  if (pass != Pass::kForward) items.add(tilewright::to_string(pass));
  for (const auto& dim : names::kDims) {
    if (const auto& value = this->*dim.value) items.add(fmt::format("{}{}", dim.name, *value));
  }
  add_types(*this, items);
  for (const MaskUnion& mask_union : masks) items.add(union_text(mask_union));
  add_score(*this, items);
  add_options(*this, items);
  return items.take();
}

std::string_view to_string(Pass pass) { return names::name_of(names::kPasses, pass); }

std::string_view to_string(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat32:
      return "fp32";
    case Dtype::kInt32:
      return "int32";
    default:
      return names::name_of(names::kDtypes, dtype);
  }
}

int64_t size_in_bytes(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
    case Dtype::kBFloat16:
      return 2;
    case Dtype::kFloat8E4M3:
    case Dtype::kFloat8E5M2:
      return 1;
    case Dtype::kFloat32:
    case Dtype::kInt32:
      return 4;
  }
  TW_CHECK(false, "Dtype {} has no size", static_cast<int>(dtype));
  return 0;
}

}  // namespace tilewright
