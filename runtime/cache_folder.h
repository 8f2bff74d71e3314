// The folder of the kernel cache as a whole: whether to trust it, what is in it, and how it is kept
// small. Only files with this cache's endings are ever looked at or removed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compile.h"
#include "tilewright/result.h"

namespace tilewright {

inline constexpr std::string_view kEntryEnding = ".twk";
inline constexpr std::string_view kLockEnding = ".lock";
inline constexpr std::string_view kTemporaryEnding = ".tmp";

// What one entry file says of itself.
struct CacheEntryInfo {
  std::string key;
  std::string path;
  int64_t bytes = 0;
  int64_t used_unix_seconds = 0;  // the use stamp
  std::string family, target, title, compiler_version;
  std::string damage;  // what is wrong with it, or that it is stale; empty if nothing
};

// Whether the code in `path`, a file or a folder, can only be of this user's or root's making.
// kNotFound if it does not exist; kIoError says who else could write there.
Status check_trusted(const std::string& path);

// One entry file. kNotFound if there is none of this format, kParseError for a damaged one, which
// may be anything that bears its name: a folder, a pipe. Never waits.
Result<Binary> load_entry(const std::string& path, std::string_view key);

// A file or an empty folder. Success if there was nothing to remove.
Status remove_entry(const std::string& path);

// Sets the use stamp of an entry. Fails silently: on a read-only folder nothing is pruned either.
void stamp_use(const std::string& path);

// Every entry, newest use first. A folder that does not exist has none.
Result<std::vector<CacheEntryInfo>> list_cache(const std::string& directory);

// Removes every entry, lock and temporary, and nothing else. Returns the number of entries removed,
// or names the first that could not be removed, such as a folder that is not empty.
Result<int64_t> clear_cache(const std::string& directory);

// Removes the least recently used entries until at most `max_bytes` stay, and temporaries older
// than an hour. An entry that is used meanwhile stays. Returns the number of entries removed.
Result<int64_t> prune_cache(const std::string& directory, int64_t max_bytes);

// Makes room where the file system is full: removes least recently used entries of about `bytes`.
// False if the file system has that room anyway, or nothing could be removed.
bool make_room(const std::string& directory, int64_t bytes);

}  // namespace tilewright
