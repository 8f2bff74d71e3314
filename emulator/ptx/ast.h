// The parsed module: what the parser hands to the decoder. Names are resolved (registers,
// variables, labels, functions are indices), constant expressions are folded, modifiers are typed;
// layout in memory is left to the loader, save the offsets of parameters, which the ISA fixes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/opcode.h"
#include "emulator/ptx/types.h"

namespace tilewright::emulator::ptx {

inline constexpr uint32_t kNoIndex = 0xffffffff;

enum class OperandKind : uint8_t {
  kNone,           // an absent optional part of a call
  kSink,           // `_`
  kRegister,       // index; `second` when written d|p (kNoIndex if not)
  kImmediate,      // value, immediate
  kSpecial,        // index is a SpecialRegister, component 0..2
  kSymbol,         // the address of a variable or function: symbol, index, value = byte offset
  kVector,         // {…}: elements are Function::pool[index, index + count)
  kAddress,        // [base + value]: base says what base is, index which one
  kTensorAddress,  // [base + value, {…}]: coordinates are Function::pool[pool_index, + count)
  kLabel,          // index is an instruction index
};

// What an immediate was written as. A 32-bit float literal keeps its 32 bits in `value`.
enum class ImmediateKind : uint8_t { kInteger, kF32, kF64 };

enum class SymbolKind : uint8_t {
  kNone,
  kModuleVariable,    // Module::variables
  kFunctionVariable,  // Function::variables
  kParam,             // Function::params
  kReturnParam,       // Function::return_params
  kFunction,          // Module::functions
  kBranchTargets,     // Function::branch_targets
  kCallPrototype,     // Function::prototypes
  kCallTargets,       // Function::call_targets
};

// kAbsolute: [imm].
enum class AddressBase : uint8_t { kAbsolute, kRegister, kSymbol };

struct Operand {
  OperandKind kind = OperandKind::kNone;
  bool negated = false;  // !%p
  uint8_t component = 0;
  ImmediateKind immediate = ImmediateKind::kInteger;
  SymbolKind symbol = SymbolKind::kNone;
  AddressBase base = AddressBase::kAbsolute;
  uint16_t count = 0;
  uint32_t index = kNoIndex;
  // kRegister: the register after `|` (kNoIndex: none, and then `index` alone; if the first of a
  // pair is `_`, index is kNoIndex). kTensorAddress: where the coordinates start in the pool.
  uint32_t second = kNoIndex;
  int64_t value = 0;
  bool operator==(const Operand&) const = default;
};

// The bits an immediate has as an operand of `type`: integers are cut to its width, float literals
// are converted to it. Low bits of the result.
uint64_t immediate_bits(const Operand& operand, Type type);

struct SourceLocation {
  uint32_t file = 0;  // index of Module::files; 0: no .loc seen
  uint32_t line = 0;
  uint32_t column = 0;
};

// kSink entries apart, operands stand in written order, destinations first. Call: exactly four:
// vector of returned .param variables or registers, target (kSymbol or kRegister), vector of
// arguments, prototype or targets (kSymbol, or kNone for a direct call).
struct Instruction {
  Opcode opcode = Opcode::kCount;
  bool guard_negated = false;
  uint16_t num_operands = 0;
  uint32_t guard = kNoIndex;   // predicate register
  uint32_t first_operand = 0;  // in Function::pool
  uint32_t line = 0;           // in the PTX text, from 1
  uint32_t column = 0;
  uint32_t location = 0;     // Function::locations; entry 0 is "none"
  uint32_t text_offset = 0;  // of the instruction's text in Module::text
  uint32_t text_length = 0;
  Modifiers modifiers;
};

struct Relocation {
  enum class Kind : uint8_t { kVariable, kFunction };
  Kind kind = Kind::kVariable;
  bool generic = false;  // generic(sym): the generic address, else the one in its own space
  uint8_t size = 8;      // bytes written
  uint8_t shift = 0;     // right shift of the address first (byte masks such as 0xff00(sym))
  uint32_t index = 0;    // Module::variables or Module::functions
  int64_t addend = 0;
  uint64_t offset = 0;  // in the variable
};

enum class Linkage : uint8_t { kInternal, kVisible, kExtern, kWeak, kCommon };

struct Variable {
  std::string name;
  StateSpace space = StateSpace::kGlobal;
  Type type = Type::kB8;  // of one element
  Linkage linkage = Linkage::kInternal;
  bool managed = false;
  bool is_unsized = false;  // .extern .shared name[]: aliases the dynamic shared memory
  uint32_t align = 1;
  uint64_t size = 0;                 // bytes
  std::vector<uint8_t> initialiser;  // may be shorter than size; the rest is zero
  std::vector<Relocation> relocations;
  uint32_t line = 0;
};

// A parameter of an entry or function, or of a call prototype. In hand-written .func a parameter
// may be a register: `reg` is its index then.
struct Param {
  std::string name;
  Type type = Type::kB8;  // of one element
  uint32_t align = 1;
  uint32_t size = 0;    // bytes
  uint32_t offset = 0;  // bytes from the first parameter, as cuFuncGetParamInfo gives it
  uint32_t reg = kNoIndex;
};

// A run of registers declared together: %r<3182>, or one name.
struct RegisterGroup {
  std::string name;
  Type type = Type::kB32;
  bool is_range = false;
  uint32_t first = 0;
  uint32_t count = 1;
};

struct Dim3 {
  uint32_t x = 0, y = 0, z = 0;
  bool operator==(const Dim3&) const = default;
};

// Zero: not given.
struct Performance {
  Dim3 maxntid;
  Dim3 reqntid;
  Dim3 reqnctapercluster;
  uint32_t minnctapersm = 0;
  uint32_t maxnreg = 0;
  uint32_t maxclusterrank = 0;
  bool explicitcluster = false;
  bool blocksareclusters = false;
};

struct Prototype {
  std::string name;
  std::vector<Param> return_params;
  std::vector<Param> params;
  bool noreturn = false;
};

struct BranchTargets {
  std::string name;
  std::vector<uint32_t> instructions;
};

struct CallTargets {
  std::string name;
  std::vector<uint32_t> functions;  // of Module::functions
};

struct Label {
  std::string name;
  uint32_t instruction = 0;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool has_body = false;  // false: a declaration (.extern, or never defined)
  bool noreturn = false;
  Linkage linkage = Linkage::kInternal;
  uint32_t line = 0;
  Performance performance;
  std::vector<Param> params;
  std::vector<Param> return_params;
  uint32_t param_base = 0;  // of an entry: where its parameters start in the constant bank
  uint32_t param_bytes = 0;

