// The bookkeeping itself: what is refused is refused, every named behaviour test exists, and a
// tuple left out fails.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <set>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/ptx_form_text.h"
#include "tests/emulator/slow_reference/tuples.h"

namespace tilewright::emulator::slow {
namespace {

bool loads(test::Machine& machine, const Tuple& tuple, bool with_optional) {
  const std::string line =
      ptx::spell_instruction(*tuple.form, tuple.modifiers, tuple.mnemonic, with_optional);
  return LoadedModule::load(ptx::wrap_in_module("sm_90a", line),
                            {.file_name = "form.ptx", .arch = machine.arch()}, machine.memory())
      .ok();
}

TEST(SlowReference, RefusedTuplesAreRefusedAtLoad) {
  test::Machine machine("sm_90a");
  Ledger ledger(Group::kRefused);
  for (const Tuple& tuple : tuples_of(Group::kRefused)) {
    for (const bool with_optional : {false, true}) {
      EXPECT_FALSE(loads(machine, tuple, with_optional)) << tuple.mnemonic;
      ledger.compared(tuple);
    }
  }
  ledger.finish();
}

TEST(SlowReference, EveryTupleHasATest) {
  std::set<std::string> keys;
  for (const Tuple& tuple : all_tuples()) {
    EXPECT_TRUE(keys.insert(tuple.key()).second) << tuple.key() << " is there twice";
  }
  EXPECT_GT(keys.size(), 24'000u);
}

TEST(SlowReference, ATupleLeftOutFails) {
  const auto compare_all_but_one = [] {
    Ledger ledger(Group::kWarp);
    bool first = true;
    for (const Tuple& tuple : tuples_of(Group::kWarp)) {
      if (!first) ledger.compared(tuple);
      first = false;
    }
    ledger.finish();
  };
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    compare_all_but_one();
  }
  EXPECT_GT(failures.size(), 0);
}

}  // namespace
}  // namespace tilewright::emulator::slow
