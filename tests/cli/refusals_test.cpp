// What commands refuse rather than ignore or fail late at, with the exit code and the words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "tests/cli/process.h"
#include "tests/core/scratch_folder.h"

namespace tilewright::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

void expect_refused(const Words& words, int code, const std::string& message) {
  const Finished finished = run_tilewright(words);
  EXPECT_EQ(finished.code, code) << shell_command(words) << "\n" << finished.out;
  EXPECT_THAT(finished.err, HasSubstr(message)) << shell_command(words);
  EXPECT_EQ(finished.out, "") << shell_command(words);
}

TEST(Refused, FlagsOfIoThatHaveNoEffect) {
  const std::string standard = "standard q1024 qk64 fp16";
  expect_refused({"io", "--problem", standard, "--fast-memory", "banana"}, 2, "--fast-memory");
  expect_refused({"io", "--problem", standard, "--device", "emulated:h100"}, 2, "--device");
  expect_refused({"io", "--problem", standard, "--svg", "x.svg"}, 2, "--svg");
  expect_refused({"io", "--devices", "--problem", "xyz"}, 2, "--problem");
  expect_refused({"io", "--devices", "--granularity", "16"}, 2, "--granularity");
  EXPECT_EQ(run_tilewright({"io", "--problem", standard}).code, 0);
  EXPECT_EQ(run_tilewright({"io", "--devices", "--json"}).code, 0);
}

TEST(Refused, IoThatCannotBeCounted) {
  const std::string p = "--problem", m = "--fast-memory";
  expect_refused({"io", p, "q4096 qk512 fp16", m, "8words", "--algorithm", "small-cache"}, 2,
                 "small-cache");
  // 2^32 rows and keys: the pairs do not fit in 64 bits.
  expect_refused({"io", p, "q4294967296 qk1 fp16", m, "1MiB"}, 2, "64 bits");
  expect_refused({"io", p, "q64 qk64", m, "100KB"}, 2, "known: B, KiB, MiB, GiB, words");
  expect_refused({"io", p, "q64 qk64", m, "KB"}, 2, "units: B, KiB, MiB, GiB, words");
}

TEST(Refused, APictureThatCannotBeWritten) {
  expect_refused({"io", "--problem", "q1024 qk64 fp16", "--fast-memory", "8KiB..64KiB", "--svg",
                  "/none/x.svg"},
                 2, "there is no folder '/none'");
}

TEST(Io, OnePairIsSingular) {
  const auto heading = [](const std::string& problem) {
    return run_tilewright({"io", "--problem", problem, "--fast-memory", "100KiB"}).out;
  };
  EXPECT_THAT(heading("q1 qk64 fp16"), HasSubstr(" 1 visible pair\n"));
  EXPECT_THAT(heading("q2 qk64 fp16"), HasSubstr(" 4 visible pairs\n"));
}

TEST(Refused, OutputsThatThePassDoesNotCompute) {
  for (const char* problem : {"linear-forward q8 qk64 fp16", "linear-step q1 qk64 fp16"}) {
    expect_refused({"run", "--problem", problem, "--lse", "lse.npy"}, 2, "does not compute it");
  }
  expect_refused({"run", "--problem", "backward q8 qk64 fp16", "--out", "o.npy"}, 2,
                 "does not compute it");
}

TEST(Refused, NumbersBeyondFloat32) {
  for (const char* item : {"scale=1e39", "softcap=1e40", "softcap=1e-46"}) {
    const std::string name = std::string(item).substr(0, std::string_view(item).find('='));
    expect_refused({"run", "--problem", std::string("q8 qk64 fp16 ") + item}, 2, name + "=1e");
  }
}

TEST(Refused, CommandsThatAreNotBuiltYet) {
  for (const char* command : {"tune", "bench", "report"}) {
    expect_refused({command}, 3, std::string(command) + " is not built yet");
    expect_refused({command, "--help"}, 3, "is not built yet");
  }
}

// TILEWRIGHT_LOG and --log: the same words.
TEST(Log, TheVariableIsTheFlag) {
  const ScratchFolder folder;
  const auto compile = [&](const std::string& variable, const std::string& flag) {
    return run_shell(variable + " tilewright compile --problem 'qk64 fp16' --arch sm_80 --emit " +
                     "cuda --cache-dir " + shell_quote(folder / "cache") + " " + flag);
  };
  const Finished wrong = compile("TILEWRIGHT_LOG=loud", "");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, AllOf(HasSubstr("'loud' is not one of debug, info, warning, none"),
                               HasSubstr("TILEWRIGHT_LOG")));
  EXPECT_EQ(compile("TILEWRIGHT_LOG=loud", "--log none").code, 0);
  for (const char* word : {"debug", "info", "warning", "none", ""}) {
    EXPECT_EQ(compile(std::string("TILEWRIGHT_LOG=") + word, "").code, 0) << word;
  }
}

TEST(Compile, CudaNeedsNoCompiler) {
  const ScratchFolder folder;
  const Words words = {"compile", "--problem",   "qk64 fp16",     "--arch",
                       "sm_80",   "--nvrtc",     "/none.so",      "--emit",
                       "cuda",    "--cache-dir", folder / "cache"};
  const Finished finished = run_tilewright(words);
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("tw_forward"));
  Words to_file = words;
  to_file.insert(to_file.end(), {"--out", folder / "k.cu"});
  EXPECT_EQ(run_tilewright(to_file).code, 0);
  Words ptx = words;
  ptx[8] = "ptx";
  EXPECT_NE(run_tilewright(ptx).code, 0);
}

}  // namespace
}  // namespace tilewright::testing
