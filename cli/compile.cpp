#include <unistd.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/console.h"
#include "cli/output_files.h"
#include "core/check.h"
#include "core/files.h"
#include "core/text.h"
#include "generator/family.h"
#include "generator/generator.h"
#include "runtime/offline.h"

namespace tilewright::cli {
namespace {

struct CompileFlags {
  CommonFlags common;
  std::string problem, arch, config, emit, out;
};

struct Compiled {
  Problem problem;
  Arch arch;
  Choice choice;
  CacheResult result;  // empty if only the source was asked for
};

// What to compile: all that needs no compiler.
Result<Compiled> plan(const CompileFlags& flags, const Options& options) {
  Compiled compiled;
  TW_ASSIGN(compiled.problem, parse_problem_flag(flags.problem));
  fill_for_planning(compiled.problem);
  TW_TRY(validate(compiled.problem));
  TW_ASSIGN(compiled.arch, arch_from_flags(flags.arch, options));
  TW_ASSIGN(compiled.choice, choose_config(compiled.problem, compiled.arch));
  if (!flags.config.empty()) {
    TW_ASSIGN(compiled.choice.config, parse_config(flags.config));
    compiled.choice.provenance = "given";
    const std::vector<AnyConfig> known = candidates(compiled.problem, compiled.arch);
    if (std::find(known.begin(), known.end(), compiled.choice.config) == known.end()) {
      return make_error(ErrorCode::kUnsupportedProblem,
                        "the config '{}' is no candidate for '{}' on {}; tilewright explain --json "
                        "lists those that are",
                        to_string(compiled.choice.config), compiled.problem.to_string(),
                        compiled.arch.target());
    }
  }
  return compiled;
}

Result<Compiled> compile(const CompileFlags& flags) {
  const Options options = make_options(flags.common);
  TW_ASSIGN(Compiled compiled, plan(flags, options));
  if (flags.emit == "cuda") return compiled;
  const Progress progress("compiling " + to_string(compiled.choice.config));
  TW_ASSIGN(compiled.result, compile_offline(options, compiled.problem, compiled.choice.config,
                                             compiled.arch.target()));
  return compiled;
}

// Of the CUDA source: there is no binary to report on.
Json plan_json(const Compiled& compiled) {
  return Json::object({{"problem", compiled.problem.to_string()},
                       {"target", compiled.arch.target()},
                       {"config", to_string(compiled.choice.config)},
                       {"provenance", compiled.choice.provenance}});
}

Json report_json(const Compiled& compiled) {
  if (compiled.result.binary == nullptr) return plan_json(compiled);
  const Binary& binary = *compiled.result.binary;
  const std::vector<EntryPoint> entries =
      family_of(compiled.choice.config).entries(compiled.choice.config);
  Json report = Json::object({{"problem", compiled.problem.to_string()},
                              {"target", binary.target},
                              {"config", to_string(compiled.choice.config)},
                              {"provenance", compiled.choice.provenance},
                              {"key", binary.key},
                              {"origin", origin_name(compiled.result.origin)},
                              {"compiler", binary.code.compiler_version},
                              {"compile_seconds", binary.code.seconds}});
  Json entry_list = Json::array();
  for (size_t i = 0; i < entries.size(); ++i) {
    Json entry = resources_json(binary.code.resources.at(i));
    entry.set("name", entries[i].name);
    entry.set("dynamic_shared_bytes", entries[i].shared_bytes);
    entry_list.push(std::move(entry));
  }
  report.set("entries", std::move(entry_list));
  report.set("ptx_bytes", binary.code.ptx.size());
  report.set("cubin_bytes", binary.code.cubin.size());
  return report;
}

std::string report_text(const Compiled& compiled) {
  Table table;
  table.row({"problem", compiled.problem.to_string()});
  table.row({"target", compiled.arch.target()});
  table.row({"config", fmt::format("{} ({})", to_string(compiled.choice.config),
                                   compiled.choice.provenance)});
  if (compiled.result.binary == nullptr) return table.text();
  const Binary& binary = *compiled.result.binary;
  const std::vector<EntryPoint> entries =
      family_of(compiled.choice.config).entries(compiled.choice.config);
  const auto known = [](int64_t value) {
    return value < 0 ? std::string("unknown") : fmt::to_string(value);
  };
  for (size_t i = 0; i < entries.size(); ++i) {
    const KernelResources& resources = binary.code.resources.at(i);
    table.row({"entry", entries[i].name});
    table.row({"registers", known(resources.registers)});
    table.row({"shared", fmt::format("{} dynamic, {} static bytes", entries[i].shared_bytes,
                                     known(resources.static_shared_bytes))});
    table.row(
        {"spills", fmt::format("{} stored, {} loaded bytes", known(resources.spill_store_bytes),
                               known(resources.spill_load_bytes))});
  }
  table.row({"compiled", fmt::format("in {} by {}{}", seconds_text(binary.code.seconds),
                                     binary.code.compiler_version,
                                     compiled.result.origin == BinaryOrigin::kCompiled
                                         ? ""
                                         : "; found in the cache, 0 compiles")});
  table.row({"key", binary.key});
  return table.text();
}

std::string artifact(const Compiled& compiled, const std::string& kind) {
  if (kind == "cuda") return emit(compiled.problem, compiled.choice.config).text;
  const CompiledCode& code = compiled.result.binary->code;
  return kind == "ptx" ? code.ptx : kind == "log" ? code.log : code.cubin;
}

// What no run could print, before anything is compiled.
Status check_emit(const CompileFlags& flags) {
  if (!flags.out.empty() && flags.emit.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--out needs --emit: which artifact?");
  }
  TW_TRY(check_outputs({{"--out", flags.out}}, {}));
  if (flags.emit != "cubin" || !flags.out.empty()) return {};
  if (flags.common.json) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a cubin is binary, which JSON does not hold: name a file with --out");
  }
  if (::isatty(STDOUT_FILENO) == 0) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "a cubin is binary: name a file with --out, or redirect the output");
}

