// Arithmetic, moves, comparisons.
#include "emulator/machine/decoder.h"
#include "emulator/machine/execute.h"
#include "emulator/machine/scalar_kernels.h"

namespace tilewright::emulator {

using ptx::Flag;
using ptx::kNoIndex;
using ptx::MulPart;
using ptx::Operand;
using ptx::OperandKind;
using ptx::Type;

namespace {

Type doubled(Type type) {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kS32:
      return Type::kS64;
    default:
      return Type::kU64;
  }
}

}  // namespace

Type FunctionDecoder::result_type() const {
  const ptx::Modifiers& m = current_->modifiers;
  switch (current_->opcode) {
    case Opcode::kMul:
    case Opcode::kMad:
      return m.part == MulPart::kWide ? doubled(m.type()) : m.type();
    case Opcode::kPopc:
    case Opcode::kClz:
    case Opcode::kBfind:
      return Type::kU32;
    case Opcode::kCvtPack:
      return Type::kU32;
    default:
      return m.type();
  }
}

// The type of source `index` (0 based).
Type FunctionDecoder::source_type(size_t index) const {
  const ptx::Modifiers& m = current_->modifiers;
  switch (current_->opcode) {
    case Opcode::kCvt:
      return m.types[1];
    case Opcode::kCvtPack:
      return index < 2 ? Type::kS32 : Type::kB32;
    case Opcode::kMad:
      return index == 2 ? result_type() : m.type();
    case Opcode::kShl:
    case Opcode::kShr:
      return index == 1 ? Type::kU32 : m.type();
    case Opcode::kBfe:
      return index >= 1 ? Type::kU32 : m.type();
    case Opcode::kBfi:
      return index >= 2 ? Type::kU32 : m.type();
    case Opcode::kSzext:
      return index == 1 ? Type::kU32 : m.type();
    case Opcode::kFns:
      return index == 2 ? Type::kS32 : Type::kU32;
    case Opcode::kSlct:
      return index == 2 ? m.types[1] : m.type();
    case Opcode::kDp4a:
    case Opcode::kDp2a:
      return Type::kB32;
    default:
      return m.type();
  }
}

Status FunctionDecoder::arithmetic(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  const Type result = result_type();
  if (current_->opcode == Opcode::kBfi) {
    Instruction insert = make(execute::bit_field_insert);
    insert.options = static_cast<uint32_t>(ptx::type_bits(m.type()));
    insert.d = destination(o[0], m.type());
    insert.a = source(o[1], m.type());
    insert.b = source(o[2], m.type());
    insert.c = source(o[3], Type::kU32);
    insert.extra = source(o[4], Type::kU32);
    emit(insert);
    return {};
  }
  const KernelChoice choice = find_kernel(current_->opcode, m);
  if (!choice || o.size() < 2 || o.size() > 4) return unsupported();
  const Target to = target(o[0], result);
  Instruction alu = make(is_wide(result) ? execute::alu64 : execute::alu32);
  alu.kernel = choice.kernel;
  alu.options = choice.options;
  alu.d = to.slot;
  Slot* slots[] = {&alu.a, &alu.b, &alu.c};
  for (size_t n = 1; n < o.size(); ++n) {
    if (current_->opcode == Opcode::kSelp && n == 3) {
      const PredicateSource chosen = predicate(o[3]);
      alu.c = chosen.slot;
      if (chosen.negated) std::swap(alu.a, alu.b);
      continue;
    }
    *slots[n - 1] = source(o[n], source_type(n - 1));
    if (*slots[n - 1] == kNoSlot) return unsupported();
  }
  emit(alu);
  finish(to);
  return {};
}

Status FunctionDecoder::move(Operands o) {
  const Type type = current_->modifiers.type();
  if (type == Type::kPred) return predicate_operation(o);
  if (o[0].kind == OperandKind::kVector || o[1].kind == OperandKind::kVector) {
    return move_vector(o);
  }
  if (type == Type::kB128) {
    Instruction copy = make(execute::alu128);
    copy.d = destination(o[0], type);
    copy.a = source(o[1], type);
    emit(copy);
    return {};
  }
  const Slot from = source(o[1], type);
  if (from == kNoSlot) return unsupported();
  const KernelChoice choice = find_kernel(Opcode::kMov, current_->modifiers);
  const Target to = target(o[0], type);
  Instruction copy = make(is_wide(type) ? execute::alu64 : execute::alu32);
  copy.kernel = choice.kernel;
  copy.d = to.slot;
  copy.a = from;
  emit(copy);
  finish(to);
  return {};
}

