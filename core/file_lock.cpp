#include "core/file_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "core/check.h"
#include "core/files.h"
#include "core/text.h"

namespace tilewright {
namespace {

enum class Wait { kNo, kYes };

// 0, or errno.
int lock_descriptor(int descriptor, Wait wait) {
  struct flock request {};
  request.l_type = F_WRLCK;
  request.l_whence = SEEK_SET;  // the whole file
  const int command = wait == Wait::kYes ? F_OFD_SETLKW : F_OFD_SETLK;
  while (::fcntl(descriptor, command, &request) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

int open_lock_file(const std::string& path) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// False if the path names another file, or none, since someone removed it before we locked it.
bool still_names(const std::string& path, int descriptor) {
  struct stat ours {};
  struct stat theirs {};
  return ::fstat(descriptor, &ours) == 0 && ::stat(path.c_str(), &theirs) == 0 &&
         ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev;
}

// For the eyes of those who wait; a failure to write it costs only them the number.
void write_holder(int descriptor) {
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(descriptor, 0) != 0) return;
  [[maybe_unused]] const ssize_t written = ::pwrite(descriptor, text.data(), text.size(), 0);
}

long read_holder(int descriptor) {
  std::array<char, 32> buffer{};
  const ssize_t got = ::pread(descriptor, buffer.data(), buffer.size(), 0);
  if (got <= 0) return 0;
  const auto pid = parse_int(trim({buffer.data(), static_cast<size_t>(got)}));
  return pid.ok() ? static_cast<long>(*pid) : 0;
}

Error lock_error(int code, const std::string& path) {
  errno = code;
  return Error{ErrorCode::kIoError, system_error("lock", path).message, {}};
}

// Polls, so that the caller hears of a long wait.
int lock_reporting(int descriptor, const FileLock::WaitCallback& on_wait) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kReportEvery = std::chrono::seconds(1);
  constexpr auto kLongestPause = std::chrono::milliseconds(50);
  const Clock::time_point start = Clock::now();
  Clock::time_point next_report = start + kReportEvery;
  auto pause = std::chrono::milliseconds(1);
  for (;;) {
    const int code = lock_descriptor(descriptor, Wait::kNo);
    if (code != EAGAIN && code != EACCES) return code;
    const Clock::time_point now = Clock::now();
    if (now >= next_report) {
      on_wait(read_holder(descriptor), std::chrono::duration<double>(now - start).count());
      next_report = now + kReportEvery;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(kLongestPause));
  }
}

}  // namespace

FileLock::FileLock(int descriptor, std::string path)
    : descriptor_(descriptor), path_(std::move(path)) {}

FileLock::FileLock(FileLock&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

FileLock& FileLock::operator=(FileLock&& other) noexcept {
  if (this != &other) {
    release();
    descriptor_ = std::exchange(other.descriptor_, -1);
    path_ = std::move(other.path_);
  }
  return *this;
}

FileLock::~FileLock() { release(); }

void FileLock::release() {
  if (descriptor_ < 0) return;
  // Closing alone would leave the lock with a child that was forked while it was held: the two
  // share the file description.
  struct flock request {};
  request.l_type = F_UNLCK;
  request.l_whence = SEEK_SET;
  ::fcntl(descriptor_, F_OFD_SETLK, &request);
  ::close(std::exchange(descriptor_, -1));
}

void FileLock::remove_and_release() {
  if (descriptor_ >= 0) ::unlink(path_.c_str());
  release();
}

Result<FileLock> FileLock::acquire(const std::string& path, const WaitCallback& on_wait) {
  for (;;) {
    const int descriptor = open_lock_file(path);
    if (descriptor < 0) return lock_error(errno, path);
    FileLock lock(descriptor, path);
    const int code =
        on_wait ? lock_reporting(descriptor, on_wait) : lock_descriptor(descriptor, Wait::kYes);
    if (code != 0) return lock_error(code, path);
    if (!still_names(path, descriptor)) continue;
    write_holder(descriptor);
    return lock;
  }
}

Result<std::optional<FileLock>> FileLock::try_acquire(const std::string& path) {
  for (;;) {
    const int descriptor = open_lock_file(path);
    if (descriptor < 0) return lock_error(errno, path);
    FileLock lock(descriptor, path);
    const int code = lock_descriptor(descriptor, Wait::kNo);
    if (code == EAGAIN || code == EACCES) return std::optional<FileLock>();
    if (code != 0) return lock_error(code, path);
    if (!still_names(path, descriptor)) continue;
    write_holder(descriptor);
    return std::optional<FileLock>(std::move(lock));
  }
}

}  // namespace tilewright
