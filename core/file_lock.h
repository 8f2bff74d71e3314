// FileLock: one holder of a path at a time, among threads and processes of one machine. An open
// file description lock (F_OFD_SETLK), so the kernel releases it when its holder dies, and closing
// another descriptor of the file does not drop it. After locking, the inode is compared with the
// path's, so that a lock file removed meanwhile is not mistaken for the live one.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "tilewright/result.h"

namespace tilewright {

class FileLock {
 public:
  // Called about once a second while waiting, with the holder's process id as it wrote it into the
  // lock file (0 if unknown) and the seconds waited so far.
  using WaitCallback = std::function<void(long holder_pid, double seconds)>;

  // Creates the file if absent (mode 0600) and waits for the lock. kIoError if the file cannot be
  // opened or the file system has no locks.
  static Result<FileLock> acquire(const std::string& path, const WaitCallback& on_wait = nullptr);
  // Does not wait: nullopt if someone else holds it.
  static Result<std::optional<FileLock>> try_acquire(const std::string& path);

  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&& other) noexcept;
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

  // Removes the lock file while still holding it, then releases. Waiters notice and start over
  // with a new file.
  void remove_and_release();

 private:
  FileLock(int descriptor, std::string path);
  void release();

  int descriptor_ = -1;
  std::string path_;
};

}  // namespace tilewright