// The report; or the artifact alone, unless it goes to a file; or in JSON both.
Status print(const Compiled& compiled, const CompileFlags& flags) {
  const bool emits = !flags.emit.empty();
  if (!flags.out.empty()) {
    TW_TRY(write_file_atomically(flags.out, artifact(compiled, flags.emit)));
  }
  if (flags.common.json) {
    Json report = report_json(compiled);
    if (!flags.out.empty()) report.set("out", flags.out);
    if (emits && flags.out.empty()) report.set(flags.emit, artifact(compiled, flags.emit));
    print_json(report);
  } else if (emits && flags.out.empty()) {
    print_text(artifact(compiled, flags.emit));
  } else {
    print_text(report_text(compiled));
  }
  return {};
}

}  // namespace

int run_compile(Words words) {
  CompileFlags flags;
  ArgumentParser parser("compile",
                        "Compiles the kernel of a problem and reports what it takes; needs no "
                        "device.",
                        "--problem TEXT [--arch TARGET] [flags]");
  parser.text("problem", "TEXT", "what to compute; absent lengths are 4096", flags.problem);
  parser.text("arch", "TARGET", "sm_80, sm_86, sm_89, sm_90, sm_90a; default: the device's",
              flags.arch);
  parser.text("config", "TEXT", "this config instead of the chosen one", flags.config);
  parser.choice("emit", {"cuda", "ptx", "cubin", "log"},
                "print the artifact, not the report; with --json both", flags.emit);
  parser.text("out", "FILE", "write the artifact here", flags.out);
  add_device_flag(parser, flags.common);
  add_json_flag(parser, flags.common);
  add_runtime_flags(parser, flags.common);
  parser.example("tilewright compile --problem \"hq32 hkv8 qk128 v128 bf16 causal\" --arch sm_80");
  parser.example("tilewright compile --problem \"qk64 fp16\" --arch sm_80 --emit ptx --out k.ptx");
  if (const auto code = parser.parse_or_finish(words)) return *code;

  const auto fail = [&](const Error& error) {
    return report_error("compile", error, flags.common.json);
  };
  const Status possible = check_emit(flags);
  if (!possible.ok()) return fail(possible.error());
  const Result<Compiled> compiled = compile(flags);
  if (!compiled.ok()) return fail(compiled.error());
  const Status printed = print(*compiled, flags);
  if (!printed.ok()) return fail(printed.error());
  return kSuccess;
}

}  // namespace tilewright::cli
