// Operands against a form: how many, of which kind, registers of which width, constants in which
// range. What passes here can be decoded without further checks of that sort.
#include <algorithm>
#include <limits>

#include "emulator/ptx/parser_state.h"

namespace tilewright::emulator::ptx {
namespace {

constexpr int kAnyWidth = 0;

struct ConstantRange {
  Opcode opcode;
  size_t operand;
  int64_t min;
  int64_t max;
};
// Constants with limits of their own; a register in the place is not limited.
constexpr ConstantRange kRanges[] = {
    {Opcode::kBarArrive, 0, 0, 15},
    {Opcode::kBarRed, 1, 0, 15},
    {Opcode::kBarSync, 0, 0, 15},
    {Opcode::kBarrierArrive, 0, 0, 15},
    {Opcode::kBarrierRed, 1, 0, 15},
    {Opcode::kBarrierSync, 0, 0, 15},
    {Opcode::kApplypriority, 1, 128, 128},
    {Opcode::kDiscard, 1, 128, 128},
    {Opcode::kCpAsyncBulkWaitGroup, 0, 0, std::numeric_limits<int32_t>::max()},
    {Opcode::kCpAsyncWaitGroup, 0, 0, std::numeric_limits<int32_t>::max()},
    {Opcode::kWgmmaWaitGroup, 0, 0, std::numeric_limits<int32_t>::max()},
    {Opcode::kFenceProxyTensormap, 1, 128, 128},
    {Opcode::kLop3, 4, 0, 255},
    {Opcode::kTensormapCpFenceproxy, 2, 128, 128},
    {Opcode::kWgmmaMmaAsync, 3, 0, 1},
    {Opcode::kWgmmaMmaAsync, 4, -1, 1},
    {Opcode::kWgmmaMmaAsync, 5, -1, 1},
    {Opcode::kWgmmaMmaAsync, 6, 0, 1},
    {Opcode::kWgmmaMmaAsync, 7, 0, 1},
};

bool has_address(SymbolKind symbol) {
  return symbol == SymbolKind::kModuleVariable || symbol == SymbolKind::kFunctionVariable ||
         symbol == SymbolKind::kParam || symbol == SymbolKind::kReturnParam ||
         symbol == SymbolKind::kFunction;
}

class OperandChecker {
 public:
  OperandChecker(const MatchedForm& match, std::span<const Operand> operands,
                 const Function& function)
      : form_(*match.form), modifiers_(match.modifiers), operands_(operands), function_(function) {}

  std::string run() {
    if (!assign()) return wrong_count();
    for (size_t i = 0; i < operands_.size(); ++i) {
      const OperandSlot& slot = *assigned_[i];
      if (!fits(slot, operands_[i])) {
        return fmt::format("operand {} is not {}", i + 1, describe(slot));
      }
    }
    return constants();
  }

 private:
  bool is_present(const OperandSlot& slot) const {
    switch (slot.kind) {
      case 'h':
        return modifiers_.has(Flag::kCacheHint);
      case 'k':
        return modifiers_.has(Flag::kMulticast);
      case 'o':
        return modifiers_.op != Op::kNone;
      default:
        return true;
    }
  }

  // Which slot each operand fills: optional slots from the left while operands are left over.
  bool assign() {
    size_t required = 0;
    for (const OperandSlot& slot : form_.operands) {
      if (is_present(slot) && !slot.optional) ++required;
    }
    if (operands_.size() < required) return false;
    size_t spare = operands_.size() - required;
    for (const OperandSlot& slot : form_.operands) {
      if (!is_present(slot) || (slot.optional && spare == 0)) continue;
      if (slot.optional) --spare;
      assigned_.push_back(&slot);
    }
    return spare == 0;
  }

  std::string wrong_count() const {
    size_t least = 0;
    size_t most = 0;
    for (const OperandSlot& slot : form_.operands) {
      if (!is_present(slot)) continue;
      ++most;
      if (!slot.optional) ++least;
    }
    if (least == most) return fmt::format("{} operands, expected {}", operands_.size(), least);
    return fmt::format("{} operands, expected {} to {}", operands_.size(), least, most);
  }

