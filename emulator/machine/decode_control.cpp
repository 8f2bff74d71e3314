// Branches, calls, barriers and exchange among lanes.
#include "emulator/machine/access.h"
#include "emulator/machine/builtins.h"
#include "emulator/machine/decoder.h"
#include "emulator/machine/execute.h"

namespace tilewright::emulator {

using ptx::Flag;
using ptx::kNoIndex;
using ptx::Operand;
using ptx::OperandKind;
using ptx::SymbolKind;
using ptx::Type;

Status FunctionDecoder::branch(Operands o) {
  const bool guarded = current_->guard != kNoIndex;
  Instruction jump = make(guarded ? execute::branch : execute::branch_always);
  jump.extra = o[0].index;
  const uint32_t rejoin = flow_.reconvergence(current_index_);
  jump.c = guarded && rejoin != kNoIndex ? rejoin : kNoSlot;
  emit(jump, Guarding::kOwn);
  return {};
}

Status FunctionDecoder::indexed_branch(Operands o) {
  Instruction jump = make(execute::branch_indexed);
  jump.a = source(o[0], Type::kU32);
  if (jump.a == kNoSlot) return unsupported();
  const uint32_t rejoin = flow_.reconvergence(current_index_);
  jump.c = rejoin != kNoIndex ? rejoin : kNoSlot;
  jump.extra = static_cast<uint32_t>(kernel_.branch_tables.size());
  kernel_.branch_tables.push_back({function_.branch_targets[o[1].index].instructions});
  emit(jump, Guarding::kOwn);
  return {};
}

// A window that carries one register as an argument or result.
ParamWindow FunctionDecoder::register_window(Slot reg, bool wide, bool store) {
  ParamWindow window{allocate(3 * kLaneBytes64), wide ? 8u : 4u};
  MemoryForm form;
  form.element_bytes = wide ? 8 : 4;
  form.value_is_wide = wide;
  form.load = load_move(form.element_bytes, wide, false);
  form.store = store_move(form.element_bytes, wide);
  form.values = {reg};
  Instruction move = make(store ? execute::store_window : execute::load_window);
  move.b = window.first;
  move.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
  kernel_.memory_forms.push_back(std::move(form));
  if (store) emit(move);
  return window;
}

Status FunctionDecoder::call(Operands o) {
  CallForm form;
  Instruction jump = make(execute::call);
  if (o[1].kind == OperandKind::kRegister) {
    if (!is_wide_register(o[1].index)) return unsupported("a function address of 32 bits");
    form.target = registers_.slots[o[1].index];
  } else {
    const ptx::Function& callee = context_.module.functions[o[1].index];
    if (callee.has_body) {
      form.callee = kernel_.function_of.at(o[1].index);
    } else {
      form.builtin = find_builtin(callee.name);
      if (form.builtin == 0) return unsupported("no such function: " + callee.name);
    }
  }
  const auto parts = [&](const Operand& operand) {
    return operand.kind == OperandKind::kNone ? std::vector<Operand>{} : elements_of(operand);
  };
  for (const Operand& argument : parts(o[2])) {
    if (argument.kind == OperandKind::kRegister || argument.kind == OperandKind::kImmediate) {
      const bool wide = argument.kind == OperandKind::kRegister && is_wide_register(argument.index);
      form.arguments.push_back(
          register_window(source(argument, wide ? Type::kB64 : Type::kB32), wide, true));
    } else {
      form.arguments.push_back(window(argument));
    }
    if (form.arguments.back().first == kNoSlot) return unsupported();
  }
  std::vector<std::pair<ParamWindow, uint32_t>> returned;
  for (const Operand& result : parts(o[0])) {
    if (result.kind == OperandKind::kRegister) {
      const bool wide = is_wide_register(result.index);
      form.results.push_back({allocate(3 * kLaneBytes64), wide ? 8u : 4u});
      returned.emplace_back(form.results.back(), result.index);
    } else {
      form.results.push_back(window(result));
    }
    if (form.results.back().first == kNoSlot) return unsupported();
  }
  jump.extra = static_cast<uint32_t>(kernel_.calls.size());
  kernel_.calls.push_back(std::move(form));
  emit(jump, Guarding::kOwn);
  if (!returned.empty()) {
    // The lanes that called rejoin here, before the results are taken.
    start_block(current_index_);
    for (const auto& [from, reg] : returned) {
      const bool wide = from.bytes == 8;
      MemoryForm take;
      take.element_bytes = wide ? 8 : 4;
      take.value_is_wide = wide;
      take.load = load_move(take.element_bytes, wide, false);
      take.values = {registers_.slots[reg]};
      Instruction move = make(execute::load_window);
      move.b = from.first;
      move.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
      kernel_.memory_forms.push_back(std::move(take));
      emit(move);
    }
  }
  return {};
}

Status FunctionDecoder::return_or_exit() {
  Instruction end = make(execute::exit_thread);
  switch (current_->opcode) {
    case Opcode::kRet:
      end.handler = execute::ret;
      if (!function_.is_entry) {
        for (size_t n = 0; n < function_.return_params.size(); ++n) {
          const ptx::Param& param = function_.return_params[n];
          if (param.reg == kNoIndex) continue;
          MemoryForm form;
          form.element_bytes = static_cast<uint8_t>(param.size);
          form.value_is_wide = param.size == 8;
          form.store = store_move(param.size, form.value_is_wide);
          form.values = {registers_.slots[param.reg]};
          Instruction give = make(execute::store_window);
          give.b = code_.return_params[n].first;
          give.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
          kernel_.memory_forms.push_back(std::move(form));
          emit(give);
        }
      }
      break;
    case Opcode::kTrap:
    case Opcode::kBrkpt:
      emit(make(execute::trap));
      return {};
    case Opcode::kNanosleep:
      emit(make(execute::nanosleep), Guarding::kSync);
      return {};
    default:
      break;
  }
  emit(end, Guarding::kOwn);
  return {};
}

Status FunctionDecoder::barrier(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  if (current_->opcode == Opcode::kBarWarpSync) {
    Instruction sync = make(execute::warp_sync);
    sync.a = source(o[0], Type::kB32);
    if (sync.a == kNoSlot) return unsupported();
    emit(sync, Guarding::kOwn);
    return {};
  }
  Instruction barrier = make(execute::barrier);
  barrier.b = kNoSlot;
  barrier.c = kNoSlot;
  bool reduces = false;
  switch (current_->opcode) {
    case Opcode::kBarSync:
      barrier.options = execute::kBarrierAligned;
      break;
    case Opcode::kBarArrive:
      barrier.options = execute::kBarrierAligned | execute::kBarrierArrive;
      break;
    case Opcode::kBarRed:
      barrier.options = execute::kBarrierAligned;
      reduces = true;
      break;
    case Opcode::kBarrierArrive:
      barrier.options = execute::kBarrierArrive;
      break;
    case Opcode::kBarrierRed:
      reduces = true;
      break;
    default:
      break;
  }
  if (m.has(Flag::kAligned)) barrier.options |= execute::kBarrierAligned;
  size_t next = 0;
  if (reduces) {
    barrier.options |= execute::kBarrierReduce | static_cast<uint32_t>(m.op) << 8;
    barrier.d =
        m.op == ptx::Op::kPopc ? destination(o[0], Type::kU32) : predicate_destination(o[0].index);
    next = 1;
  }
  barrier.a = source(o[next], Type::kU32);
  const size_t counts = o.size() - next - (reduces ? 1 : 0);
  if (counts > 1) barrier.b = source(o[next + 1], Type::kU32);
  if (reduces) {
    const PredicateSource value = predicate(o[o.size() - 1]);
    barrier.c = value.slot;
    if (value.negated) barrier.options |= execute::kBarrierNegated;
  }
  emit(barrier, Guarding::kOwn);
  return {};
}

Status FunctionDecoder::lane_exchange(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  LaneForm form;
  Instruction exchange = make(nullptr);
  const auto register_of = [](const Operand& operand) {
    return operand.kind == OperandKind::kRegister ? operand.index : kNoIndex;
  };
  const auto second_of = [](const Operand& operand) {
    return operand.kind == OperandKind::kRegister ? operand.second : kNoIndex;
  };
  const auto value_destination = [&](const Operand& operand) {
    return register_of(operand) == kNoIndex ? scratch_ : destination(operand, Type::kB32);
  };
  switch (current_->opcode) {
    case Opcode::kActivemask:
      exchange.handler = execute::active_mask;
      exchange.d = value_destination(o[0]);
      emit(exchange);
      return {};
    case Opcode::kShflSync:
      exchange.handler = execute::shuffle;
      exchange.d = value_destination(o[0]);
      form.predicate = predicate_destination(second_of(o[0]));
      form.value = source(o[1], Type::kB32);
      form.b = source(o[2], Type::kB32);
      form.c = source(o[3], Type::kB32);
      form.membership = source(o[4], Type::kB32);
      form.shuffle = m.shuffle;
      break;
    case Opcode::kVoteSync: {
      exchange.handler = execute::vote;
      form.vote = m.vote;
      const bool is_ballot = m.vote == ptx::VoteMode::kBallot;
      exchange.d = is_ballot ? value_destination(o[0]) : predicate_destination(register_of(o[0]));
      const PredicateSource value = predicate(o[1]);
      form.value = value.slot;
      form.negated = value.negated;
      form.membership = source(o[2], Type::kB32);
      break;
    }
    case Opcode::kMatchAllSync:
    case Opcode::kMatchAnySync:
      exchange.handler = execute::match;
      form.is_wide = is_wide(m.type());
      form.vote =
          current_->opcode == Opcode::kMatchAllSync ? ptx::VoteMode::kAll : ptx::VoteMode::kAny;
      exchange.d = value_destination(o[0]);
      form.predicate = predicate_destination(second_of(o[0]));
      form.value = source(o[1], m.type());
      form.membership = source(o[2], Type::kB32);
      break;
    case Opcode::kReduxSync:
      exchange.handler = execute::reduce_lanes;
      form.op = m.op;
      form.is_signed = ptx::is_signed(m.type());
      exchange.d = value_destination(o[0]);
      form.value = source(o[1], Type::kB32);
      form.membership = source(o[2], Type::kB32);
      break;
    default:
      exchange.handler = execute::elect;
      exchange.d = value_destination(o[0]);
      form.predicate = predicate_destination(second_of(o[0]));
      form.membership = source(o[1], Type::kB32);
      break;
  }
  if (form.membership == kNoSlot) return unsupported();
  exchange.extra = static_cast<uint32_t>(kernel_.lane_forms.size());
  kernel_.lane_forms.push_back(form);
  emit(exchange, Guarding::kSync);
  return {};
}

bool FunctionDecoder::is_ignored() const {
  switch (current_->opcode) {
    case Opcode::kFence:
    case Opcode::kFenceMbarrierInit:
    case Opcode::kFenceProxyAlias:
    case Opcode::kFenceProxyAsyncGeneric:
    case Opcode::kMembar:
    case Opcode::kMembarProxyAlias:
    case Opcode::kPrefetch:
    case Opcode::kPrefetchu:
    case Opcode::kDiscard:
    case Opcode::kApplypriority:
    case Opcode::kPmevent:
    case Opcode::kCreatepolicyCvt:
    case Opcode::kCreatepolicyFractional:
    case Opcode::kCreatepolicyRange:
      return true;
    default:
      return false;
  }
}

// Hints, and fences, which a machine that executes memory accesses in order need not act on. A
// policy's value is opaque: 0.
Status FunctionDecoder::hint(Operands o) {
  switch (current_->opcode) {
    case Opcode::kCreatepolicyCvt:
    case Opcode::kCreatepolicyFractional:
    case Opcode::kCreatepolicyRange: {
      ptx::Modifiers m;
      m.types[0] = Type::kB64;
      Instruction zero = make(execute::alu64);
      zero.kernel = find_kernel(Opcode::kMov, m).kernel;
      zero.d = destination(o[0], Type::kB64);
      zero.a = constant(0, true);
      emit(zero);
      return {};
    }
    case Opcode::kFenceMbarrierInit:
      emit(make(execute::mbarrier_init_fence));
      return {};
    case Opcode::kFence:
    case Opcode::kMembar:
      emit(make(execute::memory_fence));
      return {};
    default:
      emit(make(execute::nothing));
      return {};
  }
}

}  // namespace tilewright::emulator
