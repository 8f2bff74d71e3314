// Functions: headers, parameters, performance directives, bodies.
#include <algorithm>

#include "emulator/ptx/parser_state.h"

namespace tilewright::emulator::ptx {
namespace {

// Bytes of an entry's parameters (PTX 8.1 on sm_70 and newer).
constexpr uint32_t kMaxEntryParamBytes = 32764;
constexpr uint32_t kMaxParamBytes = 1u << 24;

// Parameters are aligned relative to the constant bank, where they start at this offset.
uint32_t parameter_base(Target target) {
  if (target.compute_capability >= 100) return 0x380;
  if (target.compute_capability >= 90) return 0x210;
  return 0x160;
}

uint32_t align_up(uint32_t value, uint32_t align) { return (value + align - 1) / align * align; }

bool same_layout(const std::vector<Param>& a, const std::vector<Param>& b) {
  return std::ranges::equal(a, b, {}, &Param::size, &Param::size);
}

}  // namespace

bool Parser::parse_function(bool is_entry, Linkage linkage) {
  FunctionHeader header;
  header.function.is_entry = is_entry;
  header.function.linkage = linkage;
  symbols_.open_scope();
  if (!parse_function_header(header)) return false;
  uint32_t index = 0;
  const bool has_body = token_.is("{");
  if (!has_body && !expect(";")) return false;
  if (has_body) header.function.has_body = true;
  if (!add_function(header, index)) return false;
  if (has_body) {
    function_ = &module_.functions[index];
    if (!parse_body()) return false;
    function_ = nullptr;
  }
  symbols_.close_scope();
  return true;
}

bool Parser::parse_function_header(FunctionHeader& header) {
  Function& function = header.function;
  if (token_.is("(")) {
    if (function.is_entry) return fail("an entry returns nothing");
    if (!parse_parameters(function.return_params, function)) return false;
  }
  header.name_token = token_;
  if (!expect_identifier(header.name, "a function's name")) return false;
  function.name = header.name;
  function.line = header.name_token.line;
  if (token_.is("(") && !parse_parameters(function.params, function)) return false;
  if (function.is_entry && !place_entry_parameters(function)) return false;
  return parse_performance(function);
}

// "(" [parameter {"," parameter}] ")"
bool Parser::parse_parameters(std::vector<Param>& params, Function& function) {
  advance();
  if (accept(")")) return true;
  do {
    Param param;
    if (!parse_parameter(param, function)) return false;
    params.push_back(std::move(param));
  } while (accept(","));
  if (!expect(")")) return false;
  uint32_t end = 0;
  for (Param& param : params) {
    param.offset = align_up(end, param.align);
    end = param.offset + param.size;
    if (end > kMaxParamBytes) return fail("the parameters are too large");
  }
  return true;
}

bool Parser::parse_parameter(Param& param, Function& function) {
  const bool in_register = token_.is(".reg");
  if (!in_register && !token_.is(".param")) return fail("expected a parameter");
  advance();
  uint32_t align = 0;
  while (token_.is(".align")) {
    advance();
    if (!parse_align(align)) return false;
  }
  if (!parse_type(param.type)) return false;
  // ".ptr .global .align 16": what the pointer points to; of no effect here.
  if (accept(".ptr")) {
    if (variable_space(token_.text)) advance();
    uint32_t pointee = 0;
    if (accept(".align") && !parse_align(pointee)) return false;
  }
  const LexToken name = token_;
  std::string_view text;
  if (!expect_identifier(text, "a parameter's name")) return false;
  param.name = text;
  uint64_t elements = 1;
  bool is_unsized = false;
  bool is_array = false;
  if (!parse_array_suffix(elements, is_unsized, is_array)) return false;
  const uint32_t bits = static_cast<uint32_t>(type_bits(param.type));
  const bool is_pred = param.type == Type::kPred;
  if (bits < 8 && !(is_pred && in_register)) return fail_at(name, "bad parameter type");
  const uint64_t bytes = is_pred ? 1 : elements * (bits / 8);
  if (elements > kMaxParamBytes || bytes > kMaxParamBytes) {
    return fail_at(name, "the parameter is too large");
  }
  param.size = static_cast<uint32_t>(bytes);
  param.align = std::max(align, is_pred ? 1 : bits / 8);
  if (in_register) {
    if (is_array) return fail_at(name, "a register parameter is no array");
    Function* const outer = std::exchange(function_, &function);
    param.reg = static_cast<uint32_t>(function.registers.size());
    const bool declared = declare_registers(name, param.type, 1, std::nullopt);
    function_ = outer;
    return declared;
  }
  return true;
}

bool Parser::place_entry_parameters(Function& function) {
  const uint32_t base = parameter_base(module_.target);
  uint32_t end = 0;
  for (Param& param : function.params) {
    if (param.reg != kNoIndex) return fail("an entry's parameters are .param variables");
    param.offset = align_up(base + end, param.align) - base;
    end = param.offset + param.size;
  }
  if (end > kMaxEntryParamBytes) {
    return fail("{} bytes of parameters, {} are allowed", end, kMaxEntryParamBytes);
  }
  function.param_base = base;
  function.param_bytes = end;
  return true;
}

// Zero stands for a directive that is not there, and has no other meaning.
bool Parser::expect_positive(uint32_t& value) {
  const LexToken where = token_;
  if (!expect_uint32(value, "a number")) return false;
  return value > 0 || fail_at(where, "expected a number above 0");
}

bool Parser::parse_dim3(Dim3& dim) {
  dim = {1, 1, 1};
  if (!expect_positive(dim.x)) return false;
  if (accept(",") && !expect_positive(dim.y)) return false;
  if (accept(",") && !expect_positive(dim.z)) return false;
  return true;
}

// The directives between a function's header and its body.
bool Parser::parse_performance(Function& function) {
  Performance& performance = function.performance;
  while (token_.kind == TokenKind::kDirective) {
    const std::string_view name = token_.text;
    if (name == ".pragma") {
      if (!skip_pragma()) return false;
      continue;
    }
    const LexToken where = token_;
    advance();
    bool good = true;
    uint32_t ignored = 0;
    if (name == ".maxntid") {
      good = parse_dim3(performance.maxntid);
    } else if (name == ".reqntid") {
      good = parse_dim3(performance.reqntid);
    } else if (name == ".reqnctapercluster") {
      good = parse_dim3(performance.reqnctapercluster);
    } else if (name == ".minnctapersm") {
      good = expect_positive(performance.minnctapersm);
    } else if (name == ".maxnctapersm") {
      good = expect_uint32(ignored, "a number");
    } else if (name == ".maxnreg") {
      good = expect_positive(performance.maxnreg);
    } else if (name == ".maxclusterrank") {
      good = expect_uint32(performance.maxclusterrank, "a number");
    } else if (name == ".explicitcluster") {
      performance.explicitcluster = true;
    } else if (name == ".blocksareclusters") {
      performance.blocksareclusters = true;
    } else if (name == ".noreturn") {
      function.noreturn = true;
    } else if (name == ".abi_preserve" || name == ".abi_preserve_control") {
      good = expect_uint32(ignored, "a number");
    } else {
      return fail_at(where, fmt::format("unknown directive '{}'", name));
    }
    if (!good) return false;
  }
  return true;
}

// Enters the function into the module, or completes its earlier declaration.
bool Parser::add_function(FunctionHeader& header, uint32_t& index) {
  const Binding known = symbols_.find(header.name);
  if (known.kind == BindingKind::kNone) {
    index = static_cast<uint32_t>(module_.functions.size());
    module_.functions.push_back(std::move(header.function));
    symbols_.declare_outer(
        header.name,
        {.kind = BindingKind::kSymbol, .symbol = SymbolKind::kFunction, .index = index});
  } else {
    if (known.symbol != SymbolKind::kFunction) {
      return fail_at(header.name_token, fmt::format("'{}' is declared twice", header.name));
    }
    index = known.index;
    Function& function = module_.functions[index];
    if (function.is_entry != header.function.is_entry ||
        !same_layout(function.params, header.function.params) ||
        !same_layout(function.return_params, header.function.return_params)) {
      return fail_at(header.name_token,
                     fmt::format("'{}' was declared with other parameters", header.name));
    }
    if (!header.function.has_body) return true;
    if (function.has_body) {
      return fail_at(header.name_token, fmt::format("'{}' is defined twice", header.name));
    }
    function = std::move(header.function);
  }
  // Parameters are names of the body's scope.
  const Function& function = module_.functions[index];
  if (!function.has_body) return true;
  const auto declare = [&](const std::vector<Param>& params, SymbolKind kind) {
    for (uint32_t i = 0; i < params.size(); ++i) {
      if (params[i].reg != kNoIndex) continue;
      const std::string_view name = spelled_.emplace_back(params[i].name);
      if (!symbols_.declare(name, {.kind = BindingKind::kSymbol, .symbol = kind, .index = i})) {
        return fail_at(header.name_token, fmt::format("parameter '{}' is declared twice", name));
      }
    }
    return true;
  };
  return declare(function.return_params, SymbolKind::kReturnParam) &&
         declare(function.params, SymbolKind::kParam);
}

bool Parser::parse_body() {
  function_->locations.emplace_back();
  labels_.clear();
  label_uses_.clear();
  block_parents_.clear();
  open_blocks_.clear();
  if (!open_block()) return false;
  while (!open_blocks_.empty()) {
    statement_ = token_.offset;
    if (token_.kind == TokenKind::kEnd)
      return fail("the body of '{}' is not closed", function_->name);
    if (!parse_statement()) return false;
  }
  return true;
}

// Called at the body's last brace: ends the code with a terminator and resolves labels.
bool Parser::finish_body() {
  const auto ends_code = [](const Instruction& instruction) {
    const Opcode opcode = instruction.opcode;
    return instruction.guard == kNoIndex &&
           (opcode == Opcode::kRet || opcode == Opcode::kExit || opcode == Opcode::kTrap ||
            opcode == Opcode::kBra || opcode == Opcode::kBrxIdx);
  };
  std::vector<Instruction>& code = function_->instructions;
  const bool label_at_end =
      std::ranges::any_of(labels_, [&](const auto& entry) { return entry.second == code.size(); });
  if (code.empty() || !ends_code(code.back()) || label_at_end) {
    Instruction ret;
    ret.opcode = Opcode::kRet;
    ret.line = token_.line;
    ret.column = token_.column;
    ret.first_operand = static_cast<uint32_t>(function_->pool.size());
    ret.text_offset = token_.offset;
    ret.text_length = 1;
    code.push_back(ret);
  }
  for (const LabelUse& use : label_uses_) {
    uint32_t instruction = 0;
    if (!resolve_label(use, instruction)) return false;
    if (use.in_table) {
      function_->branch_targets[use.owner].instructions[use.index] = instruction;
    } else {
      function_->pool[use.index].index = instruction;
    }
  }
  std::ranges::sort(function_->labels, {}, &Label::instruction);
  return true;
}

// Labels are looked up from the innermost block outward.
bool Parser::resolve_label(const LabelUse& use, uint32_t& instruction) {
  uint32_t block = use.scope;
  while (true) {
    const auto it = labels_.find({use.name.text, block});
    if (it != labels_.end()) {
      instruction = it->second;
      return true;
    }
    if (block == 0) break;
    block = block_parents_[block];
  }
  statement_ = use.statement;
  return fail_at(use.name, fmt::format("unknown label '{}'", use.name.text));
}

}  // namespace tilewright::emulator::ptx
