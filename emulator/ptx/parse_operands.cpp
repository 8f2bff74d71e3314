// Operands and constant expressions.
#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>

#include "emulator/ptx/parser_state.h"

namespace tilewright::emulator::ptx {
namespace {

constexpr size_t kMaxOperands = 16;
constexpr size_t kMaxElements = 256;
// Of one constant expression.
constexpr int kMaxExpressionDepth = 64;

struct SpecialName {
  std::string_view name;
  SpecialRegister special;
};

constexpr auto sorted_specials() {
  std::array names = {
#define TW_SPECIAL_REGISTER(enumerator, name, type, components) \
  SpecialName{name, SpecialRegister::enumerator},
#include "emulator/ptx/special_registers.def"
  };
  std::ranges::sort(names, {}, &SpecialName::name);
  return names;
}
constexpr auto kSpecials = sorted_specials();

const SpecialName* find_special(std::string_view name) {
  const auto it = std::ranges::lower_bound(kSpecials, name, {}, &SpecialName::name);
  return it != kSpecials.end() && it->name == name ? &*it : nullptr;
}

int precedence(const LexToken& token) {
  // A lone `%` is lexed as a word.
  if (token.kind != TokenKind::kPunctuation && token.text != "%") return 0;
  constexpr std::pair<std::string_view, int> kTable[] = {
      {"||", 1}, {"&&", 2}, {"|", 3},  {"^", 4},  {"&", 5},  {"==", 6},
      {"!=", 6}, {"<", 7},  {"<=", 7}, {">", 7},  {">=", 7}, {"<<", 8},
      {">>", 8}, {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10},
  };
  const auto it = std::ranges::find(kTable, token.text, &std::pair<std::string_view, int>::first);
  return it == std::end(kTable) ? 0 : it->second;
}

// Two's complement, 64 bits; nothing for a division by zero.
std::optional<uint64_t> fold(std::string_view op, uint64_t a, uint64_t b) {
  const auto left = static_cast<int64_t>(a);
  const auto right = static_cast<int64_t>(b);
  const bool overflows = left == std::numeric_limits<int64_t>::min() && right == -1;
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "/" || op == "%") {
    if (b == 0) return std::nullopt;
    if (op == "/") return overflows ? a : static_cast<uint64_t>(left / right);
    return overflows ? 0 : static_cast<uint64_t>(left % right);
  }
  if (op == "<<") return b < 64 ? a << b : 0;
  if (op == ">>") return static_cast<uint64_t>(left >> std::min<uint64_t>(b, 63));
  if (op == "&") return a & b;
  if (op == "|") return a | b;
  if (op == "^") return a ^ b;
  if (op == "&&") return a != 0 && b != 0;
  if (op == "||") return a != 0 || b != 0;
  if (op == "==") return a == b;
  if (op == "!=") return a != b;
  if (op == "<") return left < right;
  if (op == "<=") return left <= right;
  if (op == ">") return left > right;
  return left >= right;
}

}  // namespace

bool Parser::parse_operands(Opcode opcode) {
  if (token_.is(";")) return true;
  do {
    if (scratch_.size() >= kMaxOperands) return fail("too many operands");
    Operand operand;
    const bool good = opcode == Opcode::kBra ? parse_label_use(operand) : parse_operand(operand);
    if (!good) return false;
    scratch_.push_back(operand);
  } while (accept(","));
  return true;
}

bool Parser::parse_label_use(Operand& operand) {
  operand.kind = OperandKind::kLabel;
  if (!scratch_.empty()) return fail("a branch has one target");
  return use_label(token_, {});
}

bool Parser::parse_operand(Operand& operand) {
  if (token_.is("{")) return parse_vector(operand);
  if (token_.is("[")) return parse_address(operand);
  if (token_.is("!")) {
    const LexToken where = token_;
    advance();
    if (symbols_.find(token_.text).kind == BindingKind::kRegister) {
      operand.negated = true;
      return parse_named(operand);
    }
    lexer_.rewind(where);
    advance();
  }
  if (!parse_scalar(operand)) return false;
  return !token_.is("|") || parse_register_pair(operand);
}

