#include "emulator/ptx/liveness.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "emulator/ptx/control_flow.h"
#include "emulator/ptx/forms.h"

namespace tilewright::emulator::ptx {
namespace {

// Bits of the live sets of all blocks together; beyond it lifetimes are taken as intervals.
constexpr uint64_t kMaxSetBits = uint64_t{1} << 29;

uint32_t weight(Type type) {
  if (type == Type::kPred) return 0;
  return static_cast<uint32_t>(std::max(1, type_bits(type) / 32));
}

// Calls `visit(register)` for the registers that an operand names.
template <class Visit>
void visit_registers(const Function& function, const Operand& operand, const Visit& visit) {
  switch (operand.kind) {
    case OperandKind::kRegister:
      if (operand.index != kNoIndex) visit(operand.index);
      if (operand.second != kNoIndex) visit(operand.second);
      return;
    case OperandKind::kTensorAddress:
    case OperandKind::kAddress:
      if (operand.base == AddressBase::kRegister) visit(operand.index);
      if (operand.kind == OperandKind::kAddress) return;
      [[fallthrough]];
    case OperandKind::kVector:
      for (const Operand& element : function.elements(operand)) {
        if (element.kind == OperandKind::kRegister) visit(element.index);
      }
      return;
    default:
      return;
  }
}

template <class Define, class Use>
void visit_instruction(const Function& function, const Instruction& instruction,
                       const Define& define, const Use& use) {
  const auto operands = function.operands(instruction);
  const bool writes = writes_first_operand(instruction.opcode) && !operands.empty();
  if (writes) visit_registers(function, operands[0], define);
  if (instruction.guard != kNoIndex) use(instruction.guard);
  // A guarded write keeps the old value where the guard is false; wgmma adds to its accumulators.
  const bool keeps = instruction.guard != kNoIndex || instruction.opcode == Opcode::kWgmmaMmaAsync;
  if (writes && keeps) visit_registers(function, operands[0], use);
  for (size_t i = writes ? 1 : 0; i < operands.size(); ++i) {
    visit_registers(function, operands[i], use);
  }
}

class BitSet {
 public:
  explicit BitSet(size_t bits) : words_((bits + 63) / 64) {}
  bool test(uint32_t i) const { return ((words_[i / 64] >> (i % 64)) & 1) != 0; }
  void set(uint32_t i) { words_[i / 64] |= uint64_t{1} << (i % 64); }
  void reset(uint32_t i) { words_[i / 64] &= ~(uint64_t{1} << (i % 64)); }
  // this |= other & ~mask; whether anything changed.
  bool merge(const BitSet& other, const BitSet* mask) {
    uint64_t changed = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      const uint64_t with =
          words_[i] | (mask ? other.words_[i] & ~mask->words_[i] : other.words_[i]);
      changed |= with ^ words_[i];
      words_[i] = with;
    }
    return changed != 0;
  }
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (size_t i = 0; i < words_.size(); ++i) {
      for (uint64_t left = words_[i]; left != 0; left &= left - 1) {
        visit(static_cast<uint32_t>(i * 64) + static_cast<uint32_t>(std::countr_zero(left)));
      }
    }
  }

 private:
  std::vector<uint64_t> words_;
};

// Registers alive right now.
class Live {
 public:
  explicit Live(const Function& function)
      : function_(function), alive_(function.registers.size(), false) {}
  void add(uint32_t reg) {
    if (alive_[reg]) return;
    alive_[reg] = true;
    count(reg, 1);
    list_.push_back(reg);
  }
  void remove(uint32_t reg) {
    if (!alive_[reg]) return;
    alive_[reg] = false;
    count(reg, -1);
  }
  void clear() {
    for (const uint32_t reg : list_) alive_[reg] = false;
    list_.clear();
    registers_ = 0;
    predicates_ = 0;
  }
  void raise(RegisterPressure& peak) const {
    peak.registers = std::max(peak.registers, static_cast<uint32_t>(registers_));
    peak.predicates = std::max(peak.predicates, static_cast<uint32_t>(predicates_));
  }
  uint32_t registers() const { return static_cast<uint32_t>(registers_); }

 private:
  void count(uint32_t reg, int sign) {
    const Type type = function_.registers[reg];
    registers_ += sign * static_cast<int>(weight(type));
    if (type == Type::kPred) predicates_ += sign;
  }

