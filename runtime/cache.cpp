#include "runtime/cache.h"

#include <fmt/format.h>

#include <utility>

#include "core/check.h"
#include "core/file_lock.h"
#include "core/files.h"
#include "core/hash.h"
#include "core/text.h"
#include "runtime/cache_entry.h"
#include "runtime/cache_folder.h"

namespace tilewright {
namespace {

// Only the user may enter or write: the folder holds code that will run.
constexpr unsigned kFolderMode = 0700;
constexpr unsigned kEntryMode = 0600;

}  // namespace

std::string cache_key(const CompileRequest& request, std::string_view compiler_identity) {
  Sha256 hash;
  hash.update_field("format", std::to_string(kCacheFormat));
  hash.update_field("compiler", compiler_identity);
  hash.update_field("target", request.target);
  for (const std::string& option : request.options) hash.update_field("option", option);
  for (const std::string& name : request.source.entry_names) hash.update_field("entry", name);
  hash.update_field("stub", request.source.text);
  for (const DeviceHeader& header : request.headers) {
    hash.update_field("header", header.name);
    hash.update_field("text", header.text);
  }
  return hash.hex();
}

KernelCache::KernelCache(std::string directory, int64_t max_bytes, LogFunction log)
    : directory_(std::move(directory)), max_bytes_(max_bytes), log_(std::move(log)) {}

Result<CacheResult> KernelCache::get_or_compile(const CompileRequest& request, Compiler& compiler) {
  const std::string key = cache_key(request, compiler.identity());
  bool found = false;
  TW_ASSIGN(CacheResult result, binaries_.get(key, &found, [&] {
    return from_disk_or_compile(key, request, compiler);
  }));
  if (found) {
    ++memory_hits_;
    result.origin = BinaryOrigin::kMemory;
  }
  return result;
}

CacheCounters KernelCache::counters() const {
  return {.memory_hits = memory_hits_,
          .disk_hits = disk_hits_,
          .misses = misses_,
          .compiled = compiled_,
          .rebuilt = rebuilt_};
}

std::string KernelCache::entry_path(const std::string& key) const {
  return join_path(directory_, key + std::string(kEntryEnding));
}

// One process compiles a key while the others wait for its entry, and all go on alone if the folder
// or its locks are of no use.
Result<CacheResult> KernelCache::from_disk_or_compile(const std::string& key,
                                                      const CompileRequest& request,
                                                      Compiler& compiler) {
  if (directory_.empty()) return compile(key, request, compiler);
  Status trusted = check_trusted(directory_);
  if (trusted.ok()) {
    if (BinaryPtr hit = read_entry(key)) return CacheResult{std::move(hit), BinaryOrigin::kDisk};
  } else if (trusted.error().code == ErrorCode::kNotFound) {
    trusted = make_directories(directory_, kFolderMode);
  }
  if (!trusted.ok()) {
    warn_of_folder(trusted.error().message);
    return compile(key, request, compiler);
  }

  double next_message = 3;  // seconds: a compile takes less than one
  const auto on_wait = [&](long holder, double seconds) {
    if (!log_ || seconds < next_message) return;
    next_message = seconds + 30;
    log_(LogLevel::kWarning,
         fmt::format("waiting {:.0f} s for process {} to compile the kernel {} ({})", seconds,
                     holder, key.substr(0, 12), title_of(request.source.text)));
  };
  Result<FileLock> lock =
      FileLock::acquire(join_path(directory_, key + std::string(kLockEnding)), on_wait);
  if (!lock.ok()) {
    warn_of_folder(lock.error().message);
    return compile(key, request, compiler);
  }
  Result<CacheResult> result = [&]() -> Result<CacheResult> {
    if (BinaryPtr hit = read_entry(key)) return CacheResult{std::move(hit), BinaryOrigin::kDisk};
    TW_ASSIGN(CacheResult compiled, compile(key, request, compiler));
    write_entry(*compiled.binary);
    return compiled;
  }();
  lock->remove_and_release();
  return result;
}

// Null if there is no entry, or none to be used. A damaged one is removed, so that it is noticed
// once.
BinaryPtr KernelCache::read_entry(const std::string& key) {
  const std::string path = entry_path(key);
  const Status trusted = check_trusted(path);
  if (!trusted.ok()) {
    if (trusted.error().code != ErrorCode::kNotFound) warn_of_folder(trusted.error().message);
    return nullptr;
  }
  Result<Binary> binary = load_entry(path, key);
  if (!binary.ok()) {
    drop_entry(path, binary.error());
    return nullptr;
  }
  stamp_use(path);
  ++disk_hits_;
  return std::make_shared<const Binary>(*std::move(binary));
}

// A folder that is not empty cannot be removed: then the kernel stays uncached.
void KernelCache::drop_entry(const std::string& path, const Error& why) {
  if (why.code == ErrorCode::kNotFound) return;
  if (why.code != ErrorCode::kParseError) {
    warn_of_folder(why.message);
    return;
  }
  const Status removed = remove_entry(path);
  if (!removed.ok()) {
    warn_of_folder(fmt::format("the entry '{}' is damaged ({}) and stays: {}", path, why.message,
                               removed.error().message));
    return;
  }
  warn(fmt::format("the entry '{}' is damaged ({}): it will be rebuilt", path, why.message));
  ++rebuilt_;
}

Result<CacheResult> KernelCache::compile(const std::string& key, const CompileRequest& request,
                                         Compiler& compiler) {
  ++misses_;
  TW_ASSIGN(CompiledCode code, compiler.compile(request));
  ++compiled_;
  auto binary = std::make_shared<Binary>();
  binary->key = key;
  binary->family = request.source.family;
  binary->target = request.target;
  binary->entry_names = request.source.entry_names;
  binary->source = request.source.text;
  binary->code = std::move(code);
  return CacheResult{std::move(binary), BinaryOrigin::kCompiled};
}

void KernelCache::write_entry(const Binary& binary) {
  const std::string bytes = encode_entry(binary);
  const std::string path = entry_path(binary.key);
  const auto size = static_cast<int64_t>(bytes.size());
  Status written = replace_file(path, bytes, kEntryMode);
  if (!written.ok() && make_room(directory_, size)) {
    written = replace_file(path, bytes, kEntryMode);
  }
  if (!written.ok()) {
    warn_of_folder(written.error().message);
    return;
  }
  const Result<int64_t> pruned = prune_cache(directory_, max_bytes_);
  if (!pruned.ok()) warn_of_folder(pruned.error().message);
}

void KernelCache::warn(const std::string& message) const {
  if (log_) log_(LogLevel::kWarning, "kernel cache: " + message);
}

void KernelCache::warn_of_folder(const std::string& message) {
  std::call_once(warned_of_folder_, [&] { warn(message); });
}

}  // namespace tilewright