// d|p, p|q, _|p, d|_
bool Parser::parse_register_pair(Operand& operand) {
  const bool is_sink = operand.kind == OperandKind::kSink;
  if (!is_sink && operand.kind != OperandKind::kRegister) {
    return fail("'|' stands between registers");
  }
  advance();
  Operand second;
  if (!parse_scalar(second)) return false;
  if (second.kind == OperandKind::kSink) return true;
  if (second.kind != OperandKind::kRegister) return fail("'|' stands between registers");
  operand.kind = OperandKind::kRegister;
  operand.second = second.index;
  return true;
}

// A register, `_`, a special register, a symbol or a constant.
bool Parser::parse_scalar(Operand& operand) {
  if (token_.kind == TokenKind::kIdentifier && !token_.is("WARP_SZ")) return parse_named(operand);
  ConstantValue value;
  return parse_constant(value) && set_constant(operand, value);
}

bool Parser::set_constant(Operand& operand, const ConstantValue& value) {
  operand.value = static_cast<int64_t>(value.bits);
  if (value.symbol == SymbolKind::kNone) {
    operand.kind = OperandKind::kImmediate;
    operand.immediate = value.kind;
    return true;
  }
  if (value.generic || value.mask != 0) return fail("generic() stands in initialisers only");
  operand.kind = OperandKind::kSymbol;
  operand.symbol = value.symbol;
  operand.index = value.index;
  return true;
}

// ".x" … after a special register or a vector register.
bool Parser::parse_component(uint32_t components, uint32_t& component) {
  const std::string_view name = token_.text;
  constexpr std::string_view kXyzw = "xyzw";
  constexpr std::string_view kRgba = "rgba";
  size_t index = std::string_view::npos;
  if (token_.kind == TokenKind::kDirective && name.size() == 2) {
    index = std::min(kXyzw.find(name[1]), kRgba.find(name[1]));
  }
  if (index >= components) return fail("expected a component, found {}", describe_token());
  component = static_cast<uint32_t>(index);
  advance();
  return true;
}

bool Parser::parse_named(Operand& operand) {
  if (token_.kind != TokenKind::kIdentifier) {
    return fail("expected a name, found {}", describe_token());
  }
  const LexToken name = token_;
  const Binding binding = symbols_.find(name.text);
  uint32_t component = 0;
  if (binding.kind == BindingKind::kRegister) {
    advance();
    operand.kind = OperandKind::kRegister;
    operand.index = binding.index;
    if (binding.vector == 1) return true;
    if (token_.kind == TokenKind::kDirective) {
      if (!parse_component(binding.vector, component)) return false;
      operand.index += component;
      return true;
    }
    operand.kind = OperandKind::kVector;
    operand.count = binding.vector;
    operand.index = static_cast<uint32_t>(function_->pool.size());
    for (uint32_t i = 0; i < binding.vector; ++i) {
      function_->pool.push_back({.kind = OperandKind::kRegister, .index = binding.index + i});
    }
    return true;
  }
  if (binding.kind == BindingKind::kSymbol) {
    ConstantValue value;
    return parse_constant(value) && set_constant(operand, value);
  }
  if (name.text == "_") {
    advance();
    operand.kind = OperandKind::kSink;
    return true;
  }
  return parse_special(operand);
}

