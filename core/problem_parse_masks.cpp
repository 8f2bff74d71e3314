#include <utility>
#include <vector>

#include "core/check.h"
#include "core/problem_cursor.h"
#include "core/text.h"

namespace tilewright {
namespace {

constexpr std::string_view kStops = " +,";       // what ends a mask's argument
constexpr std::string_view kListStops = " +,}";  // what ends a number in braces

// Reads the arguments of one mask: "=" then arg {"," arg}, each either positional or key:value.
class Arguments {
 public:
  Arguments(ProblemCursor& cursor, std::string_view mask, size_t begin)
      : cursor_(cursor), mask_(mask), begin_(begin) {
    has_any_ = cursor.take('=');
  }

  bool has_any() const { return has_any_; }
  Error needs(std::string_view example) const {
    return cursor_.fail(begin_, fmt::format("{} needs a value, as in {}", mask_, example));
  }

  Result<int64_t> integer(std::string_view key) { return cursor_.integer(label(key), kStops); }

  // "*" is unlimited.
  Result<std::optional<int64_t>> distance(std::string_view key) {
    const size_t begin = cursor_.offset();
    if (cursor_.take('*')) {
      if (at_stop()) return std::optional<int64_t>();
      cursor_.rewind(begin);
    }
    TW_ASSIGN(const int64_t value, integer(key));
    return std::optional<int64_t>(value);
  }

  Result<std::vector<int64_t>> list(std::string_view key) {
    const size_t begin = cursor_.offset();
    if (!cursor_.take('{')) {
      return cursor_.fail(begin, fmt::format("{}: expected a list, as in {{0,17}}", label(key)));
    }
    std::vector<int64_t> values;
    do {
      TW_ASSIGN(const int64_t value, cursor_.integer(label(key), kListStops));
      values.push_back(value);
    } while (cursor_.take(','));
    if (!cursor_.take('}')) {
      return cursor_.fail(begin, fmt::format("{}: the brace is not closed", label(key)));
    }
    return values;
  }

  bool next() { return cursor_.take(','); }
  bool at_stop() const { return cursor_.at_item_end() || cursor_.peek(',') || cursor_.peek('+'); }

  std::string label(std::string_view key) const {
    return key.empty() ? std::string(mask_) : fmt::format("{} {}", mask_, key);
  }

  ProblemCursor& cursor() { return cursor_; }

