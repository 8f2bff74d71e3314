// The walk over a function's instructions: blocks, emission, branch targets.
#include <algorithm>

#include "emulator/machine/access.h"
#include "emulator/machine/decoder.h"
#include "emulator/machine/execute.h"

namespace tilewright::emulator {

using ptx::kNoIndex;

FunctionDecoder::FunctionDecoder(KernelContext& context, uint32_t module_index, FunctionCode& code)
    : context_(context),
      kernel_(context.kernel),
      function_(context.module.functions[module_index]),
      module_index_(module_index),
      code_(code) {}

Instruction FunctionDecoder::make(Handler handler) {
  Instruction instruction;
  instruction.handler = handler;
  // Operands that a kernel does not use still form addresses.
  instruction.a = instruction.b = instruction.c = 0;
  return instruction;
}

Instruction& FunctionDecoder::emit_plain(const Instruction& instruction) {
  code_.code.push_back(instruction);
  code_.code.back().source = current_index_;
  return code_.code.back();
}

Instruction& FunctionDecoder::emit(const Instruction& original, Guarding guarding) {
  Instruction instruction = original;
  if (current_ != nullptr && current_->guard != kNoIndex) {
    instruction.guard = registers_.slots[current_->guard];
    if (current_->guard_negated) instruction.guard |= kConstantBit;
    if (guarding != Guarding::kOwn) {
      instruction.inner = instruction.handler;
      instruction.handler = guarding == Guarding::kSync ? execute::guarded_sync : execute::guarded;
    }
  }
  return emit_plain(instruction);
}

void FunctionDecoder::start_block(uint32_t source) {
  if (!kernel_.blocks.empty() && kernel_.blocks.size() > code_.first_block) {
    CodeBlock& last = kernel_.blocks.back();
    last.count = source - last.first_source;
  }
  Instruction enter = make(execute::enter_block);
  enter.extra = static_cast<uint32_t>(kernel_.blocks.size());
  kernel_.blocks.push_back({source, 0});
  kernel_.block_function.push_back(static_cast<uint32_t>(&code_ - kernel_.functions.data()));
  code_.code.push_back(enter);
  code_.code.back().source = source;
}

Error FunctionDecoder::unsupported(const std::string& reason) const {
  return make_error(ErrorCode::kUnsupportedProblem, "{}:{}: the emulator does not run `{}`{}{}",
                    context_.program.file_name, current_->line,
                    context_.module.instruction_text(*current_), reason.empty() ? "" : ": ",
                    reason);
}

void FunctionDecoder::layout_frame() {
  registers_ = layout_registers(function_, flow_);
  frame_bytes_ = registers_.bytes;
  scratch_ = allocate(2 * kLaneBytes64);
  uint64_t local = 0;
  for (uint32_t i = 0; i < function_.variables.size(); ++i) {
    const ptx::Variable& found = function_.variables[i];
    if (found.space != ptx::StateSpace::kLocal) continue;
    const uint64_t align = std::max<uint64_t>(found.align, 1);
    local = (local + align - 1) / align * align;
    local_offsets_[i] = local;
    local += found.size;
  }
  code_.local_bytes = static_cast<uint32_t>((local + 15) / 16 * 16);
  if (function_.is_entry) return;
  const auto windows = [&](const std::vector<ptx::Param>& params, std::vector<ParamWindow>& out) {
    for (const ptx::Param& param : params) {
      out.push_back({allocate((param.size + 3) / 4 * kLaneBytes32 + kLaneBytes64), param.size});
    }
  };
  windows(function_.params, code_.params);
  windows(function_.return_params, code_.return_params);
}

// Registers that may be read before they are written: the check stands before the reading
// instruction, the mark behind the writing one. mov and selp only pass a value on, and so does
// shfl: the lanes that nobody reads from may hold anything, so it is enough that one lane was
// written.
void FunctionDecoder::track_registers(const ptx::Instruction& instruction, bool before) {
  const auto operands = function_.operands(instruction);
  const auto handle = [&](uint32_t reg, bool one_lane = false) {
    if (reg == kNoIndex || registers_.written_mask[reg] == kNoSlot) return;
    Instruction tracking = make(before ? execute::check_written : execute::mark_written);
    tracking.d = registers_.written_mask[reg];
    tracking.extra = reg;
    tracking.options = one_lane ? execute::kOneWrittenLane : 0;
    if (before) {
      emit(tracking, Guarding::kOwn);
    } else {
      emit(tracking);
    }
  };
  if (before && (instruction.opcode == Opcode::kMov || instruction.opcode == Opcode::kSelp)) return;
  const bool writes_first =
      instruction.opcode == Opcode::kCall || ptx::writes_first_operand(instruction.opcode);
  for (size_t n = 0; n < operands.size(); ++n) {
    const bool is_written = n == 0 && writes_first;
    const ptx::Operand& operand = operands[n];
    if (before && operand.base == ptx::AddressBase::kRegister &&
        (operand.kind == ptx::OperandKind::kAddress ||
         operand.kind == ptx::OperandKind::kTensorAddress)) {
      handle(operand.index);
      continue;
    }
    if (is_written == before) continue;
    for (const ptx::Operand& element : elements_of(operand)) {
      if (element.kind != ptx::OperandKind::kRegister) continue;
      handle(element.index, instruction.opcode == Opcode::kShflSync && n == 1);
      handle(element.second);
    }
  }
}

Status FunctionDecoder::decode() {
  code_.source = &function_;
  code_.first_block = static_cast<uint32_t>(kernel_.blocks.size());
  flow_ = ptx::build_control_flow(context_.module, function_);
  layout_frame();
  number_watched_registers();
  code_of_.assign(function_.instructions.size() + 1, 0);
  bool starts_block = true;
  const auto count = static_cast<uint32_t>(function_.instructions.size());
  const bool tracks = std::any_of(registers_.written_mask.begin(), registers_.written_mask.end(),
                                  [](Slot slot) { return slot != kNoSlot; });
  for (uint32_t i = 0; i < count; ++i) {
    current_ = &function_.instructions[i];
    current_index_ = i;
    used_temporaries_ = 0;
    starts_block |= flow_.blocks[flow_.block_of[i]].first == i;
    code_of_[i] = static_cast<uint32_t>(code_.code.size());
    if (starts_block) start_block(i);
    if (i == 0) {
      for (size_t n = 0; n < function_.params.size() && !function_.is_entry; ++n) {
        const ptx::Param& param = function_.params[n];
        if (param.reg == kNoIndex) continue;
        MemoryForm form;
        form.element_bytes = static_cast<uint8_t>(param.size);
        form.value_is_wide = param.size == 8;
        form.load = load_move(param.size, param.size == 8, false);
        form.values = {registers_.slots[param.reg]};
        Instruction take = make(execute::load_window);
        take.b = code_.params[n].first;
        take.extra = static_cast<uint32_t>(kernel_.memory_forms.size());
        kernel_.memory_forms.push_back(form);
        emit_plain(take);
      }
    }
    if (tracks) track_registers(*current_, true);
    note_touched(i);
    const uint32_t before = static_cast<uint32_t>(code_.code.size());
    TW_TRY(instruction());
    if (tracks) track_registers(*current_, false);
    // Behind an instruction at which lanes may part, a block starts: there they rejoin.
    starts_block = current_->opcode == Opcode::kCall || current_->opcode == Opcode::kBarWarpSync;
    for (uint32_t n = before; n < code_.code.size(); ++n) {
      starts_block |= code_.code[n].handler == execute::guarded_sync;
    }
  }
  current_index_ = count;
  current_ = nullptr;
  code_of_[count] = static_cast<uint32_t>(code_.code.size());
  start_block(count);
  emit_plain(make(execute::end_of_code));
  resolve_branches();
  code_.frame_bytes = (frame_bytes_ + 63) / 64 * 64 + kLaneBytes64;
  return {};
}

void FunctionDecoder::resolve_branches() {
  for (Instruction& instruction : code_.code) {
    const bool is_branch =
        instruction.handler == execute::branch || instruction.handler == execute::branch_always;
    if (is_branch) instruction.extra = code_of_[instruction.extra];
    if (instruction.handler == execute::branch_indexed) {
      for (uint32_t& to : kernel_.branch_tables[instruction.extra].targets) to = code_of_[to];
    }
    if ((is_branch || instruction.handler == execute::branch_indexed) && instruction.c != kNoSlot) {
      instruction.c = code_of_[instruction.c];
    }
    if (instruction.handler == execute::enter_block) {
      instruction.options = kernel_.blocks[instruction.extra].count + 1;
    }
  }
}

Status FunctionDecoder::instruction() {
  const auto o = function_.operands(*current_);
  switch (current_->opcode) {
    case Opcode::kBra:
      return branch(o);
    case Opcode::kBrxIdx:
      return indexed_branch(o);
    case Opcode::kCall:
      return call(o);
    case Opcode::kRet:
    case Opcode::kExit:
    case Opcode::kTrap:
    case Opcode::kBrkpt:
    case Opcode::kNanosleep:
      return return_or_exit();
    case Opcode::kBarSync:
    case Opcode::kBarArrive:
    case Opcode::kBarRed:
    case Opcode::kBarrierSync:
    case Opcode::kBarrierArrive:
    case Opcode::kBarrierRed:
    case Opcode::kBarWarpSync:
      return barrier(o);
    case Opcode::kShflSync:
    case Opcode::kVoteSync:
    case Opcode::kMatchAllSync:
    case Opcode::kMatchAnySync:
    case Opcode::kReduxSync:
    case Opcode::kElectSync:
    case Opcode::kActivemask:
      return lane_exchange(o);
    case Opcode::kLd:
    case Opcode::kLdu:
      return load(o);
    case Opcode::kSt:
      return store(o);
    case Opcode::kAtom:
      return atomic(o, true);
    case Opcode::kRed:
      return atomic(o, false);
    case Opcode::kCvta:
      return address_conversion(o);
    case Opcode::kMapa:
    case Opcode::kGetctarank:
    case Opcode::kBarrierClusterArrive:
    case Opcode::kBarrierClusterWait:
    case Opcode::kGriddepcontrolWait:
    case Opcode::kGriddepcontrolLaunchDependents:
    case Opcode::kSetmaxnregDec:
    case Opcode::kSetmaxnregInc:
    case Opcode::kFenceProxyAsync:
      return cluster_operation(o);
    case Opcode::kFenceProxyTensormap:
      return tensor_map_edit(o);
    case Opcode::kIsspacep:
      return address_test(o);
    case Opcode::kLdmatrix:
    case Opcode::kStmatrix:
    case Opcode::kMovmatrix:
      return matrix_move(o);
    case Opcode::kMmaSync:
      return matrix_product(o);
    case Opcode::kCpAsync:
    case Opcode::kCpAsyncCommitGroup:
    case Opcode::kCpAsyncWaitGroup:
    case Opcode::kCpAsyncWaitAll:
      return asynchronous_copy(o);
    case Opcode::kMov:
      return move(o);
    case Opcode::kSetp:
    case Opcode::kTestp:
      return comparison(o);
    case Opcode::kSet:
      return set(o);
    case Opcode::kLop3:
      return lop3(o);
    default:
      break;
  }
  switch (ptx::family(current_->opcode)) {
    case ptx::Family::kMbarrier:
      return mbarrier(o);
    case ptx::Family::kBulkCopy:
      return bulk_copy(o);
    case ptx::Family::kWgmma:
      return warpgroup_product(o);
    default:
      break;
  }
  if (is_ignored()) return hint(o);
  const ptx::Modifiers& m = current_->modifiers;
  if (m.type() == ptx::Type::kPred) return predicate_operation(o);
  if (m.has(ptx::Flag::kCarry) || current_->opcode == Opcode::kAddc ||
      current_->opcode == Opcode::kSubc || current_->opcode == Opcode::kMadc) {
    return carry(o);
  }
  return arithmetic(o);
}

}  // namespace tilewright::emulator
