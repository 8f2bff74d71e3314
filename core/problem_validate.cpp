#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <numbers>

#include "core/check.h"
#include "core/problem_cursor.h"
#include "core/problem_names.h"

namespace tilewright {
namespace {

// Kernels take their parameters as float32, and flush its subnormals: beyond these limits a kernel
// would compute with infinity or zero instead of what was asked for. False for NaN.
bool normal_float(double value) {
  const double magnitude = std::fabs(value);
  return magnitude >= double{std::numeric_limits<float>::min()} &&
         magnitude <= double{std::numeric_limits<float>::max()};
}

// Collects every violation of one problem.
class Validator {
 public:
  explicit Validator(const Problem& problem) : problem_(problem) {}

  std::vector<std::string> run() {
    check_dims();
    check_sizes();
    check_types();
    check_masks();
    check_score();
    check_options();
    return std::move(reasons_);
  }

 private:
  template <class... Args>
  void require(bool holds, fmt::format_string<Args...> format, Args&&... args) {
    if (!holds) reasons_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  bool linear() const {
    return problem_.pass == Pass::kLinearForward || problem_.pass == Pass::kLinearBackward ||
           problem_.pass == Pass::kLinearStep;
  }

  bool fp8() const {
    return problem_.dtype == Dtype::kFloat8E4M3 || problem_.dtype == Dtype::kFloat8E5M2;
  }

  void check_dims() {
    for (const auto& dim : names::kDims) {
      const std::optional<int64_t>& value = problem_.*dim.value;
      if (!value) continue;
      const bool head_dim = dim.name == "qk" || dim.name == "v";
      const int64_t least = head_dim ? 1 : 0;  // empty tensors are fine, empty rows mean nothing
      require(*value >= least, "{}{} must be at least {}", dim.name, *value, least);
    }
    if (!problem_.num_heads_kv) return;
    const int64_t kv = *problem_.num_heads_kv;
    if (!problem_.num_heads_q || kv < 0 || *problem_.num_heads_q < 0) return;
    const int64_t q = *problem_.num_heads_q;
    require(kv == 0 ? q == 0 : q % kv == 0, "hq{} is not a multiple of hkv{}", q, kv);
    require(q > 0 || kv == 0, "hq{} leaves the keys of hkv{} without a query head", q, kv);
  }

  // Tensors must be addressable with 64-bit byte offsets.
  void check_sizes() {
    struct TensorDims {
      std::string_view name;
      std::initializer_list<std::optional<int64_t>> extents;
    };
    const Problem& p = problem_;
    const std::optional<int64_t> widest = int64_t{4};  // bytes of the largest element type
    const auto& heads_kv = p.num_heads_kv ? p.num_heads_kv : p.num_heads_q;
    const auto& length_k = p.seqlen_k ? p.seqlen_k : p.seqlen_q;
    const auto& dim_v = p.head_dim_v ? p.head_dim_v : p.head_dim_qk;
    const TensorDims tensors[] = {
        {"Q", {p.batch, p.seqlen_q, p.num_heads_q, p.head_dim_qk, widest}},
        {"K", {p.batch, length_k, heads_kv, p.head_dim_qk, widest}},
        {"V", {p.batch, length_k, heads_kv, dim_v, widest}},
        {"O", {p.batch, p.seqlen_q, p.num_heads_q, dim_v, widest}},
    };
    for (const TensorDims& tensor : tensors) {
      int64_t product = 1;
      bool overflow = false, empty = false;
      for (const std::optional<int64_t>& extent : tensor.extents) {
        empty = empty || extent == 0;
        overflow =
            __builtin_mul_overflow(product, std::max<int64_t>(extent.value_or(1), 1), &product) ||
            overflow;
      }
      require(!overflow || empty, "the size of {} does not fit in 64 bits", tensor.name);
    }
  }

  void check_types() {
    const Problem& p = problem_;
    if (p.dtype) {
      require(!names::name_of(names::kDtypes, *p.dtype).empty(), "{} is no type of a kernel",
              to_string(*p.dtype));
    }
    if (p.out_dtype) {
      require(!names::name_of(names::kOutDtypes, *p.out_dtype).empty(),
              "out={} is not one of fp16, bf16", to_string(*p.out_dtype));
      require(fp8(), "out={} needs an fp8 type", to_string(*p.out_dtype));
    }
    require(p.fp8_scales == Fp8Scales::kNone || fp8(), "scales={} needs an fp8 type",
            names::name_of(names::kScales, p.fp8_scales));
    require(!p.rotate || fp8(), "rotate needs an fp8 type");
  }

  void check_indices(std::string_view what, std::vector<int64_t> indices) {
    std::sort(indices.begin(), indices.end());
    require(indices.empty() || indices.front() >= 0, "{} {} is negative", what,
            indices.empty() ? 0 : indices.front());
    const auto twice = std::adjacent_find(indices.begin(), indices.end());
    if (twice != indices.end()) require(false, "{} {} is given twice", what, *twice);
  }

  void check_masks() {
    for (size_t i = 0; i < problem_.masks.size(); ++i) {
      require(!problem_.masks[i].terms.empty(), "mask {} is a union of nothing", i);
      for (const Mask& mask : problem_.masks[i].terms) {
        std::visit([this](const auto& value) { check_mask(value); }, mask);
      }
      if (const auto hint = widening_hint(problem_.masks, i)) require(false, "{}", *hint);
    }
    require(!linear() || problem_.masks.empty() || only_causal(), "{} takes no mask but causal",
            to_string(problem_.pass));
  }

  bool only_causal() const {
    return problem_.masks.size() == 1 && problem_.masks[0].terms.size() == 1 &&
           std::holds_alternative<CausalMask>(problem_.masks[0].terms[0]);
  }

  void check_mask(const CausalMask&) {}
  // Sizes that positions are multiplied or rounded up with.
  void check_most(std::string_view name, int64_t value) {
    constexpr int64_t kMost = INT32_MAX;
    require(value <= kMost, "{} {} must be at most {}", name, value, kMost);
  }
  void check_mask(const DocumentsMask&) {}
  void check_mask(const WindowMask& mask) {
    require(mask.left.value_or(0) >= 0, "window left {} is negative; * is unlimited",
            mask.left.value_or(0));
    require(mask.right.value_or(0) >= 0, "window right {} is negative; * is unlimited",
            mask.right.value_or(0));
    require(mask.dilation >= 1, "window dilation {} must be at least 1 (1 = none)", mask.dilation);
    if (mask.dilation == 1) return;
    // Positions times a dilation stay within 64 bits.
    check_most("window dilation", mask.dilation);
    check_most("dilated window left", mask.left.value_or(0));
    check_most("dilated window right", mask.right.value_or(0));
  }
  void check_mask(const PrefixMask& mask) {
    require(mask.length >= 0, "prefix {} is negative", mask.length);
  }
  void check_mask(const GlobalMask& mask) {
    require(mask.count >= 0, "global {} is negative", mask.count);
    require(mask.count == 0 || mask.indices.empty(), "global has both a count and indices");
    check_indices("global index", mask.indices);
  }
  void check_mask(const BigBirdMask& mask) {
    require(mask.block >= 1, "bigbird block {} must be at least 1", mask.block);
    require(mask.window >= 1 && mask.window % 2 == 1,
            "bigbird window {} must be an odd number of blocks", mask.window);
    require(mask.global >= 0, "bigbird global {} is negative", mask.global);
    require(mask.random >= 0, "bigbird random {} is negative", mask.random);
    check_most("bigbird block", mask.block);
    check_most("bigbird window", mask.window);
    check_most("bigbird global", mask.global);
    check_most("bigbird random", mask.random);
  }
  void check_mask(const LongformerMask& mask) {
    require(mask.window >= 0, "longformer window {} is negative", mask.window);
    check_indices("longformer global index", mask.global);
  }
  void check_mask(const ChunkMask& mask) {
    require(mask.size >= 1, "chunk {} must be at least 1", mask.size);
    check_most("chunk", mask.size);
  }
  void check_mask(const BlocksMask& mask) {
    require(mask.size >= 1, "blocks {} must be at least 1", mask.size);
    check_most("blocks", mask.size);
  }
  void check_mask(const ExpressionMask& mask) {
    const std::string violation = quoted_text_violation(mask.expression);
    require(violation.empty(), "the expression of mask {}", violation);
  }

  void check_score() {
    const Problem& p = problem_;
    const double scale = p.softmax_scale.value_or(1);
    require(scale == 0 || normal_float(scale),
            "scale={} is not finite and normal as float32 (0, or 1.2e-38 to 3.4e38)", scale);
    const double softcap = p.softcap.value_or(1);
    require(softcap > 0 && normal_float(softcap),
            "softcap={} must be positive, finite and normal as float32 (1.2e-38 to 3.4e38)",
            softcap);
    if (!p.score_expression.empty()) {
      const std::string violation = quoted_text_violation(p.score_expression);
      require(violation.empty(), "the expression of score {}", violation);
    }
    if (!linear()) {
      check_score_factors();
      return;
    }
    const std::string_view pass = to_string(p.pass);
    require(!p.softcap, "{} has no softmax for softcap to act on", pass);
    require(!p.alibi, "{} has no softmax for alibi to act on", pass);
    require(!p.bias, "{} has no softmax for bias to act on", pass);
    require(!p.sink, "{} has no softmax for sink to act on", pass);
    require(p.score_expression.empty(), "{} has no softmax for score to act on", pass);
  }

  // What kernels multiply by in float32: the last factor times log2 e, and scale / softcap.
  void check_score_factors() {
    const Problem& p = problem_;
    const auto dim = static_cast<double>(std::max<int64_t>(1, p.head_dim_qk.value_or(256)));
    const double scale = p.softmax_scale.value_or(1 / std::sqrt(dim));
    const double last = p.softcap.value_or(scale);
    if (!normal_float(last)) return;  // said above, or a scale of 0
    require(normal_float(last * std::numbers::log2e), "{}={} times log2 e is not finite as float32",
            p.softcap ? "softcap" : "scale", last);
    if (!p.softcap || scale == 0 || !normal_float(scale)) return;
    require(normal_float(scale / *p.softcap),
            "scale / softcap = {} / {} is not finite and normal as float32", scale, *p.softcap);
  }

  void check_options() {
    const Problem& p = problem_;
    require(p.page_size.value_or(1) >= 1, "paged={} must be at least 1", p.page_size.value_or(1));
    require(p.num_splits.value_or(1) >= 1, "splits={} must be at least 1",
            p.num_splits.value_or(1));
    require(p.feature == FeatureMap::kNone || linear(), "feature={} needs a linear pass",
            names::name_of(names::kFeatures, p.feature));
    require(p.dropout >= 0 && p.dropout < 1, "dropout={} must be in [0, 1)", p.dropout);
  }

  const Problem& problem_;
  std::vector<std::string> reasons_;
};

}  // namespace

bool widens(const Mask& mask) {
  return std::holds_alternative<PrefixMask>(mask) || std::holds_alternative<GlobalMask>(mask);
}

std::optional<std::string> widening_hint(const std::vector<MaskUnion>& unions, size_t index) {
  const std::vector<Mask>& terms = unions[index].terms;
  if (unions.size() < 2 || terms.size() != 1 || !widens(terms[0])) return std::nullopt;
  // Shown with the first mask that it could have been meant to widen.
  std::string widened = "causal";
  for (size_t i = 0; i < unions.size(); ++i) {
    if (i != index && !unions[i].terms.empty() && !widens(unions[i].terms[0])) {
      widened = mask_text(unions[i].terms[0]);
      break;
    }
  }
  return fmt::format(
      "{} adds keys, but a space between masks intersects them; join it with '+': {}+{}",
      mask_name(terms[0]), widened, mask_text(terms[0]));
}

Status validate(const Problem& problem) {
  std::vector<std::string> reasons = Validator(problem).run();
  if (reasons.empty()) return {};
  return Error{ErrorCode::kInvalidArgument,
               fmt::format("the problem '{}' makes no sense", problem.to_string()),
               std::move(reasons)};
}

}  // namespace tilewright