// %tid.x, %clock, %envreg2
bool Parser::parse_special(Operand& operand) {
  const std::string_view text = token_.text;
  const size_t digits = text.find_last_not_of("0123456789") + 1;
  uint32_t component = 0;
  const SpecialName* special = find_special(text);
  if (special && special_register_components(special->special) > 3) special = nullptr;
  if (!special) {
    special = find_special(text.substr(0, digits));
    const auto [end, error] =
        std::from_chars(text.data() + digits, text.data() + text.size(), component);
    const bool numbered =
        special && error == std::errc() && special_register_components(special->special) > 3 &&
        component < static_cast<uint32_t>(special_register_components(special->special));
    if (!numbered) return fail("unknown name '{}'", text);
  }
  advance();
  operand.kind = OperandKind::kSpecial;
  operand.index = static_cast<uint32_t>(special->special);
  const int components = special_register_components(special->special);
  if (components == 3 && !parse_component(3, component)) return false;
  operand.component = static_cast<uint8_t>(component);
  return true;
}

bool Parser::parse_vector(Operand& operand) {
  advance();
  std::vector<Operand> elements;
  do {
    if (elements.size() >= kMaxElements) return fail("the vector is too long");
    Operand element;
    if (!parse_scalar(element)) return false;
    if (element.kind == OperandKind::kVector) return fail("a vector holds no vectors");
    elements.push_back(element);
  } while (accept(","));
  operand.kind = OperandKind::kVector;
  operand.index = static_cast<uint32_t>(function_->pool.size());
  operand.count = static_cast<uint16_t>(elements.size());
  function_->pool.insert(function_->pool.end(), elements.begin(), elements.end());
  return expect("}");
}

// [register], [register+constant], [symbol+constant], [constant], [map, {coordinates}]
bool Parser::parse_address(Operand& operand) {
  advance();
  Operand base;
  if (!parse_scalar(base)) return false;
  operand.kind = OperandKind::kAddress;
  operand.value = base.value;
  if (base.kind == OperandKind::kRegister) {
    operand.base = AddressBase::kRegister;
    operand.index = base.index;
    const int bits = type_bits(function_->registers[base.index]);
    if (bits != 32 && bits != 64) return fail("an address register has 32 or 64 bits");
    if (token_.is("+") || token_.is("-")) {
      const bool minus = token_.is("-");
      advance();
      ConstantValue offset;
      if (!parse_constant(offset)) return false;
      if (offset.symbol != SymbolKind::kNone || offset.kind != ImmediateKind::kInteger) {
        return fail("an address's offset is an integer");
      }
      operand.value = static_cast<int64_t>(minus ? 0 - offset.bits : offset.bits);
    }
  } else if (base.kind == OperandKind::kSymbol) {
    operand.base = AddressBase::kSymbol;
    operand.symbol = base.symbol;
    operand.index = base.index;
  } else if (base.kind != OperandKind::kImmediate || base.immediate != ImmediateKind::kInteger) {
    return fail("bad address");
  }
  if (accept(",")) {
    Operand coordinates;
    if (!token_.is("{") || !parse_vector(coordinates)) return fail("expected coordinates");
    operand.kind = OperandKind::kTensorAddress;
    operand.second = coordinates.index;
    operand.count = coordinates.count;
  }
  return expect("]");
}

// condition ? a : b
bool Parser::parse_ternary(ConstantValue& value) {
  if (depth_ >= kMaxExpressionDepth) return fail("the expression is nested too deeply");
  ++depth_;
  bool good = parse_binary(value, 1);
  if (good && token_.is("?")) {
    advance();
    ConstantValue if_true;
    ConstantValue if_false;
    good = parse_ternary(if_true) && expect(":") && parse_ternary(if_false);
    value = value.bits != 0 ? if_true : if_false;
  }
  --depth_;
  return good;
}

bool Parser::parse_binary(ConstantValue& value, int min_precedence) {
  if (!parse_unary(value)) return false;
  while (true) {
    const int level = precedence(token_);
    if (level < min_precedence || level == 0) return true;
    const LexToken op = token_;
    advance();
    ConstantValue right;
    if (!parse_binary(right, level + 1) || !combine(op.text, value, right)) return false;
  }
}

