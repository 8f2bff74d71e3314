#include "cli/common.h"

#include <cstdio>
#include <utility>

#include "cli/console.h"
#include "core/check.h"
#include "core/text.h"
#include "runtime/device.h"

namespace tilewright::cli {

void add_json_flag(ArgumentParser& parser, CommonFlags& flags) {
  parser.flag("json", "print one JSON object", flags.json);
}

void add_device_flag(ArgumentParser& parser, CommonFlags& flags) {
  parser.text("device", "NAME", "cuda:N or emulated:PROFILE; default: a GPU, else emulated:h100",
              flags.device);
}

void add_runtime_flags(ArgumentParser& parser, CommonFlags& flags) {
  parser.group("Compiler and cache");
  parser.text("cache-dir", "DIR", "folder of the kernel cache", flags.cache_dir);
  parser.flag("no-cache", "neither read nor write the cache folder", flags.no_cache);
  parser.text("nvrtc", "FILE", "the NVRTC library to use", flags.nvrtc);
  parser.text("templates", "DIR", "read the device templates from here (development)",
              flags.templates);
  parser.choice("log", {"debug", "info", "warning", "none"}, "messages on stderr", flags.log);
  parser.environment("log", "TILEWRIGHT_LOG");
}

Options make_options(const CommonFlags& flags) {
  Options options = Options::from_environment();
  if (!flags.device.empty()) options.device = flags.device;
  if (!flags.cache_dir.empty()) options.cache_dir = flags.cache_dir;
  if (flags.no_cache) options.cache_dir.clear();
  if (!flags.nvrtc.empty()) options.nvrtc_path = flags.nvrtc;
  if (!flags.templates.empty()) options.templates_dir = flags.templates;
  if (flags.log == "none") {
    options.log = nullptr;
  } else {
    const LogLevel least = flags.log == "debug"  ? LogLevel::kDebug
                           : flags.log == "info" ? LogLevel::kInfo
                                                 : LogLevel::kWarning;
    options.log = [least](LogLevel level, const std::string& message) {
      if (level < least) return;
      fmt::print(stderr, "tilewright: {}{}\n", level == LogLevel::kWarning ? "warning: " : "",
                 message);
    };
  }
  if (options.cache_dir.empty() && !flags.no_cache && options.log) {
    options.log(LogLevel::kWarning,
                "no folder for the kernel cache: set HOME, XDG_CACHE_HOME or TILEWRIGHT_CACHE_DIR; "
                "kernels are compiled anew in every run");
  }
  return options;
}

Result<Problem> parse_problem_flag(const std::string& text) {
  if (text.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--problem is missing, as in --problem \"hq32 hkv8 qk128 bf16 causal\"");
  }
  TW_ASSIGN(Problem problem, Problem::parse(text));
  return problem;
}

void fill_for_planning(Problem& problem) {
  // A decoder's step takes one query and one key.
  const int64_t length = problem.pass == Pass::kLinearStep ? 1 : 4096;
  if (!problem.dtype) problem.dtype = Dtype::kFloat16;
  if (!problem.head_dim_v) problem.head_dim_v = problem.head_dim_qk;
  if (!problem.seqlen_q) problem.seqlen_q = length;
  if (!problem.seqlen_k) problem.seqlen_k = length;
}

Result<Arch> arch_from_flags(const std::string& target, const Options& options) {
  if (!target.empty()) return arch_from_target(target);
  TW_ASSIGN(const std::shared_ptr<const Device> device, Device::open(options.device));
  return device->arch();
}

Json resources_json(const KernelResources& resources) {
  const auto known = [](int64_t value) { return value < 0 ? Json() : Json(value); };
  return Json::object({{"registers", known(resources.registers)},
                       {"static_shared_bytes", known(resources.static_shared_bytes)},
                       {"spill_store_bytes", known(resources.spill_store_bytes)},
                       {"spill_load_bytes", known(resources.spill_load_bytes)},
                       {"stack_bytes", known(resources.stack_bytes)}});
}

std::string_view origin_name(BinaryOrigin origin) {
  switch (origin) {
    case BinaryOrigin::kCompiled:
      return "compiled";
    case BinaryOrigin::kDisk:
      return "disk";
    case BinaryOrigin::kMemory:
      return "memory";
  }
  return "unknown";
}

}  // namespace tilewright::cli
