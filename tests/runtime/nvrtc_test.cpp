// Finding NVRTC without loading it, and compiling with it.
#include "runtime/nvrtc.h"

#include <dlfcn.h>
#include <gmock/gmock.h>

#include "runtime/cache.h"
#include "runtime/elf.h"
#include "tests/runtime/runtime_test_support.h"

namespace tilewright::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Result<NvrtcLocation> find() { return find_nvrtc({.origin = origin_folder()}); }

bool nvrtc_in_process() {
  return read_text("/proc/self/maps").find("libnvrtc.so") != std::string::npos;
}

TEST(FindNvrtc, IdentifiesTheLibraryWithoutLoadingIt) {
  const Result<NvrtcLocation> location = find();
  ASSERT_TRUE(location.ok()) << location.error().to_string();
  EXPECT_GE(location->major, 12);
  EXPECT_THAT(location->identity, AllOf(StartsWith("build-id:"), Not("build-id:")));
  EXPECT_FALSE(nvrtc_in_process());
}

TEST(FindNvrtc, TakesTheGivenFileOrFolder) {
  const std::string path = find()->path;
  EXPECT_EQ(find_nvrtc({.path = path})->path, path);
  const std::string folder = std::filesystem::path(path).parent_path();
  EXPECT_EQ(find_nvrtc({.path = folder})->path, path);
}

TEST(FindNvrtc, GivenPathIsTheOnlyPlace) {
  const Result<NvrtcLocation> location = find_nvrtc({.path = "/nowhere/libnvrtc.so.13"});
  ASSERT_FALSE(location.ok());
  EXPECT_EQ(location.error().code, ErrorCode::kCompilerUnavailable);
  EXPECT_THAT(location.error().message,
              AllOf(HasSubstr("/nowhere/libnvrtc.so.13"), Not(HasSubstr("/usr/local/cuda"))));
  EXPECT_THAT(location.error().message, Not(HasSubstr("\n")));
}

TEST(FindNvrtc, FileThatIsNoNvrtcIsNamed) {
  const TemporaryFolder folder;
  write_text(folder / "libnvrtc.so.13", "not a library");
  const Result<NvrtcLocation> location = find_nvrtc({.path = folder / "libnvrtc.so.13"});
  ASSERT_FALSE(location.ok());
  EXPECT_THAT(location.error().message, HasSubstr("not a shared library"));
}

TEST(FindNvrtc, TooNewForTheDriverIsOneSentence) {
  const NvrtcLocation found = *find();
  const Result<NvrtcLocation> location =
      find_nvrtc({.path = found.path, .driver_major = found.major - 1});
  ASSERT_FALSE(location.ok());
  EXPECT_EQ(location.error().code, ErrorCode::kCompilerUnavailable);
  EXPECT_THAT(location.error().message,
              AllOf(HasSubstr("too new for this driver"), HasSubstr(found.path)));
  EXPECT_THAT(location.error().message, Not(HasSubstr("\n")));
  EXPECT_TRUE(find_nvrtc({.path = found.path, .driver_major = found.major}).ok());
}

TEST(FindNvrtc, WheelFoldersAreThoseAroundTheProgram) {
  const std::vector<std::string> folders = nvrtc_wheel_folders("/tree/build/release/cli");
  EXPECT_THAT(folders, Contains("/tree/build/release/cli/nvidia/cu13/lib"));
  EXPECT_THAT(folders, Contains("/tree/build/cuda/lib"));
  EXPECT_THAT(nvrtc_wheel_folders("/"), Contains("/nvidia/cu13/lib"));
}

