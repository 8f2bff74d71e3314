// Result<T> and Status: how every function of Tilewright reports failure. An Error carries a stable
// code for programs, one sentence with the offending values for people, and, where several things
// are wrong at once, the list of reasons. No exception crosses the library's boundary.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tilewright {

// Stable: values are never renumbered, new ones are appended.
enum class ErrorCode : int {
  kInvalidArgument = 1,      // a value the caller passed is wrong
  kParseError = 2,           // text that does not follow its grammar
  kUnsupportedProblem = 3,   // well-formed, but no kernel family takes it (reasons say why)
  kNotFound = 4,             // a file, symbol, device or entry that does not exist
  kIoError = 5,              // the file system refused
  kCompileError = 6,         // NVRTC or ptxas rejected the source
  kCompilerUnavailable = 7,  // no usable NVRTC
  kDriverError = 8,          // the CUDA driver, real or emulated, returned an error
  kNoDevice = 9,             // no such device, or no driver for it
  kOutOfMemory = 10,         // device or host memory is exhausted
  kDeviceFault = 11,         // a kernel faulted while it ran
  kOverflow = 12,            // a size does not fit in 64 bits
  kInternal = 13,            // a bug of Tilewright
};

// "invalid-argument", "parse-error", … ; "unknown" for a value outside the enum.
std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;               // one sentence, no trailing full stop or newline
  std::vector<std::string> reasons;  // every reason found, when there is more than one thing to say

  // "message" followed by one indented line per reason.
  std::string to_string() const;
};

namespace detail {
[[noreturn]] inline void die_on_error(const Error& error) {
  std::fprintf(stderr, "tilewright: unchecked error: %s\n", error.to_string().c_str());
  std::abort();
}
}  // namespace detail

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  // Only on failure.
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

// A T or an Error. `*` and `->` on an error are the caller's bug: the process ends with the
// message.
template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : value_(std::move(value)) {}      // NOLINT(google-explicit-constructor)
  Result(Error error) : error_(std::move(error)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return error_; }

  T& operator*() & { return checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }

  // The failure as a Status (success if ok).
  Status status() const { return ok() ? Status() : Status(error_); }

 private:
  T& checked() {
    if (!value_) detail::die_on_error(error_);
    return *value_;
  }

  std::optional<T> value_;
  Error error_;
};

}  // namespace tilewright
