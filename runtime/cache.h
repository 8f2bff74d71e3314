// KernelCache: compiled kernels by content, in memory and in a folder that processes share. The key
// is a SHA-256 of everything that decides the code and of nothing else (no path, time or
// environment). Trouble with the folder never fails a compile: it costs one warning and the entry.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compile.h"
#include "tilewright/session.h"

namespace tilewright {

using LogFunction = std::function<void(LogLevel, const std::string&)>;

// Part of every key and entry: raised when either's layout or meaning changes.
inline constexpr int kCacheFormat = 1;

std::string cache_key(const CompileRequest& request, std::string_view compiler_identity);

// What one entry file says of itself.
struct CacheEntryInfo {
  std::string key;
  std::string path;
  int64_t bytes = 0;
  int64_t used_unix_seconds = 0;  // the use stamp
  std::string family, target, title, compiler_version;
  bool damaged = false;
};

class KernelCache {
 public:
  // `directory` empty: memory only. The folder is made at the first write.
  KernelCache(std::string directory, int64_t max_bytes, LogFunction log);
  ~KernelCache();

  // From memory, from the folder, or compiled: at most once per key among this process's threads
  // and, where the folder has locks, among processes. May be called from many threads at once.
  Result<BinaryPtr> get_or_compile(const CompileRequest& request, Compiler& compiler);

  CacheCounters counters() const;
  const std::string& directory() const { return directory_; }

 private:
  struct Slot;
  Result<BinaryPtr> fill(const std::string& key, const CompileRequest& request, Compiler& compiler);
  BinaryPtr read_entry(const std::string& key);
  Result<BinaryPtr> compile(const std::string& key, const CompileRequest& request,
                            Compiler& compiler);
  void write_entry(const Binary& binary, const CompileRequest& request);
  bool usable_folder();
  bool writable_folder();
  void warn_once(const std::string& message);

  std::string directory_;
  int64_t max_bytes_;
  LogFunction log_;
  std::mutex mutex_;  // of slots_
  std::map<std::string, std::shared_ptr<Slot>> slots_;
  std::atomic<int64_t> memory_hits_{0}, disk_hits_{0}, misses_{0}, compiled_{0}, rebuilt_{0};
  std::atomic<bool> warned_{false};
};

// Every entry of a folder, newest use first; damaged ones are marked. For `tilewright cache`.
Result<std::vector<CacheEntryInfo>> list_cache(const std::string& directory);
// Removes every entry, lock and temporary of ours, and nothing else. Returns the entries removed.
Result<int64_t> clear_cache(const std::string& directory);
// Removes least recently used entries until at most `max_bytes` stay, and temporaries older than an
// hour. Returns the entries removed.
Result<int64_t> prune_cache(const std::string& directory, int64_t max_bytes);

}  // namespace tilewright
