#include "tilewright/result.h"

namespace tilewright {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return "invalid-argument";
    case ErrorCode::kParseError:
      return "parse-error";
    case ErrorCode::kUnsupportedProblem:
      return "unsupported-problem";
    case ErrorCode::kNotFound:
      return "not-found";
    case ErrorCode::kIoError:
      return "io-error";
    case ErrorCode::kCompileError:
      return "compile-error";
    case ErrorCode::kCompilerUnavailable:
      return "compiler-unavailable";
    case ErrorCode::kDriverError:
      return "driver-error";
    case ErrorCode::kNoDevice:
      return "no-device";
    case ErrorCode::kOutOfMemory:
      return "out-of-memory";
    case ErrorCode::kDeviceFault:
      return "device-fault";
    case ErrorCode::kOverflow:
      return "overflow";
    case ErrorCode::kInternal:
      return "internal";
  }
  return "unknown";
}

std::string Error::to_string() const {
  std::string text = message;
  for (const std::string& reason : reasons) {
    if (reason != message) text += "\n  " + reason;  // the first of several may be the message
  }
  return text;
}

}  // namespace tilewright
