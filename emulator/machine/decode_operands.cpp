// Operands to slots.
#include <algorithm>
#include <cstring>

#include "emulator/machine/decoder.h"
#include "emulator/machine/execute.h"

namespace tilewright::emulator {

using ptx::kNoIndex;
using ptx::Operand;
using ptx::OperandKind;
using ptx::StateSpace;
using ptx::SymbolKind;
using ptx::Type;

Slot FunctionDecoder::allocate(uint32_t bytes) {
  frame_bytes_ = (frame_bytes_ + 63) / 64 * 64;
  const Slot slot = frame_bytes_;
  frame_bytes_ += bytes;
  return slot;
}

Slot FunctionDecoder::temporary() {
  if (used_temporaries_ == temporaries_.size()) temporaries_.push_back(allocate(kLaneBytes64));
  return temporaries_[used_temporaries_++];
}

Slot FunctionDecoder::constant(uint64_t bits, bool wide) {
  const auto [entry, is_new] = context_.constants.try_emplace({bits, wide}, kNoSlot);
  if (!is_new) return entry->second;
  std::vector<uint8_t>& pool = kernel_.constants;
  const size_t offset = (pool.size() + 63) / 64 * 64;
  const size_t lane_bytes = wide ? 8 : 4;
  pool.resize(offset + 32 * lane_bytes);
  for (size_t lane = 0; lane < 32; ++lane) {
    std::memcpy(&pool[offset + lane * lane_bytes], &bits, lane_bytes);
  }
  entry->second = static_cast<Slot>(offset) | kConstantBit;
  return entry->second;
}

Slot FunctionDecoder::initial(InitialKind kind, ptx::SpecialRegister special_register,
                              uint8_t component, bool wide) {
  const auto key = std::pair(
      static_cast<uint32_t>(kind) << 16 | static_cast<uint32_t>(special_register) << 8 | component,
      wide);
  const auto [entry, is_new] = initial_slots_.try_emplace(key, kNoSlot);
  if (is_new) {
    InitialValue value;
    value.kind = kind;
    value.special = special_register;
    value.component = component;
    value.is_wide = wide;
    value.slot = allocate(wide ? kLaneBytes64 : kLaneBytes32);
    code_.initial.push_back(value);
    entry->second = value.slot;
  }
  return entry->second;
}

Slot FunctionDecoder::special(const Operand& operand, bool wide) {
  using ptx::SpecialRegister;
  const auto which = static_cast<SpecialRegister>(operand.index);
  const bool is_wide_special = is_wide(ptx::special_register_type(which));
  switch (which) {
    case SpecialRegister::kClock:
    case SpecialRegister::kClock64:
    case SpecialRegister::kClockHi:
    case SpecialRegister::kGlobaltimer:
    case SpecialRegister::kGlobaltimerHi:
    case SpecialRegister::kGlobaltimerLo: {
      Instruction read = make(execute::read_special);
      read.d = temporary();
      read.options = operand.index;
      emit_plain(read);
      return is_wide_special == wide ? read.d : convert_width(read.d, wide, false);
    }
    default:
      break;
  }
  const Slot slot = initial(InitialKind::kSpecial, which, operand.component, is_wide_special);
  return is_wide_special == wide ? slot : convert_width(slot, wide, false);
}

bool FunctionDecoder::is_wide_register(uint32_t reg) const {
  return ptx::type_bits(function_.registers[reg]) >= 64;
}

Slot FunctionDecoder::convert_width(Slot slot, bool to_wide, bool is_signed) {
  ptx::Modifiers m;
  m.types[0] = to_wide ? (is_signed ? Type::kS64 : Type::kU64) : Type::kU32;
  m.types[1] = to_wide ? (is_signed ? Type::kS32 : Type::kU32) : Type::kU64;
  const KernelChoice choice = find_kernel(Opcode::kCvt, m);
  Instruction convert = make(to_wide ? execute::alu64 : execute::alu32);
  convert.kernel = choice.kernel;
  convert.options = choice.options;
  convert.d = temporary();
  convert.a = slot;
  emit_plain(convert);
  return convert.d;
}

Slot FunctionDecoder::add_constant(Slot base, uint64_t offset, bool wide) {
  if (offset == 0) return base;
  ptx::Modifiers m;
  m.types[0] = wide ? Type::kU64 : Type::kU32;
  const KernelChoice choice = find_kernel(Opcode::kAdd, m);
  Instruction add = make(wide ? execute::alu64 : execute::alu32);
  add.kernel = choice.kernel;
  add.d = temporary();
  add.a = base;
  add.b = constant(wide ? offset : offset & 0xffffffffu, wide);
  emit_plain(add);
  return add.d;
}

const ptx::Variable* FunctionDecoder::variable(const Operand& operand) const {
  if (operand.symbol == SymbolKind::kModuleVariable) {
    return &context_.module.variables[operand.index];
  }
  if (operand.symbol == SymbolKind::kFunctionVariable) return &function_.variables[operand.index];
  return nullptr;
}

uint64_t FunctionDecoder::shared_offset(const Operand& operand) const {
  if (operand.symbol == SymbolKind::kModuleVariable) {
    const auto found = context_.module_shared.find(operand.index);
    return found == context_.module_shared.end() ? 0 : found->second;
  }
  const auto found = context_.function_shared.find({module_index_, operand.index});
  return found == context_.function_shared.end() ? 0 : found->second;
}

// The address of a symbol in its own space, displacement included.
Slot FunctionDecoder::symbol(const Operand& operand, bool wide) {
  const auto displacement = static_cast<uint64_t>(operand.value);
  const auto number = [&](uint64_t value) {
    return constant(wide ? value : value & 0xffffffffu, wide);
  };
  if (operand.symbol == SymbolKind::kFunction) {
    return number(function_address(operand.index) + displacement);
  }
  if (operand.symbol == SymbolKind::kParam && function_.is_entry) {
    return number(function_.params[operand.index].offset + displacement);
  }
  const ptx::Variable* found = variable(operand);
  if (found == nullptr) return kNoSlot;
  switch (found->space) {
    case StateSpace::kShared: {
      const Slot base = initial(InitialKind::kShared, {}, 0, wide);
      return add_constant(base, shared_offset(operand) + displacement, wide);
    }
    case StateSpace::kLocal: {
      const auto local = local_offsets_.find(operand.index);
      if (local == local_offsets_.end()) return kNoSlot;
      const Slot base = initial(InitialKind::kLocal, {}, 0, wide);
      return add_constant(base, local->second + displacement, wide);
    }
    case StateSpace::kGlobal:
    case StateSpace::kConst:
      if (operand.symbol != SymbolKind::kModuleVariable) {
        const auto named = context_.program.variables.find(function_.name + "." + found->name);
        if (named == context_.program.variables.end()) return kNoSlot;
        return number(named->second.address + displacement);
      }
      return number(context_.program.variable_addresses[operand.index] + displacement);
    default:
      return kNoSlot;
  }
}

Slot FunctionDecoder::source(const Operand& operand, Type type) {
  const bool wide = is_wide(type);
  switch (operand.kind) {
    case OperandKind::kRegister: {
      const Slot slot = registers_.slots[operand.index];
      const bool reg_is_wide = is_wide_register(operand.index);
      if (reg_is_wide == wide || ptx::type_bits(type) > 64) return slot;
      return convert_width(slot, wide, ptx::is_signed(type));
    }
    case OperandKind::kImmediate: {
      uint64_t bits = ptx::immediate_bits(operand, type);
      return constant(bits, wide);
    }
    case OperandKind::kSpecial:
      return special(operand, wide);
    case OperandKind::kSymbol:
      return symbol(operand, wide);
    case OperandKind::kSink:
      return kNoSlot;
    default:
      return kNoSlot;
  }
}

FunctionDecoder::Target FunctionDecoder::target(const Operand& operand, Type type) {
  if (operand.kind != OperandKind::kRegister || operand.index == kNoIndex) return {scratch_};
  const Slot slot = registers_.slots[operand.index];
  const int bits = ptx::type_bits(function_.registers[operand.index]);
  // A register of 32 bits or less holds the zero-extended value already.
  const bool narrow_extension = ptx::is_signed(type) && ptx::type_bits(type) < bits;
  if (is_wide(type) || ptx::type_bits(type) > 64 ||
      (!is_wide_register(operand.index) && !narrow_extension)) {
    // A 64-bit result never meets a narrow register (the parser checks sizes).
    return {is_wide(type) && !is_wide_register(operand.index) ? scratch_ : slot};
  }
  return {temporary(), slot, bits, type};
}

void FunctionDecoder::finish(const Target& target) {
  if (target.extended == kNoSlot) return;
  const bool is_signed = ptx::is_signed(target.type);
  ptx::Modifiers m;
  if (target.bits == 64) {
    m.types[0] = is_signed ? Type::kS64 : Type::kU64;
  } else {
    m.types[0] = target.bits == 32 ? Type::kS32 : Type::kS16;
  }
  m.types[1] = is_signed ? target.type : Type::kU32;
  const KernelChoice choice = find_kernel(Opcode::kCvt, m);
  Instruction convert = make(target.bits == 64 ? execute::alu64 : execute::alu32);
  convert.kernel = choice.kernel;
  convert.options = choice.options;
  convert.d = target.extended;
  convert.a = target.slot;
  emit(convert);
}

Slot FunctionDecoder::destination(const Operand& operand, Type type) {
  return target(operand, type).slot;
}

Slot FunctionDecoder::predicate_destination(uint32_t reg) {
  return reg == kNoIndex ? kNoSlot : registers_.slots[reg];
}

FunctionDecoder::PredicateSource FunctionDecoder::predicate(const Operand& operand) {
  if (operand.kind == OperandKind::kImmediate) {
    return {constant(operand.value != 0 ? 0xffffffffu : 0, false), operand.negated};
  }
  if (operand.kind == OperandKind::kSpecial) {  // %is_explicit_cluster
    return {constant(0, false), operand.negated};
  }
  return {registers_.slots[operand.index], operand.negated};
}

ParamWindow FunctionDecoder::window(const Operand& operand) {
  switch (operand.symbol) {
    case SymbolKind::kParam:
      return code_.params[operand.index];
    case SymbolKind::kReturnParam:
      return code_.return_params[operand.index];
    case SymbolKind::kFunctionVariable: {
      const auto [entry, is_new] = windows_.try_emplace(operand.index);
      if (is_new) {
        const ptx::Variable& found = function_.variables[operand.index];
        const auto bytes = static_cast<uint32_t>(found.size);
        entry->second = {allocate((bytes + 3) / 4 * kLaneBytes32 + kLaneBytes64), bytes};
      }
      return entry->second;
    }
    default:
      return {};
  }
}

std::vector<Operand> FunctionDecoder::elements_of(const Operand& operand) const {
  if (operand.kind != OperandKind::kVector) return {operand};
  const auto elements = function_.elements(operand);
  return {elements.begin(), elements.end()};
}

}  // namespace tilewright::emulator
