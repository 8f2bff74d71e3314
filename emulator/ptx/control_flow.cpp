#include "emulator/ptx/control_flow.h"

#include <algorithm>
#include <utility>

namespace tilewright::emulator::ptx {
namespace {

enum class Ending : uint8_t { kNone, kBranch, kTable, kExit };

bool is_noreturn_call(const Module& module, const Function& function,
                      const Instruction& instruction) {
  if (instruction.opcode != Opcode::kCall) return false;
  const auto operands = function.operands(instruction);
  const Operand& prototype = operands[3];
  if (operands[1].kind == OperandKind::kSymbol) {
    return module.functions[operands[1].index].noreturn;
  }
  return prototype.symbol == SymbolKind::kCallPrototype &&
         function.prototypes[prototype.index].noreturn;
}

Ending ending(const Module& module, const Function& function, const Instruction& instruction) {
  switch (instruction.opcode) {
    case Opcode::kBra:
      return Ending::kBranch;
    case Opcode::kBrxIdx:
      return Ending::kTable;
    case Opcode::kRet:
    case Opcode::kExit:
    case Opcode::kTrap:
      return Ending::kExit;
    default:
      return is_noreturn_call(module, function, instruction) ? Ending::kExit : Ending::kNone;
  }
}

// Instructions that a block's last one may jump to.
std::vector<uint32_t> jump_targets(const Function& function, const Instruction& instruction,
                                   Ending end) {
  if (end == Ending::kBranch) return {function.operands(instruction)[0].index};
  if (end == Ending::kTable) {
    return function.branch_targets[function.operands(instruction)[1].index].instructions;
  }
  return {};
}

std::vector<bool> find_leaders(const Module& module, const Function& function) {
  std::vector<bool> leads(function.instructions.size() + 1, false);
  leads[0] = true;
  for (size_t i = 0; i < function.instructions.size(); ++i) {
    const Instruction& instruction = function.instructions[i];
    const Ending end = ending(module, function, instruction);
    if (end == Ending::kNone) continue;
    leads[i + 1] = true;
    for (const uint32_t target : jump_targets(function, instruction, end)) leads[target] = true;
  }
  return leads;
}

void add_successors(const Module& module, const Function& function, ControlFlow& flow,
                    uint32_t index) {
  BasicBlock& block = flow.blocks[index];
  const Instruction& last = function.instructions[block.first + block.count - 1];
  const Ending end = ending(module, function, last);
  const bool falls_through = end == Ending::kNone || last.guard != kNoIndex;
  if (falls_through && index + 1 < flow.blocks.size()) block.successors.push_back(index + 1);
  block.may_exit = end == Ending::kExit || (falls_through && index + 1 == flow.blocks.size());
  for (const uint32_t target : jump_targets(function, last, end)) {
    const uint32_t to = flow.block_of[target];
    if (std::ranges::find(block.successors, to) == block.successors.end()) {
      block.successors.push_back(to);
    }
  }
}

// Immediate post-dominators by the iteration of Cooper, Harvey and Kennedy over the reversed graph,
// whose root is a virtual block behind all exits.
class PostDominators {
 public:
  explicit PostDominators(ControlFlow& flow)
      : flow_(flow),
        root_(static_cast<uint32_t>(flow.blocks.size())),
        predecessors_(flow.blocks.size()),
        leaves_(flow.blocks.size(), false),
        order_(flow.blocks.size() + 1, kNoIndex) {}

  void run() {
    for (uint32_t i = 0; i < root_; ++i) {
      leaves_[i] = flow_.blocks[i].may_exit;
      for (const uint32_t to : flow_.blocks[i].successors) predecessors_[to].push_back(i);
    }
    find_order();
    std::vector<uint32_t> dominator(root_ + size_t{1}, kNoIndex);
    dominator[root_] = root_;
    bool changed = true;
    while (changed) {
      changed = false;
      // Reverse postorder, the root left out.
      for (size_t i = postorder_.size() - 1; i-- > 0;) {
        const uint32_t block = postorder_[i];
        uint32_t found = leaves_[block] ? root_ : kNoIndex;
        for (const uint32_t to : flow_.blocks[block].successors) {
          if (dominator[to] == kNoIndex) continue;
          found = found == kNoIndex ? to : intersect(dominator, found, to);
        }
        if (found != dominator[block]) {
          dominator[block] = found;
          changed = true;
        }
      }
    }
    for (uint32_t i = 0; i < root_; ++i) {
      flow_.blocks[i].post_dominator = dominator[i] == root_ ? kNoIndex : dominator[i];
    }
  }

 private:
  // Postorder of the reversed graph from the root. Blocks that reach no exit get one: the last of
  // them, again and again until all are reached.
  void find_order() {
    std::vector<bool> seen(root_, false);
    for (uint32_t i = 0; i < root_; ++i) {
      if (leaves_[i] && !seen[i]) visit(i, seen);
    }
    for (uint32_t i = root_; i-- > 0;) {
      if (seen[i]) continue;
      leaves_[i] = true;
      visit(i, seen);
    }
    order_[root_] = static_cast<uint32_t>(postorder_.size());
    postorder_.push_back(root_);
  }

  void visit(uint32_t start, std::vector<bool>& seen) {
    std::vector<std::pair<uint32_t, size_t>> stack{{start, 0}};
    seen[start] = true;
    while (!stack.empty()) {
      auto& [block, next] = stack.back();
      if (next < predecessors_[block].size()) {
        const uint32_t from = predecessors_[block][next++];
        if (!seen[from]) {
          seen[from] = true;
          stack.emplace_back(from, 0);
        }
        continue;
      }
      order_[block] = static_cast<uint32_t>(postorder_.size());
      postorder_.push_back(block);
      stack.pop_back();
    }
  }

  uint32_t intersect(const std::vector<uint32_t>& dominator, uint32_t a, uint32_t b) const {
    while (a != b) {
      while (order_[a] < order_[b]) a = dominator[a];
      while (order_[b] < order_[a]) b = dominator[b];
    }
    return a;
  }

  ControlFlow& flow_;
  uint32_t root_;
  std::vector<std::vector<uint32_t>> predecessors_;
  std::vector<bool> leaves_;
  std::vector<uint32_t> order_;  // place in the postorder
  std::vector<uint32_t> postorder_;
};

}  // namespace

ControlFlow build_control_flow(const Module& module, const Function& function) {
  ControlFlow flow;
  const std::vector<bool> leads = find_leaders(module, function);
  flow.block_of.resize(function.instructions.size());
  for (uint32_t i = 0; i < function.instructions.size(); ++i) {
    if (leads[i]) flow.blocks.push_back({.first = i, .count = 0, .successors = {}});
    ++flow.blocks.back().count;
    flow.block_of[i] = static_cast<uint32_t>(flow.blocks.size() - 1);
  }
  for (uint32_t i = 0; i < flow.blocks.size(); ++i) add_successors(module, function, flow, i);
  PostDominators(flow).run();
  return flow;
}

}  // namespace tilewright::emulator::ptx
