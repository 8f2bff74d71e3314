#include "emulator/ptx/lexer.h"

#include <array>
#include <bit>
#include <charconv>

namespace tilewright::emulator::ptx {
namespace {

enum CharClass : uint8_t { kBlank = 1, kWord = 2, kDigit = 4 };

constexpr std::array<uint8_t, 256> char_classes() {
  std::array<uint8_t, 256> classes{};
  for (const char c : {' ', '\t', '\r', '\n', '\v', '\f'}) {
    classes[static_cast<uint8_t>(c)] = kBlank;
  }
  for (int c = 'a'; c <= 'z'; ++c) classes[static_cast<size_t>(c)] = kWord;
  for (int c = 'A'; c <= 'Z'; ++c) classes[static_cast<size_t>(c)] = kWord;
  for (int c = '0'; c <= '9'; ++c) classes[static_cast<size_t>(c)] = kWord | kDigit;
  for (const char c : {'_', '$', '%'}) classes[static_cast<uint8_t>(c)] = kWord;
  return classes;
}
constexpr std::array<uint8_t, 256> kClasses = char_classes();

bool is(char c, CharClass char_class) {
  return (kClasses[static_cast<uint8_t>(c)] & char_class) != 0;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

}  // namespace

bool Lexer::skip_blanks() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_;
      line_start_ = ++at_;
    } else if (is(c, kBlank)) {
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '/' && peek(1) == '*') {
      const size_t end = text_.find("*/", at_ + 2);
      if (end == std::string_view::npos) return false;
      for (; at_ < end + 2; ++at_) {
        if (text_[at_] == '\n') {
          ++line_;
          line_start_ = at_ + 1;
        }
      }
    } else {
      break;
    }
  }
  return true;
}

LexToken Lexer::finish(LexToken token, TokenKind kind, size_t end) {
  token.kind = kind;
  token.text = text_.substr(token.offset, end - token.offset);
  at_ = end;
  return token;
}

LexToken Lexer::next() {
  const bool blanks_ok = skip_blanks();
  LexToken token;
  token.offset = static_cast<uint32_t>(at_);
  token.line = line_;
  token.column = static_cast<uint32_t>(at_ - line_start_ + 1);
  if (!blanks_ok) return finish(token, TokenKind::kError, text_.size());
  if (at_ >= text_.size()) return token;

  const char c = text_[at_];
  if (is(c, kDigit)) return number(token);
  if (is(c, kWord)) {
    size_t end = at_ + 1;
    while (end < text_.size() && is(text_[end], kWord)) ++end;
    return finish(token, TokenKind::kIdentifier, end);
  }
  if (c == '.' && is(peek(1), kWord)) {
    size_t end = at_ + 1;
    while (end < text_.size()) {
      if (is(text_[end], kWord)) {
        ++end;
      } else if (text_.substr(end, 2) == "::") {
        end += 2;
      } else {
        break;
      }
    }
    return finish(token, TokenKind::kDirective, end);
  }
  if (c == '"') return string(token);
  for (const std::string_view pair : {"<<", ">>", "<=", ">=", "==", "!=", "&&", "||"}) {
    if (text_.substr(at_, 2) == pair) return finish(token, TokenKind::kPunctuation, at_ + 2);
  }
  constexpr std::string_view kPunctuation = "{}[]()<>,;:=+-*/%&|^~!?@#";
  const bool known = kPunctuation.find(c) != std::string_view::npos;
  return finish(token, known ? TokenKind::kPunctuation : TokenKind::kError, at_ + 1);
}

LexToken Lexer::string(LexToken token) {
  size_t end = at_ + 1;
  while (end < text_.size() && text_[end] != '"' && text_[end] != '\n') ++end;
  if (end >= text_.size() || text_[end] != '"') return finish(token, TokenKind::kError, end);
  token = finish(token, TokenKind::kString, end + 1);
  token.text = token.text.substr(1, token.text.size() - 2);
  return token;
}

// 0x… 0b… 0f… 0d…; false if the literal is none of them.
bool Lexer::radix_literal(LexToken& token) {
  if (text_[at_] != '0') return false;
  const char mark = peek(1);
  const bool is_float = mark == 'f' || mark == 'F' || mark == 'd' || mark == 'D';
  const bool is_binary = mark == 'b' || mark == 'B';
  if (!is_float && !is_binary && mark != 'x' && mark != 'X') return false;
  const int radix = is_binary ? 2 : 16;
  size_t end = at_ + 2;
  uint64_t bits = 0;
  bool overflow = false;
  for (; end < text_.size() && digit_value(text_[end]) < radix; ++end) {
    overflow |= is_binary ? (bits >> 63) != 0 : (bits >> 60) != 0;
    bits = bits * static_cast<uint64_t>(radix) + static_cast<uint64_t>(digit_value(text_[end]));
  }
  const size_t digits = end - (at_ + 2);
  token.bits = bits;
  TokenKind kind = TokenKind::kInteger;
  if (is_float) {
    const bool single = mark == 'f' || mark == 'F';
    kind = digits == (single ? 8u : 16u) ? (single ? TokenKind::kFloat32 : TokenKind::kFloat64)
                                         : TokenKind::kError;
  } else if (digits == 0 || overflow) {
    kind = TokenKind::kError;
  } else if (end < text_.size() && text_[end] == 'U') {
    ++end;
  }
  if (end < text_.size() && is(text_[end], kWord)) kind = TokenKind::kError;
  token = finish(token, kind, end);
  return true;
}

LexToken Lexer::number(LexToken token) {
  if (radix_literal(token)) return token;
  size_t end = at_;
  while (end < text_.size() && is(text_[end], kDigit)) ++end;
  const auto at = [&](size_t i) { return i < text_.size() ? text_[i] : '\0'; };
  const bool fraction = at(end) == '.' && !(is(at(end + 1), kWord) && !is(at(end + 1), kDigit));
  const bool exponent = at(end) == 'e' || at(end) == 'E';
  if (fraction || exponent) {
    double value = 0;
    const auto [stop, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    end = static_cast<size_t>(stop - text_.data());
    token.bits = std::bit_cast<uint64_t>(value);
    const bool good = error == std::errc() && !is(at(end), kWord);
    return finish(token, good ? TokenKind::kFloat64 : TokenKind::kError, end);
  }
  const int radix = text_[at_] == '0' ? 8 : 10;
  const auto [stop, error] =
      std::from_chars(text_.data() + at_, text_.data() + end, token.bits, radix);
  bool good = error == std::errc() && stop == text_.data() + end;
  if (at(end) == 'U') ++end;
  good &= !is(at(end), kWord);
  return finish(token, good ? TokenKind::kInteger : TokenKind::kError, end);
}

LexToken Lexer::mnemonic(const LexToken& token, bool& spaced) {
  rewind(token);
  spaced = false;
  size_t end = at_;
  while (end < text_.size()) {
    if (is(text_[end], kWord) || text_[end] == '.') {
      ++end;
    } else if (text_.substr(end, 2) == "::") {
      end += 2;
    } else {
      size_t after = end;
      while (after < text_.size() && (text_[after] == ' ' || text_[after] == '\t')) ++after;
      if (after == end || after >= text_.size() || text_[after] != '.') break;
      spaced = true;
      end = after;
    }
  }
  return finish(token, TokenKind::kIdentifier, end);
}

void Lexer::rewind(const LexToken& token) {
  at_ = token.offset;
  line_ = token.line;
  line_start_ = token.offset + 1 - token.column;
}

}  // namespace tilewright::emulator::ptx
