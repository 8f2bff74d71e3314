// What every command does with a wrong command line, and what needs neither compiler nor device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/files.h"
#include "core/text.h"
#include "tests/cli/process.h"
#include "tests/core/scratch_folder.h"

namespace tilewright::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

const std::vector<std::string> kCommands = {"devices", "run",   "compile",
                                            "explain", "cache", "doctor"};

TEST(Help, OfTheProgram) {
  for (const char* word : {"--help", "-h", "help"}) {
    const Finished finished = run_tilewright({word});
    EXPECT_EQ(finished.code, 0);
    for (const std::string& command : kCommands) EXPECT_THAT(finished.out, HasSubstr(command));
  }
  const Finished bare = run_tilewright({});
  EXPECT_EQ(bare.code, 2);
  EXPECT_THAT(bare.err, HasSubstr("Commands:"));
  EXPECT_EQ(run_tilewright({"--version"}).out, "tilewright 0.1.0\n");
}

TEST(Help, OfEveryCommand) {
  for (const std::string& command : kCommands) {
    const Finished finished = run_tilewright({command, "--help"});
    EXPECT_EQ(finished.code, 0);
    EXPECT_THAT(finished.out, HasSubstr("usage: tilewright " + command));
    EXPECT_EQ(finished.err, "");
    for (const std::string_view line : split(finished.out, '\n')) EXPECT_LE(line.size(), 110u);
  }
}

TEST(BadUsage, UnknownCommands) {
  const Finished finished = run_tilewright({"complie"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, HasSubstr("did you mean compile?"));
  EXPECT_EQ(run_tilewright({""}).code, 2);
}

TEST(BadUsage, OfFlagsOfEveryCommand) {
  for (const std::string& command : kCommands) {
    const Words action = command == "cache" ? Words{command, "list"} : Words{command};
    const auto with = [&](Words more) {
      Words words = action;
      words.insert(words.end(), more.begin(), more.end());
      return run_tilewright(words);
    };
    for (const Finished& finished :
         {with({"--nonsense"}), with({"stray"}), with({"--json", "--json"}), with({"--json=1"}),
          with({"-x"}), with({"--"})}) {
      EXPECT_EQ(finished.code, 2) << command;
      EXPECT_THAT(finished.err, StartsWith("tilewright " + command + ": ")) << command;
      EXPECT_THAT(finished.err, HasSubstr("--help"));
    }
    EXPECT_THAT(with({"--jsn"}).err, HasSubstr("did you mean --json?"));
  }
}

TEST(BadUsage, OfValues) {
  struct Case {
    Words words;
    std::string message;
  };
  const std::string p = "--problem";
  const std::vector<Case> cases = {
      {{"run"}, "--problem is missing"},
      {{"run", p}, "--problem needs a value"},
      {{"run", p, ""}, "--problem: the value is empty"},
      {{"run", p, "qk64 fp16"}, "needs q"},
      {{"run", p, "q64 fp16"}, "needs qk"},
      {{"run", p, "q8 qk64", "--repeat", "0"}, "--repeat: 0 is not in"},
      {{"run", p, "q8 qk64", "--repeat", "-1"}, "--repeat: -1 is not in"},
      {{"run", p, "q8 qk64", "--repeat", "nan"}, "--repeat: 'nan' is not an integer"},
      {{"run", p, "q8 qk64", "--repeat", "1e9"}, "--repeat: '1e9' is not an integer"},
      {{"run", p, "q8 qk64", "--repeat", "1000000000"}, "is not in [1, 1000000]"},
      {{"run", p, "q8 qk64", "--repeat", ""}, "--repeat: expected an integer, got nothing"},
      {{"run", p, "q8 qk64", "--repeat"}, "--repeat needs a value"},
      {{"run", p, "q8 qk64", "--seed", "-1"}, "--seed: '-1'"},
      {{"run", p, "q8 qk64", "--seed", "nan"}, "--seed: 'nan'"},
      {{"run", p, "q8 qk64", "--seed", "1e9"}, "--seed: '1e9'"},
      {{"run", p, "q8 qk64", "--seed="}, "--seed: expected"},
      {{"run", p, "q8 qk64", "--seed", "18446744073709551616"}, "does not fit"},
      {{"run", p, "q8 qk64", "--log", "loud"}, "--log: 'loud' is not one of debug"},
      {{"run", p, "q8 qk64", "--device", "emulated:gtx"}, "gtx"},
      {{"run", "--q", "a.npy"}, "--k is missing"},
      {{"run", "--q", "/none.npy", "--k", "/none.npy", "--v", "/none.npy"}, "/none.npy"},
      {{"compile"}, "--problem is missing"},
      {{"compile", p, "qk64", "--arch", "sm_99"}, "unknown target 'sm_99'"},
      {{"compile", p, "qk64", "--arch", ""}, "--arch: the value is empty"},
      {{"compile", p, "qk64", "--emit", "elf"}, "--emit: 'elf' is not one of cuda"},
      {{"compile", p, "qk64", "--arch", "sm_80", "--out", "x"}, "--out needs --emit"},
      {{"compile", p, "qk64", "--arch", "sm_80", "--config", "forward_sm80 tile_m"}, "tile_m"},
      {{"explain"}, "--problem is missing"},
      {{"explain", p, "qk64", "--arch", "80"}, "unknown target"},
      {{"cache"}, "expected one of list, stats, clear"},
      {{"cache", "prune"}, "'prune' is not one of list"},
      {{"cache", "list", "stats"}, "unexpected 'stats'"},
      {{"cache", "list"}, "no cache folder"},
      {{"cache", "list", "--cache-dir", ""}, "--cache-dir: the value is empty"},
  };
  for (const Case& c : cases) {
    const Finished finished = run_tilewright(c.words);
    EXPECT_EQ(finished.code, 2) << shell_command(c.words) << "\n" << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(c.message)) << shell_command(c.words);
    EXPECT_EQ(finished.out, "") << shell_command(c.words);
  }
}

