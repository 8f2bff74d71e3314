// The layout of one cache entry file. All numbers little-endian:
//   "TWKERNEL" | u32 format | u32 0 | u64 checksum of all that follows
//   u64 sizes of: metadata, source, ptx, cubin, log | those five, back to back
// Metadata is one JSON object and names the key, so that a file under a wrong name is noticed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/cache.h"
#include "runtime/compile.h"

namespace tilewright {

// No kernel of ours comes near; a larger file is not read into memory.
inline constexpr int64_t kMaxEntryBytes = int64_t{256} << 20;

std::string encode_entry(const Binary& binary);

// kParseError says what is wrong with the bytes; kNotFound, which entry of another format it is.
Result<Binary> decode_entry(std::string_view bytes, std::string_view key);

// The first line of the stub without its comment slashes: what `cache list` shows.
std::string title_of(std::string_view source);

}  // namespace tilewright
