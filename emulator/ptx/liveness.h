// How many registers a function would take: the largest number of 32-bit registers alive at once.
// Stands in for the ptxas report where there is none (PTX that comes without one).
#pragma once

#include <cstdint>

#include "emulator/ptx/ast.h"

namespace tilewright::emulator::ptx {

struct RegisterPressure {
  uint32_t registers = 0;  // 32-bit; a 64-bit value counts two, a narrow one one
  uint32_t predicates = 0;
};

// Of one function by itself. Exact for the PTX as it stands: instructions in written order, every
// virtual register where it is alive.
RegisterPressure register_pressure(const Module& module, const Function& function);

// Of a function with what it calls: at each call the registers alive across it and the callee's.
// Recursion counts once. An indirect call counts as the largest function of the module.
uint32_t estimate_registers(const Module& module, uint32_t function);

// Whether operand 0 of `opcode` is written (its other operands never are).
bool writes_first_operand(Opcode opcode);

}  // namespace tilewright::emulator::ptx
