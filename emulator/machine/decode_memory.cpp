// Loads, stores, atomics, addresses, matrices and cp.async.
#include "emulator/machine/access.h"
#include "emulator/machine/decoder.h"
#include "emulator/machine/execute.h"

namespace tilewright::emulator {

using ptx::AddressBase;
using ptx::Flag;
using ptx::kNoIndex;
using ptx::Operand;
using ptx::OperandKind;
using ptx::StateSpace;
using ptx::SymbolKind;
using ptx::Type;

MatrixType matrix_type(Type type) {
  switch (type) {
    case Type::kBf16:
      return MatrixType::kBf16;
    case Type::kTf32:
      return MatrixType::kTf32;
    case Type::kE4m3:
      return MatrixType::kE4m3;
    case Type::kE5m2:
      return MatrixType::kE5m2;
    case Type::kS8:
      return MatrixType::kS8;
    case Type::kU8:
      return MatrixType::kU8;
    default:
      return MatrixType::kF16;
  }
}

AccumulatorType accumulator_type(Type type) {
  if (type == Type::kF16) return AccumulatorType::kF16;
  return type == Type::kS32 ? AccumulatorType::kS32 : AccumulatorType::kF32;
}

Result<StateSpace> FunctionDecoder::access_space(const Operand& operand, StateSpace written) const {
  if (operand.base != AddressBase::kSymbol) return written;
  const ptx::Variable* found = variable(operand);
  const StateSpace own = found != nullptr ? found->space : StateSpace::kParam;
  if (written == StateSpace::kGeneric) {
    // A bare symbol in a generic access: .global symbols have equal addresses there.
    if (own == StateSpace::kGlobal || own == StateSpace::kConst) return own;
    return unsupported("a generic access to a symbol of another space");
  }
  return written;
}

Result<Slot> FunctionDecoder::address(const Operand& operand, MemoryForm& form, StateSpace space) {
  form.offset = operand.value;
  form.space = space;
  switch (operand.base) {
    case AddressBase::kAbsolute:
      form.address_is_wide = true;
      form.offset = 0;
      return constant(static_cast<uint64_t>(operand.value), true);
    case AddressBase::kRegister:
      form.address_is_wide = is_wide_register(operand.index);
      return registers_.slots[operand.index];
    case AddressBase::kSymbol: {
      form.address_is_wide = space != StateSpace::kShared && space != StateSpace::kSharedCluster;
      Operand base = operand;
      base.kind = OperandKind::kSymbol;
      base.value = 0;
      const ptx::Variable* found = variable(operand);
      if (found != nullptr && found->space == StateSpace::kShared) {
        form.offset += static_cast<int64_t>(shared_offset(operand));
        return initial(InitialKind::kShared, {}, 0, form.address_is_wide);
      }
      const Slot slot = symbol(base, form.address_is_wide);
      if (slot == kNoSlot) return unsupported("the address of this symbol");
      return slot;
    }
  }
  return unsupported();
}

// ld.param and st.param with a name: a parameter of the kernel, or words of a call.
Status FunctionDecoder::param_access(const Operand& operand, MemoryForm form, bool is_load) {
  form.offset = operand.value;
  Instruction access = make(is_load ? execute::load_window : execute::store_window);
  const uint64_t end =
      static_cast<uint64_t>(operand.value) + uint64_t{form.element_bytes} * form.vector;
  if (operand.symbol == SymbolKind::kParam && function_.is_entry) {
    const ptx::Param& param = function_.params[operand.index];
    if (!is_load || operand.value < 0 || end > param.size) {
      return unsupported("beyond the parameter");
    }
    form.offset += param.offset;
    access.handler = execute::load_param;
  } else {
    const ParamWindow found = window(operand);
    if (found.first == kNoSlot || operand.value < 0 || end > found.bytes) {
      return unsupported("beyond the parameter");
    }
    access.b = found.first;
  }
  access.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
  kernel_.memory_forms.push_back(std::move(form));
  emit(access);
  return {};
}

Status FunctionDecoder::load(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  const Type type = m.type();
  MemoryForm form;
  form.vector = m.vector;
  form.element_bytes = static_cast<uint8_t>(ptx::type_bits(type) / 8);
  const std::vector<Operand> values = elements_of(o[0]);
  if (form.element_bytes == 16) {  // two halves of 64-bit lanes
    form.element_bytes = 8;
    form.vector = 2;
    form.value_is_wide = true;
    const Slot slot = destination(o[0], type);
    form.values = {slot, slot + kLaneBytes64};
  }
  for (const Operand& value : values) {
    if (!form.values.empty() && type == Type::kB128) break;
    const bool sunk = value.kind != OperandKind::kRegister || value.index == kNoIndex;
    form.values.push_back(sunk ? kNoSlot : registers_.slots[value.index]);
    if (!sunk) form.value_is_wide = is_wide_register(value.index);
  }
  form.is_signed = ptx::is_signed(type);
  form.load = load_move(form.element_bytes, form.value_is_wide, form.is_signed);
  TW_ASSIGN(const StateSpace space, access_space(o[1], m.space));
  if (space == StateSpace::kParam && o[1].base == AddressBase::kSymbol) {
    return param_access(o[1], std::move(form), true);
  }
  if (space == StateSpace::kParam && !function_.is_entry) {
    return unsupported("a computed parameter address in a function");
  }
  Instruction load = make(execute::load_any);
  TW_ASSIGN(load.a, address(o[1], form, space));
  if (space == StateSpace::kGlobal) load.handler = execute::load_global;
  if (space == StateSpace::kShared) load.handler = execute::load_shared;
  load.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
  kernel_.memory_forms.push_back(std::move(form));
  emit(load);
  return {};
}

Status FunctionDecoder::store(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  const Type type = m.type();
  MemoryForm form;
  form.vector = m.vector;
  form.element_bytes = static_cast<uint8_t>(ptx::type_bits(type) / 8);
  // All values lie in lanes of one width: that of the first register, else of the type.
  const std::vector<Operand> values = elements_of(o[1]);
  form.value_is_wide = form.element_bytes == 8;
  for (const Operand& value : values) {
    if (value.kind == OperandKind::kRegister) form.value_is_wide = is_wide_register(value.index);
  }
  if (form.element_bytes == 16) {  // two halves of 64-bit lanes
    form.element_bytes = 8;
    form.vector = 2;
    form.value_is_wide = true;
    const Slot slot = source(o[1], type);
    if (slot == kNoSlot || (slot & kConstantBit) != 0) return unsupported();
    form.values = {slot, slot + kLaneBytes64};
  }
  for (const Operand& value : values) {
    if (type == Type::kB128) break;
    const Slot slot = value.kind == OperandKind::kRegister ? registers_.slots[value.index]
                      : form.value_is_wide == is_wide(type)
                          ? source(value, type)
                          : constant(ptx::immediate_bits(value, type), form.value_is_wide);
    if (slot == kNoSlot) return unsupported();
    form.values.push_back(slot);
  }
  form.store = store_move(form.element_bytes, form.value_is_wide);
  TW_ASSIGN(const StateSpace space, access_space(o[0], m.space));
  if (space == StateSpace::kParam) {
    if (o[0].base != AddressBase::kSymbol) return unsupported("a computed parameter address");
    return param_access(o[0], std::move(form), false);
  }
  Instruction store = make(execute::store_any);
  TW_ASSIGN(store.a, address(o[0], form, space));
  if (space == StateSpace::kGlobal) store.handler = execute::store_global;
  if (space == StateSpace::kShared) store.handler = execute::store_shared;
  store.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
  kernel_.memory_forms.push_back(std::move(form));
  emit(store);
  return {};
}

Status FunctionDecoder::atomic(Operands o, bool has_destination) {
  const ptx::Modifiers& m = current_->modifiers;
  MemoryForm form;
  form.type = m.type();
  form.op = m.op;
  form.vector = m.vector;
  form.element_bytes = static_cast<uint8_t>(ptx::type_bits(form.type) / 8);
  const bool is_pair = form.element_bytes == 16;  // two halves of 64-bit lanes
  form.value_is_wide = form.element_bytes == 8;
  const size_t first = has_destination ? 1 : 0;
  const std::vector<Operand> b = elements_of(o[first + 1]);
  const std::vector<Operand> d = has_destination ? elements_of(o[0]) : std::vector<Operand>{};
  const bool has_c = m.op == ptx::Op::kCas;
  for (size_t n = 0; n < b.size(); ++n) {
    const bool kept =
        has_destination && d[n].kind == OperandKind::kRegister && d[n].index != kNoIndex;
    form.values.push_back(kept ? destination(d[n], form.type) : kNoSlot);
    form.values.push_back(source(b[n], form.type));
    form.values.push_back(has_c ? source(o[first + 2], form.type) : kNoSlot);
    if (form.values[n * 3 + 1] == kNoSlot) return unsupported();
    for (size_t k = n * 3; k < form.values.size() && is_pair; ++k) {
      if (form.values[k] != kNoSlot && (form.values[k] & kConstantBit) != 0) return unsupported();
    }
  }
  TW_ASSIGN(const StateSpace space, access_space(o[first], m.space));
  Instruction update = make(is_pair ? execute::atomic_wide : execute::atomic);
  TW_ASSIGN(update.a, address(o[first], form, space));
  update.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
  kernel_.memory_forms.push_back(std::move(form));
  emit(update);
  return {};
}

Status FunctionDecoder::address_conversion(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  const Type type = m.type();
  const bool wide = is_wide(type);
  if (!wide) return unsupported("generic addresses have 64 bits");
  const Slot from = source(o[1], type);
  if (from == kNoSlot) return unsupported();
  ptx::Modifiers add;
  add.types[0] = Type::kU64;
  Instruction convert = make(execute::alu64);
  convert.d = destination(o[0], type);
  convert.a = from;
  uint64_t base = 0;
  switch (m.space) {
    case StateSpace::kShared:
    case StateSpace::kSharedCluster:
      base = kSharedWindow;
      break;
    case StateSpace::kLocal:
      base = kLocalWindow;
      break;
    case StateSpace::kParam:
      convert.handler = execute::convert_address;
      convert.options = m.has(Flag::kTo) ? 1 : 0;
      emit(convert);
      return {};
    default:
      break;
  }
  convert.kernel = find_kernel(m.has(Flag::kTo) ? Opcode::kSub : Opcode::kAdd, add).kernel;
  convert.b = constant(base, true);
  emit(convert);
  return {};
}

Status FunctionDecoder::address_test(Operands o) {
  MemoryForm form;
  form.address_is_wide = o[1].kind != OperandKind::kRegister || is_wide_register(o[1].index);
  Instruction test = make(execute::is_space);
  test.d = registers_.slots[o[0].index];
  test.a = source(o[1], form.address_is_wide ? Type::kU64 : Type::kU32);
  if (test.a == kNoSlot) return unsupported();
  test.options = static_cast<uint32_t>(current_->modifiers.space);
  test.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
  kernel_.memory_forms.push_back(form);
  emit(test);
  return {};
}

Status FunctionDecoder::matrix_move(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  if (current_->opcode == Opcode::kMovmatrix) {
    Instruction transpose = make(execute::move_matrix);
    transpose.d = destination(o[0], Type::kB32);
    transpose.a = source(o[1], Type::kB32);
    emit(transpose, Guarding::kSync);
    return {};
  }
  const bool is_load = current_->opcode == Opcode::kLdmatrix;
  MemoryForm form;
  form.transposed = m.has(Flag::kTrans);
  for (const Operand& value : elements_of(o[is_load ? 0 : 1])) {
    form.values.push_back(is_load ? destination(value, Type::kB32) : source(value, Type::kB32));
    if (form.values.back() == kNoSlot) return unsupported();
  }
  if (form.values.size() > 4) return unsupported();
  Instruction move = make(is_load ? execute::load_matrix : execute::store_matrix);
  TW_ASSIGN(move.a, address(o[is_load ? 1 : 0], form, m.space));
  move.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
  kernel_.memory_forms.push_back(std::move(form));
  emit(move, Guarding::kSync);
  return {};
}

Status FunctionDecoder::matrix_product(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  MatrixForm form;
  form.form.m = m.shape.m;
  form.form.n = m.shape.n;
  form.form.k = m.shape.k;
  form.form.a = matrix_type(m.types[1]);
  form.form.b = matrix_type(m.types[2]);
  form.form.d = accumulator_type(m.types[0]);
  form.form.saturate = m.has(Flag::kSatfinite);
  if (!is_legal(form.form)) return unsupported();
  for (const Operand& value : elements_of(o[0])) {
    form.d.push_back(destination(value, Type::kB32));
  }
  const auto add = [&](const Operand& operand, std::vector<Slot>& slots) {
    for (const Operand& value : elements_of(operand)) slots.push_back(source(value, Type::kB32));
  };
  add(o[1], form.a);
  add(o[2], form.b);
  add(o[3], form.c);
  if (form.a.size() != static_cast<size_t>(a_registers(form.form)) ||
      form.b.size() != static_cast<size_t>(b_registers(form.form)) ||
      form.d.size() != static_cast<size_t>(d_registers(form.form)) ||
      form.c.size() != form.d.size()) {
    return unsupported("wrong number of registers");
  }
  Instruction product = make(execute::multiply_matrices);
  product.extra = static_cast<uint32_t>(kernel_.matrix_forms.size());
  kernel_.matrix_forms.push_back(std::move(form));
  emit(product, Guarding::kSync);
  return {};
}

Status FunctionDecoder::asynchronous_copy(Operands o) {
  switch (current_->opcode) {
    case Opcode::kCpAsyncCommitGroup:
      emit(make(execute::copy_commit));
      return {};
    case Opcode::kCpAsyncWaitAll:
      emit(make(execute::copy_wait_all));
      return {};
    case Opcode::kCpAsyncWaitGroup: {
      Instruction wait = make(execute::copy_wait);
      wait.options = static_cast<uint32_t>(o[0].value);
      emit(wait);
      return {};
    }
    default:
      break;
  }
  Instruction copy = make(execute::copy_async);
  MemoryForm source_form;
  TW_ASSIGN(copy.b, address(o[1], source_form, StateSpace::kGlobal));
  if (!source_form.address_is_wide) return unsupported("a 32-bit global address");
  MemoryForm form;
  TW_ASSIGN(copy.a, address(o[0], form, StateSpace::kShared));
  form.source_offset = source_form.offset;
  form.element_bytes = static_cast<uint8_t>(o[2].value);
  if (o[2].value != 4 && o[2].value != 8 && o[2].value != 16) return unsupported("this size");
  const size_t extra = o.size() - (current_->modifiers.has(Flag::kCacheHint) ? 1 : 0);
  if (extra > 3) {
    const Operand& last = o[3];
    const bool is_predicate =
        last.kind == OperandKind::kRegister && function_.registers[last.index] == Type::kPred;
    if (is_predicate) {
      const PredicateSource ignore = predicate(last);
      copy.c = ignore.slot;
      copy.options = execute::kCopyIgnore | (ignore.negated ? execute::kCopyNegated : 0u);
    } else {
      copy.c = source(last, Type::kU32);
      copy.options = execute::kCopySize;
    }
  }
  copy.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
  kernel_.memory_forms.push_back(std::move(form));
  emit(copy);
  return {};
}

}  // namespace tilewright::emulator
