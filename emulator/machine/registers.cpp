#include "emulator/machine/registers.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "emulator/ptx/liveness.h"

namespace tilewright::emulator {
namespace {

using ptx::kNoIndex;
using ptx::Operand;
using ptx::OperandKind;

struct Use {
  uint32_t reg;
  bool writes;
  bool reads;
};

void add_operand(const ptx::Function& function, const Operand& operand, bool writes,
                 std::vector<Use>& uses) {
  const auto add = [&](uint32_t reg) {
    if (reg != kNoIndex) uses.push_back({reg, writes, !writes});
  };
  switch (operand.kind) {
    case OperandKind::kRegister:
      add(operand.index);
      add(operand.second);
      break;
    case OperandKind::kVector:
      for (const Operand& element : function.elements(operand)) {
        add_operand(function, element, writes, uses);
      }
      break;
    case OperandKind::kAddress:
    case OperandKind::kTensorAddress:
      if (operand.base == ptx::AddressBase::kRegister) uses.push_back({operand.index, false, true});
      if (operand.kind == OperandKind::kTensorAddress) {
        for (const Operand& element : function.elements(operand)) {
          add_operand(function, element, false, uses);
        }
      }
      break;
    default:
      break;
  }
}

// Destinations that the instruction also reads, or that are written later than it executes.
bool keeps_old_destination(ptx::Opcode opcode) { return opcode == ptx::Opcode::kWgmmaMmaAsync; }

void collect(const ptx::Function& function, const ptx::Instruction& instruction,
             std::vector<Use>& uses) {
  uses.clear();
  const auto operands = function.operands(instruction);
  for (size_t n = 0; n < operands.size(); ++n) {
    const bool writes = n == 0 && (instruction.opcode == ptx::Opcode::kCall ||
                                   ptx::writes_first_operand(instruction.opcode));
    add_operand(function, operands[n], writes, uses);
  }
  const bool partial = instruction.guard != kNoIndex || keeps_old_destination(instruction.opcode);
  for (Use& use : uses) use.reads |= use.writes && partial;
  if (instruction.guard != kNoIndex) uses.push_back({instruction.guard, false, true});
}

uint32_t slot_bytes(ptx::Type type) {
  if (type == ptx::Type::kPred) return 4;
  const int bits = ptx::type_bits(type);
  return bits <= 32 ? kLaneBytes32 : bits == 64 ? kLaneBytes64 : 2 * kLaneBytes64;
}

class Liveness {
 public:
  Liveness(const ptx::Function& function, const ptx::ControlFlow& flow)
      : function_(function), flow_(flow), global_(function.registers.size(), kNoIndex) {
    first_.assign(function.registers.size(), kNoIndex);
    last_.assign(function.registers.size(), 0);
  }

  void run() {
    find_globals();
    words_ = (globals_.size() + 63) / 64;
    const size_t blocks = flow_.blocks.size();
    exposed_.assign(blocks * words_, 0);
    defined_.assign(blocks * words_, 0);
    live_in_.assign(blocks * words_, 0);
    for (uint32_t b = 0; b < blocks; ++b) scan_block(b);
    solve();
    extend();
    extend_to_waits();
  }

  bool is_used(uint32_t reg) const { return first_[reg] != kNoIndex; }
  uint32_t first(uint32_t reg) const { return first_[reg]; }
  uint32_t last(uint32_t reg) const { return last_[reg]; }
  bool is_live_at_entry(uint32_t reg) const {
    return global_[reg] != kNoIndex && words_ != 0 && test(live_in_, 0, global_[reg]);
  }

 private:
  bool test(const std::vector<uint64_t>& bits, size_t block, uint32_t index) const {
    return ((bits[block * words_ + index / 64] >> (index % 64)) & 1) != 0;
  }
  static void set(std::vector<uint64_t>& bits, size_t at, uint32_t index) {
    bits[at + index / 64] |= uint64_t{1} << (index % 64);
  }

