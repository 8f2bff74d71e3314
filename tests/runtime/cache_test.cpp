// The kernel cache over a compiler that only counts.
#include "runtime/cache.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>

#include <csignal>
#include <optional>

#include "core/file_lock.h"
#include "runtime/cache_entry.h"
#include "runtime/cache_folder.h"
#include "tests/runtime/runtime_test_support.h"

namespace tilewright::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int64_t kLarge = int64_t{1} << 30;

// A kernel of its own for each number.
CompileRequest numbered_request(int number) {
  CompileRequest request = small_request();
  request.source.text += "// " + std::to_string(number) + "\n";
  return request;
}

void set_use_stamp(const std::string& path, time_t seconds) {
  const timeval times[2] = {{seconds, 0}, {seconds, 0}};
  ASSERT_EQ(utimes(path.c_str(), times), 0);
}

std::string path_of(const std::string& directory, const CacheResult& result) {
  return directory + "/" + result.binary->key + ".twk";
}

class CacheTest : public ::testing::Test {
 protected:
  // For the test that mounts there; nothing is mounted otherwise.
  ~CacheTest() override { umount2(directory().c_str(), MNT_DETACH); }

  std::string directory() const { return folder_ / "cache"; }

  CacheResult get(KernelCache& cache, const CompileRequest& request = small_request()) {
    Result<CacheResult> result = cache.get_or_compile(request, compiler_);
    EXPECT_TRUE(result.ok()) << result.error().to_string();
    return result.ok() ? *result : CacheResult{};
  }
  // In a cache object of its own, as another process would.
  CacheResult get_afresh(const CompileRequest& request = small_request()) {
    KernelCache cache(directory(), kLarge, log_.function());
    return get(cache, request);
  }
  std::string only_entry() const {
    const std::vector<std::string> entries = files_with_ending(directory(), ".twk");
    EXPECT_THAT(entries, SizeIs(1));
    return entries.empty() ? std::string() : entries.front();
  }

  TemporaryFolder folder_;
  CountingCompiler compiler_;
  LogKeeper log_;
};

TEST_F(CacheTest, CompilesOnceThenHitsMemoryThenDisk) {
  KernelCache cache(directory(), kLarge, log_.function());
  EXPECT_EQ(get(cache).origin, BinaryOrigin::kCompiled);
  EXPECT_EQ(get(cache).origin, BinaryOrigin::kMemory);
  EXPECT_EQ(get_afresh().origin, BinaryOrigin::kDisk);
  EXPECT_EQ(compiler_.compiles, 1);
  EXPECT_EQ(cache.counters().misses, 1);
  EXPECT_EQ(cache.counters().compiled, 1);
  EXPECT_EQ(cache.counters().memory_hits, 1);
  EXPECT_THAT(log_.at(LogLevel::kWarning), IsEmpty());
}

TEST_F(CacheTest, EntryKeepsEveryField) {
  const BinaryPtr compiled = get_afresh().binary;
  const BinaryPtr read = get_afresh().binary;
  EXPECT_EQ(read->key, compiled->key);
  EXPECT_EQ(read->family, "test");
  EXPECT_EQ(read->target, "sm_80");
  EXPECT_EQ(read->entry_names, compiled->entry_names);
  EXPECT_EQ(read->source, compiled->source);
  EXPECT_EQ(read->code.ptx, compiled->code.ptx);
  EXPECT_EQ(read->code.cubin, compiled->code.cubin);
  EXPECT_EQ(read->code.log, "log");
  EXPECT_EQ(read->code.compiler_version, "test 1.0");
  EXPECT_EQ(read->code.seconds, 0.25);
  ASSERT_EQ(read->code.resources.size(), 1u);
  EXPECT_EQ(read->code.resources[0].registers, 42);
  EXPECT_EQ(read->code.resources[0].barriers, -1);
  EXPECT_EQ(read->code.resources[0].spill_load_bytes, 8);
  EXPECT_EQ(read->code.resources[0].stack_bytes, -1);
}

