// Which template files a kernel is made of: the transitive includes of its root template. Part of
// the cache key, so that editing a header of one family leaves the entries of others valid.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "tilewright/result.h"

namespace tilewright {

// The text of a template by its path from templates/ ("attention/forward_sm80.cuh"); nullopt if
// there is none.
using TemplateLookup = std::function<std::optional<std::string_view>(std::string_view path)>;

// Path -> text of `root` and everything it includes, sorted by path. kNotFound names the missing
// file and who includes it.
Result<std::map<std::string, std::string_view>> include_closure(std::string_view root,
                                                                const TemplateLookup& lookup);

}  // namespace tilewright
