#include "core/problem_cursor.h"

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "core/text.h"

namespace tilewright {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

}  // namespace

bool ProblemCursor::take(char c) {
  if (!peek(c)) return false;
  ++offset_;
  return true;
}

void ProblemCursor::skip_spaces() {
  while (take(' ')) {
  }
}

std::string_view ProblemCursor::take_name() {
  const size_t begin = offset_;
  if (at_end() || !is_letter(text_[offset_])) return {};
  while (!at_end() &&
         (is_letter(text_[offset_]) || is_digit(text_[offset_]) || peek('-') || peek('_'))) {
    ++offset_;
  }
  return text_.substr(begin, offset_ - begin);
}

std::string_view ProblemCursor::take_until(std::string_view stops) {
  const size_t begin = offset_;
  offset_ = std::min(text_.find_first_of(stops, begin), text_.size());
  return text_.substr(begin, offset_ - begin);
}

Result<int64_t> ProblemCursor::integer(std::string_view what, std::string_view stops) {
  const size_t begin = offset_;
  const std::string_view digits = take_until(stops);
  const Result<int64_t> value = parse_int(digits);
  if (!value.ok()) return fail(begin, fmt::format("{}: {}", what, value.error().message));
  if (digits.starts_with('-')) {
    return fail(begin, fmt::format("{}: {} is negative", what, digits));
  }
  return *value;
}

Result<uint64_t> ProblemCursor::unsigned_integer(std::string_view what, std::string_view stops) {
  const size_t begin = offset_;
  const Result<uint64_t> value = parse_uint(take_until(stops));
  if (!value.ok()) return fail(begin, fmt::format("{}: {}", what, value.error().message));
  return *value;
}

Result<double> ProblemCursor::number(std::string_view what) {
  const size_t begin = offset_;
  const Result<double> value = parse_double(take_until(" "));
  if (!value.ok()) return fail(begin, fmt::format("{}: {}", what, value.error().message));
  return *value;
}

Result<std::string> ProblemCursor::quoted(std::string_view what) {
  const size_t begin = offset_;
  if (!take('\'')) {
    return fail(begin, fmt::format("{}: expected a text in single quotes", what));
  }
  std::string value;
  for (;;) {
    if (at_end()) return fail(begin, fmt::format("{}: the quote is not closed", what));
    const size_t here = offset_;
    char c = text_[offset_++];
    if (c == '\'') break;
    if (c == '\\') {
      if (!peek('\'') && !peek('\\')) {
        return fail(here, fmt::format("{}: a backslash stands only before ' or \\", what));
      }
      c = text_[offset_++];
    }
    if (is_control(c)) return fail(here, fmt::format("{}: control character", what));
    value += c;
  }
  if (value.empty()) return fail(begin, fmt::format("{}: the text is empty", what));
  return value;
}

Error ProblemCursor::fail(size_t begin, std::string_view message) const {
  return fail(begin, offset_ - std::min(begin, offset_), message);
}

Error ProblemCursor::fail(size_t begin, size_t length, std::string_view message) const {
  return Error{ErrorCode::kParseError, point_at(message, text_, begin, length), {}};
}

std::string quoted_text_violation(std::string_view text) {
  if (text.empty()) return "is empty";
  if (std::any_of(text.begin(), text.end(), is_control)) return "holds a control character";
  return {};
}

}  // namespace tilewright