TEST_F(CacheTest, EntryKeepsEveryKernel) {
  CompileRequest request = small_request();
  request.source.entry_names = {"tw_first", "tw_second"};
  CountingCompiler compiler;
  for (const BinaryOrigin origin : {BinaryOrigin::kCompiled, BinaryOrigin::kDisk}) {
    KernelCache cache(directory(), kLarge, log_.function());
    const auto result = cache.get_or_compile(request, compiler);
    ASSERT_TRUE(result.ok()) << result.error().to_string();
    EXPECT_EQ(result->origin, origin);
    EXPECT_EQ(result->binary->entry_names, request.source.entry_names);
    ASSERT_EQ(result->binary->code.resources.size(), 2u);
    EXPECT_EQ(result->binary->code.resources[1].registers, 43);
  }
}

TEST_F(CacheTest, LeavesNothingButTheEntry) {
  get_afresh();
  EXPECT_THAT(files_with_ending(directory(), ""), SizeIs(1));
  struct stat info {};
  ASSERT_EQ(stat(directory().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(stat(only_entry().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(CacheTest, FailedCompileIsNotKept) {
  KernelCache cache(directory(), kLarge, log_.function());
  compiler_.fail = true;
  EXPECT_EQ(cache.get_or_compile(small_request(), compiler_).error().code,
            ErrorCode::kCompileError);
  EXPECT_THAT(files_with_ending(directory(), ""), IsEmpty());
  compiler_.fail = false;
  EXPECT_EQ(get(cache).origin, BinaryOrigin::kCompiled);
}

// Every byte of the entry is guarded: cut anywhere, or with any one byte changed, it is rebuilt.
TEST_F(CacheTest, DamagedEntryIsRebuiltWithOneWarning) {
  get_afresh();
  const std::string good = read_text(only_entry());
  std::vector<std::string> damaged = {"",
                                      "x",
                                      good.substr(0, 20),
                                      good.substr(0, good.size() / 2),
                                      good.substr(0, good.size() - 1),
                                      good + "x"};
  for (size_t at = 0; at < good.size(); at += 7) {
    damaged.push_back(good);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 0x20);
  }
  for (const std::string& bytes : damaged) {
    write_text(only_entry(), bytes);
    const size_t warnings = log_.at(LogLevel::kWarning).size();
    const int compiles = compiler_.compiles;
    KernelCache cache(directory(), kLarge, log_.function());
    EXPECT_EQ(get(cache).origin, BinaryOrigin::kCompiled);
    EXPECT_EQ(cache.counters().rebuilt, 1);
    EXPECT_EQ(compiler_.compiles, compiles + 1);
    EXPECT_EQ(log_.at(LogLevel::kWarning).size(), warnings + 1);
    EXPECT_EQ(read_text(only_entry()), good);
  }
  EXPECT_THAT(log_.at(LogLevel::kWarning).front(), HasSubstr("damaged"));
}

TEST_F(CacheTest, EntryUnderAnotherKeyIsDamage) {
  get_afresh(numbered_request(1));
  const std::string first = only_entry();
  get_afresh(numbered_request(2));
  for (const std::string& path : files_with_ending(directory(), ".twk")) {
    if (path != first) write_text(path, read_text(first));
  }
  const CacheResult result = get_afresh(numbered_request(2));
  EXPECT_EQ(result.origin, BinaryOrigin::kCompiled);
  EXPECT_EQ(result.binary->source, numbered_request(2).source.text);
}

// Whatever bears an entry's name: it is neither waited for nor written into.
TEST_F(CacheTest, EntryThatIsNoFileIsRebuilt) {
  get_afresh();
  const std::string path = only_entry();
  const auto in_place = [&](const char* kind, auto&& make) {
    SCOPED_TRACE(kind);
    std::filesystem::remove(path);
    ASSERT_EQ(make(), 0);
    const size_t warnings = log_.at(LogLevel::kWarning).size();
    // In a child, so that one that waits for ever is ended.
    const int status = in_child([&] {
      alarm(20);
      const Result<std::vector<CacheEntryInfo>> entries = list_cache(directory());
      if (!entries.ok() || entries->size() != 1) return 1;
      if (entries->front().damage != "it is not a regular file") return 2;
      const CacheResult result = get_afresh();
      if (result.origin != BinaryOrigin::kCompiled) return 3;
      return log_.at(LogLevel::kWarning).size() == warnings + 1 ? 0 : 4;
    });
    EXPECT_EQ(status, 0);
    EXPECT_EQ(get_afresh().origin, BinaryOrigin::kDisk);
  };
  in_place("pipe", [&] { return mkfifo(path.c_str(), 0600); });
  in_place("socket", [&] { return mknod(path.c_str(), S_IFSOCK | 0600, 0); });
  in_place("folder", [&] { return mkdir(path.c_str(), 0700); });
}

TEST_F(CacheTest, PipeOthersMayWriteIsReplaced) {
  get_afresh();
  const std::string path = only_entry();
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  EXPECT_EQ(in_child([&] {
              alarm(20);
              return get_afresh().origin == BinaryOrigin::kCompiled ? 0 : 1;
            }),
            0);
  EXPECT_EQ(get_afresh().origin, BinaryOrigin::kDisk);
}

TEST_F(CacheTest, FullFolderInPlaceOfAnEntryIsNamed) {
  get_afresh(numbered_request(1));
  const std::string path = path_of(directory(), get_afresh());
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  write_text(path + "/notes.txt", "not ours");
  for (size_t runs = 1; runs <= 2; ++runs) {
    EXPECT_EQ(get_afresh().origin, BinaryOrigin::kCompiled);
    ASSERT_THAT(log_.at(LogLevel::kWarning), SizeIs(runs));
  }
  EXPECT_THAT(log_.at(LogLevel::kWarning).front(), HasSubstr(path));
  const Result<int64_t> removed = clear_cache(directory());
  ASSERT_FALSE(removed.ok());
  EXPECT_THAT(removed.error().message, HasSubstr(path));
  EXPECT_THAT(files_with_ending(directory(), ".twk"), SizeIs(1));  // the other entry is gone
  std::filesystem::remove(path + "/notes.txt");
  EXPECT_EQ(*clear_cache(directory()), 1);
}

TEST_F(CacheTest, OversizedEntryIsDamageAndNotRead) {
  get_afresh();
  std::filesystem::resize_file(only_entry(), uintmax_t{3} << 30);
  const Result<std::vector<CacheEntryInfo>> entries = list_cache(directory());
  ASSERT_TRUE(entries.ok());
  ASSERT_THAT(*entries, SizeIs(1));
  EXPECT_THAT(entries->front().damage, HasSubstr("larger than"));
  EXPECT_EQ(get_afresh().origin, BinaryOrigin::kCompiled);
  EXPECT_THAT(log_.at(LogLevel::kWarning), SizeIs(1));
  EXPECT_EQ(get_afresh().origin, BinaryOrigin::kDisk);
}

TEST_F(CacheTest, EntryOfAnotherFormatIsAPlainMiss) {
  get_afresh();
  std::string bytes = read_text(only_entry());
  bytes[8] = static_cast<char>(kCacheFormat + 6);  // the format follows the magic
  write_text(only_entry(), bytes);
  EXPECT_EQ(list_cache(directory())->at(0).damage,
            fmt::format("stale (format {}, this is {})", kCacheFormat + 6, kCacheFormat));
  KernelCache cache(directory(), kLarge, log_.function());
  EXPECT_EQ(get(cache).origin, BinaryOrigin::kCompiled);
  EXPECT_EQ(cache.counters().rebuilt, 0);
  EXPECT_THAT(log_.at(LogLevel::kWarning), IsEmpty());
  EXPECT_EQ(get_afresh().origin, BinaryOrigin::kDisk);
}

TEST_F(CacheTest, KeyCoversWhatDecidesTheCodeAndNothingElse) {
  const auto key = [](auto&& edit) {
    CompileRequest request = small_request();
    edit(request);
    return cache_key(request, "compiler");
  };
  const std::string base = key([](CompileRequest&) {});
  EXPECT_THAT(base, SizeIs(64));
  EXPECT_NE(key([](CompileRequest& r) { r.headers[0].text += " "; }), base);
  EXPECT_NE(key([](CompileRequest& r) { r.headers[0].name += "x"; }), base);
  EXPECT_NE(key([](CompileRequest& r) { r.headers.push_back({"b.cuh", ""}); }), base);
  EXPECT_NE(key([](CompileRequest& r) { r.source.text += " "; }), base);
  EXPECT_NE(key([](CompileRequest& r) { r.target = "sm_90"; }), base);
  EXPECT_NE(key([](CompileRequest& r) { r.options.push_back("-G"); }), base);
  EXPECT_NE(key([](CompileRequest& r) { r.options.pop_back(); }), base);
  EXPECT_NE(cache_key(small_request(), "other compiler"), base);
  EXPECT_EQ(cache_key(small_request(), "compiler"), base);
}

TEST_F(CacheTest, EditedHeaderIsAnotherKernel) {
  get_afresh();
  CompileRequest edited = small_request();
  edited.headers[0].text += "// edited\n";
  EXPECT_EQ(get_afresh(edited).origin, BinaryOrigin::kCompiled);
  EXPECT_EQ(get_afresh().origin, BinaryOrigin::kDisk);  // edited back: the old entry is still good
}

TEST_F(CacheTest, ThreadsCompileEachKeyOnce) {
  KernelCache cache(directory(), kLarge, log_.function());
  constexpr int kKeys = 8, kThreads = 64;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      const CompileRequest request = numbered_request(i % kKeys);
      const Result<CacheResult> result = cache.get_or_compile(request, compiler_);
      if (!result.ok() || result->binary->source != request.source.text) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(compiler_.compiles, kKeys);
  EXPECT_EQ(cache.counters().memory_hits, kThreads - kKeys);
}

// Separate cache objects know nothing of each other, like processes.
TEST_F(CacheTest, TwoProcessesCompileOnce) {
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      CountingCompiler compiler("test compiler", std::chrono::milliseconds(100));
      KernelCache cache(directory(), kLarge, nullptr);
      const Result<CacheResult> result = cache.get_or_compile(small_request(), compiler);
      _exit(!result.ok() ? 100 : compiler.compiles.load());
    }
    children.push_back(child);
  }
  int compiles = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status));
    compiles += WEXITSTATUS(status);
  }
  EXPECT_EQ(compiles, 1);
  EXPECT_THAT(files_with_ending(directory(), ""), SizeIs(1));
}

