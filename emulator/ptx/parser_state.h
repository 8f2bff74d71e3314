// Parser: the recursive descent over one module, spread over parser.cpp (tokens, module level),
// parse_variables.cpp, parse_functions.cpp, parse_statements.cpp and parse_operands.cpp. Every
// parse function returns false after it has recorded the first error; nothing is parsed after that.
// Internal to emulator/ptx.
#pragma once

#include <fmt/format.h>

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/check.h"
#include "emulator/ptx/ast.h"
#include "emulator/ptx/forms.h"
#include "emulator/ptx/lexer.h"
#include "emulator/ptx/symbols.h"

namespace tilewright::emulator::ptx {

// A folded constant expression: a number, or a symbol's address plus a number.
struct ConstantValue {
  ImmediateKind kind = ImmediateKind::kInteger;
  uint64_t bits = 0;
  SymbolKind symbol = SymbolKind::kNone;
  uint32_t index = kNoIndex;
  bool generic = false;
  uint64_t mask = 0;  // of 0xff00(sym); 0: the whole address
};

class Parser {
 public:
  explicit Parser(std::string_view text);
  Result<Module> run();

 private:
  struct LabelKey {
    std::string_view name;
    uint32_t scope = 0;
    bool operator==(const LabelKey&) const = default;
  };
  struct LabelKeyHash {
    size_t operator()(const LabelKey& key) const {
      return std::hash<std::string_view>()(key.name) ^ (size_t{key.scope} * 0x9e3779b97f4a7c15u);
    }
  };
  // A label used before its block is complete.
  struct LabelUse {
    LexToken name;
    uint32_t scope = 0;
    uint32_t statement = 0;
    bool in_table = false;  // of branch_targets[owner].instructions[index]; else pool[index]
    uint32_t owner = 0;
    uint32_t index = 0;
  };
  struct Mnemonic {
    Opcode opcode = Opcode::kCount;
    std::vector<MatchedForm> forms;
  };
  struct FunctionHeader {
    std::string_view name;
    LexToken name_token;
    Function function;
  };

  // Tokens and errors (parser.cpp).
  void advance() { token_ = lexer_.next(); }
  bool accept(std::string_view text);
  bool expect(std::string_view text);
  bool expect_identifier(std::string_view& name, std::string_view what);
  bool expect_uint32(uint32_t& value, std::string_view what);
  template <class... Args>
  bool fail(fmt::format_string<Args...> format, Args&&... args) {
    return fail_at(token_, fmt::format(format, std::forward<Args>(args)...));
  }
  bool fail_at(const LexToken& where, const std::string& message);
  std::string statement_text(uint32_t from) const;
  std::string describe_token() const;

  // Module level (parser.cpp).
  bool parse_module();
  bool parse_version();
  bool parse_target();
  bool parse_module_directive();
  bool parse_declaration();
  bool parse_file();
  bool skip_section();
  bool skip_pragma();

  // Variables (parse_variables.cpp).
  struct VariablePrefix {
    StateSpace space = StateSpace::kGlobal;
    Linkage linkage = Linkage::kInternal;
    bool managed = false;
    uint32_t align = 0;
    uint32_t vector = 1;
    Type type = Type::kNone;
  };
  static std::optional<StateSpace> variable_space(std::string_view directive);
  bool parse_attribute(bool& managed);
  bool parse_align(uint32_t& align);
  bool parse_type(Type& type);
  bool parse_variable_prefix(VariablePrefix& prefix);
  bool parse_variables(StateSpace space, Linkage linkage);
  bool parse_array_suffix(uint64_t& elements, bool& is_unsized, bool& is_array);
  bool parse_variable(const VariablePrefix& prefix);
  bool declare_variable(const LexToken& name, Variable variable);
  bool parse_initialiser(Variable& variable);
  bool parse_initialiser_list(Variable& variable, uint64_t& at, int depth);
  bool add_initial_value(Variable& variable, uint64_t& at, const ConstantValue& value);

