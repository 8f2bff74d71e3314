#include "tests/emulator/slow_reference/tuples.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>

namespace tilewright::emulator::slow {
namespace {

using ptx::Family;
using ptx::Opcode;
using ptx::Type;

bool is_refused(const Tuple& t) {
  switch (t.opcode()) {
    case Opcode::kAlloca:
    case Opcode::kStacksave:
    case Opcode::kStackrestore:
      return true;
    case Opcode::kCvta:
    case Opcode::kIsspacep:
      return t.type() == Type::kU32;  // addresses have 64 bits
    default:
      return false;
  }
}

// Instructions that leave no value behind, and the test of what they do.
struct Behaviour {
  Opcode opcode;
  const char* test;
};
constexpr Behaviour kBehaviours[] = {
    {Opcode::kApplypriority, "SlowReference.HintsChangeNothing"},
    {Opcode::kCreatepolicyCvt, "SlowReference.HintsChangeNothing"},
    {Opcode::kCreatepolicyFractional, "SlowReference.HintsChangeNothing"},
    {Opcode::kCreatepolicyRange, "SlowReference.HintsChangeNothing"},
    {Opcode::kPrefetch, "SlowReference.HintsChangeNothing"},
    {Opcode::kPrefetchu, "SlowReference.HintsChangeNothing"},
    {Opcode::kDiscard, "SlowReference.HintsChangeNothing"},
    {Opcode::kCpAsyncBulkPrefetch, "SlowReference.HintsChangeNothing"},
    {Opcode::kCpAsyncBulkPrefetchTensor, "SlowReference.HintsChangeNothing"},
    {Opcode::kNanosleep, "SlowReference.HintsChangeNothing"},
    {Opcode::kPmevent, "SlowReference.HintsChangeNothing"},
    {Opcode::kSetmaxnregDec, "Setmaxnreg.TradesWhatTheLaunchAllotted"},
    {Opcode::kSetmaxnregInc, "Setmaxnreg.TradesWhatTheLaunchAllotted"},
    {Opcode::kTensormapReplace, "TensorMapEdit.EveryFieldIsReplaced"},
    {Opcode::kTensormapCpFenceproxy, "TensorMapEdit.EveryFieldIsReplaced"},
    {Opcode::kGriddepcontrolLaunchDependents, "SlowReference.HintsChangeNothing"},
    {Opcode::kGriddepcontrolWait, "SlowReference.HintsChangeNothing"},
    {Opcode::kFence, "SlowReference.FencesPassMessages"},
    {Opcode::kFenceMbarrierInit, "SlowReference.FencesPassMessages"},
    {Opcode::kFenceProxyAlias, "SlowReference.FencesPassMessages"},
    {Opcode::kFenceProxyAsync, "SlowReference.FencesPassMessages"},
    {Opcode::kFenceProxyAsyncGeneric, "SlowReference.FencesPassMessages"},
    {Opcode::kFenceProxyTensormap, "TensorMapEdit.MissingFencesAreReported"},
    {Opcode::kMembar, "SlowReference.FencesPassMessages"},
    {Opcode::kMembarProxyAlias, "SlowReference.FencesPassMessages"},
};

}  // namespace

Group group_of(const Tuple& t) {
  if (is_refused(t)) return Group::kRefused;
  if (!behaviour_test_of(t).empty()) return Group::kBehaviour;
  switch (t.opcode()) {
    case Opcode::kLd:
    case Opcode::kLdu:
    case Opcode::kSt:
      return Group::kLoadStore;
    default:
      break;
  }
  switch (ptx::family(t.opcode())) {
    case Family::kInteger:
    case Family::kFloat:
    case Family::kConvert:
      return Group::kScalar;
    case Family::kMemory:
      return Group::kAddress;
    case Family::kAtomic:
      return Group::kAtomic;
    case Family::kWarp:
      return Group::kWarp;
    case Family::kMatrix:
      return Group::kMatrix;
    case Family::kWgmma:
      return Group::kWgmma;
    case Family::kAsyncCopy:
      return Group::kAsyncCopy;
    case Family::kBulkCopy:
      return Group::kBulk;
    case Family::kMbarrier:
      return Group::kMbarrier;
    case Family::kBarrier:
      return Group::kBarrier;
    case Family::kFence:
    case Family::kControl:
      return Group::kControl;
  }
  return Group::kControl;
}

std::string behaviour_test_of(const Tuple& tuple) {
  for (const Behaviour& behaviour : kBehaviours) {
    if (behaviour.opcode == tuple.opcode()) return behaviour.test;
  }
  return "";
}

const std::vector<Tuple>& all_tuples() {
  static const std::vector<Tuple> tuples = [] {
    std::vector<Tuple> list;
    for (int n = 0; n < ptx::kNumOpcodes; ++n) {
      int form_index = 0;
      for (const ptx::Form& form : ptx::forms(static_cast<Opcode>(n))) {
        ptx::enumerate(form, [&](const ptx::Modifiers& modifiers, const std::string& mnemonic) {
          list.push_back({&form, modifiers, mnemonic, form_index});
        });
        ++form_index;
      }
    }
    return list;
  }();
  return tuples;
}

std::vector<Tuple> tuples_of(Group group) {
  std::vector<Tuple> list;
  std::ranges::copy_if(all_tuples(), std::back_inserter(list),
                       [&](const Tuple& tuple) { return group_of(tuple) == group; });
  return list;
}

Ledger::Ledger(Group group) {
  for (const Tuple& tuple : tuples_of(group)) counts_[tuple.key()] = 0;
}

void Ledger::compared(const Tuple& tuple) {
  const auto found = counts_.find(tuple.key());
  if (found == counts_.end()) {
    ADD_FAILURE() << tuple.key() << " is not of this group";
    return;
  }
  ++found->second;
}

void Ledger::finish() const {
  long comparisons = 0;
  long missing = 0;
  for (const auto& [key, count] : counts_) {
    comparisons += count;
    if (count > 0) continue;
    if (++missing <= 20) ADD_FAILURE() << "never compared: " << key;
  }
  EXPECT_EQ(missing, 0);
  EXPECT_FALSE(counts_.empty());
  std::cout << counts_.size() << " tuples, " << comparisons << " values compared\n";
}

}  // namespace tilewright::emulator::slow