bool Parser::combine(std::string_view op, ConstantValue& left, const ConstantValue& right) {
  const bool addition = op == "+" || op == "-";
  const bool integers =
      left.kind == ImmediateKind::kInteger && right.kind == ImmediateKind::kInteger;
  const bool left_symbol = left.symbol != SymbolKind::kNone;
  const bool right_symbol = right.symbol != SymbolKind::kNone;
  if (!integers || (left_symbol && right_symbol) || ((left_symbol || right_symbol) && !addition) ||
      (right_symbol && op == "-")) {
    return fail("'{}' cannot combine these", op);
  }
  const auto folded = fold(op, left.bits, right.bits);
  if (!folded) return fail("division by zero");
  if (right_symbol) left = right;
  left.bits = *folded;
  return true;
}

bool Parser::parse_unary(ConstantValue& value) {
  const bool is_operator = token_.kind == TokenKind::kPunctuation && token_.text.size() == 1 &&
                           std::string_view("+-~!").find(token_.text[0]) != std::string_view::npos;
  if (!is_operator) return parse_primary(value);
  const char op = token_.text[0];
  if (depth_ >= kMaxExpressionDepth) return fail("the expression is nested too deeply");
  ++depth_;
  advance();
  const bool good = parse_unary(value);
  --depth_;
  if (!good || op == '+') return good;
  if (value.symbol != SymbolKind::kNone) return fail("'{}' cannot be applied to an address", op);
  if (op != '-' && value.kind != ImmediateKind::kInteger) return fail("'{}' needs an integer", op);
  if (op == '~') {
    value.bits = ~value.bits;
  } else if (op == '!') {
    value.bits = value.bits == 0;
  } else if (value.kind == ImmediateKind::kInteger) {
    value.bits = 0 - value.bits;
  } else {
    value.bits ^= uint64_t{1} << (value.kind == ImmediateKind::kF32 ? 31 : 63);
  }
  return true;
}

bool Parser::parse_primary(ConstantValue& value) {
  switch (token_.kind) {
    case TokenKind::kInteger:
      value.bits = token_.bits;
      advance();
      if (!token_.is("(")) return true;
      value.mask = std::exchange(value.bits, 0);
      advance();
      return parse_named_constant(value) && expect(")");
    case TokenKind::kFloat32:
      value.kind = ImmediateKind::kF32;
      value.bits = token_.bits;
      advance();
      return true;
    case TokenKind::kFloat64:
      value.kind = ImmediateKind::kF64;
      value.bits = token_.bits;
      advance();
      return true;
    case TokenKind::kIdentifier:
      return parse_named_constant(value);
    case TokenKind::kPunctuation:
      if (!token_.is("(")) break;
      advance();
      if (accept(".s64") || accept(".u64")) return expect(")") && parse_cast(value);
      return parse_ternary(value) && expect(")");
    default:
      break;
  }
  return fail("expected an operand, found {}", describe_token());
}

// What follows (.s64) or (.u64), which change nothing: all is 64 bits.
bool Parser::parse_cast(ConstantValue& value) {
  if (depth_ >= kMaxExpressionDepth) return fail("the expression is nested too deeply");
  ++depth_;
  const bool good = parse_unary(value);
  --depth_;
  return good;
}

// WARP_SZ, a symbol, generic(symbol)
bool Parser::parse_named_constant(ConstantValue& value) {
  if (accept("WARP_SZ")) {
    value.bits = 32;
    return true;
  }
  if (token_.is("generic")) {
    advance();
    value.generic = true;
    return expect("(") && parse_symbol(value) && expect(")");
  }
  return parse_symbol(value);
}

bool Parser::parse_symbol(ConstantValue& value) {
  const Binding binding = symbols_.find(token_.text);
  if (token_.kind != TokenKind::kIdentifier || binding.kind != BindingKind::kSymbol) {
    return fail("expected an address, found {}", describe_token());
  }
  value.symbol = binding.symbol;
  value.index = binding.index;
  advance();
  return true;
}

}  // namespace tilewright::emulator::ptx