TEST(BadProblem, PointsAtTheToken) {
  for (const char* command : {"run", "compile", "explain"}) {
    const Finished finished = run_tilewright({command, "--problem", "q12 qk64 casual"});
    EXPECT_EQ(finished.code, 2);
    EXPECT_THAT(finished.err, HasSubstr("did you mean 'causal'?\n"
                                        "  q12 qk64 casual\n"
                                        "           ^^^^^^\n"));
  }
}

TEST(BadProblem, ListsEveryReason) {
  for (const char* command : {"run", "compile", "explain"}) {
    const Finished finished = run_tilewright(
        {command, "--problem", "q8 qk64 hq3 hkv2 bf16 scales=head rotate", "--json"});
    EXPECT_EQ(finished.code, 2) << finished.err;
    EXPECT_THAT(finished.err, AllOf(HasSubstr("\n  hq3 is not a multiple of hkv2\n"),
                                    HasSubstr("\n  rotate needs an fp8 type\n")));
    const Json json = finished.json();
    const Json* error = json.find("error");
    ASSERT_NE(error, nullptr) << finished.out;
    EXPECT_EQ(*error->find("code")->as_string(), "invalid-argument");
    EXPECT_EQ(error->find("reasons")->as_array()->size(), 3u);
  }
}

TEST(UnsupportedProblem, ExitsWithThreeAndReasons) {
  const Finished finished = run_tilewright(
      {"explain", "--problem", "backward qk64 bf16 documents dropout=0.5", "--arch", "sm_80"});
  EXPECT_EQ(finished.code, 3) << finished.err;
  for (const char* word : {"backward", "documents", "dropout"}) {
    EXPECT_THAT(finished.err, HasSubstr(word));
  }
  EXPECT_THAT(finished.out, HasSubstr("candidates  0"));
}

TEST(Explain, ShowsEveryStep) {
  const ScratchFolder folder;
  const Words words = {"explain",       "--problem", "hq32 hkv8 qk128 v128 bf16 causal",
                       "--arch",        "sm_80",     "--cache-dir",
                       folder / "cache"};
  const Finished text = run_tilewright(words);
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* word : {"problem", "target", "candidates", "chosen", "source", "key", "cache"}) {
    EXPECT_THAT(text.out, HasSubstr(word));
  }
  EXPECT_THAT(text.out, HasSubstr("q4096 k4096"));
  EXPECT_THAT(text.out, Not(HasSubstr("\x1b")));

  Words with_json = words;
  with_json.push_back("--json");
  const Json json = run_tilewright(with_json).json();
  EXPECT_EQ(json.find("key")->as_string()->size(), 64u);
  EXPECT_GT(json.find("candidates")->as_array()->size(), 1u);
  EXPECT_THAT(*json.find("source")->as_string(), HasSubstr("tw_forward"));
  EXPECT_EQ(*json.find("cached")->as_bool(), false);
}

TEST(Devices, ListsTheEmulatedOnes) {
  const Finished finished = run_tilewright({"devices"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("emulated:h100"), HasSubstr("(emulated)")));
  const Json json = run_tilewright({"devices", "--json"}).json();
  int simulated = 0;
  for (const Json& device : *json.find("devices")->as_array()) {
    simulated += *device.find("simulated")->as_bool() ? 1 : 0;
  }
  EXPECT_EQ(simulated, 6);
}

TEST(Cache, OfAnEmptyFolder) {
  const ScratchFolder folder;
  EXPECT_EQ(run_tilewright({"cache", "list", "--cache-dir", folder.path()}).out, "");
  const Json stats =
      run_tilewright({"cache", "stats", "--json", "--cache-dir", folder / "none"}).json();
  EXPECT_EQ(*stats.find("entries")->as_int(), 0);
  const Finished cleared = run_tilewright({"cache", "clear", "--cache-dir", folder.path()});
  EXPECT_EQ(cleared.code, 0);
  EXPECT_THAT(cleared.out, HasSubstr("removed 0 entries"));
}

TEST(Output, AFullDiskIsNoticed) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const Finished finished = run_shell("sh -c 'tilewright devices >/dev/full'");
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.err, HasSubstr("standard output"));
}

TEST(Binary, IsSelfContained) {
  const Finished libraries = run_shell("ldd " + shell_quote(tilewright_path()));
  if (libraries.code != 0) GTEST_SKIP() << "no ldd";
  EXPECT_THAT(libraries.out, HasSubstr("libc.so"));
  for (const char* library : {"LLVM", "fmt", "tinfo", "libz", "stdc++", "cuda", "nvrtc"}) {
    EXPECT_THAT(libraries.out, Not(HasSubstr(library)));
  }
}

TEST(Binary, WorksCopiedAlone) {
  const ScratchFolder folder;
  std::filesystem::copy_file(tilewright_path(), folder / "tw");
  const Finished finished =
      run_shell("cd / && " + shell_quote(folder / "tw") +
                " explain --problem 'qk64 fp16' --arch sm_80 --source --cache-dir " +
                shell_quote(folder / "cache"));
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("#include"));
}

TEST(Explain, NeedsNoCompiler) {
  const Finished finished = run_tilewright(
      {"explain", "--problem", "qk64 fp16", "--arch", "sm_80", "--nvrtc", "/nonexistent/nvrtc"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("open: "));
  EXPECT_THAT(finished.out, HasSubstr("/nonexistent/nvrtc"));
}

}  // namespace
}  // namespace tilewright::testing