  const Function& function_;
  std::vector<bool> alive_;
  std::vector<uint32_t> list_;
  int64_t registers_ = 0;
  int64_t predicates_ = 0;
};

// Called at each call instruction with the registers alive across it.
using CallVisitor = std::function<void(const Instruction& call, uint32_t alive)>;

class Liveness {
 public:
  Liveness(const Module& module, const Function& function)
      : function_(function),
        flow_(build_control_flow(module, function)),
        dense_(function.registers.size(), kNoIndex) {}

  RegisterPressure run(const CallVisitor& at_call) {
    number_crossing_registers();
    if (uint64_t{crossing_.size()} * flow_.blocks.size() > kMaxSetBits) return intervals();
    solve();
    RegisterPressure peak;
    Live live(function_);
    for (size_t b = 0; b < flow_.blocks.size(); ++b) {
      live.clear();
      for (const uint32_t to : flow_.blocks[b].successors) {
        live_in_[to].for_each([&](uint32_t i) { live.add(crossing_[i]); });
      }
      walk_block(flow_.blocks[b], live, peak, at_call);
    }
    return peak;
  }

 private:
  void walk_block(const BasicBlock& block, Live& live, RegisterPressure& peak,
                  const CallVisitor& at_call) const {
    live.raise(peak);
    for (uint32_t i = block.first + block.count; i-- > block.first;) {
      const Instruction& instruction = function_.instructions[i];
      // Written values exist even if nobody reads them.
      visit_instruction(
          function_, instruction, [&](uint32_t reg) { live.add(reg); }, [](uint32_t) {});
      live.raise(peak);
      visit_instruction(
          function_, instruction, [&](uint32_t reg) { live.remove(reg); }, [](uint32_t) {});
      if (at_call && instruction.opcode == Opcode::kCall) at_call(instruction, live.registers());
      visit_instruction(
          function_, instruction, [](uint32_t) {}, [&](uint32_t reg) { live.add(reg); });
      live.raise(peak);
    }
  }

  // Registers read in some block before they are written there: the only ones that sets are needed
  // for.
  void number_crossing_registers() {
    std::vector<uint32_t> written_in(function_.registers.size(), kNoIndex);
    for (uint32_t b = 0; b < flow_.blocks.size(); ++b) {
      const BasicBlock& block = flow_.blocks[b];
      for (uint32_t i = block.first; i < block.first + block.count; ++i) {
        const auto use = [&](uint32_t reg) {
          if (written_in[reg] == b || dense_[reg] != kNoIndex) return;
          dense_[reg] = static_cast<uint32_t>(crossing_.size());
          crossing_.push_back(reg);
        };
        const Instruction& instruction = function_.instructions[i];
        visit_instruction(
            function_, instruction, [](uint32_t) {}, use);
        visit_instruction(
            function_, instruction, [&](uint32_t reg) { written_in[reg] = b; }, [](uint32_t) {});
      }
    }
  }

  void solve() {
    const size_t n = flow_.blocks.size();
    live_in_.assign(n, BitSet(crossing_.size()));
    std::vector<BitSet> written(n, BitSet(crossing_.size()));
    std::vector<std::vector<uint32_t>> predecessors(n);
    for (uint32_t b = 0; b < n; ++b) {
      const BasicBlock& block = flow_.blocks[b];
      for (const uint32_t to : block.successors) predecessors[to].push_back(b);
      for (uint32_t i = block.first; i < block.first + block.count; ++i) {
        const auto use = [&](uint32_t reg) {
          if (dense_[reg] != kNoIndex && !written[b].test(dense_[reg])) {
            live_in_[b].set(dense_[reg]);
          }
        };
        const auto define = [&](uint32_t reg) {
          if (dense_[reg] != kNoIndex) written[b].set(dense_[reg]);
        };
        visit_instruction(
            function_, function_.instructions[i], [](uint32_t) {}, use);
        visit_instruction(function_, function_.instructions[i], define, [](uint32_t) {});
      }
    }
    std::vector<uint32_t> work(n);
    std::vector<bool> queued(n, true);
    for (uint32_t b = 0; b < n; ++b) work[b] = b;
    while (!work.empty()) {
      const uint32_t b = work.back();
      work.pop_back();
      queued[b] = false;
      for (const uint32_t from : predecessors[b]) {
        if (!live_in_[from].merge(live_in_[b], &written[from]) || queued[from]) continue;
        queued[from] = true;
        work.push_back(from);
      }
    }
  }

