// The project's error macros and make_error. TW_CHECK guards our own invariants and is on in every
// build; TW_TRY and TW_ASSIGN pass a Result's or Status's error up.
#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "tilewright/result.h"

namespace tilewright {

// An Error with a formatted message that holds the offending values.
template <class... Args>
Error make_error(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Error{code, fmt::format(format, std::forward<Args>(args)...), {}};
}

namespace detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);
inline Error error_of(const Status& status) { return status.error(); }
template <class T>
Error error_of(const Result<T>& result) {
  return result.error();
}
}  // namespace detail

}  // namespace tilewright

// TW_CHECK(cond, "format", args…): a broken invariant of ours reports and terminates.
#define TW_CHECK(condition, ...)                                         \
  do {                                                                   \
    if (!(condition)) {                                                  \
      ::tilewright::detail::check_failed(__FILE__, __LINE__, #condition, \
                                         ::fmt::format(__VA_ARGS__));    \
    }                                                                    \
  } while (false)

#define TW_TRY(expression)                                          \
  do {                                                              \
    if (auto&& tw_try_result = (expression); !tw_try_result.ok()) { \
      return ::tilewright::detail::error_of(tw_try_result);         \
    }                                                               \
  } while (false)

#define TW_CONCAT_INNER(a, b) a##b
#define TW_CONCAT(a, b) TW_CONCAT_INNER(a, b)

// TW_ASSIGN(const Spec spec, parse_spec(text));
#define TW_ASSIGN(declaration, ...)                                         \
  auto TW_CONCAT(tw_result_, __LINE__) = (__VA_ARGS__);                     \
  if (!TW_CONCAT(tw_result_, __LINE__).ok()) {                              \
    return ::tilewright::detail::error_of(TW_CONCAT(tw_result_, __LINE__)); \
  }                                                                         \
  declaration = *std::move(TW_CONCAT(tw_result_, __LINE__))
