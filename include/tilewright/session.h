// Session: the entrance. Opens one device, real or emulated, and turns Problems into Kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tilewright/kernel.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright {

enum class LogLevel { kDebug, kInfo, kWarning };

struct Options {
  // "cuda:N", "emulated:PROFILE"; empty: cuda:0 if a driver and a GPU are there, else
  // emulated:h100.
  std::string device = {};
  // Folder of the kernel cache; empty: no disk cache.
  std::string cache_dir = {};
  int64_t cache_max_bytes = int64_t{1} << 30;
  std::string nvrtc_path = {};  // empty: loader path, then known toolkit and wheel folders
  // Empty: the embedded templates; else they are read from this folder (development).
  std::string templates_dir = {};
  // May be called from any thread that is inside a call of the session; null: nothing is said.
  std::function<void(LogLevel, const std::string&)> log = {};

  // Reads TILEWRIGHT_{CACHE_DIR,DEVICE,LOG,NVRTC,TEMPLATES}, XDG_CACHE_HOME, HOME. The only
  // place where the library looks at the environment.
  static Options from_environment();
};

struct DeviceInfo {
  std::string name;    // ends in "(emulated)" on a simulated device
  std::string target;  // "sm_90a"
  bool simulated = false;
  int num_sms = 0;
  int64_t memory_bytes = 0;
};

struct CacheCounters {
  int64_t memory_hits = 0, disk_hits = 0, misses = 0, compiled = 0, rebuilt = 0;
};

// One device. Every function may be called from many threads at once, the destructor apart. The
// caller's current context is left as found; the session works in the device's primary context. In
// a child of fork() every function fails with kDriverError: no CUDA driver survives a fork, so a
// child opens its own session.
class Session {
 public:
  static Result<std::unique_ptr<Session>> open(const Options& options);
  ~Session();

  // A kernel good for any lengths. Compiles at most once per kernel.
  // kUnsupportedProblem lists each family's refusals.
  Result<Kernel> prepare(const Problem& problem);

  // Prepares them all on `jobs` threads (0 = one per processor), so that later calls find them.
  // `progress` (may be null) is called after each, never by two threads at once. Every failure
  // becomes a reason of the error; the others are prepared nevertheless.
  Status prefetch(std::span<const Problem> problems, int jobs,
                  const std::function<void(int64_t done, int64_t total)>& progress);

  DeviceInfo device() const;
  CacheCounters cache_counters() const;

  // Memory of the device, so that small programs need no cuda.h. allocate(0) gives null.
  Result<void*> allocate(int64_t bytes);
  Status release(void* pointer);
  Status copy_in(void* device, const void* host, int64_t bytes);
  Status copy_out(void* host, const void* device, int64_t bytes);
  // Waits for everything launched; a fault of an earlier kernel is reported here.
  Status synchronize();

  struct Impl;  // private to runtime/

 private:
  friend struct SessionAccess;  // runtime/session_access.h
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "0.1.0"
extern "C" const char* tilewright_version();

}  // namespace tilewright
