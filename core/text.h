// Text helpers that every folder shares: strict number parsing, carets that point at a token,
// shell quoting of printed reproducers, and short human-readable sizes and times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilewright/result.h"

namespace tilewright {

// The whole text must be one decimal number: no sign '+', no spaces, nothing after it.
// kParseError says what is wrong: "'12x' is not an integer", "'99…' does not fit in 64 bits".
Result<int64_t> parse_int(std::string_view text);
Result<uint64_t> parse_uint(std::string_view text);
// Finite numbers only; "1e999", "nan" and "inf" are refused.
Result<double> parse_double(std::string_view text);

// The shortest decimal text that reads back as exactly `value` ("0.1", "50", "1e-07").
std::string number_text(double value);

// The pieces between separators; "" gives one empty piece. The pieces point into `text`.
std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string join(std::span<const std::string> pieces, std::string_view separator);

// Enough of an offending text to recognise it in a message: its first 40 characters, with '?' for
// control characters and bytes outside ASCII.
std::string excerpt(std::string_view text);

// "message", the text on its own line and a caret line under [offset, offset + length), each
// indented by two spaces. Only the line of `text` that holds the offset is shown; a long one is
// cut around it. Control characters and bytes outside ASCII are shown as '?', one column each.
std::string point_at(std::string_view message, std::string_view text, size_t offset,
                     size_t length = 1);

// The text as one word of a POSIX shell; unchanged where no quoting is needed.
std::string shell_quote(std::string_view text);
// A command line: every word quoted as needed, joined by spaces.
std::string shell_command(std::span<const std::string> words);

// "812 B", "3.4 KiB", "80.0 GiB".
std::string bytes_text(int64_t bytes);
// "850 ns", "12.3 us", "4.51 ms", "1.20 s".
std::string seconds_text(double seconds);

// The names of `known` closest to `name`, to suggest after a misspelling; empty if none is near.
std::string nearest_name(std::string_view name, std::span<const std::string_view> known);

}  // namespace tilewright
