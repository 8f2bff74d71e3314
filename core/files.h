// Files: whole-file reads and atomic writes, with every failure as a Status that names the path and
// the system's reason.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tilewright/result.h"

namespace tilewright {

// kNotFound if the file does not exist; kIoError for a folder, a failed read, or a file that is
// larger than `max_bytes`.
Result<std::string> read_file(const std::string& path, int64_t max_bytes = int64_t{1} << 40);

// The same of a file that others may have put there: never waits, as a pipe would make it.
// kInvalidArgument for anything but a regular file of at most `max_bytes`: "it is not …".
Result<std::string> read_regular_file(const std::string& path, int64_t max_bytes);

// All or nothing: a private temporary beside `path` (O_EXCL, random name), every write checked,
// fsync, rename, fsync of the folder. On failure the temporary is gone and `path` is as it was.
Status replace_file(const std::string& path, std::string_view bytes, unsigned mode = 0644);

// The same for a name that a user gave. A device or a pipe is written in place, since a rename
// would replace it; a link to a file stays, and the file is replaced.
Status write_file_atomically(const std::string& path, std::string_view bytes, unsigned mode = 0644);

// Makes `path` and its missing parents with `mode`. Success if it is a folder already.
Status make_directories(const std::string& path, unsigned mode = 0755);

// Success if there was nothing to remove.
Status remove_file(const std::string& path);

// "a/b": joins with exactly one slash; an absolute `name` stands alone.
std::string join_path(std::string_view folder, std::string_view name);

// `length` random lower-case letters and digits from the system's random source.
std::string random_name(int length);

// "cannot open 'x': Permission denied", for the current value of errno.
Error system_error(std::string_view action, std::string_view path);

}  // namespace tilewright
