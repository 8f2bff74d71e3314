#include "tests/emulator/slow_reference/assembly.h"

#include <fmt/format.h>

#include "core/check.h"
#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Flag;
using ptx::Opcode;
using ptx::Type;
using ptx::Width;

Type fixed_type(int bits) { return bits == 16 ? Type::kU16 : bits == 32 ? Type::kU32 : Type::kU64; }

Type widened(Type type) {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kS16:
      return Type::kS32;
    case Type::kU32:
      return Type::kU64;
    default:
      return Type::kS64;
  }
}

OperandInfo operand(const Tuple& t, const ptx::OperandSlot& slot, bool destination, bool wide) {
  const Type own = !destination && t.type(1) != Type::kNone ? t.type(1) : t.type(0);
  OperandInfo info;
  switch (slot.width) {
    case Width::kFixed:
      info.type = fixed_type(slot.value);
      break;
    case Width::kTypeIndex:
      info.type = t.type(slot.value);
      break;
    case Width::kWide:
      info.type = widened(t.type(0));
      break;
    default:
      info.type = own;
      break;
  }
  info.bits = ptx::type_bits(info.type);
  const bool extensible = slot.width == Width::kAtLeast && !ptx::is_float(info.type);
  if (info.bits < 16) info.bits = 16;
  if (wide && extensible && info.bits < 64) info.bits *= 2;
  return info;
}

}  // namespace

Operands operands_of(const Tuple& t, bool wide) {
  Operands operands;
  const OperandInfo predicate{Type::kPred, 1};
  for (const ptx::OperandSlot& slot : t.form->operands) {
    switch (slot.kind) {
      case 'M':
      case 'N': {
        auto& list = slot.kind == 'M' ? operands.destinations : operands.sources;
        if (t.type() == Type::kB128) {  // {low, high}
          list.push_back({Type::kB64, 64});
          list.push_back({Type::kB64, 64});
        } else {
          list.push_back(operand(t, slot, slot.kind == 'M', wide));
        }
        break;
      }
      case 'd':
        operands.destinations.push_back(operand(t, slot, true, wide));
        break;
      case 'e':
        operands.destinations.push_back(operand(t, slot, true, wide));
        operands.destinations.push_back(predicate);
        break;
      case 'p':
        operands.destinations.push_back(predicate);
        break;
      case 'P':
        operands.destinations.push_back(predicate);
        operands.destinations.push_back(predicate);
        break;
      case 's':
        operands.sources.push_back(operand(t, slot, false, wide));
        break;
      case 'q':
        operands.sources.push_back(predicate);
        break;
      case 'o':
        if (t.modifiers.op != ptx::Op::kNone) operands.sources.push_back(predicate);
        break;
      case 'i':
        operands.sources.push_back({Type::kU32, 32, true});
        break;
      default:
        TW_CHECK(false, "operand {} of {}", slot.kind, t.mnemonic);
    }
  }
  const Opcode opcode = t.opcode();
  operands.reads_carry =
      opcode == Opcode::kAddc || opcode == Opcode::kSubc || opcode == Opcode::kMadc;
  operands.writes_carry = t.has(Flag::kCarry);
  return operands;
}

std::string spell(const Tuple& t, const std::vector<std::string>& destinations,
                  const std::vector<std::string>& sources, const std::string& guard) {
  const Opcode opcode = t.opcode();
  if (opcode == Opcode::kMov && t.type() == Type::kB128) {  // through a 128-bit register
    return fmt::format("mov.b128 %q0, {{{}, {}}}; mov.b128 %q1, %q0; {}mov.b128 {{{}, {}}}, %q1;",
                       sources[0], sources[1], guard, destinations[0], destinations[1]);
  }
  std::string text = guard + t.mnemonic + " " + destinations[0];
  if (destinations.size() > 1) text += "|" + destinations[1];
  for (const std::string& source : sources) text += ", " + source;
  return text + ";";
}

std::string constant_text(Type type, uint64_t bits) {
  switch (type) {
    case Type::kF32:
      return fmt::format("0f{:08X}", bits);
    case Type::kF64:
      return fmt::format("0d{:016X}", bits);
    case Type::kPred:
    case Type::kNone:
      return "";
    default:
      break;
  }
  if (ptx::is_float(type) || is_packed(type) || ptx::type_bits(type) < 16) return "";
  if (ptx::is_signed(type)) {
    const __int128 value = integer_value(type, bits);
    // The most negative 64-bit literal would be minus an unsigned one.
    if (value == -(__int128{1} << 63)) return "0x8000000000000000";
    return fmt::format("{}", static_cast<int64_t>(value));
  }
  return fmt::format("{:#x}", bits);
}

std::string register_name(int bits, int number) {
  const char letter = bits == 1 ? 'p' : bits <= 16 ? 'h' : bits <= 32 ? 'r' : 'd';
  return fmt::format("%{}{}", letter, number);
}

std::string register_declarations(int count) {
  return fmt::format(
      ".reg .pred %p<{0}>;\n.reg .b16 %h<{0}>;\n.reg .b32 %r<{0}>;\n.reg .b64 %d<{0}>;\n"
      ".reg .b128 %q<4>;\n",
      count);
}

}  // namespace tilewright::emulator::slow