  int width(const OperandSlot& slot) const {
    const bool is_destination = std::string_view("dDMVe").find(slot.kind) != std::string_view::npos;
    const auto& types = modifiers_.types;
    const Type by_default = !is_destination && types[1] != Type::kNone ? types[1] : types[0];
    switch (slot.width) {
      case Width::kDefault:
      case Width::kAtLeast:
        return type_bits(by_default);
      case Width::kTypeIndex:
        return type_bits(types[slot.value]);
      case Width::kFixed:
        return slot.value;
      case Width::kWide:
        return 2 * type_bits(types[0]);
      case Width::kAny:
        return kAnyWidth;
    }
    return kAnyWidth;
  }

  Type register_type(const Operand& operand) const { return function_.registers[operand.index]; }

  bool is_data_register(const Operand& operand) const {
    return operand.kind == OperandKind::kRegister && operand.index != kNoIndex &&
           operand.second == kNoIndex && !operand.negated && register_type(operand) != Type::kPred;
  }
  bool is_predicate(const Operand& operand) const {
    return operand.kind == OperandKind::kRegister && operand.index != kNoIndex &&
           operand.second == kNoIndex && register_type(operand) == Type::kPred;
  }
  bool has_width(const Operand& operand, int bits, bool at_least) const {
    const int actual = type_bits(register_type(operand));
    if (bits == kAnyWidth) return actual >= 8 && actual <= 64;
    return at_least ? actual >= bits : actual == bits;
  }

  bool is_destination(const Operand& operand, int bits, bool at_least) const {
    if (operand.kind == OperandKind::kSink) return true;
    return is_data_register(operand) && has_width(operand, bits, at_least);
  }
  bool is_source(const Operand& operand, int bits, bool at_least) const {
    switch (operand.kind) {
      case OperandKind::kRegister:
        return is_data_register(operand) && has_width(operand, bits, at_least);
      case OperandKind::kImmediate:
        return true;
      case OperandKind::kSpecial:
        return special_register_type(static_cast<SpecialRegister>(operand.index)) != Type::kPred;
      case OperandKind::kSymbol:
        return has_address(operand.symbol) && (bits == kAnyWidth || bits >= 32);
      default:
        return false;
    }
  }
  bool is_integer(const Operand& operand) const {
    return operand.kind == OperandKind::kImmediate && operand.immediate == ImmediateKind::kInteger;
  }
  bool is_predicate_source(const Operand& operand) const {
    if (operand.kind == OperandKind::kSpecial) {
      return special_register_type(static_cast<SpecialRegister>(operand.index)) == Type::kPred;
    }
    return is_predicate(operand) || is_integer(operand);
  }

