// `run` on random tensors: whole runs of the program on an emulated device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files.h"
#include "tests/cli/process.h"
#include "tests/core/scratch_folder.h"

namespace tilewright::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

Finished run(const ScratchFolder& folder, const std::string& problem, const Words& more) {
  Words words = {"run",           "--problem",   problem,         "--device",
                 "emulated:a100", "--cache-dir", folder / "cache"};
  words.insert(words.end(), more.begin(), more.end());
  return run_tilewright(words);
}

// A cache folder that is a file earns a warning, unless TILEWRIGHT_LOG, or --log over it, is none.
TEST(Run, NoFolderForTheCacheIsSaidOnce) {
  const std::string run =
      "env -u HOME -u XDG_CACHE_HOME -u TILEWRIGHT_CACHE_DIR tilewright run --problem 'q8 qk64' "
      "--device emulated:a100";
  const Finished without = run_shell(run);
  EXPECT_EQ(without.code, 0) << without.err;
  const std::string warning = "warning: no folder for the kernel cache";
  const size_t first = without.err.find(warning);
  ASSERT_NE(first, std::string::npos) << without.err;
  EXPECT_EQ(without.err.find(warning, first + 1), std::string::npos);
  EXPECT_EQ(run_shell(run + " --no-cache").err, "");
}

TEST(Run, WarningsHeedTheEnvironment) {
  const ScratchFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "file", "").ok());
  const auto warned = [&](const std::string& variable, const std::string& flags) {
    const Finished finished =
        run_shell(variable + " tilewright run --problem 'q8 qk64 fp16' --device emulated:a100 " +
                  "--cache-dir '" + (folder / "file") + "' " + flags);
    EXPECT_EQ(finished.code, 0) << finished.err;
    return finished.err.find("tilewright: warning: ") != std::string::npos;
  };
  EXPECT_TRUE(warned("TILEWRIGHT_LOG=warning", ""));
  EXPECT_FALSE(warned("TILEWRIGHT_LOG=none", ""));
  EXPECT_TRUE(warned("TILEWRIGHT_LOG=none", "--log warning"));
}

TEST(Run, ChecksAndRepeats) {
  const ScratchFolder folder;
  const std::string problem = "b2 hq6 hkv2 q17 k33 qk80 v48 bf16 causal";
  const Finished first = run(folder, problem, {"--check", "--seed", "7"});
  ASSERT_EQ(first.code, 0) << first.err << first.out;
  EXPECT_THAT(first.out, AllOf(HasSubstr("(emulated)"), HasSubstr("1 compile\n"),
                               HasSubstr("check out  max error"), HasSubstr("check lse"),
                               HasSubstr("ok"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(run(folder, problem, {}).out, HasSubstr("from the cache, 0 compiles\n"));
  const Finished second = run(folder, problem, {"--check", "--seed", "7", "--json"});
  ASSERT_EQ(second.code, 0) << second.err;
  const Json json = second.json();
  EXPECT_EQ(*json.find("compiles")->as_int(), 0);
  EXPECT_EQ(*json.find("origin")->as_string(), "disk");
  EXPECT_TRUE(*json.find("device")->find("simulated")->as_bool());
  for (const char* name : {"out", "lse"}) {
    const Json* part = json.find("check")->find(name);
    EXPECT_TRUE(*part->find("ok")->as_bool());
    EXPECT_LE(part->find("error")->as_double(), part->find("bound")->as_double());
    EXPECT_GT(part->find("error")->as_double(), 0);
  }

  // The printed reproducer, pasted into a shell, does the same.
  const Finished again = run_shell(*json.find("reproducer")->as_string() + " --json --cache-dir " +
                                   (folder / "cache"));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json().find("check")->dump(), json.find("check")->dump());
  EXPECT_EQ(again.json().find("reproducer")->dump(), json.find("reproducer")->dump());
}

TEST(Run, EmptyAndTinyProblems) {
  const ScratchFolder folder;
  for (const char* problem : {"q5 k0 qk64 v64 fp16", "q0 k7 qk64 fp16", "b0 q3 qk64 fp16",
                              "q1 k1 qk64 v64 fp16", "q9 k4 qk64 fp16 causal"}) {
    const Finished finished = run(folder, problem, {"--check"});
    EXPECT_EQ(finished.code, 0) << problem << finished.err << finished.out;
  }
}

TEST(Run, AnswersForBothRunsAndCounters) {
  const ScratchFolder folder;
  const Finished finished =
      run(folder, "q16 k16 qk64 fp16", {"--repeat", "2", "--counters", "--json"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  const Json json = finished.json();
  EXPECT_EQ(*json.find("runs")->as_int(), 2);
  EXPECT_GT(json.find("counters")->as_object()->size(), 5u);
  EXPECT_EQ(json.find("check"), nullptr);
  EXPECT_THAT(run(folder, "q16 k16 qk64 fp16", {"--counters"}).out, HasSubstr("executed"));
}

// Without --check nobody else would notice.
TEST(Run, SaysHowManyValuesAreNotFinite) {
  const ScratchFolder folder;
  const std::string problem = "q16 k16 qk64 fp16 scale=1e38";
  const Finished text = run(folder, problem, {});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.err, HasSubstr("warning: out: "));
  EXPECT_THAT(text.err, HasSubstr(" of 1024 values are NaN or infinite"));
  const Finished json = run(folder, problem, {"--json", "--log", "none"});
  EXPECT_EQ(json.err, "");
  EXPECT_GT(*json.json().find("not_finite")->find("out")->as_int(), 0);
  // An lse of minus infinity is what a row without keys has.
  const Finished good = run(folder, "q9 k4 qk64 fp16 causal", {"--json"});
  EXPECT_EQ(good.err, "");
  EXPECT_TRUE(good.json().find("not_finite")->as_object()->empty());
}

// Where plain attention overflows too, no kernel could be told right from wrong.
TEST(Run, SaysWhenThereIsNothingToCheckAgainst) {
  const ScratchFolder folder;
  const Finished finished = run(folder, "q16 k16 qk64 fp16 scale=1e38", {"--check"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.out,
              AllOf(HasSubstr("NOT CHECKED: plain attention of the same precision is not finite"),
                    Not(HasSubstr("max error inf, bound 0"))));
}

TEST(Run, RefusesWithReasons) {
  const ScratchFolder folder;
  const Finished finished = run(folder, "backward q16 qk64 fp16 documents", {"--json"});
  EXPECT_EQ(finished.code, 3) << finished.err;
  EXPECT_EQ(*finished.json().find("error")->find("code")->as_string(), "unsupported-problem");
  EXPECT_GE(finished.json().find("error")->find("reasons")->as_array()->size(), 1u);
}

TEST(Run, RefusesWhatNoMemoryHolds) {
  const ScratchFolder folder;
  const Finished finished = run(folder, "b1000000 q100000 qk64 fp16", {});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.err, HasSubstr("this machine has"));
}

}  // namespace
}  // namespace tilewright::testing