  // Registers that some block reads before it writes them; all others live within one block.
  void find_globals() {
    std::vector<uint32_t> written_in(function_.registers.size(), kNoIndex);
    std::vector<Use> uses;
    for (uint32_t b = 0; b < flow_.blocks.size(); ++b) {
      const ptx::BasicBlock& block = flow_.blocks[b];
      for (uint32_t i = block.first; i < block.first + block.count; ++i) {
        collect(function_, function_.instructions[i], uses);
        for (const Use& use : uses) {
          if (!use.reads || written_in[use.reg] == b || global_[use.reg] != kNoIndex) continue;
          global_[use.reg] = static_cast<uint32_t>(globals_.size());
          globals_.push_back(use.reg);
        }
        for (const Use& use : uses) {
          if (use.writes) written_in[use.reg] = b;
          first_[use.reg] = std::min(first_[use.reg], i);
          last_[use.reg] = std::max(last_[use.reg], i);
        }
      }
    }
  }

  void scan_block(uint32_t b) {
    const ptx::BasicBlock& block = flow_.blocks[b];
    std::vector<Use> uses;
    for (uint32_t i = block.first; i < block.first + block.count; ++i) {
      collect(function_, function_.instructions[i], uses);
      for (const Use& use : uses) {
        const uint32_t index = global_[use.reg];
        if (index == kNoIndex || !use.reads || test(defined_, b, index)) continue;
        set(exposed_, b * words_, index);
      }
      for (const Use& use : uses) {
        const uint32_t index = global_[use.reg];
        if (index != kNoIndex && use.writes) set(defined_, b * words_, index);
      }
    }
  }

  void solve() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (size_t b = flow_.blocks.size(); b-- > 0;) {
        for (size_t w = 0; w < words_; ++w) {
          uint64_t out = 0;
          for (const uint32_t next : flow_.blocks[b].successors) out |= live_in_[next * words_ + w];
          const uint64_t in = exposed_[b * words_ + w] | (out & ~defined_[b * words_ + w]);
          if (in != live_in_[b * words_ + w]) {
            live_in_[b * words_ + w] = in;
            changed = true;
          }
        }
      }
    }
  }

  void extend() {
    for (size_t b = 0; b < flow_.blocks.size(); ++b) {
      const ptx::BasicBlock& block = flow_.blocks[b];
      for (size_t w = 0; w < words_; ++w) {
        uint64_t out = 0;
        for (const uint32_t next : block.successors) out |= live_in_[next * words_ + w];
        for (uint32_t n = 0; n < 64; ++n) {
          const size_t index = w * 64 + n;
          if (index >= globals_.size()) break;
          const uint32_t reg = globals_[index];
          if (((live_in_[b * words_ + w] >> n) & 1) != 0) {
            first_[reg] = std::min(first_[reg], block.first);
          }
          if (((out >> n) & 1) != 0)
            last_[reg] = std::max(last_[reg], block.first + block.count - 1);
        }
      }
    }
  }

  // A wgmma's accumulators and A registers are in use wherever control may go before a
  // wait_group of 0.
  void extend_to_waits() {
    const auto count = static_cast<uint32_t>(function_.instructions.size());
    for (uint32_t i = 0; i < count; ++i) {
      const ptx::Instruction& product = function_.instructions[i];
      if (product.opcode != ptx::Opcode::kWgmmaMmaAsync) continue;
      const auto [first, last] = flight_of(i);
      const auto operands = function_.operands(product);
      for (size_t n = 0; n < 2; ++n) {
        if (operands[n].kind != OperandKind::kVector) continue;
        for (const Operand& element : function_.elements(operands[n])) {
          if (element.kind != OperandKind::kRegister) continue;
          first_[element.index] = std::min(first_[element.index], first);
          last_[element.index] = std::max(last_[element.index], last);
        }
      }
    }
  }

