// ProblemCursor: the lexical level of a problem's text form. Reads names, numbers and quoted texts
// from left to right; every failure is an Error with a caret line under the offending part.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright {

class ProblemCursor {
 public:
  explicit ProblemCursor(std::string_view text) : text_(text) {}

  size_t offset() const { return offset_; }
  bool at_end() const { return offset_ == text_.size(); }
  bool peek(char c) const { return !at_end() && text_[offset_] == c; }
  bool take(char c);
  void skip_spaces();
  // Whether an item ends here: a space or the end of the text.
  bool at_item_end() const { return at_end() || peek(' '); }

  // letter { letter | digit | "-" | "_" }; empty if there is no letter here.
  std::string_view take_name();
  // Everything up to one of `stops` or the end.
  std::string_view take_until(std::string_view stops);
  void rewind(size_t offset) { offset_ = offset; }

  // A non-negative integer that ends at one of `stops`; `what` names it in messages.
  Result<int64_t> integer(std::string_view what, std::string_view stops);
  Result<uint64_t> unsigned_integer(std::string_view what, std::string_view stops);
  // A finite number up to the next space.
  Result<double> number(std::string_view what);
  // '...' with \' and \\ inside.
  Result<std::string> quoted(std::string_view what);

  // An error that points at [begin, offset()), or at `begin` if that is empty.
  Error fail(size_t begin, std::string_view message) const;
  Error fail(size_t begin, size_t length, std::string_view message) const;

 private:
  std::string_view text_;
  size_t offset_ = 0;
};

// Parses what follows the name of a mask, "=…" included; `begin` is where the name began.
Result<Mask> parse_mask(ProblemCursor& cursor, std::string_view name, size_t begin);

// The name of a mask as the text form spells it.
std::string_view mask_name(const Mask& mask);
// A mask's canonical text.
std::string mask_text(const Mask& mask);
// prefix and global: they add keys, so intersecting them with another mask is a mistake.
bool widens(const Mask& mask);
// Set if unions[index] is a widening mask that stands alone in an intersection: what to write
// instead.
std::optional<std::string> widening_hint(const std::vector<MaskUnion>& unions, size_t index);

// Why an expression or name cannot stand in the text form; empty if it can.
std::string quoted_text_violation(std::string_view text);

}  // namespace tilewright