  // `count` elements, each a destination or a source.
  bool is_vector(const Operand& operand, size_t count, int bits, bool at_least,
                 bool destination) const {
    if (operand.kind != OperandKind::kVector || operand.count != count) return false;
    return std::ranges::all_of(function_.elements(operand), [&](const Operand& element) {
      return destination ? is_destination(element, bits, at_least)
                         : is_source(element, bits, at_least);
    });
  }
  bool is_scalar_or_vector(const OperandSlot& slot, const Operand& operand,
                           bool destination) const {
    const bool at_least = slot.width == Width::kAtLeast;
    if (modifiers_.vector > 1) {
      return is_vector(operand, modifiers_.vector, width(slot), at_least, destination);
    }
    return destination ? is_destination(operand, width(slot), at_least)
                       : is_source(operand, width(slot), at_least);
  }
  // mov between a register and the parts of one.
  bool is_whole_or_parts(const Operand& operand, bool destination) const {
    const int bits = type_bits(modifiers_.type());
    if (operand.kind == OperandKind::kVector) {
      return operand.count > 0 && bits % operand.count == 0 && bits / operand.count >= 8 &&
             is_vector(operand, operand.count, bits / operand.count, false, destination);
    }
    return destination ? is_destination(operand, bits, false) : is_source(operand, bits, false);
  }
  // Registers of 32 bits per thread that a matrix operand takes.
  size_t fragment_registers(const OperandSlot& slot) const {
    if (slot.width == Width::kAny) return modifiers_.num_matrices;
    const Shape& shape = modifiers_.shape;
    const size_t threads = form_.opcode == Opcode::kWgmmaMmaAsync ? 128 : 32;
    const size_t rows = slot.value == 2 ? shape.n : shape.m;
    const size_t columns = slot.value == 0 || slot.value == 3 ? shape.n : shape.k;
    const auto bits = static_cast<size_t>(type_bits(modifiers_.types[slot.value]));
    return rows * columns * bits / (32 * threads);
  }
  bool is_fragment(const OperandSlot& slot, const Operand& operand, bool destination) const {
    const size_t count = fragment_registers(slot);
    if (count == 1 && operand.kind == OperandKind::kRegister) {
      return is_data_register(operand) && has_width(operand, 32, false);
    }
    return is_vector(operand, count, 32, false, destination);
  }
  bool is_tensor_address(const Operand& operand) const {
    if (operand.kind != OperandKind::kTensorAddress || operand.count != modifiers_.tensor_dims) {
      return false;
    }
    if (operand.base == AddressBase::kRegister && !is_64_bit_base(operand)) return false;
    return std::ranges::all_of(function_.elements(operand), [&](const Operand& coordinate) {
      return coordinate.kind != OperandKind::kSymbol && is_source(coordinate, 32, false);
    });
  }
  bool is_64_bit_base(const Operand& operand) const {
    return type_bits(function_.registers[operand.index]) == 64;
  }
  // `first` or the register after `|`.
  bool is_pair(const Operand& operand, bool data_first, int bits) const {
    if (operand.kind == OperandKind::kSink) return true;
    if (operand.kind != OperandKind::kRegister) return false;
    if (operand.second != kNoIndex && function_.registers[operand.second] != Type::kPred) {
      return false;
    }
    Operand first = operand;
    first.second = kNoIndex;
    if (first.index == kNoIndex) return true;
    return data_first ? is_data_register(first) && has_width(first, bits, false)
                      : is_predicate(first) && !first.negated;
  }
  bool is_variable_address(const Operand& operand) const {
    if (operand.kind != OperandKind::kAddress) return false;
    return operand.base != AddressBase::kSymbol ||
           (has_address(operand.symbol) && operand.symbol != SymbolKind::kFunction);
  }

  bool fits(const OperandSlot& slot, const Operand& operand) const {
    const bool at_least = slot.width == Width::kAtLeast;
    switch (slot.kind) {
      case 'd':
        return is_destination(operand, width(slot), at_least);
      case 's':
        return is_source(operand, width(slot), at_least);
      case 'D':
        return is_scalar_or_vector(slot, operand, true);
      case 'S':
        return is_scalar_or_vector(slot, operand, false);
      case 'M':
        return is_whole_or_parts(operand, true);
      case 'N':
        return is_whole_or_parts(operand, false);
      case 'V':
        return is_fragment(slot, operand, true);
      case 'U':
        return is_fragment(slot, operand, false);
      case 'w':
        return is_source(operand, 64, false) || is_vector(operand, 4, 32, false, false);
      case 'p':
        return operand.kind == OperandKind::kSink || (is_predicate(operand) && !operand.negated);
      case 'P':
        return is_pair(operand, false, 1);
      case 'e':
        return is_pair(operand, true, width(slot));
      case 'q':
      case 'o':
        return is_predicate_source(operand);
      case 'i':
        return is_integer(operand);
      case 'x':
        return is_predicate_source(operand) || is_source(operand, 32, false);
      case 'm':
        return is_variable_address(operand);
      case 't':
        return is_tensor_address(operand);
      case 'h':
        return is_source(operand, 64, false);
      case 'k':
        return is_source(operand, 16, true) && operand.kind != OperandKind::kSymbol;
      case 'l':
        return operand.kind == OperandKind::kLabel;
      case 'b':
        return operand.kind == OperandKind::kSymbol && operand.symbol == SymbolKind::kBranchTargets;
      case '_':
        return operand.kind == OperandKind::kSink;
      default:
        return false;
    }
  }