  // The first and the last instruction that may execute while the wgmma at `issue` is in flight.
  std::pair<uint32_t, uint32_t> flight_of(uint32_t issue) const {
    uint32_t first = issue;
    uint32_t last = issue;
    std::vector<bool> is_entered(flow_.blocks.size(), false);
    std::vector<uint32_t> entered;
    // Goes on from instruction `at` to the end of its block or the wait.
    const auto follow = [&](uint32_t at) {
      const ptx::BasicBlock& block = flow_.blocks[flow_.block_of[at]];
      first = std::min(first, at);
      for (; at < block.first + block.count; ++at) {
        last = std::max(last, at);
        const ptx::Instruction& later = function_.instructions[at];
        if (later.opcode != ptx::Opcode::kWgmmaWaitGroup) continue;
        if (function_.operands(later)[0].value == 0) return;
      }
      for (const uint32_t next : block.successors) {
        if (is_entered[next]) continue;
        is_entered[next] = true;
        entered.push_back(next);
      }
    };
    follow(issue);
    for (size_t n = 0; n < entered.size(); ++n) follow(flow_.blocks[entered[n]].first);
    return {first, last};
  }

  const ptx::Function& function_;
  const ptx::ControlFlow& flow_;
  std::vector<uint32_t> global_;  // by register: its index in globals_
  std::vector<uint32_t> globals_;
  size_t words_ = 0;
  std::vector<uint64_t> exposed_, defined_, live_in_;  // per block
  std::vector<uint32_t> first_, last_;                 // instructions, by register
};

}  // namespace

RegisterLayout layout_registers(const ptx::Function& function, const ptx::ControlFlow& flow) {
  Liveness liveness(function, flow);
  liveness.run();
  const auto count = static_cast<uint32_t>(function.registers.size());
  RegisterLayout layout;
  layout.slots.assign(count, kNoSlot);
  layout.written_mask.assign(count, kNoSlot);
  std::vector<bool> is_param(count, false);
  for (const ptx::Param& param : function.params) {
    if (param.reg != kNoIndex) is_param[param.reg] = true;
  }
  for (const ptx::Param& param : function.return_params) {
    if (param.reg != kNoIndex) is_param[param.reg] = true;
  }

  std::vector<uint32_t> order;
  uint32_t predicates = 0;
  for (uint32_t reg = 0; reg < count; ++reg) {
    if (!liveness.is_used(reg) && !is_param[reg]) continue;
    if (function.registers[reg] == ptx::Type::kPred) {
      layout.slots[reg] = 4 * predicates++;
    } else {
      order.push_back(reg);
    }
    if (liveness.is_live_at_entry(reg) && !is_param[reg])
      layout.written_mask[reg] = 4 * predicates++;
  }
  layout.bytes = (predicates * 4 + 63) / 64 * 64;

  // Linear scan. A slot is free again after the last instruction that touches it, not at it: wide
  // destinations never overlap their narrow sources.
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return liveness.first(a) < liveness.first(b); });
  using Ending = std::pair<uint32_t, uint32_t>;  // last instruction, register
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> active;
  std::vector<Slot> free_slots[3];
  const auto size_class = [&](uint32_t reg) {
    const uint32_t bytes = slot_bytes(function.registers[reg]);
    return bytes == kLaneBytes32 ? 0 : bytes == kLaneBytes64 ? 1 : 2;
  };
  for (const uint32_t reg : order) {
    while (!active.empty() && active.top().first < liveness.first(reg)) {
      const uint32_t done = active.top().second;
      active.pop();
      free_slots[size_class(done)].push_back(layout.slots[done]);
    }
    std::vector<Slot>& free_list = free_slots[size_class(reg)];
    const bool own = is_param[reg] || layout.written_mask[reg] != kNoSlot;
    if (!own && !free_list.empty()) {
      layout.slots[reg] = free_list.back();
      free_list.pop_back();
    } else {
      layout.slots[reg] = layout.bytes;
      layout.bytes += slot_bytes(function.registers[reg]);
    }
    if (!own) active.emplace(liveness.last(reg), reg);
  }
  return layout;
}

}  // namespace tilewright::emulator