  std::vector<RegisterGroup> register_groups;
  std::vector<Type> registers;      // type of each register
  std::vector<Variable> variables;  // .local, .shared, .param (call sequences), .const, .global
  std::vector<Instruction> instructions;
  std::vector<Operand> pool;
  std::vector<SourceLocation> locations;
  std::vector<Label> labels;
  std::vector<BranchTargets> branch_targets;
  std::vector<Prototype> prototypes;
  std::vector<CallTargets> call_targets;

  std::span<const Operand> operands(const Instruction& instruction) const {
    return std::span(pool).subspan(instruction.first_operand, instruction.num_operands);
  }
  // Elements of a kVector, coordinates of a kTensorAddress.
  std::span<const Operand> elements(const Operand& operand) const {
    const uint32_t first =
        operand.kind == OperandKind::kTensorAddress ? operand.second : operand.index;
    return std::span(pool).subspan(first, operand.count);
  }
  std::string register_name(uint32_t index) const;
  const SourceLocation& location(const Instruction& instruction) const {
    return locations[instruction.location];
  }
};

// ".target sm_90a, debug": 90, true.
struct Target {
  int compute_capability = 0;
  bool has_suffix = false;  // sm_90a
  bool operator==(const Target&) const = default;
};

struct Module {
  int version_major = 0;
  int version_minor = 0;
  Target target;
  int address_size = 64;
  std::string text;                // the PTX, for messages
  std::vector<std::string> files;  // by .file number; entry 0 is ""
  std::vector<Variable> variables;
  std::vector<Function> functions;

  std::string_view instruction_text(const Instruction& instruction) const {
    return std::string_view(text).substr(instruction.text_offset, instruction.text_length);
  }
  // kNoIndex if there is none.
  uint32_t find_function(std::string_view name) const;
  uint32_t find_variable(std::string_view name) const;
};

}  // namespace tilewright::emulator::ptx
