// Fast-memory sizes as people write them: "100KiB", "24576words", "8KiB..1MiB".
#pragma once

#include <cstdint>
#include <string_view>

#include "tilewright/result.h"

namespace tilewright::io_model {

// Words of an element of `element_bytes`, rounded down. kParseError names an unknown unit and the
// known ones; kOverflow a size beyond 64 bits; kInvalidArgument one below a word.
Result<int64_t> parse_memory_words(std::string_view text, int64_t element_bytes);

// One size, or a sweep "from..to"; equal for one size. kInvalidArgument unless from < to.
struct MemoryRange {
  int64_t from_words = 0, to_words = 0;
  bool is_sweep() const { return from_words != to_words; }
};
Result<MemoryRange> parse_memory_range(std::string_view text, int64_t element_bytes);

}  // namespace tilewright::io_model
