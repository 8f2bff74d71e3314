#include "emulator/ptx/parser.h"

#include <algorithm>
#include <charconv>

#include "emulator/ptx/parser_state.h"
#include "emulator/ptx/targets.h"

namespace tilewright::emulator::ptx {
namespace {

// Offsets are 32 bits.
constexpr size_t kMaxTextBytes = size_t{1} << 30;
constexpr uint32_t kMaxFileNumber = 65535;
// Of a message's quotation of the instruction.
constexpr size_t kMaxQuoted = 200;

}  // namespace

Parser::Parser(std::string_view text) : lexer_({}) {
  module_.text = text;
  module_.files.emplace_back();
  lexer_ = Lexer(module_.text);
}

Result<Module> Parser::run() {
  advance();
  if (!parse_module()) return *error_;
  return std::move(module_);
}

bool Parser::accept(std::string_view text) {
  if (!token_.is(text)) return false;
  advance();
  return true;
}

bool Parser::expect(std::string_view text) {
  if (accept(text)) return true;
  return fail("expected '{}', found {}", text, describe_token());
}

bool Parser::expect_identifier(std::string_view& name, std::string_view what) {
  if (token_.kind != TokenKind::kIdentifier) {
    return fail("expected {}, found {}", what, describe_token());
  }
  name = token_.text;
  advance();
  return true;
}

bool Parser::expect_uint32(uint32_t& value, std::string_view what) {
  if (token_.kind != TokenKind::kInteger || token_.bits > 0xffffffffu) {
    return fail("expected {}, found {}", what, describe_token());
  }
  value = static_cast<uint32_t>(token_.bits);
  advance();
  return true;
}

std::string Parser::describe_token() const {
  if (token_.kind == TokenKind::kEnd) return "the end of the text";
  return fmt::format("'{}'", token_.text.substr(0, kMaxQuoted));
}

// From `from` to the statement's end, blanks folded.
std::string Parser::statement_text(uint32_t from) const {
  std::string folded;
  const std::string_view text = module_.text;
  bool blank = false;
  for (size_t i = from; i < text.size() && folded.size() < kMaxQuoted; ++i) {
    const char c = text[i];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      blank = !folded.empty();
      continue;
    }
    if (blank) folded += ' ';
    blank = false;
    // Bytes that a terminal could not show.
    folded +=
        static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e ? '?' : c;
    if (c == ';') break;
  }
  return folded;
}

bool Parser::fail_at(const LexToken& where, const std::string& message) {
  if (!error_) {
    const uint32_t from = std::min(statement_, where.offset);
    error_ = make_error(ErrorCode::kParseError, "{}:{}: {}: {}", where.line, where.column, message,
                        statement_text(from));
  }
  return false;
}

bool Parser::parse_module() {
  if (module_.text.size() > kMaxTextBytes) return fail("the text is longer than 1 GB");
  if (!parse_version() || !parse_target()) return false;
  while (token_.kind != TokenKind::kEnd) {
    statement_ = token_.offset;
    if (!parse_module_directive()) return false;
  }
  return true;
}

bool Parser::parse_version() {
  statement_ = token_.offset;
  if (!expect(".version")) return false;
  const std::string_view text = token_.text;
  const char* const end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, module_.version_major);
  const bool has_minor = major.ec == std::errc() && major.ptr != end && *major.ptr == '.';
  if (token_.kind != TokenKind::kFloat64 || !has_minor ||
      std::from_chars(major.ptr + 1, end, module_.version_minor).ptr != end) {
    return fail("expected a version such as 8.0, found {}", describe_token());
  }
  advance();
  return true;
}

bool Parser::parse_target() {
  statement_ = token_.offset;
  if (!expect(".target")) return false;
  const std::string_view text = token_.text;
  const char* const end = text.data() + text.size();
  Target& target = module_.target;
  if (!text.starts_with("sm_"))
    return fail("expected a target such as sm_90a, found {}", describe_token());
  const auto [stop, error] = std::from_chars(text.data() + 3, end, target.compute_capability);
  const std::string_view suffix(stop, static_cast<size_t>(end - stop));
  target.has_suffix = suffix == "a" || suffix == "f";
  if (error != std::errc() || !(suffix.empty() || target.has_suffix)) {
    return fail("expected a target such as sm_90a, found {}", describe_token());
  }
  const std::optional<PtxVersion> first = first_version(text);
  if (!first) return fail("'{}' is not a target", text);
  if (PtxVersion{module_.version_major, module_.version_minor} < *first) {
    return fail(".version {}.{} does not know the target {}, which came with {}.{}",
                module_.version_major, module_.version_minor, text, first->major, first->minor);
  }
  advance();
  std::string_view option;
  while (accept(",")) {
    if (!expect_identifier(option, "a target option")) return false;
  }
  return true;
}

bool Parser::parse_module_directive() {
  if (token_.is(".file")) return parse_file();
  if (token_.is(".section")) return skip_section();
  if (token_.is(".pragma")) return skip_pragma();
  if (token_.is(".loc")) return parse_location();
  if (accept(";")) return true;
  if (accept(".address_size")) {
    uint32_t size = 0;
    const LexToken where = token_;
    if (!expect_uint32(size, "an address size")) return false;
    if (size != 64) return fail_at(where, "only 64-bit addresses are supported");
    return true;
  }
  return parse_declaration();
}

bool Parser::parse_declaration() {
  Linkage linkage = Linkage::kInternal;
  bool weak = false;
  while (true) {
    if (accept(".visible")) {
      linkage = Linkage::kVisible;
    } else if (accept(".extern")) {
      linkage = Linkage::kExtern;
    } else if (accept(".weak")) {
      weak = true;
    } else if (accept(".common")) {
      linkage = Linkage::kCommon;
    } else {
      break;
    }
  }
  if (weak) linkage = Linkage::kWeak;
  if (accept(".entry")) return parse_function(true, linkage);
  if (accept(".func")) return parse_function(false, linkage);
  const auto space = variable_space(token_.text);
  if (!space || *space == StateSpace::kParam || *space == StateSpace::kLocal) {
    return fail("expected a directive, found {}", describe_token());
  }
  advance();
  return parse_variables(*space, linkage);
}

bool Parser::parse_file() {
  advance();
  uint32_t number = 0;
  const LexToken where = token_;
  if (!expect_uint32(number, "a file number")) return false;
  if (number > kMaxFileNumber) return fail_at(where, "the file number is too large");
  if (token_.kind != TokenKind::kString) return fail("expected a file name");
  if (module_.files.size() <= number) module_.files.resize(number + size_t{1});
  module_.files[number] = token_.text;
  advance();
  uint32_t ignored = 0;  // time stamp and size
  while (accept(",")) {
    if (!expect_uint32(ignored, "a number")) return false;
  }
  return true;
}

bool Parser::skip_section() {
  advance();
  if (token_.kind != TokenKind::kDirective) return fail("expected a section name");
  advance();
  if (!expect("{")) return false;
  for (int depth = 1; depth > 0; advance()) {
    if (token_.kind == TokenKind::kEnd) return fail("the section is not closed");
    if (token_.is("{")) ++depth;
    if (token_.is("}")) --depth;
  }
  return true;
}

bool Parser::skip_pragma() {
  advance();
  do {
    if (token_.kind != TokenKind::kString) return fail("expected a pragma in quotes");
    advance();
  } while (accept(","));
  return expect(";");
}

Result<Module> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace tilewright::emulator::ptx
