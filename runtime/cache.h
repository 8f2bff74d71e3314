// KernelCache: compiled kernels by content, in memory and in a folder that processes share. The key
// is a SHA-256 of everything that decides the code and of nothing else (no path, time or
// environment). Trouble with the folder never fails a compile: it costs one warning and the entry.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/compile.h"
#include "runtime/once_per_key.h"
#include "tilewright/session.h"

namespace tilewright {

using LogFunction = std::function<void(LogLevel, const std::string&)>;

// Part of every key and entry: raised when either's layout or meaning changes.
inline constexpr int kCacheFormat = 2;

// 64 hex digits, from stub, include closure, options, target, compiler and format.
std::string cache_key(const CompileRequest& request, std::string_view compiler_identity);

struct CacheResult {
  BinaryPtr binary;
  BinaryOrigin origin = BinaryOrigin::kCompiled;
};

class KernelCache {
 public:
  // `directory` empty: memory only. The folder is made at the first write.
  KernelCache(std::string directory, int64_t max_bytes, LogFunction log);

  // From memory, from the folder, or compiled: at most once per key among this process's threads
  // and, where the folder has locks, among processes. May be called from many threads at once; a
  // disk hit does not touch the compiler but for its identity.
  Result<CacheResult> get_or_compile(const CompileRequest& request, Compiler& compiler);

  CacheCounters counters() const;
  const std::string& directory() const { return directory_; }

 private:
  std::string entry_path(const std::string& key) const;
  Result<CacheResult> from_disk_or_compile(const std::string& key, const CompileRequest& request,
                                           Compiler& compiler);
  BinaryPtr read_entry(const std::string& key);
  void drop_entry(const std::string& path, const Error& why);
  Result<CacheResult> compile(const std::string& key, const CompileRequest& request,
                              Compiler& compiler);
  void write_entry(const Binary& binary);
  void warn(const std::string& message) const;
  // Of trouble with the folder as a whole: the first is reported, the rest is more of the same.
  void warn_of_folder(const std::string& message);

  std::string directory_;
  int64_t max_bytes_;
  LogFunction log_;
  OncePerKey<CacheResult> binaries_;
  std::once_flag warned_of_folder_;
  std::atomic<int64_t> memory_hits_{0}, disk_hits_{0}, misses_{0}, compiled_{0}, rebuilt_{0};
};

}  // namespace tilewright
