// Variables and their initialisers.
#include <bit>
#include <limits>

#include "emulator/ptx/modifiers.h"
#include "emulator/ptx/parser_state.h"

namespace tilewright::emulator::ptx {
namespace {

constexpr uint64_t kMaxVariableBytes = uint64_t{1} << 40;
constexpr uint32_t kMaxAlign = 1u << 16;
constexpr int kMaxInitialiserDepth = 16;

uint64_t type_bytes(Type type) { return static_cast<uint64_t>(type_bits(type)) / 8; }

}  // namespace

std::optional<StateSpace> Parser::variable_space(std::string_view directive) {
  if (directive == ".global") return StateSpace::kGlobal;
  if (directive == ".const") return StateSpace::kConst;
  if (directive == ".shared") return StateSpace::kShared;
  if (directive == ".local") return StateSpace::kLocal;
  if (directive == ".param") return StateSpace::kParam;
  return std::nullopt;
}

// .attribute(.managed): the only attribute with a meaning here.
bool Parser::parse_attribute(bool& managed) {
  if (!expect("(")) return false;
  do {
    if (token_.kind != TokenKind::kDirective) return fail("expected an attribute");
    managed |= token_.is(".managed");
    advance();
    if (!accept("(")) continue;
    while (!token_.is(")") && token_.kind != TokenKind::kEnd) advance();
    if (!expect(")")) return false;
  } while (accept(","));
  return expect(")");
}

bool Parser::parse_align(uint32_t& align) {
  const LexToken where = token_;
  if (!expect_uint32(align, "an alignment")) return false;
  if (!std::has_single_bit(align) || align > kMaxAlign) {
    return fail_at(where, "an alignment is a power of two up to 65536");
  }
  return true;
}

bool Parser::parse_type(Type& type) {
  if (token_.kind != TokenKind::kDirective) {
    return fail("expected a type, found {}", describe_token());
  }
  const TokenRange range = find_tokens(token_.text.substr(1));
  if (range.count != 1 || token_kind(range.first) != ModifierKind::kType) {
    return fail("expected a type, found {}", describe_token());
  }
  Modifiers modifiers;
  apply_token(range.first, 0, modifiers);
  type = modifiers.type();
  advance();
  return true;
}

// What stands between the space and the names: alignment, vector width, type, attributes.
bool Parser::parse_variable_prefix(VariablePrefix& prefix) {
  while (prefix.type == Type::kNone) {
    if (accept(".align")) {
      if (!parse_align(prefix.align)) return false;
    } else if (accept(".attribute")) {
      if (!parse_attribute(prefix.managed)) return false;
    } else if (accept(".v2")) {
      prefix.vector = 2;
    } else if (accept(".v4")) {
      prefix.vector = 4;
    } else if (!parse_type(prefix.type)) {
      return false;
    }
  }
  if (prefix.type == Type::kPred || type_bytes(prefix.type) == 0) {
    return fail("a variable cannot have type .{}", to_string(prefix.type));
  }
  return true;
}

bool Parser::parse_variables(StateSpace space, Linkage linkage) {
  VariablePrefix prefix;
  prefix.space = space;
  prefix.linkage = linkage;
  if (!parse_variable_prefix(prefix)) return false;
  do {
    if (!parse_variable(prefix)) return false;
  } while (accept(","));
  return expect(";");
}

// [4][8], [] or nothing.
bool Parser::parse_array_suffix(uint64_t& elements, bool& is_unsized, bool& is_array) {
  elements = 1;
  while (token_.is("[")) {
    advance();
    is_array = true;
    if (accept("]")) {
      if (is_unsized) return fail("only one dimension can be open");
      is_unsized = true;
      continue;
    }
    const LexToken where = token_;
    ConstantValue count;
    if (!parse_constant(count)) return false;
    const bool good = count.kind == ImmediateKind::kInteger && count.symbol == SymbolKind::kNone &&
                      count.bits <= kMaxVariableBytes;
    if (!good || (count.bits != 0 && elements > kMaxVariableBytes / count.bits)) {
      return fail_at(where, "bad array size");
    }
    elements *= count.bits;
    if (!expect("]")) return false;
  }
  return true;
}

bool Parser::parse_variable(const VariablePrefix& prefix) {
  const LexToken name = token_;
  std::string_view text;
  if (!expect_identifier(text, "a variable's name")) return false;
  Variable variable;
  variable.name = text;
  variable.space = prefix.space;
  variable.type = prefix.type;
  variable.linkage = prefix.linkage;
  variable.managed = prefix.managed;
  variable.line = name.line;
  const uint64_t element = type_bytes(prefix.type) * prefix.vector;
  variable.align = std::max(prefix.align, static_cast<uint32_t>(element));

  uint64_t elements = 1;
  bool is_array = false;
  if (!parse_array_suffix(elements, variable.is_unsized, is_array)) return false;
  if (elements > kMaxVariableBytes / element) return fail_at(name, "the variable is too large");
  variable.size = elements * element;
  if (variable.is_unsized) variable.size = 0;
  if (accept("=")) {
    const uint64_t open_size = variable.is_unsized ? module_.text.size() * element : variable.size;
    const uint64_t declared = variable.size;
    variable.size = open_size;
    if (!parse_initialiser(variable)) return false;
    const uint64_t given = variable.initialiser.size();
    variable.size = variable.is_unsized ? (given + element - 1) / element * element : declared;
    variable.is_unsized = false;
  } else if (variable.is_unsized && prefix.linkage != Linkage::kExtern) {
    return fail_at(name, "an array without size is .extern or initialised");
  }
  return declare_variable(name, std::move(variable));
}

bool Parser::declare_variable(const LexToken& name, Variable variable) {
  std::vector<Variable>& list = function_ ? function_->variables : module_.variables;
  const SymbolKind kind = function_ ? SymbolKind::kFunctionVariable : SymbolKind::kModuleVariable;
  const Binding binding{
      .kind = BindingKind::kSymbol, .symbol = kind, .index = static_cast<uint32_t>(list.size())};
  if (symbols_.declare(name.text, binding)) {
    list.push_back(std::move(variable));
    return true;
  }
  // A definition may follow its .extern declaration, and declarations may repeat.
  const Binding known = symbols_.find(name.text);
  const bool same_kind = known.kind == BindingKind::kSymbol && known.symbol == kind;
  if (same_kind && list[known.index].space == variable.space) {
    if (list[known.index].linkage == Linkage::kExtern) {
      list[known.index] = std::move(variable);
      return true;
    }
    if (variable.linkage == Linkage::kExtern) return true;
  }
  return fail_at(name, fmt::format("'{}' is declared twice", name.text));
}

bool Parser::parse_initialiser(Variable& variable) {
  if (variable.space != StateSpace::kGlobal && variable.space != StateSpace::kConst) {
    return fail("only .global and .const variables have initialisers");
  }
  uint64_t at = 0;
  if (token_.is("{")) return parse_initialiser_list(variable, at, 0);
  ConstantValue value;
  return parse_constant(value) && add_initial_value(variable, at, value);
}

bool Parser::parse_initialiser_list(Variable& variable, uint64_t& at, int depth) {
  if (depth > kMaxInitialiserDepth) return fail("the initialiser is nested too deeply");
  advance();
  if (accept("}")) return true;
  do {
    if (token_.is("{")) {
      if (!parse_initialiser_list(variable, at, depth + 1)) return false;
      continue;
    }
    ConstantValue value;
    if (!parse_constant(value) || !add_initial_value(variable, at, value)) return false;
  } while (accept(","));
  return expect("}");
}

bool Parser::add_initial_value(Variable& variable, uint64_t& at, const ConstantValue& value) {
  const uint64_t bytes = type_bytes(variable.type);
  if (bytes > variable.size - at) return fail("the initialiser is longer than the variable");
  variable.initialiser.resize(at + bytes);
  if (value.symbol == SymbolKind::kNone) {
    Operand number;
    number.immediate = value.kind;
    number.value = static_cast<int64_t>(value.bits);
    const uint64_t bits = immediate_bits(number, variable.type);
    for (uint64_t i = 0; i < bytes && i < 8; ++i) {
      variable.initialiser[at + i] = static_cast<uint8_t>(bits >> (8 * i));
    }
  } else {
    Relocation relocation;
    relocation.kind = value.symbol == SymbolKind::kFunction ? Relocation::Kind::kFunction
                                                            : Relocation::Kind::kVariable;
    relocation.generic = value.generic;
    relocation.size = static_cast<uint8_t>(bytes);
    relocation.index = value.index;
    relocation.addend = static_cast<int64_t>(value.bits);
    relocation.offset = at;
    if (value.mask != 0) relocation.shift = static_cast<uint8_t>(std::countr_zero(value.mask));
    if (value.symbol != SymbolKind::kFunction && value.symbol != SymbolKind::kModuleVariable) {
      return fail("an initialiser can hold the address of a global or a function only");
    }
    if (bytes > 8) return fail("an address has at most 8 bytes");
    variable.relocations.push_back(relocation);
  }
  at += bytes;
  return true;
}

}  // namespace tilewright::emulator::ptx