  // Functions (parse_functions.cpp).
  bool parse_function(bool is_entry, Linkage linkage);
  bool parse_function_header(FunctionHeader& header);
  bool parse_parameters(std::vector<Param>& params, Function& function);
  bool parse_parameter(Param& param, Function& function);
  bool place_entry_parameters(Function& function);
  bool parse_performance(Function& function);
  bool expect_positive(uint32_t& value);
  bool parse_dim3(Dim3& dim);
  bool add_function(FunctionHeader& header, uint32_t& index);
  bool parse_body();
  bool finish_body();
  bool resolve_label(const LabelUse& use, uint32_t& instruction);

  // Statements (parse_statements.cpp).
  bool parse_statement();
  bool parse_body_directive();
  bool open_block();
  bool close_block();
  bool parse_registers();
  bool declare_registers(const LexToken& name, Type type, uint32_t vector,
                         std::optional<uint32_t> range);
  bool parse_location();
  bool parse_label_or_table(const LexToken& name);
  bool parse_branch_targets(const LexToken& name);
  bool parse_call_prototype(const LexToken& name);
  bool parse_call_targets(const LexToken& name);
  bool parse_instruction(const LexToken& start, const LexToken& name);
  bool parse_guard(Instruction& instruction);
  const Mnemonic* find_mnemonic(const LexToken& name, std::string_view text);
  bool parse_call();
  bool parse_call_list(bool returned, Operand& list);
  bool parse_call_target(Operand& target);
  bool check_call(const std::vector<Operand>& operands);
  bool choose_form(const Mnemonic& mnemonic, const LexToken& name, Instruction& instruction);
  bool finish_instruction(Instruction& instruction);

  // Operands (parse_operands.cpp).
  bool parse_operands(Opcode opcode);
  bool parse_operand(Operand& operand);
  bool parse_scalar(Operand& operand);
  bool parse_named(Operand& operand);
  bool parse_special(Operand& operand);
  bool parse_component(uint32_t components, uint32_t& component);
  bool parse_register_pair(Operand& operand);
  bool parse_vector(Operand& operand);
  bool parse_address(Operand& operand);
  bool parse_label_use(Operand& operand);
  bool use_label(const LexToken& name, LabelUse use);
  bool parse_constant(ConstantValue& value) { return parse_ternary(value); }
  bool parse_ternary(ConstantValue& value);
  bool parse_binary(ConstantValue& value, int min_precedence);
  bool parse_unary(ConstantValue& value);
  bool parse_primary(ConstantValue& value);
  bool parse_cast(ConstantValue& value);
  bool parse_named_constant(ConstantValue& value);
  bool parse_symbol(ConstantValue& value);
  bool combine(std::string_view op, ConstantValue& left, const ConstantValue& right);
  bool set_constant(Operand& operand, const ConstantValue& value);

  Lexer lexer_;
  LexToken token_;
  std::optional<Error> error_;
  uint32_t statement_ = 0;  // offset of the statement under way
  int depth_ = 0;           // of constant expressions

  Module module_;
  SymbolTable symbols_;
  std::unordered_map<std::string_view, Mnemonic> mnemonics_;
  std::deque<std::string> spelled_;  // mnemonics and register names that the text does not hold
  uint64_t total_registers_ = 0;

  // Of the function under way.
  Function* function_ = nullptr;
  std::vector<Operand> scratch_;  // operands of the instruction under way
  std::vector<uint32_t> block_parents_;
  std::vector<uint32_t> open_blocks_;
  std::unordered_map<LabelKey, uint32_t, LabelKeyHash> labels_;
  std::vector<LabelUse> label_uses_;
};

// Why `operands` do not fit the form, or "" if they do. `function` holds the registers' types.
std::string operand_mismatch(const MatchedForm& match, std::span<const Operand> operands,
                             const Function& function);

}  // namespace tilewright::emulator::ptx