TEST_F(CacheTest, LongWaitIsReported) {
  const std::string key = cache_key(small_request(), compiler_.identity());
  std::filesystem::create_directory(directory());
  std::filesystem::permissions(directory(), std::filesystem::perms::owner_all);
  Result<FileLock> held = FileLock::acquire(directory() + "/" + key + ".lock");
  ASSERT_TRUE(held.ok());
  std::optional<FileLock> lock(*std::move(held));
  std::thread waiter([&] { get_afresh(); });
  for (int i = 0; i < 80 && log_.at(LogLevel::kWarning).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  lock.reset();
  waiter.join();
  // Visible where nothing was asked for: the caller would think that it hangs.
  const std::vector<std::string> warnings = log_.at(LogLevel::kWarning);
  ASSERT_THAT(warnings, SizeIs(1));
  EXPECT_THAT(warnings.front(), HasSubstr("process " + std::to_string(getpid())));
  EXPECT_THAT(warnings.front(), HasSubstr(key.substr(0, 12)));
  EXPECT_THAT(warnings.front(), HasSubstr("waiting 3 s"));
}

// Neither a lock that its dead owner left behind nor one held at fork() stops anyone.
TEST_F(CacheTest, DeadOwnerHoldsNoLock) {
  const std::string key = cache_key(small_request(), compiler_.identity());
  std::filesystem::create_directory(directory());
  std::filesystem::permissions(directory(), std::filesystem::perms::owner_all);
  const std::string path = directory() + "/" + key + ".lock";
  EXPECT_EQ(in_child([&] { return FileLock::acquire(path).ok() ? 0 : 1; }), 0);
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_EQ(get_afresh().origin, BinaryOrigin::kCompiled);
}

TEST_F(CacheTest, ChildForkedUnderTheLockDoesNotKeepIt) {
  const std::string path = folder_ / "lock";
  std::optional<FileLock> lock(*FileLock::acquire(path));
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  lock.reset();
  const Result<std::optional<FileLock>> again = FileLock::try_acquire(path);
  EXPECT_TRUE(again.ok() && again->has_value());
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// Permissions mean nothing to root, so these run as another user where possible.
int as_plain_user(const std::string& folder, const std::function<int()>& body) {
  constexpr uid_t kNobody = 65534;
  if (geteuid() != 0) return in_child(body);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (chown(entry.path().c_str(), kNobody, kNobody) != 0) return 90;
  }
  if (chown(folder.c_str(), kNobody, kNobody) != 0) return 91;
  return in_child([&] { return setresuid(kNobody, kNobody, kNobody) != 0 ? 92 : body(); });
}

TEST_F(CacheTest, ReadOnlyFolderStillHits) {
  get_afresh();
  std::filesystem::permissions(
      directory(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  const int status = as_plain_user(folder_.path(), [&] {
    KernelCache cache(directory(), kLarge, log_.function());
    const auto hit = cache.get_or_compile(small_request(), compiler_);
    if (!hit.ok() || hit->origin != BinaryOrigin::kDisk) return 1;
    if (!log_.at(LogLevel::kWarning).empty()) return 2;
    // Two misses: compiled, one warning.
    for (int i = 1; i <= 2; ++i) {
      const auto miss = cache.get_or_compile(numbered_request(i), compiler_);
      if (!miss.ok() || miss->origin != BinaryOrigin::kCompiled) return 3;
    }
    return log_.at(LogLevel::kWarning).size() == 1 ? 0 : 4;
  });
  EXPECT_EQ(status, 0);
  std::filesystem::permissions(directory(), std::filesystem::perms::owner_all);
}

TEST_F(CacheTest, UnusableFolderCostsOneWarning) {
  write_text(folder_ / "file", "in the way");
  for (const std::string& directory : {folder_ / "file/cache", std::string("/proc/nowhere")}) {
    LogKeeper log;
    KernelCache cache(directory, kLarge, log.function());
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(get(cache, numbered_request(i)).origin, BinaryOrigin::kCompiled);
    }
    EXPECT_EQ(get(cache, numbered_request(0)).origin, BinaryOrigin::kMemory);
    EXPECT_THAT(log.at(LogLevel::kWarning), SizeIs(1));
  }
}

// Exit status 0 if a kernel is served although its entry cannot be written whole, and no part of
// the entry stays.
int serve_without_room(const std::string& directory, int64_t other_files) {
  LogKeeper log;
  CountingCompiler compiler;
  KernelCache cache(directory, kLarge, log.function());
  const auto result = cache.get_or_compile(small_request(), compiler);
  if (!result.ok() || result->origin != BinaryOrigin::kCompiled) return 1;
  if (log.at(LogLevel::kWarning).size() != 1) return 2;
  return std::ssize(files_with_ending(directory, "")) == other_files ? 0 : 3;
}

TEST_F(CacheTest, FailedWriteLeavesNoPart) {
  const int status = in_child([&] {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100, 100};
    setrlimit(RLIMIT_FSIZE, &limit);
    return serve_without_room(directory(), 0);
  });
  EXPECT_EQ(status, 0);
}

TEST_F(CacheTest, FullFileSystemEvictsOrGoesOn) {
  std::filesystem::create_directory(directory());
  if (mount("tilewright", directory().c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) {
    GTEST_SKIP() << "this user may not mount a small file system";
  }
  // Old entries make way…
  CompileRequest large = numbered_request(0);
  large.source.text.append(12000, ' ');
  const std::string old = path_of(directory(), get_afresh(large));
  set_use_stamp(old, 1000);
  write_text(directory() + "/filler", std::string(1 << 16, 'x'));
  const std::string fresh = path_of(directory(), get_afresh(numbered_request(1)));
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(fresh));
  EXPECT_THAT(log_.at(LogLevel::kWarning), IsEmpty());
  // …and where there are none the kernel is served all the same.
  clear_cache(directory()).ok();
  write_text(directory() + "/filler2", std::string(1 << 16, 'x'));
  EXPECT_EQ(serve_without_room(directory(), 2), 0);
}

TEST_F(CacheTest, FolderOthersMayWriteIsNotTrusted) {
  get_afresh();
  std::filesystem::permissions(directory(), std::filesystem::perms::all);
  EXPECT_EQ(get_afresh().origin, BinaryOrigin::kCompiled);
  ASSERT_THAT(log_.at(LogLevel::kWarning), SizeIs(1));
  EXPECT_THAT(log_.at(LogLevel::kWarning).front(), HasSubstr("not trusted"));
  std::filesystem::permissions(directory(), std::filesystem::perms::owner_all);
  EXPECT_EQ(get_afresh().origin, BinaryOrigin::kDisk);
}

TEST_F(CacheTest, EntryOfAnotherUserIsNotTrusted) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  get_afresh();
  ASSERT_EQ(chown(only_entry().c_str(), 1234, 1234), 0);
  EXPECT_EQ(get_afresh().origin, BinaryOrigin::kCompiled);
  ASSERT_THAT(log_.at(LogLevel::kWarning), SizeIs(1));
  EXPECT_THAT(log_.at(LogLevel::kWarning).front(), HasSubstr("1234"));
}

