#include "core/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "tests/core/scratch_folder.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

size_t files_in(const std::string& folder) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder)) ++count;
  return count;
}

TEST(ReadFile, GivesTheBytes) {
  const ScratchFolder folder;
  std::string bytes(100000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7);
  ASSERT_TRUE(write_file_atomically(folder / "a", bytes).ok());
  EXPECT_EQ(*read_file(folder / "a"), bytes);
  EXPECT_EQ(*read_file(folder / "a", 100000), bytes);
  EXPECT_EQ(read_file(folder / "a", 99999).error().code, ErrorCode::kIoError);
  ASSERT_TRUE(write_file_atomically(folder / "empty", "").ok());
  EXPECT_EQ(*read_file(folder / "empty", 0), "");
  // Says size 0, but has content.
  EXPECT_THAT(*read_file("/proc/self/stat"), HasSubstr(std::to_string(::getpid())));
}

TEST(ReadFile, NamesPathAndReason) {
  const ScratchFolder folder;
  const Result<std::string> missing = read_file(folder / "missing");
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr(folder / "missing"));
  EXPECT_EQ(read_file(folder.path()).error().code, ErrorCode::kIoError);
}

TEST(WriteFile, ReplacesTheOldContentAndLeavesNothingElse) {
  const ScratchFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "a", "old").ok());
  ASSERT_TRUE(write_file_atomically(folder / "a", "new", 0600).ok());
  EXPECT_EQ(*read_file(folder / "a"), "new");
  EXPECT_EQ(files_in(folder.path()), 1u);
  struct stat info {};
  ASSERT_EQ(::stat((folder / "a").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST(WriteFile, FailsWithoutATrace) {
  const ScratchFolder folder;
  EXPECT_EQ(write_file_atomically(folder / "no/such/folder", "x").error().code,
            ErrorCode::kNotFound);
  std::filesystem::create_directory(folder / "folder");
  EXPECT_FALSE(write_file_atomically(folder / "folder", "x").ok());  // rename onto a folder
  EXPECT_EQ(files_in(folder.path()), 1u);
}

// A write that comes short (here by the limit on file sizes; a full disk looks the same).
TEST(WriteFile, KeepsTheOldContentWhenTheDiskIsFull) {
  const ScratchFolder folder;
  ASSERT_TRUE(write_file_atomically(folder / "a", "old").ok());
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const Status status = write_file_atomically(folder / "a", std::string(10000, 'x'));
    ::_exit(!status.ok() && status.error().code == ErrorCode::kIoError ? 0 : 1);
  }
  int result = -1;
  ASSERT_EQ(::waitpid(child, &result, 0), child);
  EXPECT_EQ(result, 0);
  EXPECT_EQ(*read_file(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1u);
}

TEST(WriteFile, DoesNotReplaceAPipe) {
  const ScratchFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  EXPECT_TRUE(write_file_atomically(pipe, "bytes").ok());
  char text[16] = "";
  EXPECT_EQ(::read(reader, text, sizeof text), 5);
  EXPECT_STREQ(text, "bytes");
  ::close(reader);
  struct stat info {};
  ASSERT_EQ(::stat(pipe.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST(WriteFile, WritesThroughALinkAndKeepsIt) {
  const ScratchFolder folder;
  std::filesystem::create_directory(folder / "elsewhere");
  ASSERT_TRUE(write_file_atomically(folder / "elsewhere/a", "old").ok());
  std::filesystem::create_symlink("elsewhere/a", folder / "link");
  ASSERT_TRUE(write_file_atomically(folder / "link", "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(*read_file(folder / "elsewhere/a"), "new");
}

TEST(MakeDirectories, MakesParentsAndAcceptsWhatIsThere) {
  const ScratchFolder folder;
  EXPECT_TRUE(make_directories(folder / "a/b//c/", 0700).ok());
  EXPECT_TRUE(make_directories(folder / "a/b/c").ok());
  EXPECT_TRUE(std::filesystem::is_directory(folder / "a/b/c"));
  ASSERT_TRUE(write_file_atomically(folder / "file", "x").ok());
  const Status status = make_directories(folder / "file/sub");
  EXPECT_EQ(status.error().code, ErrorCode::kIoError);
  EXPECT_THAT(status.error().message, HasSubstr(folder / "file"));
  EXPECT_FALSE(make_directories("").ok());
  EXPECT_TRUE(make_directories("/").ok());
}

TEST(Paths, Join) {
  EXPECT_EQ(join_path("a", "b"), "a/b");
  EXPECT_EQ(join_path("a/", "b"), "a/b");
  EXPECT_EQ(join_path("a", "/b"), "/b");
  EXPECT_EQ(join_path("", "b"), "b");
}

TEST(RandomName, DoesNotRepeat) {
  std::set<std::string> names;
  for (int i = 0; i < 1000; ++i) names.insert(random_name(12));
  EXPECT_EQ(names.size(), 1000u);
  EXPECT_EQ(names.begin()->size(), 12u);
}

TEST(RemoveFile, IsContentWithNothing) {
  const ScratchFolder folder;
  EXPECT_TRUE(remove_file(folder / "missing").ok());
  EXPECT_FALSE(remove_file(folder.path()).ok());
}

}  // namespace
}  // namespace tilewright