 private:
  ProblemCursor& cursor_;
  std::string_view mask_;
  size_t begin_;
  bool has_any_ = false;
};

// Reads key:value arguments to the end of the mask; read_value(key) is called for a key among
// `keys`, each at most once.
template <class ReadValue>
Status keyed(Arguments& arguments, std::string_view mask, std::span<const std::string_view> keys,
             ReadValue read_value) {
  ProblemCursor& cursor = arguments.cursor();
  std::vector<std::string_view> seen;
  do {
    const size_t begin = cursor.offset();
    const std::string_view key = cursor.take_name();
    bool known = false;
    for (const std::string_view candidate : keys) known = known || candidate == key;
    if (!known) {
      std::string list;
      for (const std::string_view candidate : keys) {
        list += (list.empty() ? "" : ", ") + std::string(candidate);
      }
      return cursor.fail(begin, fmt::format("{}: expected one of {}, each key:value", mask, list));
    }
    for (const std::string_view other : seen) {
      if (other == key) return cursor.fail(begin, fmt::format("{} {}: given twice", mask, key));
    }
    seen.push_back(key);
    if (!cursor.take(':')) {
      return cursor.fail(begin, fmt::format("{} {}: needs a value after ':'", mask, key));
    }
    TW_TRY(read_value(key));
  } while (arguments.next());
  return {};
}

Status store(Result<int64_t> value, int64_t& target) {
  TW_ASSIGN(target, std::move(value));
  return {};
}

Result<Mask> parse_causal(Arguments& arguments) {
  CausalMask mask;
  if (!arguments.has_any()) return Mask(mask);
  ProblemCursor& cursor = arguments.cursor();
  const size_t begin = cursor.offset();
  if (cursor.take_name() != "top-left" || !arguments.at_stop()) {
    cursor.take_until(kStops);
    return cursor.fail(begin, "causal: expected top-left, or no value for bottom-right");
  }
  mask.alignment = MaskAlignment::kTopLeft;
  return Mask(mask);
}

Result<Mask> parse_window(Arguments& arguments) {
  constexpr std::string_view kExample = "window=256,0 or window=*,0 (left,right)";
  if (!arguments.has_any()) return arguments.needs(kExample);
  WindowMask mask;
  TW_ASSIGN(mask.left, arguments.distance("left"));
  if (!arguments.next()) return arguments.needs(kExample);
  TW_ASSIGN(mask.right, arguments.distance("right"));
  if (arguments.next()) {
    constexpr std::string_view kWindowKeys[] = {"dilation"};
    TW_TRY(keyed(arguments, "window", kWindowKeys, [&](std::string_view key) {
      return store(arguments.integer(key), mask.dilation);
    }));
  }
  return Mask(mask);
}

Result<Mask> parse_global(Arguments& arguments) {
  if (!arguments.has_any()) return arguments.needs("global=4 or global={0,17}");
  GlobalMask mask;
  if (arguments.cursor().peek('{')) {
    TW_ASSIGN(mask.indices, arguments.list(""));
  } else {
    TW_ASSIGN(mask.count, arguments.integer(""));
  }
  return Mask(mask);
}

Result<Mask> parse_bigbird(Arguments& arguments) {
  BigBirdMask mask;
  if (!arguments.has_any()) return Mask(mask);
  constexpr std::string_view kBigBirdKeys[] = {"block", "window", "global",
                                               "ends",  "random", "seed"};
  const auto read_value = [&](std::string_view key) -> Status {
    if (key == "block") return store(arguments.integer(key), mask.block);
    if (key == "window") return store(arguments.integer(key), mask.window);
    if (key == "global") return store(arguments.integer(key), mask.global);
    if (key == "random") return store(arguments.integer(key), mask.random);
    ProblemCursor& cursor = arguments.cursor();
    const size_t begin = cursor.offset();
    if (key == "seed") {
      TW_ASSIGN(mask.seed, cursor.unsigned_integer(arguments.label(key), kStops));
      return {};
    }
    const std::string_view ends = cursor.take_until(kStops);
    if (ends != "0" && ends != "1") return cursor.fail(begin, "bigbird ends: expected 0 or 1");
    mask.ends = ends == "1";
    return {};
  };
  TW_TRY(keyed(arguments, "bigbird", kBigBirdKeys, read_value));
  return Mask(mask);
}

Result<Mask> parse_longformer(Arguments& arguments) {
  LongformerMask mask;
  if (!arguments.has_any()) return Mask(mask);
  constexpr std::string_view kLongformerKeys[] = {"window", "global"};
  const auto read_value = [&](std::string_view key) -> Status {
    if (key == "window") return store(arguments.integer(key), mask.window);
    TW_ASSIGN(mask.global, arguments.list(key));
    return {};
  };
  TW_TRY(keyed(arguments, "longformer", kLongformerKeys, read_value));
  return Mask(mask);
}

template <class T>
Result<Mask> parse_sized(Arguments& arguments, int64_t T::*size, std::string_view example) {
  if (!arguments.has_any()) return arguments.needs(example);
  T mask;
  TW_ASSIGN(mask.*size, arguments.integer(""));
  return Mask(mask);
}

Result<Mask> parse_by_name(std::string_view name, Arguments& arguments, size_t begin) {
  if (name == "causal") return parse_causal(arguments);
  if (name == "window") return parse_window(arguments);
  if (name == "prefix") return parse_sized(arguments, &PrefixMask::length, "prefix=128");
  if (name == "global") return parse_global(arguments);
  if (name == "bigbird") return parse_bigbird(arguments);
  if (name == "longformer") return parse_longformer(arguments);
  if (name == "chunk") return parse_sized(arguments, &ChunkMask::size, "chunk=512");
  if (name == "blocks") return parse_sized(arguments, &BlocksMask::size, "blocks=128");
  ProblemCursor& cursor = arguments.cursor();
  if (name == "documents") {
    if (!arguments.has_any()) return Mask(DocumentsMask{});
    return cursor.fail(begin, "documents takes no value: the ids come with --documents");
  }
  if (name == "mask") {
    if (!arguments.has_any()) return arguments.needs("mask='q >= k'");
    TW_ASSIGN(std::string expression, cursor.quoted("mask"));
    return Mask(ExpressionMask{std::move(expression)});
  }
  return cursor.fail(begin, fmt::format("'{}' is not a mask", name));
}

}  // namespace

Result<Mask> parse_mask(ProblemCursor& cursor, std::string_view name, size_t begin) {
  Arguments arguments(cursor, name, begin);
  TW_ASSIGN(Mask mask, parse_by_name(name, arguments, begin));
  if (!cursor.at_item_end() && !cursor.peek('+')) {
    const size_t rest = cursor.offset();
    cursor.take_until(" ");
    return cursor.fail(rest, fmt::format("unexpected text after {}", name));
  }
  return mask;
}

}  // namespace tilewright