TEST_F(CacheTest, PruningRemovesTheLeastRecentlyUsed) {
  std::vector<std::string> paths;
  for (int i = 0; i < 4; ++i) {
    paths.push_back(path_of(directory(), get_afresh(numbered_request(i))));
    set_use_stamp(paths.back(), 1000 + i);
  }
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(paths[0]));
  get_afresh(numbered_request(0));  // used again: now the newest
  write_text(directory() + "/notes.txt", "not ours");
  const Result<int64_t> removed = prune_cache(directory(), 2 * bytes + 10);
  ASSERT_TRUE(removed.ok());
  EXPECT_EQ(*removed, 2);
  EXPECT_TRUE(std::filesystem::exists(paths[0]));
  EXPECT_FALSE(std::filesystem::exists(paths[1]));
  EXPECT_FALSE(std::filesystem::exists(paths[2]));
  EXPECT_TRUE(std::filesystem::exists(paths[3]));
  EXPECT_TRUE(std::filesystem::exists(directory() + "/notes.txt"));
}

TEST_F(CacheTest, WritingKeepsTheFolderUnderItsCap) {
  const std::string first = path_of(directory(), get_afresh(numbered_request(0)));
  set_use_stamp(first, 1000);
  const auto bytes = static_cast<int64_t>(std::filesystem::file_size(first));
  KernelCache cache(directory(), bytes + bytes / 2, nullptr);
  EXPECT_TRUE(std::filesystem::exists(path_of(directory(), get(cache, numbered_request(1)))));
  EXPECT_FALSE(std::filesystem::exists(first));
}

