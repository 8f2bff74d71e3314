// Spells an instruction of a given form with plausible operands, and the module around it: so that
// tests can go over everything that opcodes.def accepts.
#pragma once

#include <string>

#include "emulator/ptx/forms.h"

namespace tilewright::emulator::ptx {

// "add.sat.s32 %r0, %r1, %r2;": `mnemonic` as enumerate gives it. With the optional operands if
// `with_optional`.
std::string spell_instruction(const Form& form, const Modifiers& modifiers,
                              const std::string& mnemonic, bool with_optional);

// A module for `target` ("sm_90a") whose entry `k` holds `body`, after declarations of the
// registers that spell_instruction uses.
std::string wrap_in_module(const std::string& target, const std::string& body);

}  // namespace tilewright::emulator::ptx