  std::string describe(const OperandSlot& slot) const {
    const int bits = width(slot);
    const std::string sized = bits == kAnyWidth ? "a" : fmt::format("a {}-bit", bits);
    switch (slot.kind) {
      case 'd':
      case 'e':
        return sized + " register";
      case 's':
        return sized + " register or a constant";
      case 'D':
      case 'S':
        if (modifiers_.vector == 1) return sized + " register";
        return fmt::format("a vector of {} {}-bit registers", modifiers_.vector, bits);
      case 'M':
      case 'N':
        return fmt::format("a {}-bit register or the parts of one", type_bits(modifiers_.type()));
      case 'V':
      case 'U':
        return fmt::format("a vector of {} 32-bit registers", fragment_registers(slot));
      case 'w':
        return "a descriptor or a vector of 4 32-bit registers";
      case 'p':
      case 'P':
        return "a predicate register";
      case 'q':
      case 'o':
        return "a predicate";
      case 'i':
        return "an integer constant";
      case 'x':
        return "a size or a predicate";
      case 'm':
        return "an address";
      case 't':
        return fmt::format("a tensor address with {} coordinates", modifiers_.tensor_dims);
      case 'h':
        return "a 64-bit cache policy";
      case 'k':
        return "a 16-bit mask";
      case 'b':
        return "a table of branch targets";
      case '_':
        return "'_'";
      default:
        return "a label";
    }
  }

  std::string constants() const {
    for (const ConstantRange& range : kRanges) {
      if (range.opcode != form_.opcode || range.operand >= operands_.size()) continue;
      const Operand& operand = operands_[range.operand];
      if (operand.kind != OperandKind::kImmediate) continue;
      if (operand.value < range.min || operand.value > range.max) {
        return fmt::format("operand {} is {}, allowed are {} to {}", range.operand + 1,
                           operand.value, range.min, range.max);
      }
    }
    if (form_.opcode == Opcode::kCpAsync) return copy_size();
    if (form_.opcode == Opcode::kTensormapReplace) return tensormap_constants();
    if (form_.opcode == Opcode::kWgmmaMmaAsync) return wgmma_constants();
    const bool sets_registers =
        form_.opcode == Opcode::kSetmaxnregInc || form_.opcode == Opcode::kSetmaxnregDec;
    const int64_t registers = sets_registers ? operands_[0].value : 24;
    if (registers < 24 || registers > 256 || registers % 8 != 0) {
      return fmt::format("{} registers, allowed are 24 to 256 in steps of 8", registers);
    }
    return {};
  }

  std::string tensormap_constants() const {
    const auto largest = [this]() -> int64_t {
      switch (modifiers_.field) {
        case TensormapField::kElemtype:
          return 12;
        case TensormapField::kInterleaveLayout:
          return 2;
        case TensormapField::kSwizzleMode:
          return 3;
        case TensormapField::kFillMode:
          return 1;
        case TensormapField::kGlobalStride:
          return 3;
        default:
          return 4;
      }
    };
    const Operand& operand = operands_[1];
    const bool limited = operands_.size() == 3 || form_.operands[1].kind == 'i';
    if (!limited || (operand.value >= 0 && operand.value <= largest())) return {};
    return fmt::format("operand 2 is {}, allowed are 0 to {}", operand.value, largest());
  }

  std::string copy_size() const {
    const int64_t bytes = operands_[2].value;
    const bool cg = modifiers_.cache == CacheOp::kCg;
    if (bytes == 16 || (!cg && (bytes == 4 || bytes == 8))) return {};
    return fmt::format("a copy of {} bytes; .ca takes 4, 8 and 16, .cg takes 16", bytes);
  }

  // imm-a and imm-b are 1 or -1; 16-bit types give a transposition for each operand in shared
  // memory.
  std::string wgmma_constants() const {
    for (size_t i = 4; i < std::min<size_t>(operands_.size(), 6); ++i) {
      if (operands_[i].value == 0)
        return fmt::format("operand {} is 0, allowed are 1 and -1", i + 1);
    }
    const bool has_transpose = form_.operands.back().kind == 'i' && form_.operands.back().optional;
    if (!has_transpose) return {};
    const size_t expected = operands_[1].kind == OperandKind::kVector ? 7 : 8;
    if (operands_.size() == expected) return {};
    return fmt::format("{} operands, expected {}", operands_.size(), expected);
  }

  const Form& form_;
  const Modifiers& modifiers_;
  std::span<const Operand> operands_;
  const Function& function_;
  std::vector<const OperandSlot*> assigned_;
};

}  // namespace

std::string operand_mismatch(const MatchedForm& match, std::span<const Operand> operands,
                             const Function& function) {
  return OperandChecker(match, operands, function).run();
}

}  // namespace tilewright::emulator::ptx
