#include <algorithm>
#include <utility>
#include <vector>

#include "core/check.h"
#include "core/problem_cursor.h"
#include "core/problem_names.h"
#include "core/text.h"

namespace tilewright {
namespace {

std::vector<std::string_view> all_words() {
  std::vector<std::string_view> words(names::kMasks.begin(), names::kMasks.end());
  words.insert(words.end(), names::kKeys.begin(), names::kKeys.end());
  for (const auto& row : names::kPasses) words.push_back(row.name);
  for (const auto& row : names::kDtypes) words.push_back(row.name);
  for (const auto& row : names::kFlags) words.push_back(row.name);
  return words;
}

class ProblemParser {
 public:
  explicit ProblemParser(std::string_view text) : cursor_(text) {}

  Result<Problem> parse() {
    for (bool first = true;; first = false) {
      cursor_.skip_spaces();
      if (cursor_.at_end()) break;
      TW_TRY(parse_token(first));
      if (!cursor_.at_item_end()) {
        const size_t rest = cursor_.offset();
        cursor_.take_until(" ");
        return cursor_.fail(rest, "unexpected text: items are separated by spaces");
      }
    }
    for (size_t i = 0; i < problem_.masks.size(); ++i) {
      if (const auto hint = widening_hint(problem_.masks, i)) {
        return cursor_.fail(mask_spans_[i].first, mask_spans_[i].second, *hint);
      }
    }
    return std::move(problem_);
  }

 private:
  Status parse_token(bool first) {
    const size_t begin = cursor_.offset();
    const std::string_view name = cursor_.take_name();
    if (name.empty()) {
      cursor_.take_until(" ");
      return cursor_.fail(begin, "expected an item, such as q1024, bf16 or causal");
    }
    if (const auto* pass = names::find(names::kPasses, name)) {
      if (!first) return cursor_.fail(begin, fmt::format("the pass '{}' must come first", name));
      problem_.pass = pass->value;
      return {};
    }
    if (const auto* dtype = names::find(names::kDtypes, name)) {
      TW_TRY(once("type", begin));
      problem_.dtype = dtype->value;
      return {};
    }
    if (const auto* flag = names::find(names::kFlags, name)) {
      TW_TRY(once(name, begin));
      if (cursor_.peek('=')) {
        return cursor_.fail(cursor_.offset(), fmt::format("{} takes no value", name));
      }
      problem_.*flag->value = true;
      return {};
    }
    if (contains(names::kMasks, name)) return parse_masks(name, begin);
    if (contains(names::kKeys, name)) return parse_key(name, begin);
    return parse_dim(name, begin);
  }

  template <size_t kCount>
  static bool contains(const std::array<std::string_view, kCount>& table, std::string_view name) {
    return std::find(table.begin(), table.end(), name) != table.end();
  }

  Status once(std::string_view name, size_t begin) {
    if (std::find(seen_.begin(), seen_.end(), name) != seen_.end()) {
      return cursor_.fail(begin, fmt::format("{} is given twice", name));
    }
    seen_.push_back(name);
    return {};
  }

  Status parse_dim(std::string_view name, size_t begin) {
    const size_t letters = std::min(name.find_first_of("-0123456789"), name.size());
    const auto* dim = names::find(names::kDims, name.substr(0, letters));
    if (dim == nullptr) return unknown(name, begin);
    TW_TRY(once(dim->name, begin));
    cursor_.rewind(begin + letters);
    if (cursor_.at_item_end()) {
      return cursor_.fail(begin, letters,
                          fmt::format("{} needs a number, as in {}64", dim->name, dim->name));
    }
    TW_ASSIGN(problem_.*dim->value, cursor_.integer(dim->name, " "));
    return {};
  }

