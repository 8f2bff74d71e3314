// Everything that opcodes.def accepts, one tuple (form, modifiers) each; who compares which; and a
// ledger of what was compared, so that a tuple nobody compares fails.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "emulator/ptx/forms.h"

namespace tilewright::emulator::slow {

struct Tuple {
  const ptx::Form* form = nullptr;
  ptx::Modifiers modifiers;
  std::string mnemonic;  // "add.sat.s32"
  // Number of the form within its opcode: two forms can share a mnemonic.
  int form_index = 0;

  ptx::Opcode opcode() const { return form->opcode; }
  std::string_view name() const { return ptx::to_string(form->opcode); }
  ptx::Type type(int i = 0) const { return modifiers.types[static_cast<size_t>(i)]; }
  bool has(ptx::Flag flag) const { return modifiers.has(flag); }
  std::string key() const { return mnemonic + " (form " + std::to_string(form_index) + ")"; }
};

// The test that compares a tuple. kBehaviour: no value to compare; behaviour_test_of names the test
// of what it does instead. kRefused: parsed, and refused when a module is loaded.
enum class Group : uint8_t {
  kScalar,
  kLoadStore,
  kAddress,
  kAtomic,
  kWarp,
  kMatrix,
  kWgmma,
  kAsyncCopy,
  kBulk,
  kMbarrier,
  kBarrier,
  kControl,
  kBehaviour,
  kRefused,
};
Group group_of(const Tuple& tuple);
// "Suite.Name" for tuples of kBehaviour, empty for others.
std::string behaviour_test_of(const Tuple& tuple);

// Every tuple; of one group.
const std::vector<Tuple>& all_tuples();
std::vector<Tuple> tuples_of(Group group);

// Counts comparisons per tuple of a group.
class Ledger {
 public:
  explicit Ledger(Group group);
  // One value of the tuple was compared. Fails the test if the tuple is of another group.
  void compared(const Tuple& tuple);
  // Fails the test for every tuple of the group that was never compared, and prints the counts.
  void finish() const;

 private:
  std::map<std::string, long> counts_;
};

}  // namespace tilewright::emulator::slow
