// Text of scalar tuples with operands of the caller's choosing, and what those operands are.
#pragma once

#include <string>
#include <vector>

#include "tests/emulator/slow_reference/tuples.h"

namespace tilewright::emulator::slow {

struct OperandInfo {
  ptx::Type type = ptx::Type::kNone;  // of its value; kPred of predicates
  int bits = 32;                      // of its register; 1 of predicates
  bool constant_only = false;
  bool is_predicate() const { return type == ptx::Type::kPred; }
};
struct Operands {
  std::vector<OperandInfo> destinations;  // those behind a bar included; mov.b128 has two
  std::vector<OperandInfo> sources;
  bool reads_carry = false;
  bool writes_carry = false;
};
// `wide`: registers wider than the type, where the instruction allows it.
Operands operands_of(const Tuple& tuple, bool wide);

// "add.sat.s32 d0, s0, s1;" Names in the order of operands_of. `guard`: "@%p1 ", or empty.
std::string spell(const Tuple& tuple, const std::vector<std::string>& destinations,
                  const std::vector<std::string>& sources, const std::string& guard);
// A constant of the type, as PTX writes it; empty if the type has none.
std::string constant_text(ptx::Type type, uint64_t bits);

// Register name: %h, %r, %d, %p and a number, by width.
std::string register_name(int bits, int number);
// Declarations of `count` registers of each kind.
std::string register_declarations(int count);

}  // namespace tilewright::emulator::slow
