#include "core/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>

#include "core/check.h"

namespace tilewright {
namespace {

// What a person should see in a message of a text that may hold anything.
std::string printable(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c < 0x20 || c > 0x7e) c = '?';
  }
  return result;
}

template <class T>
Result<T> parse_number(std::string_view text, std::string_view what, std::string_view range) {
  if (text.empty()) return make_error(ErrorCode::kParseError, "expected {}, got nothing", what);
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range && stop == end) {
    return make_error(ErrorCode::kParseError, "'{}' does not fit in {}", excerpt(text), range);
  }
  if (error != std::errc() || stop != end) {
    return make_error(ErrorCode::kParseError, "'{}' is not {}", excerpt(text), what);
  }
  return value;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string excerpt(std::string_view text) {
  constexpr size_t kMaxShown = 40;
  if (text.size() <= kMaxShown) return printable(text);
  return printable(text.substr(0, kMaxShown)) + "...";
}

Result<int64_t> parse_int(std::string_view text) {
  return parse_number<int64_t>(text, "an integer", "64 bits");
}

Result<uint64_t> parse_uint(std::string_view text) {
  return parse_number<uint64_t>(text, "a non-negative integer", "64 bits");
}

Result<double> parse_double(std::string_view text) {
  TW_ASSIGN(const double value, parse_number<double>(text, "a number", "a double"));
  if (!std::isfinite(value)) {
    return make_error(ErrorCode::kParseError, "'{}' is not a finite number", excerpt(text));
  }
  return value;
}

std::string number_text(double value) {
  std::string text = fmt::format("{}", value);
  std::erase(text, '+');  // of an exponent: '+' separates masks in a problem's text
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string join(std::span<const std::string> pieces, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (i > 0) text += separator;
    text += pieces[i];
  }
  return text;
}

std::string point_at(std::string_view message, std::string_view text, size_t offset,
                     size_t length) {
  offset = std::min(offset, text.size());
  const size_t newline = offset == 0 ? std::string_view::npos : text.rfind('\n', offset - 1);
  const size_t begin = newline == std::string_view::npos ? 0 : newline + 1;
  std::string_view line = text.substr(begin, text.find('\n', offset) - begin);
  size_t column = offset - begin;
  length = std::clamp<size_t>(length, 1, std::max<size_t>(line.size() - column, 1));

  constexpr size_t kMaxLine = 100;
  std::string_view before, after;
  if (line.size() > kMaxLine) {
    const size_t start = column > kMaxLine / 2 ? column - kMaxLine / 2 : 0;
    if (start + kMaxLine < line.size()) after = "...";
    if (start > 0) before = "...";
    line = line.substr(start, kMaxLine);
    column -= start;
    length = std::clamp<size_t>(length, 1, std::max<size_t>(line.size() - column, 1));
  }
  return fmt::format("{}\n  {}{}{}\n  {}{}", message, before, printable(line), after,
                     std::string(before.size() + column, ' '), std::string(length, '^'));
}

std::string shell_quote(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string_view::npos) {
    return std::string(text);
  }
  // Double quotes read better, as long as nothing inside them is special to the shell.
  if (text.find_first_of("\"\\$`!") == std::string_view::npos) {
    return '"' + std::string(text) + '"';
  }
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_command(std::span<const std::string> words) {
  std::string command;
  for (const std::string& word : words) {
    if (!command.empty()) command += ' ';
    command += shell_quote(word);
  }
  return command;
}

std::string bytes_text(int64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string seconds_text(double seconds) {
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  // Three significant digits in the unit that gives one to three digits before the point.
  const auto [factor, unit] = size < 0.9995e-6   ? std::pair(1e9, "ns")
                              : size < 0.9995e-3 ? std::pair(1e6, "us")
                              : size < 0.9995    ? std::pair(1e3, "ms")
                                                 : std::pair(1.0, "s");
  const double value = seconds * factor;
  const double magnitude = std::abs(value);
  const int decimals = magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, decimals, unit);
}

std::string nearest_name(std::string_view name, std::span<const std::string_view> known) {
  constexpr size_t kMaxLength = 64;  // longer texts are no misspelt names
  if (name.empty() || name.size() > kMaxLength) return {};
  std::string_view best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : known) {
    const size_t distance = edit_distance(name, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

}  // namespace tilewright
