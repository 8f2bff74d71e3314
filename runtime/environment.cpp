// The only place where the library looks at the environment, and only when a caller asks.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/files.h"
#include "tilewright/session.h"

namespace tilewright {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The XDG rules: a relative path is invalid and passed over.
std::string default_cache_dir() {
  if (const std::string cache = variable("XDG_CACHE_HOME"); cache.starts_with('/')) {
    return join_path(cache, "tilewright");
  }
  const std::string home = variable("HOME");
  return home.starts_with('/') ? join_path(home, ".cache/tilewright") : std::string();
}

// TILEWRIGHT_LOG is "debug", "info" or "warning": messages of that weight and above go to stderr.
// Unset, or any other word: none.
std::function<void(LogLevel, const std::string&)> log_to_stderr(std::string_view level) {
  LogLevel lowest;
  if (level == "debug") {
    lowest = LogLevel::kDebug;
  } else if (level == "info") {
    lowest = LogLevel::kInfo;
  } else if (level == "warning") {
    lowest = LogLevel::kWarning;
  } else {
    return nullptr;
  }
  return [lowest](LogLevel weight, const std::string& message) {
    if (weight >= lowest) std::fprintf(stderr, "tilewright: %s\n", message.c_str());
  };
}

}  // namespace

Options Options::from_environment() {
  Options options;
  options.device = variable("TILEWRIGHT_DEVICE");
  options.cache_dir = variable("TILEWRIGHT_CACHE_DIR");
  if (options.cache_dir.empty()) options.cache_dir = default_cache_dir();
  options.nvrtc_path = variable("TILEWRIGHT_NVRTC");
  options.templates_dir = variable("TILEWRIGHT_TEMPLATES");
  options.log = log_to_stderr(variable("TILEWRIGHT_LOG"));
  return options;
}

}  // namespace tilewright
