#include "io_model/memory_size.h"

#include <algorithm>
#include <string>

#include "core/check.h"
#include "core/text.h"
#include "io_model/count.h"

namespace tilewright::io_model {

Result<int64_t> parse_memory_words(std::string_view text, int64_t element_bytes) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view number = text.substr(0, digits), unit = text.substr(digits);
  if (number.empty()) {
    return make_error(ErrorCode::kParseError,
                      "'{}' is not a memory size such as 100KiB; units: B, KiB, MiB, GiB, words",
                      text);
  }
  TW_ASSIGN(const int64_t amount, parse_int(number));
  int64_t scale = 0;
  if (unit == "words") scale = element_bytes;
  if (unit == "B") scale = 1;
  if (unit == "KiB") scale = int64_t{1} << 10;
  if (unit == "MiB") scale = int64_t{1} << 20;
  if (unit == "GiB") scale = int64_t{1} << 30;
  if (scale == 0) {
    return make_error(ErrorCode::kParseError,
                      "unknown unit '{}' in '{}'; known: B, KiB, MiB, GiB, words", unit, text);
  }
  TW_ASSIGN(const int64_t bytes, (Count(amount) * scale).checked(fmt::format("'{}'", text)));
  if (bytes < element_bytes) {
    return make_error(ErrorCode::kInvalidArgument, "'{}' is less than one word of {} bytes", text,
                      element_bytes);
  }
  return bytes / element_bytes;
}

Result<MemoryRange> parse_memory_range(std::string_view text, int64_t element_bytes) {
  const size_t dots = text.find("..");
  if (dots == std::string_view::npos) {
    TW_ASSIGN(const int64_t words, parse_memory_words(text, element_bytes));
    return MemoryRange{words, words};
  }
  TW_ASSIGN(const int64_t from, parse_memory_words(text.substr(0, dots), element_bytes));
  TW_ASSIGN(const int64_t to, parse_memory_words(text.substr(dots + 2), element_bytes));
  if (from >= to) {
    return make_error(ErrorCode::kInvalidArgument, "'{}' sweeps from {} words to {}: not upwards",
                      text, from, to);
  }
  return MemoryRange{from, to};
}

}  // namespace tilewright::io_model