TEST_F(CacheTest, SweepsOldTemporariesOnly) {
  const std::string key = get_afresh().binary->key;
  const std::string old = directory() + "/" + key + ".twk.aaaa.tmp";
  const std::string fresh = directory() + "/" + key + ".twk.bbbb.tmp";
  write_text(old, "x");
  write_text(fresh, "x");
  set_use_stamp(old, 1000);
  ASSERT_TRUE(prune_cache(directory(), kLarge).ok());
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_TRUE(std::filesystem::exists(fresh));
}

TEST_F(CacheTest, ListsAndClears) {
  EXPECT_THAT(*list_cache(folder_ / "absent"), IsEmpty());
  get_afresh(numbered_request(0));
  const std::string broken = path_of(directory(), get_afresh(numbered_request(1)));
  set_use_stamp(broken, 1000);
  std::string bytes = read_text(broken);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_text(broken, bytes);
  set_use_stamp(broken, 1000);
  write_text(directory() + "/notes.txt", "not ours");

  const Result<std::vector<CacheEntryInfo>> entries = list_cache(directory());
  ASSERT_TRUE(entries.ok());
  ASSERT_THAT(*entries, SizeIs(2));
  EXPECT_EQ(entries->at(0).title, "a test kernel");
  EXPECT_EQ(entries->at(0).damage, "");
  EXPECT_THAT(entries->at(1).damage, HasSubstr("checksum"));

  EXPECT_EQ(*clear_cache(directory()), 2);
  EXPECT_THAT(files_with_ending(directory(), ""), SizeIs(1));
}

TEST_F(CacheTest, EmptyDirectoryNameMeansMemoryOnly) {
  KernelCache cache("", kLarge, log_.function());
  EXPECT_EQ(get(cache).origin, BinaryOrigin::kCompiled);
  EXPECT_EQ(get(cache).origin, BinaryOrigin::kMemory);
  EXPECT_THAT(log_.at(LogLevel::kWarning), IsEmpty());
}

}  // namespace
}  // namespace tilewright::testing
