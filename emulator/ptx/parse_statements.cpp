// What a function's body consists of: blocks, register and variable declarations, labels, tables
// and instructions.
#include <algorithm>

#include "emulator/ptx/parser_state.h"

namespace tilewright::emulator::ptx {
namespace {

constexpr size_t kMaxBlockDepth = 64;
// Of one module; four million rows of one byte each.
constexpr uint64_t kMaxRegisters = uint64_t{1} << 22;
constexpr uint32_t kMaxExpandedRange = 4096;
constexpr size_t kMaxCallOperands = 255;

std::string target_name(Target target) {
  return fmt::format("sm_{}{}", target.compute_capability, target.has_suffix ? "a" : "");
}

uint32_t param_bytes(const Function& function, const Operand& operand) {
  if (operand.kind != OperandKind::kSymbol) return 0;
  return static_cast<uint32_t>(function.variables[operand.index].size);
}

}  // namespace

bool Parser::open_block() {
  if (open_blocks_.size() >= kMaxBlockDepth) return fail("blocks are nested too deeply");
  advance();
  block_parents_.push_back(open_blocks_.empty() ? 0 : open_blocks_.back());
  open_blocks_.push_back(static_cast<uint32_t>(block_parents_.size() - 1));
  symbols_.open_scope();
  return true;
}

bool Parser::close_block() {
  if (open_blocks_.size() == 1 && !finish_body()) return false;
  open_blocks_.pop_back();
  symbols_.close_scope();
  advance();
  return true;
}

bool Parser::parse_statement() {
  if (token_.is("{")) return open_block();
  if (token_.is("}")) return close_block();
  if (accept(";")) return true;
  if (token_.kind == TokenKind::kDirective) return parse_body_directive();
  const LexToken start = token_;
  if (token_.is("@")) return parse_instruction(start, start);
  if (token_.kind != TokenKind::kIdentifier) {
    return fail("expected an instruction, found {}", describe_token());
  }
  const LexToken name = token_;
  advance();
  if (token_.is(":")) return parse_label_or_table(name);
  lexer_.rewind(name);
  token_ = name;
  return parse_instruction(start, name);
}

bool Parser::parse_body_directive() {
  if (token_.is(".reg")) return parse_registers();
  if (token_.is(".loc")) return parse_location();
  if (token_.is(".pragma")) return skip_pragma();
  if (token_.is(".file")) return parse_file();
  if (token_.is(".section")) return skip_section();
  Linkage linkage = Linkage::kInternal;
  if (accept(".extern")) linkage = Linkage::kExtern;
  if (const auto space = variable_space(token_.text)) {
    advance();
    return parse_variables(*space, linkage);
  }
  return fail("unknown directive {}", describe_token());
}

// .reg {.v2|.v4} type name {<count>} {, …};
bool Parser::parse_registers() {
  advance();
  uint32_t vector = 1;
  if (accept(".v2")) vector = 2;
  if (accept(".v4")) vector = 4;
  Type type = Type::kNone;
  if (!parse_type(type)) return false;
  do {
    const LexToken name = token_;
    std::string_view text;
    if (!expect_identifier(text, "a register's name")) return false;
    std::optional<uint32_t> range;
    if (accept("<")) {
      uint32_t count = 0;
      if (!expect_uint32(count, "a number of registers") || !expect(">")) return false;
      range = count;
    }
    if (!declare_registers(name, type, vector, range)) return false;
  } while (accept(","));
  return expect(";");
}

bool Parser::declare_registers(const LexToken& name, Type type, uint32_t vector,
                               std::optional<uint32_t> range) {
  if (type == Type::kB1024) return fail_at(name, "a register cannot have this type");
  const uint64_t count = uint64_t{range.value_or(1)} * vector;
  total_registers_ += count;
  if (total_registers_ > kMaxRegisters || (range && vector > 1)) {
    return fail_at(name, "too many registers");
  }
  const auto first = static_cast<uint32_t>(function_->registers.size());
  const Binding binding{.kind = BindingKind::kRegister,
                        .vector = static_cast<uint8_t>(vector),
                        .index = first,
                        .count = static_cast<uint32_t>(count)};
  bool fresh = true;
  const bool ends_in_digit = name.text.back() >= '0' && name.text.back() <= '9';
  if (range && ends_in_digit) {
    // The digits of the number and of the prefix would run together: one name each.
    if (*range > kMaxExpandedRange) return fail_at(name, "too many registers");
    for (uint32_t i = 0; i < *range; ++i) {
      Binding one = binding;
      one.index = first + i;
      one.count = 1;
      fresh &= symbols_.declare(spelled_.emplace_back(fmt::format("{}{}", name.text, i)), one);
    }
  } else {
    fresh =
        range ? symbols_.declare_range(name.text, binding) : symbols_.declare(name.text, binding);
  }
  if (!fresh) return fail_at(name, fmt::format("'{}' is declared twice", name.text));
  function_->registers.resize(first + count, type);
  if (count > 0) {
    function_->register_groups.push_back({.name = std::string(name.text),
                                          .type = type,
                                          .is_range = range.has_value(),
                                          .first = first,
                                          .count = static_cast<uint32_t>(count)});
  }
  return true;
}

// .loc file line column {, function_name label {+ offset}, inlined_at file line column}
bool Parser::parse_location() {
  advance();
  SourceLocation location;
  if (!expect_uint32(location.file, "a file number") || !expect_uint32(location.line, "a line") ||
      !expect_uint32(location.column, "a column")) {
    return false;
  }
  while (accept(",")) {
    std::string_view name;
    uint32_t number = 0;
    if (!expect_identifier(name, "function_name or inlined_at")) return false;
    if (name == "inlined_at") {
      for (int i = 0; i < 3; ++i) {
        if (!expect_uint32(number, "a number")) return false;
      }
    } else if (!expect_identifier(name, "a label") ||
               (accept("+") && !expect_uint32(number, "an offset"))) {
      return false;
    }
  }
  if (location.file >= module_.files.size()) location.file = 0;
  if (function_) function_->locations.push_back(location);
  return true;
}

bool Parser::parse_label_or_table(const LexToken& name) {
  advance();
  if (accept(".branchtargets")) return parse_branch_targets(name);
  if (accept(".callprototype")) return parse_call_prototype(name);
  if (accept(".calltargets")) return parse_call_targets(name);
  const auto instruction = static_cast<uint32_t>(function_->instructions.size());
  const uint32_t block = open_blocks_.back();
  if (!labels_.try_emplace({name.text, block}, instruction).second) {
    return fail_at(name, fmt::format("label '{}' is declared twice", name.text));
  }
  function_->labels.push_back({.name = std::string(name.text), .instruction = instruction});
  return true;
}

bool Parser::use_label(const LexToken& name, LabelUse use) {
  if (name.kind != TokenKind::kIdentifier)
    return fail("expected a label, found {}", describe_token());
  use.name = name;
  use.scope = open_blocks_.back();
  use.statement = statement_;
  label_uses_.push_back(use);
  advance();
  return true;
}

bool Parser::parse_branch_targets(const LexToken& name) {
  BranchTargets table{.name = std::string(name.text), .instructions = {}};
  const auto owner = static_cast<uint32_t>(function_->branch_targets.size());
  do {
    const auto index = static_cast<uint32_t>(table.instructions.size());
    table.instructions.push_back(0);
    if (!use_label(token_, {.name = {}, .in_table = true, .owner = owner, .index = index})) {
      return false;
    }
  } while (accept(","));
  function_->branch_targets.push_back(std::move(table));
  const Binding binding{
      .kind = BindingKind::kSymbol, .symbol = SymbolKind::kBranchTargets, .index = owner};
  if (!symbols_.declare(name.text, binding)) {
    return fail_at(name, fmt::format("'{}' is declared twice", name.text));
  }
  return expect(";");
}

// proto: .callprototype (.param .b32 _) _ (.param .b32 _) {.noreturn};
bool Parser::parse_call_prototype(const LexToken& name) {
  Function signature;
  std::string_view ignored;
  if (token_.is("(") && !parse_parameters(signature.return_params, signature)) return false;
  if (!expect_identifier(ignored, "'_'")) return false;
  if (token_.is("(") && !parse_parameters(signature.params, signature)) return false;
  if (!parse_performance(signature)) return false;
  const Binding binding{.kind = BindingKind::kSymbol,
                        .symbol = SymbolKind::kCallPrototype,
                        .index = static_cast<uint32_t>(function_->prototypes.size())};
  if (!symbols_.declare(name.text, binding)) {
    return fail_at(name, fmt::format("'{}' is declared twice", name.text));
  }
  function_->prototypes.push_back({.name = std::string(name.text),
                                   .return_params = std::move(signature.return_params),
                                   .params = std::move(signature.params),
                                   .noreturn = signature.noreturn});
  return expect(";");
}

bool Parser::parse_call_targets(const LexToken& name) {
  CallTargets targets{.name = std::string(name.text), .functions = {}};
  do {
    const Binding binding = symbols_.find(token_.text);
    if (binding.kind != BindingKind::kSymbol || binding.symbol != SymbolKind::kFunction) {
      return fail("expected a function, found {}", describe_token());
    }
    targets.functions.push_back(binding.index);
    advance();
  } while (accept(","));
  const Binding binding{.kind = BindingKind::kSymbol,
                        .symbol = SymbolKind::kCallTargets,
                        .index = static_cast<uint32_t>(function_->call_targets.size())};
  if (!symbols_.declare(name.text, binding)) {
    return fail_at(name, fmt::format("'{}' is declared twice", name.text));
  }
  function_->call_targets.push_back(std::move(targets));
  return expect(";");
}

// @p or @!p
bool Parser::parse_guard(Instruction& instruction) {
  advance();
  instruction.guard_negated = accept("!");
  const Binding binding = symbols_.find(token_.text);
  if (token_.kind != TokenKind::kIdentifier || binding.kind != BindingKind::kRegister ||
      function_->registers[binding.index] != Type::kPred) {
    return fail("expected a predicate register, found {}", describe_token());
  }
  instruction.guard = binding.index;
  advance();
  return true;
}

// The table entry of a dotted name; found once per spelling.
const Parser::Mnemonic* Parser::find_mnemonic(const LexToken& name, std::string_view text) {
  const auto it = mnemonics_.find(text);
  if (it != mnemonics_.end()) return &it->second;
  const auto opcode = find_opcode(text);
  if (!opcode) {
    fail_at(name, fmt::format("unknown instruction '{}'", text));
    return nullptr;
  }
  auto matches = match_suffixes(opcode->opcode, text.substr(opcode->length));
  if (!matches.ok()) {
    fail_at(name, matches.error().message);
    return nullptr;
  }
  const Target first = first_target(*matches->front().form, matches->front().modifiers);
  std::erase_if(*matches, [&](const MatchedForm& match) {
    return !is_available(*match.form, match.modifiers, module_.target);
  });
  if (matches->empty()) {
    fail_at(name, fmt::format("'{}' needs {}, the module is for {}", text, target_name(first),
                              target_name(module_.target)));
    return nullptr;
  }
  return &mnemonics_.emplace(text, Mnemonic{opcode->opcode, *std::move(matches)}).first->second;
}

bool Parser::parse_instruction(const LexToken& start, const LexToken& first) {
  Instruction instruction;
  LexToken name = first;
  if (token_.is("@")) {
    if (!parse_guard(instruction)) return false;
    name = token_;
    if (name.kind != TokenKind::kIdentifier) {
      return fail("expected an instruction, found {}", describe_token());
    }
  }
  bool spaced = false;
  name = lexer_.mnemonic(name, spaced);
  std::string_view text = name.text;
  std::string joined;
  if (spaced) {
    joined = text;
    std::erase_if(joined, [](char c) { return c == ' ' || c == '\t'; });
    text = mnemonics_.contains(joined) ? std::string_view(joined)
                                       : std::string_view(spelled_.emplace_back(joined));
  }
  advance();
  const Mnemonic* const mnemonic = find_mnemonic(name, text);
  if (!mnemonic) return false;
  instruction.opcode = mnemonic->opcode;
  instruction.line = start.line;
  instruction.column = start.column;
  instruction.text_offset = start.offset;
  instruction.location = static_cast<uint32_t>(function_->locations.size() - 1);
  scratch_.clear();
  if (mnemonic->opcode == Opcode::kCall) {
    instruction.modifiers = mnemonic->forms.front().modifiers;
    if (!parse_call()) return false;
  } else if (!parse_operands(mnemonic->opcode) || !choose_form(*mnemonic, name, instruction)) {
    return false;
  }
  return finish_instruction(instruction);
}

bool Parser::choose_form(const Mnemonic& mnemonic, const LexToken& name, Instruction& instruction) {
  std::string reason;
  for (const MatchedForm& match : mnemonic.forms) {
    std::string mismatch = operand_mismatch(match, scratch_, *function_);
    if (mismatch.empty()) {
      instruction.modifiers = match.modifiers;
      return true;
    }
    reason = std::move(mismatch);
  }
  return fail_at(name, reason);
}

bool Parser::finish_instruction(Instruction& instruction) {
  if (!token_.is(";")) return fail("expected ';', found {}", describe_token());
  instruction.first_operand = static_cast<uint32_t>(function_->pool.size());
  instruction.num_operands = static_cast<uint16_t>(scratch_.size());
  instruction.text_length = token_.offset + 1 - instruction.text_offset;
  // A branch's label is its only operand.
  if (!label_uses_.empty() && label_uses_.back().statement == statement_) {
    label_uses_.back().index = instruction.first_operand;
  }
  function_->pool.insert(function_->pool.end(), scratch_.begin(), scratch_.end());
  function_->instructions.push_back(instruction);
  advance();
  return true;
}

// call{.uni} {(results),} target {, (arguments)} {, prototype or targets};
bool Parser::parse_call() {
  std::vector<Operand> operands(4);
  operands[0].kind = OperandKind::kVector;
  operands[0].index = static_cast<uint32_t>(function_->pool.size());
  if (token_.is("(") && (!parse_call_list(true, operands[0]) || !expect(","))) return false;
  if (!parse_call_target(operands[1])) return false;
  operands[2].kind = OperandKind::kVector;
  operands[2].index = static_cast<uint32_t>(function_->pool.size());
  if (accept(",")) {
    const bool has_list = token_.is("(");
    if (has_list && !parse_call_list(false, operands[2])) return false;
    if (!has_list || accept(",")) {
      if (!parse_named(operands[3])) return false;
    }
  }
  if (!check_call(operands)) return false;
  scratch_ = std::move(operands);
  return true;
}

bool Parser::parse_call_list(bool returned, Operand& list) {
  advance();
  std::vector<Operand> elements;
  if (!accept(")")) {
    do {
      Operand element;
      if (!parse_scalar(element)) return false;
      const bool is_param = element.kind == OperandKind::kSymbol &&
                            element.symbol == SymbolKind::kFunctionVariable &&
                            function_->variables[element.index].space == StateSpace::kParam;
      const bool good = (is_param && element.value == 0) ||
                        element.kind == OperandKind::kRegister ||
                        (!returned && element.kind == OperandKind::kImmediate);
      if (!good) return fail("a call passes .param variables and registers");
      elements.push_back(element);
    } while (accept(","));
    if (!expect(")")) return false;
  }
  if (elements.size() > kMaxCallOperands) return fail("too many arguments");
  list.index = static_cast<uint32_t>(function_->pool.size());
  list.count = static_cast<uint16_t>(elements.size());
  function_->pool.insert(function_->pool.end(), elements.begin(), elements.end());
  return true;
}

bool Parser::parse_call_target(Operand& target) {
  if (!parse_named(target)) return false;
  const bool is_function =
      target.kind == OperandKind::kSymbol && target.symbol == SymbolKind::kFunction;
  const bool is_pointer =
      target.kind == OperandKind::kRegister && type_bits(function_->registers[target.index]) == 64;
  if (!is_function && !is_pointer)
    return fail("a call's target is a function or a 64-bit register");
  return true;
}

// Counts and sizes of what is passed against the callee's or the prototype's parameters.
bool Parser::check_call(const std::vector<Operand>& operands) {
  const Operand& target = operands[1];
  const Operand& prototype = operands[3];
  const std::vector<Param>* results = nullptr;
  const std::vector<Param>* arguments = nullptr;
  if (target.kind == OperandKind::kSymbol) {
    results = &module_.functions[target.index].return_params;
    arguments = &module_.functions[target.index].params;
    if (module_.functions[target.index].is_entry) return fail("an entry cannot be called");
  } else if (prototype.symbol == SymbolKind::kCallPrototype) {
    results = &function_->prototypes[prototype.index].return_params;
    arguments = &function_->prototypes[prototype.index].params;
  } else if (prototype.symbol == SymbolKind::kCallTargets) {
    const Function& first =
        module_.functions[function_->call_targets[prototype.index].functions.front()];
    results = &first.return_params;
    arguments = &first.params;
  } else {
    return fail("an indirect call names a prototype or its targets");
  }
  const auto fits = [&](const Operand& list, const std::vector<Param>& params) {
    const auto elements = function_->elements(list);
    return std::ranges::equal(elements, params, [&](const Operand& operand, const Param& param) {
      if (operand.kind == OperandKind::kRegister) {
        return type_bits(function_->registers[operand.index]) ==
               (param.type == Type::kPred ? 1 : static_cast<int>(8 * param.size));
      }
      return operand.kind == OperandKind::kImmediate ||
             param_bytes(*function_, operand) == param.size;
    });
  };
  if (!fits(operands[0], *results)) return fail("the call's results do not fit the function");
  if (!fits(operands[2], *arguments)) return fail("the call's arguments do not fit the function");
  return true;
}

}  // namespace tilewright::emulator::ptx
