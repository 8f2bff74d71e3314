#include <ctime>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/console.h"
#include "core/check.h"
#include "core/text.h"
#include "runtime/cache_folder.h"

namespace tilewright::cli {
namespace {

std::string age_text(int64_t unix_seconds) {
  const int64_t age = std::max<int64_t>(0, static_cast<int64_t>(std::time(nullptr)) - unix_seconds);
  if (age < 120) return fmt::format("{} s ago", age);
  if (age < 7200) return fmt::format("{} min ago", age / 60);
  if (age < 172800) return fmt::format("{} h ago", age / 3600);
  return fmt::format("{} days ago", age / 86400);
}

void print_list(const std::vector<CacheEntryInfo>& entries, bool json) {
  if (json) {
    Json list = Json::array();
    for (const CacheEntryInfo& entry : entries) {
      list.push(Json::object({{"key", entry.key},
                              {"path", entry.path},
                              {"bytes", entry.bytes},
                              {"used_unix_seconds", entry.used_unix_seconds},
                              {"family", entry.family},
                              {"target", entry.target},
                              {"title", entry.title},
                              {"compiler", entry.compiler_version},
                              {"damage", entry.damage.empty() ? Json() : entry.damage}}));
    }
    print_json(Json::object({{"entries", std::move(list)}}));
    return;
  }
  Table table;
  for (const CacheEntryInfo& entry : entries) {
    const std::string what =
        entry.damage.empty() ? entry.title : coloured("unusable: " + entry.damage, Colour::kYellow);
    table.row({entry.key.substr(0, 12), entry.target, bytes_text(entry.bytes),
               age_text(entry.used_unix_seconds), what});
  }
  print_text(table.text());
}

void print_stats(const std::vector<CacheEntryInfo>& entries, const Options& options, bool json) {
  int64_t bytes = 0, damaged = 0;
  for (const CacheEntryInfo& entry : entries) {
    bytes += entry.bytes;
    damaged += entry.damage.empty() ? 0 : 1;
  }
  if (json) {
    print_json(Json::object({{"directory", options.cache_dir},
                             {"entries", entries.size()},
                             {"bytes", bytes},
                             {"max_bytes", options.cache_max_bytes},
                             {"damaged", damaged}}));
    return;
  }
  Table table;
  table.row({"folder", options.cache_dir});
  table.row({"entries", fmt::format("{}{}", entries.size(),
                                    damaged > 0 ? fmt::format(", {} unusable", damaged) : "")});
  table.row(
      {"size", fmt::format("{} of {}", bytes_text(bytes), bytes_text(options.cache_max_bytes))});
  print_text(table.text());
}

}  // namespace

int run_cache(Words words) {
  CommonFlags flags;
  std::string action;
  ArgumentParser parser("cache", "Lists, measures or clears the kernel cache.",
                        "list|stats|clear [flags]");
  parser.action({"list", "stats", "clear"}, action);
  parser.text("cache-dir", "DIR", "folder of the kernel cache", flags.cache_dir);
  add_json_flag(parser, flags);
  if (const auto code = parser.parse_or_finish(words)) return *code;

  const Options options = make_options(flags);
  const auto fail = [&](const Error& error) { return report_error("cache", error, flags.json); };
  if (options.cache_dir.empty()) {
    return fail(make_error(ErrorCode::kInvalidArgument,
                           "there is no cache folder: neither --cache-dir, TILEWRIGHT_CACHE_DIR, "
                           "XDG_CACHE_HOME nor HOME names one"));
  }
  if (action == "clear") {
    const Result<int64_t> removed = clear_cache(options.cache_dir);
    if (!removed.ok()) return fail(removed.error());
    if (flags.json) {
      print_json(Json::object({{"directory", options.cache_dir}, {"removed", *removed}}));
    } else {
      print_text(fmt::format("removed {} {} from {}\n", *removed,
                             *removed == 1 ? "entry" : "entries", options.cache_dir));
    }
    return kSuccess;
  }
  const Result<std::vector<CacheEntryInfo>> entries = list_cache(options.cache_dir);
  if (!entries.ok()) return fail(entries.error());
  if (action == "list") {
    print_list(*entries, flags.json);
  } else {
    print_stats(*entries, options, flags.json);
  }
  return kSuccess;
}

}  // namespace tilewright::cli
