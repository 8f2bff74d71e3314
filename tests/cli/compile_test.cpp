// `compile`, and the cache it fills: needs NVRTC, no device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/files.h"
#include "tests/cli/process.h"
#include "tests/core/scratch_folder.h"

namespace tilewright::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

Finished compile(const std::string& cache, const Words& more) {
  Words words = {"compile",     "--problem", "hq32 hkv8 qk128 v128 bf16 causal", "--arch", "sm_80",
                 "--cache-dir", cache};
  words.insert(words.end(), more.begin(), more.end());
  return run_tilewright(words);
}

TEST(Compile, ReportsWhatTheKernelTakes) {
  const ScratchFolder folder;
  const Finished first = compile(folder / "cache", {"--json"});
  ASSERT_EQ(first.code, 0) << first.err;
  const Json json = first.json();
  EXPECT_EQ(*json.find("target")->as_string(), "sm_80");
  ASSERT_EQ(json.find("entries")->as_array()->size(), 1u);
  const Json& entry = json.find("entries")->as_array()->front();
  EXPECT_EQ(*entry.find("name")->as_string(), "tw_forward");
  EXPECT_GT(*entry.find("registers")->as_int(), 31);
  EXPECT_EQ(*entry.find("spill_store_bytes")->as_int(), 0);
  EXPECT_EQ(*entry.find("spill_load_bytes")->as_int(), 0);
  EXPECT_GT(*entry.find("dynamic_shared_bytes")->as_int(), 0);
  EXPECT_GT(json.find("compile_seconds")->as_double(), 0);
  EXPECT_EQ(*json.find("origin")->as_string(), "compiled");

  const Finished second = compile(folder / "cache", {});
  EXPECT_EQ(second.code, 0);
  EXPECT_THAT(second.out, HasSubstr("0 compiles"));

  const Finished list = run_tilewright({"cache", "list", "--cache-dir", folder / "cache"});
  EXPECT_THAT(list.out, HasSubstr(json.find("key")->as_string()->substr(0, 12)));
  const Words stats = {"cache", "stats", "--json", "--cache-dir", folder / "cache"};
  EXPECT_EQ(*run_tilewright(stats).json().find("entries")->as_int(), 1);
  EXPECT_THAT(run_tilewright({"cache", "clear", "--cache-dir", folder / "cache"}).out,
              HasSubstr("removed 1 entry"));
  EXPECT_EQ(*run_tilewright(stats).json().find("entries")->as_int(), 0);
}

TEST(Compile, EmitsArtifacts) {
  const ScratchFolder folder;
  const std::string cache = folder / "cache";
  EXPECT_THAT(compile(cache, {"--emit", "ptx"}).out, HasSubstr(".target sm_80"));
  EXPECT_THAT(compile(cache, {"--emit", "cuda"}).out, HasSubstr("tw_forward"));
  EXPECT_EQ(compile(cache, {"--emit", "log"}).code, 0);
  EXPECT_THAT(compile(cache, {"--emit", "cubin"}).out, StartsWith("\x7f"
                                                                  "ELF"));
  const Finished written = compile(cache, {"--emit", "cubin", "--out", folder / "k.cubin"});
  EXPECT_EQ(written.code, 0) << written.err;
  EXPECT_THAT(*read_file(folder / "k.cubin"), StartsWith("\x7f"
                                                         "ELF"));
  const Finished lost = compile(cache, {"--emit", "ptx", "--out", folder / "no/folder/k.ptx"});
  EXPECT_EQ(lost.code, 2);
  EXPECT_THAT(lost.err, HasSubstr("no/folder"));
}

TEST(Compile, JsonCarriesTheArtifact) {
  const ScratchFolder folder;
  const std::string cache = folder / "cache";
  const Finished ptx = compile(cache, {"--emit", "ptx", "--json"});
  ASSERT_EQ(ptx.code, 0) << ptx.err;
  EXPECT_THAT(*ptx.json().find("ptx")->as_string(), HasSubstr(".target sm_80"));
  EXPECT_EQ(ptx.json().find("key")->as_string()->size(), 64u);
  const Finished cuda = compile(cache, {"--emit", "cuda", "--json"});
  EXPECT_THAT(*cuda.json().find("cuda")->as_string(), HasSubstr("tw_forward"));
  const Finished file = compile(cache, {"--emit", "cubin", "--json", "--out", folder / "k.cubin"});
  EXPECT_EQ(*file.json().find("out")->as_string(), folder / "k.cubin");
  EXPECT_EQ(file.json().find("cubin"), nullptr);
  const Finished bytes = compile(cache, {"--emit", "cubin", "--json"});
  EXPECT_EQ(bytes.code, 2);
  EXPECT_THAT(bytes.err, HasSubstr("name a file with --out"));
}

