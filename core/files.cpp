#include "core/files.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "core/check.h"

namespace tilewright {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return value_; }
  // The file system may report a failed write only here.
  bool close() { return ::close(std::exchange(value_, -1)) == 0; }

 private:
  int value_;
};

int open_retrying(const std::string& path, int flags, mode_t mode = 0) {
  int descriptor = -1;
  do {
    descriptor = ::open(path.c_str(), flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Without this a crash may forget the rename. File systems that cannot sync a folder say so with
// EINVAL, which is no failure.
void sync_folder(const std::string& folder) {
  const Descriptor descriptor(open_retrying(folder, O_RDONLY | O_DIRECTORY));
  if (descriptor.get() >= 0) ::fsync(descriptor.get());
}

// Writes the temporary and renames it; on failure the caller removes the temporary.
Status write_and_rename(Descriptor& file, const std::string& temporary, const std::string& path,
                        std::string_view bytes) {
  if (!write_all(file.get(), bytes)) return system_error("write", temporary);
  if (::fsync(file.get()) != 0 && errno != EINVAL) return system_error("sync", temporary);
  if (!file.close()) return system_error("close", temporary);
  if (::rename(temporary.c_str(), path.c_str()) != 0) return system_error("rename to", path);
  return {};
}

// Whether `path` names something that is there and is no regular file: a device, a pipe. Renaming a
// file over it would replace it.
bool is_special(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

bool is_link(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 && S_ISLNK(info.st_mode);
}

Status write_in_place(const std::string& path, std::string_view bytes) {
  Descriptor file(open_retrying(path, O_WRONLY));
  if (file.get() < 0) return system_error("open", path);
  if (!write_all(file.get(), bytes) || !file.close()) return system_error("write", path);
  return {};
}

// What is left to read, `expected_bytes` or so.
Result<std::string> read_all(int descriptor, const std::string& path, int64_t expected_bytes,
                             int64_t max_bytes) {
  std::string bytes;
  // One more than expected, so that the end is seen without growing the buffer.
  size_t capacity = static_cast<size_t>(std::clamp<int64_t>(expected_bytes, 0, max_bytes)) + 1;
  size_t size = 0;
  for (;;) {
    bytes.resize(capacity);
    const ssize_t got = ::read(descriptor, bytes.data() + size, capacity - size);
    if (got < 0) {
      if (errno == EINTR) continue;
      return system_error("read", path);
    }
    if (got == 0) break;
    size += static_cast<size_t>(got);
    if (static_cast<int64_t>(size) > max_bytes) {
      return make_error(ErrorCode::kIoError, "cannot read '{}': it is larger than {} bytes", path,
                        max_bytes);
    }
    if (size == capacity) capacity = 2 * capacity + 4096;
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace

Error system_error(std::string_view action, std::string_view path) {
  const int code = errno;
  return make_error(code == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIoError,
                    "cannot {} '{}': {}", action, path, std::strerror(code));
}

Result<std::string> read_file(const std::string& path, int64_t max_bytes) {
  const Descriptor file(open_retrying(path, O_RDONLY));
  if (file.get() < 0) return system_error("open", path);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error("inspect", path);
  if (S_ISDIR(info.st_mode)) {
    return make_error(ErrorCode::kIoError, "cannot read '{}': it is a folder", path);
  }
  return read_all(file.get(), path, int64_t{info.st_size}, max_bytes);
}

Result<std::string> read_regular_file(const std::string& path, int64_t max_bytes) {
  // Without O_NONBLOCK the open of a pipe waits for a writer. A socket cannot be opened at all.
  const Descriptor file(open_retrying(path, O_RDONLY | O_NONBLOCK));
  const bool is_socket = file.get() < 0 && errno == ENXIO;
  if (file.get() < 0 && !is_socket) return system_error("open", path);
  struct stat info {};
  if (!is_socket && ::fstat(file.get(), &info) != 0) return system_error("inspect", path);
  if (!S_ISREG(info.st_mode)) {
    return make_error(ErrorCode::kInvalidArgument, "it is not a regular file");
  }
  if (info.st_size > max_bytes) {
    return make_error(ErrorCode::kInvalidArgument, "it is larger than {} bytes", max_bytes);
  }
  return read_all(file.get(), path, int64_t{info.st_size}, max_bytes);
}

Status replace_file(const std::string& path, std::string_view bytes, unsigned mode) {
  constexpr int kAttempts = 16;  // a taken name is a matter of luck, not a failure
  for (int attempt = 0;; ++attempt) {
    const std::string temporary = path + "." + random_name(12) + ".tmp";
    Descriptor file(
        open_retrying(temporary, O_WRONLY | O_CREAT | O_EXCL, static_cast<mode_t>(mode)));
    if (file.get() < 0) {
      if (errno == EEXIST && attempt < kAttempts) continue;
      return system_error("create", temporary);
    }
    Status status = write_and_rename(file, temporary, path, bytes);
    if (status.ok()) {
      sync_folder(parent_of(path));
    } else {
      ::unlink(temporary.c_str());
    }
    return status;
  }
}

Status write_file_atomically(const std::string& path, std::string_view bytes, unsigned mode) {
  if (is_special(path)) return write_in_place(path, bytes);
  // Through a link, which stays. One that leads nowhere is itself replaced.
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr),
                                                             &std::free);
  return replace_file(resolved && is_link(path) ? resolved.get() : path, bytes, mode);
}

Status make_directories(const std::string& path, unsigned mode) {
  if (path.empty()) return make_error(ErrorCode::kInvalidArgument, "the name of a folder is empty");
  size_t end = 0;
  while (end != std::string::npos) {
    end = path.find('/', end + 1);
    const std::string folder = path.substr(0, end);
    if (::mkdir(folder.c_str(), static_cast<mode_t>(mode)) == 0) continue;
    const int reason = errno;
    struct stat info {};
    // Existing parents may answer EROFS or EACCES instead of EEXIST; only the last folder and its
    // kind matter.
    if (::stat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) continue;
    errno = reason == EEXIST ? ENOTDIR : reason;
    const Error error = system_error("create folder", folder);
    return Error{ErrorCode::kIoError, error.message, {}};
  }
  return {};
}

Status remove_file(const std::string& path) {
  if (::unlink(path.c_str()) == 0 || errno == ENOENT) return {};
  return system_error("remove", path);
}

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty() || name.starts_with('/')) return std::string(name);
  std::string path(folder);
  if (!path.ends_with('/')) path += '/';
  return path.append(name);
}

std::string random_name(int length) {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz012345";  // 32: no bias
  std::string name(static_cast<size_t>(length), '\0');
  size_t filled = 0;
  while (filled < name.size()) {
    const ssize_t got = ::getrandom(name.data() + filled, name.size() - filled, 0);
    if (got < 0 && errno == EINTR) continue;
    TW_CHECK(got > 0, "getrandom: {}", std::strerror(errno));
    filled += static_cast<size_t>(got);
  }
  for (char& c : name) c = kLetters[static_cast<unsigned char>(c) % kLetters.size()];
  return name;
}

}  // namespace tilewright
