#include "tests/emulator/ptx_form_text.h"

#include <fmt/format.h>

namespace tilewright::emulator::ptx {
namespace {

// Registers are %h (16 bits), %r (32), %d (64), %q (128), %p (predicates); %r0 … are all distinct.
class Speller {
 public:
  Speller(const Form& form, const Modifiers& modifiers) : form_(form), modifiers_(modifiers) {}

  std::string operand(const OperandSlot& slot) {
    switch (slot.kind) {
      case 'd':
      case 's':
      case 'M':
      case 'N':
        return data(bits(slot));
      case 'e':
        return data(bits(slot)) + "|" + predicate();
      case 'D':
      case 'S':
        return modifiers_.vector == 1 ? data(bits(slot)) : vector(modifiers_.vector, bits(slot));
      case 'V':
      case 'U':
        return vector(fragment(slot), 32);
      case 'w':
        return data(64);
      case 'p':
      case 'q':
      case 'o':
        return predicate();
      case 'P':
        return predicate() + "|" + predicate();
      case 'i':
        return constant();
      case 'x':
        return data(32);
      case 'm':
        if (modifiers_.space == StateSpace::kParam) {
          return form_.opcode == Opcode::kSt ? "[argument]" : "[k_param_0]";
        }
        return fmt::format("[{}]", data(64));
      case 't':
        return fmt::format("[{}, {}]", data(64), vector(modifiers_.tensor_dims, 32));
      case 'h':
        return data(64);
      case 'k':
        return data(16);
      case 'l':
        return "LABEL";
      case 'b':
        return "TABLE";
      case '_':
        return "_";
      default:
        return "?";
    }
  }

 private:
  int bits(const OperandSlot& slot) const {
    const bool destination = std::string_view("dDMe").find(slot.kind) != std::string_view::npos;
    const Type type = !destination && modifiers_.types[1] != Type::kNone ? modifiers_.types[1]
                                                                         : modifiers_.types[0];
    switch (slot.width) {
      case Width::kFixed:
        return slot.value;
      case Width::kTypeIndex:
        return type_bits(modifiers_.types[slot.value]);
      case Width::kWide:
        return 2 * type_bits(modifiers_.types[0]);
      case Width::kAny:
        return 64;
      default:
        return type_bits(type);
    }
  }
  int fragment(const OperandSlot& slot) const {
    if (slot.width == Width::kAny) return modifiers_.num_matrices;
    const Shape s = modifiers_.shape;
    const int size = slot.value == 1 ? s.m * s.k : slot.value == 2 ? s.k * s.n : s.m * s.n;
    const int threads = form_.opcode == Opcode::kWgmmaMmaAsync ? 128 : 32;
    return size * type_bits(modifiers_.types[slot.value]) / 32 / threads;
  }
  std::string data(int width) {
    const char letter = width <= 16 ? 'h' : width <= 32 ? 'r' : width <= 64 ? 'd' : 'q';
    return fmt::format("%{}{}", letter, next_++);
  }
  std::string predicate() { return fmt::format("%p{}", next_predicate_++); }
  std::string vector(int count, int width) {
    std::string text = "{";
    for (int i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + data(width);
    return text + "}";
  }
  std::string constant() const {
    switch (form_.opcode) {
      case Opcode::kCpAsync:
        return "16";
      case Opcode::kSetmaxnregDec:
      case Opcode::kSetmaxnregInc:
        return "64";
      case Opcode::kDiscard:
      case Opcode::kApplypriority:
      case Opcode::kFenceProxyTensormap:
      case Opcode::kTensormapCpFenceproxy:
        return "128";
      default:
        return "1";
    }
  }

  const Form& form_;
  const Modifiers& modifiers_;
  int next_ = 0;
  int next_predicate_ = 0;
};

bool is_present(const OperandSlot& slot, const Modifiers& modifiers, bool with_optional) {
  if (slot.kind == 'h') return modifiers.has(Flag::kCacheHint);
  if (slot.kind == 'k') return modifiers.has(Flag::kMulticast);
  if (slot.kind == 'o') return modifiers.op != Op::kNone;
  return !slot.optional || with_optional;
}

}  // namespace

std::string spell_instruction(const Form& form, const Modifiers& modifiers,
                              const std::string& mnemonic, bool with_optional) {
  // A transposition per operand: with A in shared memory the last constant is not optional.
  const bool all = with_optional || form.opcode == Opcode::kWgmmaMmaAsync;
  Speller speller(form, modifiers);
  std::string text = mnemonic;
  const char* separator = " ";
  if (form.opcode == Opcode::kCall) return text + " f;";
  for (const OperandSlot& slot : form.operands) {
    if (!is_present(slot, modifiers, all)) continue;
    text += separator + speller.operand(slot);
    separator = ", ";
  }
  return text + ";";
}

std::string wrap_in_module(const std::string& target, const std::string& body) {
  return fmt::format(
      ".version 8.7\n.target {}\n.address_size 64\n.func f() {{ ret; }}\n"
      ".visible .entry k(.param .align 16 .b8 k_param_0[64])\n{{\n"
      ".reg .pred %p<8>;\n.reg .b16 %h<300>;\n.reg .b32 %r<300>;\n.reg .b64 %d<300>;\n"
      ".reg .b128 %q<16>;\n.param .align 16 .b8 argument[64];\nTABLE: .branchtargets "
      "LABEL;\nLABEL:\n{}\nret;\n}}\n",
      target, body);
}

}  // namespace tilewright::emulator::ptx
