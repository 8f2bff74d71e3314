// What sm_90 adds: mbarrier, clusters, bulk copies, wgmma, setmaxnreg.
#include "emulator/machine/decoder.h"
#include "emulator/machine/execute.h"
#include "emulator/machine/tensor_map.h"

namespace tilewright::emulator {

using ptx::Flag;
using ptx::kNoIndex;
using ptx::Operand;
using ptx::OperandKind;
using ptx::StateSpace;
using ptx::Type;

Status FunctionDecoder::mbarrier(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  Instruction step = make(nullptr);
  if (current_->opcode == Opcode::kMbarrierPendingCount) {
    step.handler = execute::mbarrier_pending_count;
    step.d = destination(o[0], Type::kU32);
    step.a = source(o[1], Type::kB64);
    emit(step);
    return {};
  }
  const bool has_destination = o[0].kind != OperandKind::kAddress;
  const size_t at = has_destination ? 1 : 0;
  step.b = kNoSlot;
  step.d = kNoSlot;
  const auto number = [&](size_t index) {
    return o.size() > index ? source(o[index], Type::kU32) : kNoSlot;
  };
  Guarding guarding = Guarding::kWrapped;
  switch (current_->opcode) {
    case Opcode::kMbarrierInit:
      step.handler = execute::mbarrier_init;
      step.b = number(at + 1);
      break;
    case Opcode::kMbarrierInval:
      step.handler = execute::mbarrier_inval;
      break;
    case Opcode::kMbarrierCompleteTx:
      step.options = execute::kMbarrierComplete;
      [[fallthrough]];
    case Opcode::kMbarrierExpectTx:
      step.handler = execute::mbarrier_transactions;
      step.b = number(at + 1);
      break;
    case Opcode::kMbarrierArriveDrop:
      step.options = execute::kMbarrierDrop;
      [[fallthrough]];
    case Opcode::kMbarrierArrive:
      step.handler = execute::mbarrier_arrive;
      step.b = number(at + 1);
      if (m.has(Flag::kExpectTx)) step.options |= execute::kMbarrierExpect;
      if (m.has(Flag::kNoComplete)) step.options |= execute::kMbarrierNoComplete;
      if (o[0].kind == OperandKind::kRegister && o[0].index != kNoIndex) {
        step.d = destination(o[0], Type::kB64);
      }
      break;
    case Opcode::kCpAsyncMbarrierArrive:
      step.handler = execute::mbarrier_after_copies;
      if (m.has(Flag::kNoinc)) step.options = execute::kMbarrierNoIncrement;
      break;
    default: {  // test_wait, try_wait
      const bool is_parity = m.has(Flag::kParity);
      const bool tries = current_->opcode == Opcode::kMbarrierTryWait;
      step.handler = tries ? execute::mbarrier_try : execute::mbarrier_test;
      step.options = is_parity ? execute::kMbarrierParity : 0u;
      step.b = source(o[2], is_parity ? Type::kU32 : Type::kB64);
      step.d = o[0].kind == OperandKind::kRegister ? predicate_destination(o[0].index) : kNoSlot;
      if (tries) guarding = Guarding::kSync;
      break;
    }
  }
  if (m.semantics == ptx::Semantics::kRelaxed) step.options |= execute::kMbarrierRelaxed;
  MemoryForm form;
  TW_ASSIGN(step.a, address(o[at], form, m.space));
  step.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
  kernel_.memory_forms.push_back(std::move(form));
  emit(step, guarding);
  return {};
}

Status FunctionDecoder::cluster_operation(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  Instruction step = make(nullptr);
  switch (current_->opcode) {
    case Opcode::kBarrierClusterArrive:
    case Opcode::kBarrierClusterWait:
      step.handler = current_->opcode == Opcode::kBarrierClusterArrive ? execute::cluster_arrive
                                                                       : execute::cluster_wait;
      step.options = m.has(Flag::kAligned) ? execute::kBarrierAligned : 0u;
      if (m.semantics == ptx::Semantics::kRelaxed) step.options |= execute::kBarrierRelaxed;
      emit(step, Guarding::kSync);
      return {};
    case Opcode::kSetmaxnregDec:
    case Opcode::kSetmaxnregInc:
      step.handler = execute::set_max_registers;
      step.options = static_cast<uint32_t>(o[0].value) & 0x3ff;
      if (current_->opcode == Opcode::kSetmaxnregInc) step.options |= execute::kRegistersIncrease;
      emit(step, Guarding::kSync);
      return {};
    case Opcode::kGriddepcontrolWait:
      emit(make(execute::grid_wait), Guarding::kSync);
      return {};
    case Opcode::kGriddepcontrolLaunchDependents:
      emit(make(execute::grid_launch_dependents), Guarding::kSync);
      return {};
    case Opcode::kFenceProxyAsync:
      // Of global memory alone it orders nothing that is watched.
      emit(make(m.space == StateSpace::kGlobal ? execute::nothing : execute::fence_async_proxy));
      return {};
    default:
      break;
  }
  const Type type = m.type();
  const bool maps = current_->opcode == Opcode::kMapa;
  step.handler = maps ? execute::map_address : execute::rank_of_address;
  step.options = (is_wide(type) ? execute::kMapWide : 0u) |
                 (m.space == StateSpace::kGeneric ? execute::kMapGeneric : 0u);
  step.d = destination(o[0], maps ? type : Type::kU32);
  step.a = source(o[1], type);
  if (maps) step.b = source(o[2], Type::kU32);
  if (step.a == kNoSlot || step.b == kNoSlot) return unsupported();
  emit(step);
  return {};
}

Result<AddressForm> FunctionDecoder::address_form(const Operand& operand, StateSpace space) {
  MemoryForm form;
  TW_ASSIGN(const Slot base, address(operand, form, space));
  return AddressForm{base, form.offset, form.address_is_wide, space};
}

Status FunctionDecoder::bulk_copy(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  switch (current_->opcode) {
    case Opcode::kCpAsyncBulkPrefetch:
    case Opcode::kCpAsyncBulkPrefetchTensor:
      emit(make(execute::nothing));
      return {};
    case Opcode::kCpAsyncBulkCommitGroup:
      emit(make(execute::bulk_commit));
      return {};
    case Opcode::kCpAsyncBulkWaitGroup: {
      Instruction wait = make(execute::bulk_wait);
      wait.options = static_cast<uint32_t>(std::min<int64_t>(o[0].value, 0x3fffffff)) << 1 |
                     (m.has(Flag::kRead) ? 1u : 0u);
      emit(wait);
      return {};
    }
    case Opcode::kTensormapReplace:
    case Opcode::kTensormapCpFenceproxy:
      return tensor_map_edit(o);
    default:
      break;
  }
  BulkForm form;
  form.op = m.op;
  form.type = m.type();
  Instruction copy = make(nullptr);
  if (current_->opcode == Opcode::kStAsync || current_->opcode == Opcode::kRedAsync) {
    copy.handler = execute::store_async;
    TW_ASSIGN(form.destination, address_form(o[0], StateSpace::kSharedCluster));
    TW_ASSIGN(form.barrier, address_form(o[2], StateSpace::kSharedCluster));
    for (const Operand& value : elements_of(o[1])) form.values.push_back(source(value, form.type));
  } else if (m.source_space == StateSpace::kGlobal) {
    copy.handler = execute::bulk_load;
    TW_ASSIGN(form.destination, address_form(o[0], m.space));
    size_t next = 2;
    if (o[1].kind == OperandKind::kTensorAddress) {
      TW_ASSIGN(form.map, address_form(o[1], StateSpace::kGeneric));
      for (const Operand& at : function_.elements(o[1])) {
        form.coordinates.push_back(source(at, Type::kS32));
      }
    } else {
      TW_ASSIGN(form.source, address_form(o[1], StateSpace::kGlobal));
      form.size = source(o[next++], Type::kU32);
    }
    TW_ASSIGN(form.barrier, address_form(o[next++], m.space));
    if (m.has(Flag::kMulticast)) form.mask = source(o[next], Type::kU16);
  } else if (m.space == StateSpace::kGlobal) {
    copy.handler = execute::bulk_store;
    TW_ASSIGN(form.source, address_form(o[1], StateSpace::kShared));
    if (o[0].kind == OperandKind::kTensorAddress) {
      TW_ASSIGN(form.map, address_form(o[0], StateSpace::kGeneric));
      for (const Operand& at : function_.elements(o[0])) {
        form.coordinates.push_back(source(at, Type::kS32));
      }
    } else {
      TW_ASSIGN(form.destination, address_form(o[0], StateSpace::kGlobal));
      form.size = source(o[2], Type::kU32);
    }
  } else {
    copy.handler = execute::bulk_push;
    TW_ASSIGN(form.destination, address_form(o[0], StateSpace::kSharedCluster));
    TW_ASSIGN(form.source, address_form(o[1], StateSpace::kShared));
    form.size = source(o[2], Type::kU32);
    TW_ASSIGN(form.barrier, address_form(o[3], StateSpace::kSharedCluster));
  }
  copy.extra = static_cast<uint32_t>(kernel_.bulk_forms.size());
  kernel_.bulk_forms.push_back(std::move(form));
  emit(copy);
  return {};
}

Status FunctionDecoder::tensor_map_edit(Operands o) {
  const ptx::Modifiers& m = current_->modifiers;
  Instruction edit = make(execute::tensor_map_release);
  const bool releases = current_->opcode == Opcode::kFenceProxyTensormap && o.empty();
  if (releases) {
    emit(edit);
    return {};
  }
  BulkForm form;
  const bool copies = current_->opcode == Opcode::kTensormapCpFenceproxy;
  const StateSpace space = copies                                             ? StateSpace::kGlobal
                           : current_->opcode == Opcode::kFenceProxyTensormap ? StateSpace::kGeneric
                                                                              : m.space;
  TW_ASSIGN(form.destination, address_form(o[0], space));
  if (copies) {
    edit.handler = execute::tensor_map_copy;
    TW_ASSIGN(form.source, address_form(o[1], StateSpace::kShared));
  } else if (current_->opcode == Opcode::kFenceProxyTensormap) {
    edit.handler = execute::tensor_map_acquire;
  } else {
    edit.handler = execute::tensor_map_replace;
    edit.options = static_cast<uint32_t>(m.field);
    if (o.size() == 3) edit.options |= static_cast<uint32_t>(o[1].value) << 8;
    const bool is_wide = m.field == ptx::TensormapField::kGlobalAddress ||
                         m.field == ptx::TensormapField::kGlobalStride;
    form.values.push_back(source(o[o.size() - 1], is_wide ? Type::kB64 : Type::kB32));
    if (form.values[0] == kNoSlot) return unsupported();
  }
  const int64_t bytes = o[o.size() - 1].value;
  const bool has_size = current_->opcode != Opcode::kTensormapReplace;
  if (has_size && bytes != sizeof(TensorMap)) return unsupported("a tensor map has 128 bytes");
  edit.extra = static_cast<uint32_t>(kernel_.bulk_forms.size());
  kernel_.bulk_forms.push_back(std::move(form));
  emit(edit, copies ? Guarding::kSync : Guarding::kWrapped);
  return {};
}

Status FunctionDecoder::warpgroup_product(Operands o) {
  Instruction step = make(nullptr);
  switch (current_->opcode) {
    case Opcode::kWgmmaFence:
      step.handler = execute::wgmma_fence;
      emit(step, Guarding::kSync);
      return {};
    case Opcode::kWgmmaCommitGroup:
      step.handler = execute::wgmma_commit;
      emit(step, Guarding::kSync);
      return {};
    case Opcode::kWgmmaWaitGroup:
      step.handler = execute::wgmma_wait;
      step.options = static_cast<uint32_t>(std::min<int64_t>(o[0].value, 0x7fffffff));
      emit(step, Guarding::kSync);
      return {};
    default:
      break;
  }
  const ptx::Modifiers& m = current_->modifiers;
  WarpgroupForm form;
  form.form.n = m.shape.n;
  form.form.d = accumulator_type(m.types[0]);
  form.form.a = matrix_type(m.types[1]);
  form.form.b = matrix_type(m.types[2]);
  form.form.saturate = m.has(Flag::kSatfinite);
  if (!is_legal(form.form)) return unsupported();
  for (const Operand& value : elements_of(o[0])) {
    if (value.kind != OperandKind::kRegister)
      return unsupported("an accumulator that is no register");
    form.d.push_back(destination(value, Type::kB32));
  }
  if (form.d.size() != static_cast<size_t>(d_registers(form.form))) {
    return unsupported("wrong number of registers");
  }
  const bool a_in_registers = o[1].kind == OperandKind::kVector;
  if (a_in_registers) {
    for (const Operand& value : elements_of(o[1])) form.a.push_back(source(value, Type::kB32));
  } else {
    form.descriptor_a = source(o[1], Type::kB64);
  }
  form.descriptor_b = source(o[2], Type::kB64);
  const PredicateSource scale = predicate(o[3]);
  form.scale = scale.slot;
  form.scale_negated = scale.negated;
  if (o.size() > 5) {
    form.negate_a = o[4].value < 0;
    form.negate_b = o[5].value < 0;
  }
  const auto major = [&](size_t index) { return o[index].value != 0 ? Major::kMn : Major::kK; };
  if (o.size() == 8) form.major_a = major(6);
  if (o.size() > 6) form.major_b = major(o.size() - 1);
  form.watched_d = watched(o[0]);
  form.watched_a = watched(o[1]);
  step.handler = execute::wgmma_multiply;
  step.extra = static_cast<uint32_t>(kernel_.warpgroup_forms.size());
  kernel_.warpgroup_forms.push_back(std::move(form));
  emit(step, Guarding::kSync);
  return {};
}

}  // namespace tilewright::emulator
