#include "emulator/observers/conflict_report.h"

#include <bit>
#include <cstring>

#include "core/check.h"
#include "emulator/machine/cluster.h"

namespace tilewright::emulator {
namespace {

const FunctionCode* function_of(const KernelCode& kernel, const Instruction* at) {
  for (const FunctionCode& function : kernel.functions) {
    const Instruction* first = function.code.data();
    if (std::less_equal<>()(first, at) && std::less<>()(at, first + function.code.size())) {
      return &function;
    }
  }
  return nullptr;
}

// "`st.shared.u32 [%r1], 1;` (line 12, kernel.cu:7)"
std::string describe_instruction(const Launch& launch, const Instruction* at) {
  const FunctionCode* function = function_of(*launch.kernel, at);
  if (function == nullptr || at->source >= function->source->instructions.size()) return "?";
  const ptx::Module& module = *launch.kernel->module;
  const ptx::Instruction& source = function->source->instructions[at->source];
  const ptx::SourceLocation& location = function->source->location(source);
  std::string place = fmt::format("line {}", source.line);
  if (location.file != 0 && location.file < module.files.size()) {
    place += fmt::format(", {}:{}", module.files[location.file], location.line);
  }
  return fmt::format("`{}` ({})", module.instruction_text(source), place);
}

// `number`: of a thread of the cluster, from 0.
std::string describe_thread(const Warp& warp, uint32_t number) {
  const Dim3& size = warp.launch->request->block;
  const auto per_block = static_cast<uint32_t>(warp.block->warps.size()) * 32;
  const uint32_t rank = number / per_block;
  const uint32_t linear = number % per_block;
  std::string text = fmt::format("thread ({}, {}, {})", linear % size.x, linear / size.x % size.y,
                                 linear / size.x / size.y);
  if (rank == warp.block->cluster_rank) return text;
  const Dim3& block = warp.block->cluster->blocks[rank]->index;
  return fmt::format("block ({}, {}, {}), {}", block.x, block.y, block.z, text);
}

std::string_view verb(bool writes, bool is_async, bool is_copy) {
  if (is_copy) return "copy";
  if (is_async) return writes ? "asynchronous write" : "asynchronous read";
  return writes ? "write" : "read";
}

uint32_t thread_of(const PastAccess& past, bool is_async_component) {
  if (is_async_component) return past.lanes - 1;
  return past.component / 3 * 32 + static_cast<uint32_t>(std::countr_zero(past.lanes));
}

}  // namespace

void report_conflict(const Conflict& conflict) {
  const PastAccess& past = conflict.past;
  const bool past_is_async = (past.flags & kPastAsync) != 0;
  const bool past_is_copy = (past.flags & kPastCopy) != 0;
  const bool past_writes = (past.flags & kPastWrite) != 0;
  const std::string_view what = verb(conflict.writes, conflict.is_async, conflict.is_copy);
  const std::string_view before = verb(past_writes, past_is_async, past_is_copy);
  FaultKind kind = FaultKind::kRace;
  std::string message;
  if (conflict.is_unfenced) {
    kind = FaultKind::kProxy;
    message = fmt::format(
        "{} of shared address {:#x}, which an ordinary write reached before with no "
        "fence.proxy.async of the writer between it and the synchronisation",
        what, conflict.address);
  } else if (conflict.is_async || past_is_async || conflict.is_copy || past_is_copy) {
    kind = FaultKind::kAsynchronous;
    message = fmt::format("{} of shared address {:#x}, which nothing orders after the {} of it",
                          what, conflict.address, before);
  } else {
    message = fmt::format("{} of shared address {:#x} races with a {} of it", what,
                          conflict.address, before);
  }
  const uint32_t thread = thread_of(past, past.component >= conflict.first_async_component);
  std::string other = fmt::format("{} by {} at {}", before, describe_thread(conflict.warp, thread),
                                  describe_instruction(*conflict.warp.launch, past.at));
  fault(conflict.warp, &conflict.at,
        {.kind = kind,
         .message = std::move(message),
         .lane = conflict.lane,
         .address = conflict.address,
         .other_party = std::move(other)});
}

void report_unordered_mbarrier(Warp& warp, const Instruction& at, uint32_t lane,
                               const std::string& barrier, const PastAccess& init) {
  fault(
      warp, &at,
      {.kind = FaultKind::kMbarrier,
       .message = fmt::format("use of the {}, which nothing orders after its init", barrier),
       .lane = lane,
       .other_party = fmt::format("init by {} at {}", describe_thread(warp, thread_of(init, false)),
                                  describe_instruction(*warp.launch, init.at))});
}

bool store_equal_values(const Warp& warp, const Instruction& at, uint32_t lanes, uint32_t lane) {
  const ptx::Function& function = *warp.frame->function->source;
  if (function.instructions[at.source].opcode != ptx::Opcode::kSt) return false;
  const MemoryForm& form = warp.launch->kernel->memory_forms[at.extra];
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
    const auto other = static_cast<size_t>(std::countr_zero(rest));
    for (const Slot slot : form.values) {
      // Only the bytes that are stored count.
      std::byte stored[2][8] = {};
      std::byte* to[32] = {};
      to[other] = stored[0];
      to[lane] = stored[1];
      form.store(warp.at<char>(slot), to, 0, 1u << other | 1u << lane);
      if (std::memcmp(stored[0], stored[1], form.element_bytes) != 0) return false;
    }
  }
  return true;
}

}  // namespace tilewright::emulator
