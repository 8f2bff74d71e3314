#include "core/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

#include "core/threads.h"
#include "tests/core/scratch_folder.h"

namespace tilewright {
namespace {

TEST(FileLock, ExcludesAnotherProcess) {
  const ScratchFolder folder;
  const std::string path = folder / "lock";
  std::array<int, 2> ready{}, leave{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  ASSERT_EQ(::pipe(leave.data()), 0);
  const pid_t child = ::fork();
  char byte = 'x';
  if (child == 0) {
    const Result<FileLock> lock = FileLock::acquire(path);
    if (!lock.ok() || ::write(ready[1], &byte, 1) != 1) ::_exit(1);
    ::_exit(::read(leave[0], &byte, 1) == 1 ? 0 : 1);
  }
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  const Result<std::optional<FileLock>> held = FileLock::try_acquire(path);
  ASSERT_TRUE(held.ok());
  EXPECT_FALSE(held->has_value());

  // The callback hears who holds it, and lets it go.
  long holder = 0;
  const Result<FileLock> lock = FileLock::acquire(path, [&](long pid, double seconds) {
    holder = pid;
    EXPECT_GE(seconds, 0.9);
    EXPECT_EQ(::write(leave[1], &byte, 1), 1);
  });
  EXPECT_TRUE(lock.ok());
  EXPECT_EQ(holder, static_cast<long>(child));
  int result = -1;
  ASSERT_EQ(::waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
  for (const int descriptor : {ready[0], ready[1], leave[0], leave[1]}) ::close(descriptor);
}

TEST(FileLock, IsReleasedWhenItsHolderIsKilled) {
  const ScratchFolder folder;
  const std::string path = folder / "lock";
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  char byte = 'x';
  if (child == 0) {
    const Result<FileLock> lock = FileLock::acquire(path);
    if (!lock.ok() || ::write(ready[1], &byte, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(child, SIGKILL);
  EXPECT_TRUE(FileLock::acquire(path).ok());
  ::waitpid(child, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST(FileLock, ExcludesThreadsAndSurvivesOtherDescriptors) {
  const ScratchFolder folder;
  const std::string path = folder / "lock";
  std::atomic<int> inside{0};
  std::atomic<int> failures{0};
  parallel_for(64, 8, [&](int64_t, int) {
    const Result<FileLock> lock = FileLock::acquire(path);
    if (!lock.ok() || inside.fetch_add(1) != 0) ++failures;
    // A POSIX record lock would be lost with this descriptor.
    ::close(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::this_thread::yield();
    inside.fetch_sub(1);
  });
  EXPECT_EQ(failures, 0);
}

// Without the look at the inode, a waiter on the removed file and a newcomer on the new one would
// both be inside.
TEST(FileLock, NoticesThatTheFileWasRemoved) {
  const ScratchFolder folder;
  const std::string path = folder / "lock";
  std::atomic<int> inside{0};
  std::atomic<int> failures{0};
  parallel_for(400, 8, [&](int64_t index, int) {
    Result<FileLock> lock = FileLock::acquire(path);
    if (!lock.ok() || inside.fetch_add(1) != 0) ++failures;
    std::this_thread::yield();
    inside.fetch_sub(1);
    if (lock.ok() && index % 2 == 0) lock->remove_and_release();
  });
  EXPECT_EQ(failures, 0);
}

TEST(FileLock, MovesWithItsOwner) {
  const ScratchFolder folder;
  const std::string path = folder / "lock";
  Result<FileLock> first = FileLock::acquire(path);
  ASSERT_TRUE(first.ok());
  {
    const FileLock owner = *std::move(first);
    EXPECT_FALSE(FileLock::try_acquire(path)->has_value());
  }
  EXPECT_TRUE(FileLock::try_acquire(path)->has_value());
}

TEST(FileLock, ReportsAnUnusablePath) {
  const ScratchFolder folder;
  const Result<FileLock> lock = FileLock::acquire(folder / "no/folder/lock");
  ASSERT_FALSE(lock.ok());
  EXPECT_EQ(lock.error().code, ErrorCode::kIoError);
  EXPECT_FALSE(FileLock::acquire(folder.path()).ok());
}

}  // namespace
}  // namespace tilewright
