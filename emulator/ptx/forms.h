// Instruction forms: what opcodes.def says of each opcode, as tables. The parser matches an
// instruction's suffixes and operands against them; tests enumerate them, so that nothing the
// parser accepts stays untested.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "emulator/ptx/ast.h"
#include "emulator/ptx/opcode.h"
#include "emulator/ptx/types.h"
#include "tilewright/result.h"

namespace tilewright::emulator::ptx {

// Kinds of modifiers. Those of kTypes, kSpaces and kLayouts fill their slots in written order.
enum class ModifierKind : uint8_t {
  kFlag,
  kHint,  // no field: cache policies and prefetch sizes
  kType,
  kSpace,
  kLayout,
  kShape,
  kRounding,
  kCompare,
  kOp,
  kCache,
  kSemantics,
  kScope,
  kPart,
  kShuffle,
  kVote,
  kPermute,
  kTest,
  kDirection,
  kRange,
  kField,
  kVector,
  kNumMatrices,
  kTensorDims,
};

// One modifier: the index of its row in the table of modifiers, or, with the top bit, a shape.
using Token = uint32_t;

struct Slot {
  ModifierKind kind = ModifierKind::kFlag;
  bool optional = false;
  bool hint = false;  // enumerated as absent only
  std::vector<Token> tokens;
};

// Bits that a register operand must have.
enum class Width : uint8_t {
  kDefault,    // of the instruction's type (d: the first; s: the second, if there is one)
  kTypeIndex,  // of types[value]
  kFixed,      // value
  kWide,       // twice the first type
  kAtLeast,    // of the default, or more
  kAny,
};

struct OperandSlot {
  char kind = 's';  // a letter of opcodes.def
  bool optional = false;
  Width width = Width::kDefault;
  uint8_t value = 0;
};

struct Form {
  Opcode opcode = Opcode::kCount;
  Target first_target;  // compute_capability 0: any
  std::vector<Slot> slots;
  std::vector<OperandSlot> operands;
};

// Every form of an opcode, in the order of opcodes.def.
std::span<const Form> forms(Opcode opcode);

// An instruction's suffixes, understood.
struct MatchedForm {
  const Form* form = nullptr;
  Modifiers modifiers;
};
// The forms of `opcode` that fit the dotted `suffixes` (".rn.f32", or empty). Several forms can
// share suffixes and differ in operands. kParseError: unknown modifier, or no form has this
// combination; the message names it, without position.
Result<std::vector<MatchedForm>> match_suffixes(Opcode opcode, std::string_view suffixes);

// Calls `visit` with every combination of modifiers that the form accepts and the text that spells
// it ("add.rn.ftz.f32"); hints are left out.
void enumerate(
    const Form& form,
    const std::function<void(const Modifiers& modifiers, const std::string& text)>& visit);

// Whether a module for `target` may hold the form with these modifiers.
bool is_available(const Form& form, const Modifiers& modifiers, Target target);
// The first target that may.
Target first_target(const Form& form, const Modifiers& modifiers);

}  // namespace tilewright::emulator::ptx