Status FunctionDecoder::move_vector(Operands o) {
  const Type type = current_->modifiers.type();
  const auto whole = static_cast<uint32_t>(ptx::type_bits(type) / 8);
  const bool packs = o[1].kind == OperandKind::kVector;
  if (packs && o[0].kind == OperandKind::kVector) return unsupported("vector to vector");
  const std::vector<Operand> pieces = elements_of(packs ? o[1] : o[0]);
  PieceForm form;
  form.piece_bytes = static_cast<uint8_t>(whole / pieces.size());
  const Type piece_type = form.piece_bytes == 8   ? Type::kB64
                          : form.piece_bytes == 4 ? Type::kB32
                          : form.piece_bytes == 2 ? Type::kB16
                                                  : Type::kB8;
  for (const Operand& piece : pieces) {
    if (packs) {
      form.pieces.push_back(source(piece, piece_type));
      if (form.pieces.back() == kNoSlot) return unsupported();
    } else {
      const bool sunk = piece.kind != OperandKind::kRegister;
      form.pieces.push_back(sunk ? kNoSlot : destination(piece, piece_type));
    }
  }
  Instruction move = make(packs ? execute::pack : execute::unpack);
  move.options = whole;
  if (packs) {
    move.d = destination(o[0], type);
  } else {
    move.a = source(o[1], type);
    if (move.a == kNoSlot) return unsupported();
  }
  move.extra = static_cast<uint32_t>(kernel_.piece_forms.size());
  kernel_.piece_forms.push_back(std::move(form));
  emit(move);
  return {};
}

Status FunctionDecoder::comparison(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  const CompareChoice choice = find_compare(current_->opcode, m);
  if (!choice) return unsupported();
  const Type type = m.type();
  const bool packed = type == Type::kF16x2 || type == Type::kBf16x2;
  Instruction compare = make(execute::compare);
  compare.compare = choice.kernel;
  compare.options = choice.options;
  compare.a = source(o[1], type);
  compare.b = o.size() > 2 ? source(o[2], type) : compare.a;
  if (compare.a == kNoSlot || compare.b == kNoSlot) return unsupported();
  const auto reg = [](const Operand& operand) {
    return operand.kind == OperandKind::kRegister ? operand.index : kNoIndex;
  };
  const Slot p = predicate_destination(reg(o[0]));
  const Slot q =
      predicate_destination(o[0].kind == OperandKind::kRegister ? o[0].second : kNoIndex);
  compare.d = p;
  compare.c = q;
  if (o.size() > 3 || packed) {
    PredicateForm form;
    form.p = p;
    form.q = q;
    if (o.size() > 3) {
      const PredicateSource third = predicate(o[3]);
      form.third = third.slot;
      form.third_negated = third.negated;
      form.op = m.op;
    }
    if (packed) {
      const CompareChoice high = find_compare_high(m);
      form.high = high.kernel;
      form.high_options = high.options;
    }
    compare.handler = execute::compare_combined;
    compare.extra = static_cast<uint32_t>(kernel_.predicate_forms.size());
    kernel_.predicate_forms.push_back(form);
  }
  emit(compare);
  return {};
}

Status FunctionDecoder::set(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  const Type to = m.types[0];
  const Type from = m.types[1] == Type::kNone ? m.types[0] : m.types[1];
  const CompareChoice choice = find_compare(Opcode::kSet, m);
  if (!choice) return unsupported();
  PredicateForm form;
  switch (to) {
    case Type::kF32:
      form.true_bits = 0x3f800000u;
      break;
    case Type::kF16:
    case Type::kF16x2:
      form.true_bits = 0x3c00u;
      break;
    case Type::kBf16:
    case Type::kBf16x2:
      form.true_bits = 0x3f80u;
      break;
    case Type::kU16:
    case Type::kS16:
      form.true_bits = 0xffffu;
      break;
    default:
      form.true_bits = 0xffffffffu;
  }
  if (from == Type::kF16x2 || from == Type::kBf16x2) {
    const CompareChoice high = find_compare_high(m);
    form.high = high.kernel;
    form.high_options = high.options;
  }
  if (o.size() > 3) {
    const PredicateSource third = predicate(o[3]);
    form.third = third.slot;
    form.third_negated = third.negated;
    form.op = m.op;
  }
  const Target result = target(o[0], to);
  Instruction set = make(execute::set_lanes);
  set.compare = choice.kernel;
  set.options = choice.options;
  set.d = result.slot;
  set.a = source(o[1], from);
  set.b = source(o[2], from);
  if (set.a == kNoSlot || set.b == kNoSlot) return unsupported();
  set.extra = static_cast<uint32_t>(kernel_.predicate_forms.size());
  kernel_.predicate_forms.push_back(form);
  emit(set);
  finish(result);
  return {};
}