  // First to last mention in written order, for functions too large for sets.
  RegisterPressure intervals() const {
    const size_t n = function_.instructions.size();
    std::vector<uint32_t> first(function_.registers.size(), kNoIndex);
    std::vector<uint32_t> last(function_.registers.size(), 0);
    for (uint32_t i = 0; i < n; ++i) {
      const auto mention = [&](uint32_t reg) {
        first[reg] = std::min(first[reg], i);
        last[reg] = i;
      };
      visit_instruction(function_, function_.instructions[i], mention, mention);
    }
    std::vector<int64_t> registers(n + 1, 0);
    std::vector<int64_t> predicates(n + 1, 0);
    for (size_t reg = 0; reg < first.size(); ++reg) {
      if (first[reg] == kNoIndex) continue;
      const Type type = function_.registers[reg];
      std::vector<int64_t>& counts = type == Type::kPred ? predicates : registers;
      const int64_t size = type == Type::kPred ? 1 : weight(type);
      counts[first[reg]] += size;
      counts[last[reg] + size_t{1}] -= size;
    }
    RegisterPressure peak;
    int64_t alive = 0;
    int64_t alive_predicates = 0;
    for (size_t i = 0; i < n; ++i) {
      alive += registers[i];
      alive_predicates += predicates[i];
      peak.registers = std::max(peak.registers, static_cast<uint32_t>(alive));
      peak.predicates = std::max(peak.predicates, static_cast<uint32_t>(alive_predicates));
    }
    return peak;
  }

  const Function& function_;
  ControlFlow flow_;
  std::vector<uint32_t> dense_;     // register to its number among the crossing ones
  std::vector<uint32_t> crossing_;  // and back
  std::vector<BitSet> live_in_;
};

// Estimates with callees, each function once.
class CallGraph {
 public:
  explicit CallGraph(const Module& module)
      : module_(module),
        state_(module.functions.size(), State::kNew),
        estimate_(module.functions.size(), 0) {}

  uint32_t estimate(uint32_t index) {
    const Function& function = module_.functions[index];
    if (!function.has_body || state_[index] != State::kNew) return estimate_[index];
    if (depth_ >= kMaxDepth) return 0;
    ++depth_;
    state_[index] = State::kActive;
    uint32_t with_callees = 0;
    const auto at_call = [&](const Instruction& call, uint32_t alive) {
      const Operand& target = function.operands(call)[1];
      const uint32_t callee =
          target.kind == OperandKind::kSymbol ? estimate(target.index) : largest_function();
      with_callees = std::max(with_callees, alive + callee);
    };
    const RegisterPressure own = Liveness(module_, function).run(at_call);
    estimate_[index] = std::max(own.registers, with_callees);
    state_[index] = State::kDone;
    --depth_;
    return estimate_[index];
  }

 private:
  enum class State : uint8_t { kNew, kActive, kDone };
  // Of calls; deeper ones count nothing.
  static constexpr int kMaxDepth = 256;

  uint32_t largest_function() {
    uint32_t largest = 0;
    for (uint32_t i = 0; i < module_.functions.size(); ++i) {
      if (!module_.functions[i].is_entry) largest = std::max(largest, estimate(i));
    }
    return largest;
  }

  const Module& module_;
  std::vector<State> state_;
  std::vector<uint32_t> estimate_;
  int depth_ = 0;
};

}  // namespace

bool writes_first_operand(Opcode opcode) {
  if (opcode == Opcode::kCall) return true;
  for (const Form& form : forms(opcode)) {
    if (!form.operands.empty()) {
      return std::string_view("dDMVpPe_").find(form.operands[0].kind) != std::string_view::npos;
    }
  }
  return false;
}

RegisterPressure register_pressure(const Module& module, const Function& function) {
  return Liveness(module, function).run({});
}

uint32_t estimate_registers(const Module& module, uint32_t function) {
  return CallGraph(module).estimate(function);
}

}  // namespace tilewright::emulator::ptx