TEST(Compile, AFolderWithoutTemplatesIsNamed) {
  const ScratchFolder folder;
  const Finished none = compile(folder / "cache", {"--templates", folder / "none"});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err,
              HasSubstr("there is no folder '" + (folder / "none") + "' to read templates from"));
  const Finished empty = compile(folder / "cache", {"--templates", folder.path()});
  EXPECT_EQ(empty.code, 2);
  EXPECT_THAT(empty.err, HasSubstr("no template 'attention/forward_sm80.cuh'"));
  EXPECT_THAT(empty.err, HasSubstr("in the folder '" + folder.path() + "'"));
}

TEST(Compile, TakesAGivenConfig) {
  const ScratchFolder folder;
  const Finished explained = run_tilewright(
      {"explain", "--problem", "hq32 hkv8 qk128 v128 bf16 causal", "--arch", "sm_80", "--json"});
  const Json::Array* candidates = explained.json().find("candidates") == nullptr
                                      ? nullptr
                                      : explained.json().find("candidates")->as_array();
  ASSERT_NE(candidates, nullptr);
  const Json json = explained.json();
  const std::string config = *json.find("candidates")->as_array()->back().as_string();
  const Finished given = compile(folder / "cache", {"--config", config, "--json"});
  ASSERT_EQ(given.code, 0) << given.err;
  EXPECT_EQ(*given.json().find("config")->as_string(), config);
  EXPECT_EQ(compile(folder / "cache", {"--config", "forward_sm80 tile_m=17"}).code, 3);
}

TEST(Compile, WithoutACompiler) {
  const ScratchFolder folder;
  const Finished finished =
      compile(folder / "cache", {"--nvrtc", folder / "libnvrtc.so", "--json"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_THAT(finished.err, HasSubstr(folder / "libnvrtc.so"));
  EXPECT_EQ(*finished.json().find("error")->find("code")->as_string(), "compiler-unavailable");
  const Finished doctor = run_tilewright(
      {"doctor", "--nvrtc", folder / "libnvrtc.so", "--cache-dir", folder / "cache"});
  EXPECT_EQ(doctor.code, 1);
  EXPECT_THAT(doctor.out, HasSubstr("NVRTC"));
  EXPECT_THAT(doctor.out, HasSubstr("->"));
}

TEST(Compile, AnUnusableCacheFolderCostsOneWarning) {
  const ScratchFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "file", "").ok());
  const Finished finished = compile(folder / "file/cache", {"--json"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("warning: "));
  EXPECT_EQ(finished.err.find("warning: "), finished.err.rfind("warning: "));
  EXPECT_EQ(*finished.json().find("origin")->as_string(), "compiled");
  const Finished doctor = run_tilewright({"doctor", "--cache-dir", folder / "file/cache"});
  EXPECT_EQ(doctor.code, 1);
  EXPECT_THAT(doctor.out, HasSubstr("--cache-dir"));
}

TEST(Doctor, FindsEverything) {
  const ScratchFolder folder;
  const Finished finished =
      run_tilewright({"doctor", "--json", "--cache-dir", folder / "a/b/cache"});
  EXPECT_EQ(finished.code, 0) << finished.out;
  const Json json = finished.json();
  EXPECT_TRUE(*json.find("ok")->as_bool());
  std::string subjects;
  for (const Json& finding : *json.find("findings")->as_array()) {
    subjects += *finding.find("subject")->as_string() + " ";
  }
  for (const char* subject : {"driver", "emulator", "NVRTC", "compile", "headers", "cache"}) {
    EXPECT_THAT(subjects, HasSubstr(subject));
  }
}

}  // namespace
}  // namespace tilewright::testing
