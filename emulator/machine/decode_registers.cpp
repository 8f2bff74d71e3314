// Notes of the ordinary instructions that touch registers of wgmma, for the full observer.
#include "emulator/machine/decoder.h"
#include "emulator/machine/execute.h"

namespace tilewright::emulator {

using ptx::kNoIndex;
using ptx::Operand;
using ptx::OperandKind;

void FunctionDecoder::number_watched_registers() {
  watched_of_.clear();
  for (const ptx::Instruction& product : function_.instructions) {
    if (product.opcode != Opcode::kWgmmaMmaAsync) continue;
    watched_of_.resize(function_.registers.size(), kNoIndex);
    const Operands operands = function_.operands(product);
    for (size_t n = 0; n < 2; ++n) {
      if (operands[n].kind != OperandKind::kVector) continue;
      for (const Operand& element : elements_of(operands[n])) {
        if (element.kind != OperandKind::kRegister || watched_of_[element.index] != kNoIndex) {
          continue;
        }
        watched_of_[element.index] = static_cast<uint32_t>(kernel_.watched_registers.size());
        kernel_.watched_registers.push_back(element.index);
      }
    }
  }
}

std::vector<uint32_t> FunctionDecoder::watched(const Operand& operand) const {
  std::vector<uint32_t> numbers;
  if (operand.kind != OperandKind::kVector) return numbers;
  for (const Operand& element : elements_of(operand)) {
    if (element.kind == OperandKind::kRegister) numbers.push_back(watched_of_[element.index]);
  }
  return numbers;
}

// In front of instruction `first`: a note for it and, if it has no guard, for those without one
// that are sure to follow before any wgmma instruction, which a call may lead to. What has been
// noted for an earlier one is not noted again.
void FunctionDecoder::note_touched(uint32_t first) {
  if (watched_of_.empty()) return;
  const auto is_plain = [&](uint32_t i) {
    return ptx::family(function_.instructions[i].opcode) != ptx::Family::kWgmma;
  };
  if (!is_plain(first)) return;
  const auto count = static_cast<uint32_t>(function_.instructions.size());
  const auto is_unguarded = [&](uint32_t i) { return function_.instructions[i].guard == kNoIndex; };
  const bool starts_run = first == 0 || flow_.blocks[flow_.block_of[first]].first == first ||
                          !is_plain(first - 1) || !is_unguarded(first - 1) ||
                          function_.instructions[first - 1].opcode == Opcode::kCall;
  if (is_unguarded(first) && !starts_run) return;
  std::vector<TouchedRegister> touched;
  for (uint32_t i = first; i < count; ++i) {
    if (i != first &&
        (flow_.block_of[i] != flow_.block_of[first] || !is_plain(i) || !is_unguarded(i))) {
      break;
    }
    const auto note = [&](uint32_t reg) {
      if (reg == kNoIndex || watched_of_[reg] == kNoIndex) return;
      for (const TouchedRegister& known : touched) {
        if (known.watched == watched_of_[reg]) return;
      }
      touched.push_back({watched_of_[reg], i});
    };
    for (const Operand& operand : function_.operands(function_.instructions[i])) {
      if ((operand.kind == OperandKind::kAddress || operand.kind == OperandKind::kTensorAddress) &&
          operand.base == ptx::AddressBase::kRegister) {
        note(operand.index);
      }
      if (operand.kind == OperandKind::kAddress) continue;
      for (const Operand& element : elements_of(operand)) {
        if (element.kind != OperandKind::kRegister) continue;
        note(element.index);
        note(element.second);
      }
    }
    if (!is_unguarded(first) || function_.instructions[i].opcode == Opcode::kCall) break;
  }
  if (touched.empty()) return;
  Instruction note = make(execute::touch_registers);
  note.extra = static_cast<uint32_t>(kernel_.touched_registers.size());
  kernel_.touched_registers.push_back(std::move(touched));
  emit(note);
}

}  // namespace tilewright::emulator
