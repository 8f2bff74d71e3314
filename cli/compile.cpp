#include <unistd.h>

#include <algorithm>

#include "cli/commands.h"
#include "cli/common.h"
#include "cli/console.h"
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
void print_plan(const Compiled& compiled, bool json) {
  const std::string config = to_string(compiled.choice.config);
  if (json) {
    print_json(Json::object({{"problem", compiled.problem.to_string()},
                             {"target", compiled.arch.target()},
                             {"config", config},
                             {"provenance", compiled.choice.provenance}}));
    return;
  }
  Table table;
  table.row({"problem", compiled.problem.to_string()});
  table.row({"target", compiled.arch.target()});
  table.row({"config", fmt::format("{} ({})", config, compiled.choice.provenance)});
  print_text(table.text());
}

void print_report(const Compiled& compiled, bool json) {
  if (compiled.result.binary == nullptr) return print_plan(compiled, json);
  const Binary& binary = *compiled.result.binary;
  const std::vector<EntryPoint> entries =
      family_of(compiled.choice.config).entries(compiled.choice.config);
  if (json) {
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
    print_json(report);
    return;
  }
  const auto known = [](int64_t value) {
    return value < 0 ? std::string("unknown") : fmt::to_string(value);
  };
  Table table;
  table.row({"problem", compiled.problem.to_string()});
  table.row({"target", binary.target});
  table.row({"config", fmt::format("{} ({})", to_string(compiled.choice.config),
                                   compiled.choice.provenance)});
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
  print_text(table.text());
}

Status emit_artifact(const Compiled& compiled, const CompileFlags& flags) {
  const auto artifact = [&]() -> std::string {
    if (flags.emit == "cuda") return emit(compiled.problem, compiled.choice.config).text;
    const auto& code = compiled.result.binary->code;
    return flags.emit == "ptx" ? code.ptx : flags.emit == "log" ? code.log : code.cubin;
  };
  const std::string bytes = artifact();
  if (!flags.out.empty()) return write_file_atomically(flags.out, bytes);
  if (flags.emit == "cubin" && ::isatty(STDOUT_FILENO) != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "a cubin is binary: name a file with --out, or redirect the output");
  }
  print_text(bytes);
  return {};
}

}  // namespace

int run_compile(Words words) {
  CompileFlags flags;
  ArgumentParser parser("compile",
                        "Compiles the kernel of a problem and reports what it takes; needs no "
                        "device.",
                        "--problem TEXT [--arch TARGET] [flags]");
  parser.text("problem", "TEXT", "what to compute; absent lengths mean the 4096 bucket",
              flags.problem);
  parser.text("arch", "TARGET", "sm_80, sm_86, sm_89, sm_90, sm_90a; default: the device's",
              flags.arch);
  parser.text("config", "TEXT", "this config instead of the chosen one", flags.config);
  parser.choice("emit", {"cuda", "ptx", "cubin", "log"}, "print the artifact, not the report",
                flags.emit);
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
  if (!flags.out.empty() && flags.emit.empty()) {
    return fail(make_error(ErrorCode::kInvalidArgument, "--out needs --emit: which artifact?"));
  }
  const Result<Compiled> compiled = compile(flags);
  if (!compiled.ok()) return fail(compiled.error());
  if (!flags.emit.empty()) {
    const Status status = emit_artifact(*compiled, flags);
    if (!status.ok()) return fail(status.error());
    if (flags.out.empty()) return kSuccess;
  }
  print_report(*compiled, flags.common.json);
  return kSuccess;
}

}  // namespace tilewright::cli