TEST(Elf, TellsLibrariesProgramsAndOtherFilesApart) {
  const Result<ElfIdentity> program = read_elf_identity("/proc/self/exe");
  ASSERT_TRUE(program.ok());
  EXPECT_EQ(program->soname, "");
  EXPECT_EQ(read_elf_identity("/nowhere").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(read_elf_identity("/proc/self/cmdline").error().code, ErrorCode::kParseError);
}

class NvrtcTest : public ::testing::Test {
 protected:
  Nvrtc nvrtc_{*find()};
};

TEST_F(NvrtcTest, OneCompileGivesPtxCubinAndReport) {
  EXPECT_FALSE(nvrtc_.loaded());
  const Result<CompiledCode> code = nvrtc_.compile(small_request());
  ASSERT_TRUE(code.ok()) << code.error().to_string();
  EXPECT_TRUE(nvrtc_.loaded());
  EXPECT_THAT(code->ptx, AllOf(HasSubstr(".target sm_80"), HasSubstr(".entry tw_test")));
  EXPECT_EQ(code->cubin.substr(0, 4),
            "\x7f"
            "ELF");
  ASSERT_EQ(code->resources.size(), 1u);
  EXPECT_GT(code->resources[0].registers, 0);
  EXPECT_EQ(code->resources[0].spill_load_bytes, 0);
  EXPECT_EQ(code->resources[0].spill_store_bytes, 0);
  EXPECT_EQ(code->resources[0].static_shared_bytes, 0);
  EXPECT_EQ(code->compiler_version, "NVRTC " + *nvrtc_.version());
  EXPECT_GT(code->seconds, 0);
}

TEST_F(NvrtcTest, NothingOfThisMachineIsInTheCode) {
  const CompiledCode code = *nvrtc_.compile(small_request());
  EXPECT_THAT(code.ptx, HasSubstr("\"/tilewright/attention/test.cuh\""));
  EXPECT_THAT(code.ptx, HasSubstr("\"/tilewright/generated/test.cu\""));
  const std::string here = std::filesystem::current_path();
  EXPECT_EQ(code.ptx.find(here), std::string::npos);
  EXPECT_EQ(code.cubin.find(here), std::string::npos);
}

TEST_F(NvrtcTest, BrokenSourceShowsTheNumberedLine) {
  CompileRequest request = small_request();
  request.headers[0].text = "// line one\n// line two\ninline float f(float x) { return y; }\n";
  const Result<CompiledCode> code = nvrtc_.compile(request);
  ASSERT_FALSE(code.ok());
  EXPECT_EQ(code.error().code, ErrorCode::kCompileError);
  EXPECT_THAT(code.error().message,
              AllOf(HasSubstr("NVRTC " + *nvrtc_.version()), HasSubstr(nvrtc_.location().path),
                    HasSubstr("--gpu-architecture=sm_80 --std=c++20")));
  const std::string whole = code.error().to_string();
  EXPECT_THAT(whole, ContainsRegex(">[ ]+3 \\| inline float f"));
  EXPECT_THAT(whole, ContainsRegex(" [ ]+2 \\| // line two"));
  EXPECT_THAT(whole, HasSubstr("identifier \"y\" is undefined"));
}

TEST_F(NvrtcTest, UnknownTargetIsRefusedWithThoseKnown) {
  const Result<CompiledCode> code = nvrtc_.compile(small_request("sm_11"));
  ASSERT_FALSE(code.ok());
  EXPECT_THAT(code.error().message, AllOf(HasSubstr("sm_11"), HasSubstr(" 80,")));
  EXPECT_FALSE(nvrtc_.compile(small_request("rubbish")).ok());
}

TEST_F(NvrtcTest, DiskHitLoadsNoCompiler) {
  const TemporaryFolder folder;
  const std::string directory = folder / "cache";
  KernelCache first(directory, int64_t{1} << 30, nullptr);
  ASSERT_TRUE(first.get_or_compile(small_request(), nvrtc_).ok());
  Nvrtc fresh(*find());
  KernelCache second(directory, int64_t{1} << 30, nullptr);
  const Result<CacheResult> hit = second.get_or_compile(small_request(), fresh);
  ASSERT_TRUE(hit.ok());
  EXPECT_EQ(hit->origin, BinaryOrigin::kDisk);
  EXPECT_FALSE(fresh.loaded());
}

// The exit status of this very test in a process whose loader knows the default folders only, with
// NVRTC at `path`.
int compile_without_loader_paths(const std::string& path) {
  const std::string command = "env -u LD_LIBRARY_PATH TW_TEST_NVRTC=" + path +
                              " /lib64/ld-linux-x86-64.so.2 --inhibit-cache " +
                              std::filesystem::read_symlink("/proc/self/exe").string() +
                              " --gtest_filter=NvrtcAlone.FindsItsBuiltinsBesideIt >/dev/null 2>&1";
  return std::system(command.c_str());
}

// As a wheel that was unpacked somewhere: no folder of the loader holds either library.
TEST(NvrtcAlone, FindsItsBuiltinsBesideIt) {
  if (const char* path = std::getenv("TW_TEST_NVRTC"); path != nullptr) {
    Nvrtc nvrtc({.path = path, .major = 13, .identity = "alone"});
    const Result<CompiledCode> code = nvrtc.compile(small_request());
    ASSERT_TRUE(code.ok()) << code.error().to_string();
    return;
  }
  const Result<NvrtcLocation> found = find();
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  if (found->path.starts_with("/usr/lib") || found->path.starts_with("/lib")) {
    GTEST_SKIP() << found->path << " is in a default folder of the loader: always found";
  }
  if (!std::filesystem::exists("/lib64/ld-linux-x86-64.so.2")) {
    GTEST_SKIP() << "the loader of x86-64 is not here to be told to pass over its cache";
  }
  const TemporaryFolder folder;
  const std::string alone = folder / "libnvrtc.so";
  std::filesystem::create_symlink(found->path, alone);
  EXPECT_NE(compile_without_loader_paths(alone), 0);  // the built-ins are found nowhere
  const std::filesystem::path origin = std::filesystem::path(found->path).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(origin)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("libnvrtc-builtins.so")) continue;
    std::filesystem::create_symlink(entry.path(), folder / name);
  }
  EXPECT_EQ(compile_without_loader_paths(alone), 0);
}

TEST(PtxasReport, ReadsTheEntryAskedFor) {
  constexpr std::string_view kLog =
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'other' for 'sm_80'\n"
      "ptxas info    : Function properties for other\n"
      "ptxas         .     8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads\n"
      "ptxas info    : Used 12 registers, used 1 barriers, 256 bytes smem, 360 bytes cmem[0]\n"
      "ptxas info    : Compiling entry function 'mine' for 'sm_80'\n"
      "ptxas info    : Function properties for mine\n"
      "ptxas         .     0 bytes stack frame, 4 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 254 registers, used 0 barriers, 360 bytes cmem[0]\n";
  const KernelResources other = parse_ptxas_report(kLog, "other");
  EXPECT_EQ(other.registers, 12);
  EXPECT_EQ(other.barriers, 1);
  EXPECT_EQ(other.static_shared_bytes, 256);
  EXPECT_EQ(other.stack_bytes, 8);
  EXPECT_EQ(other.spill_store_bytes, 16);
  EXPECT_EQ(other.spill_load_bytes, 24);
  const KernelResources mine = parse_ptxas_report(kLog, "mine");
  EXPECT_EQ(mine.registers, 254);
  EXPECT_EQ(mine.static_shared_bytes, 0);
  EXPECT_EQ(mine.spill_store_bytes, 4);
  EXPECT_EQ(parse_ptxas_report(kLog, "absent").registers, -1);
  EXPECT_EQ(parse_ptxas_report("", "mine").spill_load_bytes, -1);
}

}  // namespace
}  // namespace tilewright::testing
