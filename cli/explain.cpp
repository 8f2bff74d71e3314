#include <algorithm>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/console.h"
#include "core/check.h"
#include "core/text.h"
#include "generator/generator.h"
#include "runtime/cache.h"
#include "runtime/cache_folder.h"
#include "runtime/offline.h"

namespace tilewright::cli {
namespace {

struct ExplainFlags {
  CommonFlags common;
  std::string problem, arch;
  bool source = false;
};

// The steps of Session::prepare, each with what came out of it. Later ones are absent if an earlier
// one failed.
struct Explanation {
  Problem problem;
  Arch arch;
  std::vector<Refusal> refusals;
  std::vector<AnyConfig> candidates;
  std::optional<Choice> choice;
  std::optional<KernelSource> source;
  std::vector<std::string> headers;
  std::optional<NvrtcLocation> compiler;
  std::string no_compiler;  // why there is none, and so no key
  std::string key;
  bool cached = false;
  std::optional<Error> error;  // of the step that failed
};

Status explain_key(const Options& options, Explanation& explanation) {
  TW_ASSIGN(
      const CompileRequest request,
      make_compile_request(*explanation.source, explanation.arch.target(), options.templates_dir));
  for (const DeviceHeader& header : request.headers) explanation.headers.push_back(header.name);
  Result<NvrtcLocation> compiler = nvrtc_for(options, /*driver_major=*/0);
  if (!compiler.ok()) {
    // Nothing is compiled here: all but the key, which names the compiler, is known without one.
    explanation.no_compiler = compiler.error().message;
    return {};
  }
  explanation.compiler = *std::move(compiler);
  explanation.key = cache_key(request, explanation.compiler->identity);
  if (options.cache_dir.empty()) return {};
  TW_ASSIGN(const std::vector<CacheEntryInfo> entries, list_cache(options.cache_dir));
  explanation.cached = std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
    return entry.key == explanation.key && entry.damage.empty();
  });
  return {};
}

Result<Explanation> explain(const ExplainFlags& flags) {
  const Options options = make_options(flags.common);
  Explanation explanation;
  TW_ASSIGN(explanation.problem, parse_problem_flag(flags.problem));
  fill_for_planning(explanation.problem);
  TW_TRY(validate(explanation.problem));
  TW_ASSIGN(explanation.arch, arch_from_flags(flags.arch, options));
  explanation.refusals = refusals(explanation.problem, explanation.arch);
  explanation.candidates = candidates(explanation.problem, explanation.arch);
  Result<Choice> choice = choose_config(explanation.problem, explanation.arch);
  if (!choice.ok()) {
    explanation.error = choice.error();
    return explanation;
  }
  explanation.choice = *std::move(choice);
  explanation.source = emit(explanation.problem, explanation.choice->config);
  const Status status = explain_key(options, explanation);
  if (!status.ok()) explanation.error = status.error();
  return explanation;
}

Json as_json(const Explanation& explanation) {
  Json refused = Json::array();
  for (const Refusal& refusal : explanation.refusals) {
    refused.push(Json::object({{"family", refusal.family}, {"reason", refusal.reason}}));
  }
  Json candidate_list = Json::array();
  for (const AnyConfig& config : explanation.candidates) candidate_list.push(to_string(config));
  Json json = Json::object({{"problem", explanation.problem.to_string()},
                            {"target", explanation.arch.target()},
                            {"refusals", std::move(refused)},
                            {"candidates", std::move(candidate_list)}});
  if (explanation.choice) {
    json.set("config", to_string(explanation.choice->config));
    json.set("provenance", explanation.choice->provenance);
  }
  if (explanation.source) {
    json.set("family", explanation.source->family);
    json.set("template", explanation.source->template_path);
    Json entries = Json::array();
    for (const std::string& name : explanation.source->entry_names) entries.push(name);
    json.set("entries", std::move(entries));
    json.set("source", explanation.source->text);
  }
  Json headers = Json::array();
  for (const std::string& header : explanation.headers) headers.push(header);
  json.set("headers", std::move(headers));
  if (explanation.compiler) {
    json.set("compiler", Json::object({{"path", explanation.compiler->path},
                                       {"identity", explanation.compiler->identity}}));
  }
  if (!explanation.no_compiler.empty()) json.set("compiler_error", explanation.no_compiler);
  if (!explanation.key.empty()) {
    json.set("key", explanation.key);
    json.set("cached", explanation.cached);
  }
  if (explanation.error) json.set("error", explanation.error->to_string());
  return json;
}

std::string as_text(const Explanation& explanation, bool with_source) {
  Table table;
  table.row({"problem", explanation.problem.to_string()});
  table.row({"target", fmt::format("{}, {} SMs, {} shared memory a block",
                                   explanation.arch.target(), explanation.arch.num_sms,
                                   bytes_text(explanation.arch.shared_bytes_per_block))});
  if (explanation.refusals.empty()) table.row({"refusals", "none"});
  for (const Refusal& refusal : explanation.refusals) {
    table.row({"refusal", fmt::format("{}: {}", refusal.family, refusal.reason)});
  }
  table.row({"candidates", fmt::to_string(explanation.candidates.size())});
  if (explanation.choice) {
    table.row({"chosen", fmt::format("{} ({})", to_string(explanation.choice->config),
                                     explanation.choice->provenance)});
  }
  if (explanation.source) {
    const auto lines =
        std::count(explanation.source->text.begin(), explanation.source->text.end(), '\n');
    table.row(
        {"source", fmt::format("{} lines around {}", lines, explanation.source->template_path)});
  }
  if (!explanation.headers.empty()) {
    table.row({"includes", fmt::format("{} files", explanation.headers.size())});
  }
  if (explanation.compiler) {
    table.row({"compiler",
               fmt::format("{} ({})", explanation.compiler->path, explanation.compiler->identity)});
  }
  if (!explanation.no_compiler.empty()) table.row({"key", "open: " + explanation.no_compiler});
  if (!explanation.key.empty()) {
    table.row({"key", explanation.key});
    table.row({"cache", explanation.cached ? "hit: nothing to compile" : "miss: would compile"});
  }
  std::string text = table.text();
  if (with_source && explanation.source) text += "\n" + explanation.source->text;
  return text;
}

}  // namespace

int run_explain(Words words) {
  ExplainFlags flags;
  ArgumentParser parser(
      "explain",
      "Shows how a problem becomes a kernel: who refuses and why, the candidates, "
      "the\nchosen config, its source and its key in the cache. Compiles nothing.",
      "--problem TEXT [--arch TARGET] [flags]");
  parser.text("problem", "TEXT", "what to compute; absent lengths are 4096", flags.problem);
  parser.text("arch", "TARGET", "sm_80, sm_86, sm_89, sm_90, sm_90a; default: the device's",
              flags.arch);
  parser.flag("source", "print the source text too", flags.source);
  add_device_flag(parser, flags.common);
  add_json_flag(parser, flags.common);
  add_runtime_flags(parser, flags.common);
  parser.example("tilewright explain --problem \"hq32 hkv8 qk128 bf16 causal\" --arch sm_80");
  if (const auto code = parser.parse_or_finish(words)) return *code;

  const Result<Explanation> explanation = explain(flags);
  if (!explanation.ok()) return report_error("explain", explanation.error(), flags.common.json);
  if (flags.common.json) {
    print_json(as_json(*explanation));
  } else {
    print_text(as_text(*explanation, flags.source));
  }
  if (!explanation->error) return kSuccess;
  return report_error("explain", *explanation->error, /*json=*/false);
}

}  // namespace tilewright::cli
