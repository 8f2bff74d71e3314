#include "runtime/cache_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>

#include "core/check.h"
#include "core/files.h"
#include "runtime/cache_entry.h"

namespace tilewright {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kStaleSeconds = 3600;  // no write takes an hour: its process is gone

// A key is 64 hex digits; anything else in the folder is not ours.
bool is_ours(std::string_view name, std::string_view ending) {
  constexpr size_t kKeyLength = 64;
  return name.size() >= kKeyLength + ending.size() && name.ends_with(ending) &&
         name.find_first_not_of("0123456789abcdef") == kKeyLength;
}

struct Found {
  std::string path;
  int64_t bytes = 0;
  timespec used{};
};

bool earlier(const timespec& a, const timespec& b) {
  return a.tv_sec != b.tv_sec ? a.tv_sec < b.tv_sec : a.tv_nsec < b.tv_nsec;
}

// What has this ending, be it a file or not, oldest use first.
Result<std::vector<Found>> find_files(const std::string& directory, std::string_view ending) {
  std::vector<Found> files;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  if (error == std::errc::no_such_file_or_directory) return files;
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (!is_ours(entry->path().filename().string(), ending)) continue;
    struct stat info {};
    const std::string path = entry->path().string();
    if (lstat(path.c_str(), &info) != 0) continue;
    const int64_t bytes = S_ISREG(info.st_mode) ? int64_t{info.st_size} : 0;
    files.push_back({path, bytes, info.st_mtim});
  }
  if (error) {
    return make_error(ErrorCode::kIoError, "cannot list '{}': {}", directory, error.message());
  }
  std::sort(files.begin(), files.end(),
            [](const Found& a, const Found& b) { return earlier(a.used, b.used); });
  return files;
}

// Unless it was used since it was found.
bool remove_unused(const Found& file) {
  struct stat info {};
  if (lstat(file.path.c_str(), &info) != 0 || earlier(file.used, info.st_mtim)) return false;
  return unlink(file.path.c_str()) == 0;
}

CacheEntryInfo describe(const Found& file) {
  CacheEntryInfo info;
  info.path = file.path;
  info.key = fs::path(file.path).stem().string();
  info.bytes = file.bytes;
  info.used_unix_seconds = int64_t{file.used.tv_sec};
  const Result<Binary> binary = load_entry(file.path, info.key);
  if (!binary.ok()) {
    info.damage = binary.error().message;
    return info;
  }
  info.family = binary->family;
  info.target = binary->target;
  info.title = title_of(binary->source);
  info.compiler_version = binary->code.compiler_version;
  return info;
}

}  // namespace

Status check_trusted(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    return system_error("look at", path);
  }
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return make_error(ErrorCode::kIoError,
                      "'{}' belongs to user {}, not to user {}: its kernels are not trusted", path,
                      info.st_uid, geteuid());
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return make_error(ErrorCode::kIoError,
                      "'{}' can be written by others (mode {:o}): its kernels are not trusted",
                      path, info.st_mode & 07777u);
  }
  return {};
}

Result<Binary> load_entry(const std::string& path, std::string_view key) {
  const Result<std::string> bytes = read_regular_file(path, kMaxEntryBytes);
  if (bytes.ok()) return decode_entry(*bytes, key);
  const bool damaged = bytes.error().code == ErrorCode::kInvalidArgument;
  return Error{damaged ? ErrorCode::kParseError : bytes.error().code, bytes.error().message, {}};
}

Status remove_entry(const std::string& path) {
  if (std::remove(path.c_str()) == 0 || errno == ENOENT) return {};
  return system_error("remove", path);
}

void stamp_use(const std::string& path) { utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

Result<std::vector<CacheEntryInfo>> list_cache(const std::string& directory) {
  TW_ASSIGN(const std::vector<Found> files, find_files(directory, kEntryEnding));
  std::vector<CacheEntryInfo> entries;
  for (auto file = files.rbegin(); file != files.rend(); ++file) {
    entries.push_back(describe(*file));
  }
  return entries;
}

Result<int64_t> clear_cache(const std::string& directory) {
  int64_t removed = 0;
  Status status;  // of the first that stays; the others go nevertheless
  for (const std::string_view ending : {kEntryEnding, kLockEnding, kTemporaryEnding}) {
    TW_ASSIGN(const std::vector<Found> files, find_files(directory, ending));
    for (const Found& file : files) {
      const Status gone = remove_entry(file.path);
      if (!gone.ok() && status.ok()) status = gone;
      if (gone.ok() && ending == kEntryEnding) ++removed;
    }
  }
  if (!status.ok()) return status.error();
  return removed;
}

Result<int64_t> prune_cache(const std::string& directory, int64_t max_bytes) {
  TW_ASSIGN(const std::vector<Found> temporaries, find_files(directory, kTemporaryEnding));
  for (const Found& file : temporaries) {
    if (time(nullptr) - file.used.tv_sec > kStaleSeconds) remove_unused(file);
  }
  TW_ASSIGN(const std::vector<Found> files, find_files(directory, kEntryEnding));
  int64_t total = 0;
  for (const Found& file : files) total += file.bytes;
  int64_t removed = 0;
  for (const Found& file : files) {
    if (total <= max_bytes) break;
    if (!remove_unused(file)) continue;
    total -= file.bytes;
    ++removed;
  }
  return removed;
}

bool make_room(const std::string& directory, int64_t bytes) {
  struct statvfs room {};
  if (statvfs(directory.c_str(), &room) != 0) return false;
  // Twice: the file system needs some blocks of its own.
  const uint64_t wanted = 2 * static_cast<uint64_t>(bytes);
  if (uint64_t{room.f_bavail} * room.f_frsize >= wanted) return false;
  const Result<std::vector<Found>> files = find_files(directory, kEntryEnding);
  if (!files.ok()) return false;
  int64_t total = 0;
  for (const Found& file : *files) total += file.bytes;
  const Result<int64_t> removed =
      prune_cache(directory, std::max<int64_t>(0, total - static_cast<int64_t>(wanted)));
  return removed.ok() && *removed > 0;
}

}  // namespace tilewright
