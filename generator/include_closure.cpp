#include "generator/include_closure.h"

#include <vector>

#include "core/check.h"
#include "core/text.h"

namespace tilewright {
namespace {

// The path of `#include "path"`, or nothing. Templates include only each other, always by full
// path in quotes.
std::optional<std::string_view> included_path(std::string_view line) {
  line = trim(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = trim(line.substr(1));
  if (!line.starts_with("include")) return std::nullopt;
  line = trim(line.substr(std::string_view("include").size()));
  if (!line.starts_with('"')) return std::nullopt;
  const size_t end = line.find('"', 1);
  if (end == std::string_view::npos) return std::nullopt;
  return line.substr(1, end - 1);
}

}  // namespace

Result<std::map<std::string, std::string_view>> include_closure(std::string_view root,
                                                                const TemplateLookup& lookup) {
  std::map<std::string, std::string_view> closure;
  struct Request {
    std::string path, includer;
  };
  std::vector<Request> open = {{std::string(root), "the stub"}};
  while (!open.empty()) {
    const Request request = std::move(open.back());
    open.pop_back();
    if (closure.contains(request.path)) continue;
    const std::optional<std::string_view> text = lookup(request.path);
    if (!text) {
      return make_error(ErrorCode::kNotFound, "no template '{}', included by {}", request.path,
                        request.includer);
    }
    closure.emplace(request.path, *text);
    for (const std::string_view line : split(*text, '\n')) {
      if (const auto path = included_path(line)) {
        open.push_back({std::string(*path), request.path});
      }
    }
  }
  return closure;
}

}  // namespace tilewright