  Status unknown(std::string_view name, size_t begin) {
    if (name == "fp32" || name == "float32") {
      return cursor_.fail(begin, "fp32 is no type of a kernel: use fp16, bf16, fp8e4m3 or fp8e5m2");
    }
    const std::string near = nearest_name(name, all_words());
    return cursor_.fail(
        begin, near.empty() ? fmt::format("unknown item '{}'", name)
                            : fmt::format("unknown item '{}'; did you mean '{}'?", name, near));
  }

  Status parse_masks(std::string_view name, size_t begin) {
    MaskUnion mask_union;
    TW_ASSIGN(Mask first, parse_mask(cursor_, name, begin));
    mask_union.terms.push_back(std::move(first));
    while (cursor_.take('+')) {
      const size_t term_begin = cursor_.offset();
      const std::string_view term = cursor_.take_name();
      if (!contains(names::kMasks, term)) {
        return cursor_.fail(term_begin, "expected a mask after '+'");
      }
      TW_ASSIGN(Mask mask, parse_mask(cursor_, term, term_begin));
      mask_union.terms.push_back(std::move(mask));
    }
    problem_.masks.push_back(std::move(mask_union));
    mask_spans_.emplace_back(begin, cursor_.offset() - begin);
    return {};
  }

  template <class T, size_t kCount>
  Result<T> choice(std::string_view key, const std::array<names::Named<T>, kCount>& table) {
    const size_t begin = cursor_.offset();
    const auto* row = names::find(table, cursor_.take_until(" "));
    if (row != nullptr) return row->value;
    std::string known;
    for (const auto& each : table) known += (known.empty() ? "" : ", ") + std::string(each.name);
    return cursor_.fail(begin, fmt::format("{}: expected one of {}", key, known));
  }

  Result<int64_t> positive_integer(std::string_view key) {
    const size_t begin = cursor_.offset();
    TW_ASSIGN(const int64_t value, cursor_.integer(key, " "));
    if (value < 1) return cursor_.fail(begin, fmt::format("{}: must be at least 1", key));
    return value;
  }

  Status parse_key(std::string_view key, size_t begin) {
    TW_TRY(once(key, begin));
    if (!cursor_.take('=')) {
      return cursor_.fail(begin, fmt::format("{} needs a value after '='", key));
    }
    const size_t value_begin = cursor_.offset();
    if (key == "out") {
      TW_ASSIGN(problem_.out_dtype, choice(key, names::kOutDtypes));
    } else if (key == "scales") {
      TW_ASSIGN(problem_.fp8_scales, choice(key, names::kScales));
    } else if (key == "layout") {
      TW_ASSIGN(problem_.layout, choice(key, names::kLayouts));
    } else if (key == "feature") {
      TW_ASSIGN(problem_.feature, choice(key, names::kFeatures));
    } else if (key == "paged") {
      TW_ASSIGN(problem_.page_size, positive_integer(key));
    } else if (key == "splits") {
      TW_ASSIGN(problem_.num_splits, positive_integer(key));
    } else if (key == "scale") {
      TW_ASSIGN(problem_.softmax_scale, cursor_.number(key));
    } else if (key == "softcap") {
      TW_ASSIGN(const double cap, cursor_.number(key));
      if (cap <= 0) return cursor_.fail(value_begin, "softcap: must be positive");
      problem_.softcap = cap;
    } else if (key == "dropout") {
      TW_ASSIGN(const double rate, cursor_.number(key));
      if (rate < 0 || rate >= 1) return cursor_.fail(value_begin, "dropout: must be in [0, 1)");
      problem_.dropout = rate;
    } else {
      TW_CHECK(key == "score", "key '{}' has no case", key);
      TW_ASSIGN(problem_.score_expression, cursor_.quoted(key));
    }
    return {};
  }

  ProblemCursor cursor_;
  Problem problem_;
  std::vector<std::string_view> seen_;
  std::vector<std::pair<size_t, size_t>> mask_spans_;  // offset and length of each union
};

}  // namespace

Result<Problem> Problem::parse(std::string_view text) { return ProblemParser(text).parse(); }

}  // namespace tilewright
