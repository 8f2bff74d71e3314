// Tokens of PTX text. The lexer keeps no tokens: it scans one at a time from an offset, so that a
// mnemonic, whose dotted suffixes follow rules of their own, can be scanned again as one word.
// Internal to emulator/ptx.
#pragma once

#include <cstdint>
#include <string_view>

namespace tilewright::emulator::ptx {

enum class TokenKind : uint8_t {
  kEnd,
  kError,       // a character or literal that PTX does not have
  kIdentifier,  // letters, digits, _ $ %
  kDirective,   // .name, with ::parts
  kInteger,     // bits
  kFloat32,     // bits: 0fXXXXXXXX
  kFloat64,     // bits: 0dX16 or a decimal literal
  kString,      // text without the quotes
  kPunctuation,
};

struct LexToken {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;
  uint64_t bits = 0;
  uint32_t offset = 0;
  uint32_t line = 1;
  uint32_t column = 1;

  bool is(std::string_view expected) const {
    return text == expected && kind != TokenKind::kString;
  }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  LexToken next();
  // Scans again from `token` as an instruction's name with its suffixes; blanks before a dot are
  // allowed, and dropped by `spaced` being true.
  LexToken mnemonic(const LexToken& token, bool& spaced);
  // Goes back to `token`.
  void rewind(const LexToken& token);
  // Where the last token ended.
  uint32_t offset() const { return static_cast<uint32_t>(at_); }

 private:
  // True unless a comment is not closed.
  bool skip_blanks();
  LexToken number(LexToken token);
  bool radix_literal(LexToken& token);
  LexToken string(LexToken token);
  LexToken finish(LexToken token, TokenKind kind, size_t end);
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }

  std::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  size_t line_start_ = 0;
};

}  // namespace tilewright::emulator::ptx