// and, or, xor, not, mov on predicates.
Status FunctionDecoder::predicate_operation(Operands o) {
  Instruction logic = make(execute::predicate_logic);
  const PredicateSource a = predicate(o[1]);
  logic.d = o[0].kind == OperandKind::kRegister ? registers_.slots[o[0].index] : scratch_;
  logic.a = logic.b = a.slot;
  bool negate_a = a.negated;
  switch (current_->opcode) {
    case Opcode::kAnd:
      logic.options = static_cast<uint32_t>(ptx::Op::kAnd);
      break;
    case Opcode::kOr:
      logic.options = static_cast<uint32_t>(ptx::Op::kOr);
      break;
    case Opcode::kXor:
      logic.options = static_cast<uint32_t>(ptx::Op::kXor);
      break;
    case Opcode::kNot:
      negate_a = !negate_a;
      break;
    case Opcode::kMov:
      break;
    default:
      return unsupported();
  }
  if (o.size() > 2) {
    const PredicateSource b = predicate(o[2]);
    logic.b = b.slot;
    if (b.negated) logic.options |= 0x200;
  }
  if (negate_a) logic.options |= 0x100;
  emit(logic);
  return {};
}

Status FunctionDecoder::carry(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  const Type type = m.type();
  uint32_t options = is_wide(type) ? execute::kCarryWide : 0u;
  if (m.has(Flag::kCarry)) options |= execute::kCarryOut;
  switch (current_->opcode) {
    case Opcode::kAddc:
      options |= execute::kCarryIn;
      break;
    case Opcode::kSubc:
      options |= execute::kCarryIn | execute::kCarrySubtract;
      break;
    case Opcode::kMadc:
      options |= execute::kCarryIn | execute::kCarryMultiply;
      break;
    case Opcode::kAdd:
      break;
    case Opcode::kSub:
      options |= execute::kCarrySubtract;
      break;
    case Opcode::kMad:
      options |= execute::kCarryMultiply;
      break;
    default:
      return unsupported();
  }
  if (m.part == MulPart::kHi) options |= execute::kCarryHigh;
  if (ptx::is_signed(type)) options |= execute::kCarrySigned;
  Instruction add = make(execute::carry_arithmetic);
  add.options = options;
  add.d = destination(o[0], type);
  Slot* slots[] = {&add.a, &add.b, &add.c};
  for (size_t n = 1; n < o.size() && n < 4; ++n) {
    *slots[n - 1] = source(o[n], type);
    if (*slots[n - 1] == kNoSlot) return unsupported();
  }
  emit(add);
  return {};
}

Status FunctionDecoder::lop3(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  Instruction logic = make(execute::alu32);
  logic.d = destination(o[0], Type::kB32);
  logic.a = source(o[1], Type::kB32);
  logic.b = source(o[2], Type::kB32);
  logic.c = source(o[3], Type::kB32);
  const auto table = static_cast<uint32_t>(o[4].value) & 0xffu;
  if (logic.a == kNoSlot || logic.b == kNoSlot || logic.c == kNoSlot) return unsupported();
  if (m.op == ptx::Op::kNone) {
    logic.kernel = find_kernel(Opcode::kLop3, m).kernel;
    logic.options = table;
  } else {
    PredicateForm form;
    form.table = table;
    form.op = m.op;
    form.p = predicate_destination(o[0].second);
    const PredicateSource third = predicate(o[5]);
    form.third = third.slot;
    form.third_negated = third.negated;
    logic.handler = execute::lop3_predicate;
    logic.extra = static_cast<uint32_t>(kernel_.predicate_forms.size());
    kernel_.predicate_forms.push_back(form);
  }
  emit(logic);
  return {};
}

}  // namespace tilewright::emulator
