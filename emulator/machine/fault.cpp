// Faults: from a warp's state to a report that names every place.
#include <algorithm>
#include <bit>

#include "core/check.h"
#include "emulator/machine/block.h"

namespace tilewright::emulator {
namespace {

const ptx::Instruction* source_of(const Frame& frame, const Instruction& at) {
  const ptx::Function& function = *frame.function->source;
  return at.source < function.instructions.size() ? &function.instructions[at.source] : nullptr;
}

Dim3 thread_index(uint32_t linear, const Dim3& block) {
  return {linear % block.x, linear / block.x % block.y, linear / block.x / block.y};
}

}  // namespace

std::string_view to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::kOutOfBounds:
      return "out of bounds";
    case FaultKind::kUseAfterFree:
      return "use after free";
    case FaultKind::kMisaligned:
      return "misaligned address";
    case FaultKind::kReadOnly:
      return "write to read-only memory";
    case FaultKind::kUninitialisedRead:
      return "read of a value never written";
    case FaultKind::kDivergent:
      return "divergent execution";
    case FaultKind::kBarrier:
      return "barrier misuse";
    case FaultKind::kDeadlock:
      return "deadlock";
    case FaultKind::kInstructionLimit:
      return "instruction limit";
    case FaultKind::kTrap:
      return "trap";
    case FaultKind::kAssert:
      return "assertion failed";
    case FaultKind::kIllegalInstruction:
      return "illegal instruction";
    case FaultKind::kAsynchronous:
      return "asynchronous operation misuse";
    case FaultKind::kMbarrier:
      return "mbarrier misuse";
    case FaultKind::kRace:
      return "race";
    case FaultKind::kProxy:
      return "missing proxy fence";
    case FaultKind::kRegisters:
      return "wgmma register misuse";
    case FaultKind::kDescriptor:
      return "bad descriptor";
    case FaultKind::kCount:
      break;
  }
  return "unknown";
}

std::string describe_instruction(const Warp& warp, const Frame& frame, const Instruction& at) {
  const ptx::Instruction* source = source_of(frame, at);
  if (source == nullptr) return "the function's end";
  return fmt::format("`{}` (line {})", warp.launch->kernel->module->instruction_text(*source),
                     source->line);
}

const Instruction* fault(Warp& warp, const Instruction* at, FaultDetail detail) {
  warp.stop = Stop::kFault;
  warp.pc = at;
  Block& block = *warp.block;
  if (block.fault) return nullptr;
  FaultReport report;
  report.kind = detail.kind;
  report.message = std::move(detail.message);
  report.kernel = warp.launch->kernel->attributes.name;
  report.block = block.index;
  report.address = detail.address;
  report.other_party = std::move(detail.other_party);
  const uint32_t lane = detail.lane < 32
                            ? detail.lane
                            : static_cast<uint32_t>(std::countr_zero(warp.mask | 0x80000000u));
  report.thread = thread_index(warp.index * 32 + lane, warp.launch->request->block);
  if (const ptx::Instruction* source = source_of(*warp.frame, *at)) {
    const ptx::Module& module = *warp.launch->kernel->module;
    report.instruction = module.instruction_text(*source);
    report.ptx_line = source->line;
    const ptx::SourceLocation& location = warp.frame->function->source->location(*source);
    if (location.file != 0 && location.file < module.files.size()) {
      report.cuda_file = module.files[location.file];
      report.cuda_line = location.line;
    }
  }
  block.fault = std::move(report);
  return nullptr;
}

std::string FaultReport::to_string() const {
  std::string text = fmt::format("{}: {}\n  kernel {}, block ({}, {}, {}), thread ({}, {}, {})",
                                 emulator::to_string(kind), message, kernel, block.x, block.y,
                                 block.z, thread.x, thread.y, thread.z);
  if (ptx_line != 0) text += fmt::format("\n  PTX line {}: {}", ptx_line, instruction);
  if (!cuda_file.empty()) text += fmt::format("\n  {}:{}", cuda_file, cuda_line);
  if (!other_party.empty()) text += fmt::format("\n  {}", other_party);
  return text;
}

}  // namespace tilewright::emulator
