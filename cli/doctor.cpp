#include "cli/commands.h"
#include "cli/common.h"
#include "cli/console.h"
#include "core/check.h"
#include "core/files.h"
#include "core/text.h"
#include "generator/generator.h"
#include "runtime/cache_folder.h"
#include "runtime/device.h"
#include "runtime/offline.h"
#include "templates/embedded.h"

namespace tilewright::cli {
namespace {

enum class Health { kOk, kNote, kWrong };

// One thing looked at: how it is, and how to mend it.
struct Finding {
  std::string subject;
  Health health = Health::kOk;
  std::string detail;
  std::string mend;
};

Finding wrong(std::string subject, const Error& error, std::string mend) {
  return {std::move(subject), Health::kWrong, error.to_string(), std::move(mend)};
}

std::vector<Finding> look_at_devices(int* driver_major) {
  std::vector<Finding> findings;
  const Result<DriverTable> driver = DriverTable::from_library("libcuda.so.1");
  int version = 0;
  if (!driver.ok()) {
    findings.push_back({"driver", Health::kNote, driver.error().message,
                        "nothing to do unless this machine has a GPU: emulated devices need no "
                        "driver"});
  } else if (driver->driver_get_version(&version) == CUDA_SUCCESS) {
    *driver_major = version / 1000;
    findings.push_back(
        {"driver", Health::kOk,
         fmt::format("libcuda.so.1, CUDA {}.{}", version / 1000, version % 1000 / 10), ""});
  }
  std::string driver_error;
  int emulated = 0;
  for (const DeviceListing& device : list_devices(&driver_error)) {
    if (device.name.starts_with("emulated:")) {
      ++emulated;
      continue;
    }
    findings.push_back(
        {"GPU", Health::kOk,
         fmt::format("{}: {}, {}", device.name, device.info.name, device.info.target), ""});
  }
  if (driver.ok() && !driver_error.empty()) {
    findings.push_back({"GPU", Health::kWrong, driver_error,
                        "check that the kernel module is loaded and /dev/nvidia* may be opened "
                        "(nvidia-smi)"});
  }
  if (emulated > 0) {
    findings.push_back({"emulator", Health::kOk, fmt::format("{} devices", emulated), ""});
  } else {
    findings.push_back({"emulator", Health::kWrong, "no emulated device answers",
                        "this program is damaged: install it again"});
  }
  return findings;
}

Finding look_at_templates(const Options& options) {
  if (options.templates_dir.empty()) {
    return {"headers", Health::kOk,
            fmt::format("{} device templates, embedded", embedded_templates().size()), ""};
  }
  for (const EmbeddedFile& file : embedded_templates()) {
    const auto text = read_file(join_path(options.templates_dir, file.path));
    if (!text.ok()) {
      return wrong("headers", text.error(),
                   "point --templates or TILEWRIGHT_TEMPLATES at the folder templates/ of the "
                   "source tree, or unset it");
    }
  }
  return {"headers", Health::kOk, "device templates from " + options.templates_dir, ""};
}

Finding look_at_cache(const Options& options) {
  if (options.cache_dir.empty()) {
    return {"cache", Health::kNote, "no cache folder: every process compiles anew",
            "name one with --cache-dir or TILEWRIGHT_CACHE_DIR"};
  }
  const Status made = make_directories(options.cache_dir, 0700);
  if (!made.ok()) {
    return wrong("cache", made.error(),
                 "name a writable folder with --cache-dir or "
                 "TILEWRIGHT_CACHE_DIR");
  }
  const Status trusted = check_trusted(options.cache_dir);
  if (!trusted.ok()) {
    return wrong(
        "cache", trusted.error(),
        fmt::format("chmod go-w {}, or use a folder of your own", shell_quote(options.cache_dir)));
  }
  const std::string probe = join_path(options.cache_dir, "doctor-" + random_name(8) + ".tmp");
  const Status written = write_file_atomically(probe, "probe");
  if (!written.ok()) {
    return wrong("cache", written.error(),
                 "make the folder writable, or name another with "
                 "--cache-dir; until then nothing new is kept");
  }
  const Status removed = remove_file(probe);
  if (!removed.ok()) return wrong("cache", removed.error(), "check the folder's permissions");
  const Result<std::vector<CacheEntryInfo>> entries = list_cache(options.cache_dir);
  if (!entries.ok()) return wrong("cache", entries.error(), "tilewright cache clear");
  int64_t bytes = 0;
  for (const CacheEntryInfo& entry : *entries) bytes += entry.bytes;
  return {"cache", Health::kOk,
          fmt::format("{}: {} entries, {}", options.cache_dir, entries->size(), bytes_text(bytes)),
          ""};
}

// A small kernel from source to cubin: the one proof that NVRTC works with our templates.
Result<double> try_compiling(const Options& options) {
  Options uncached = options;
  uncached.cache_dir.clear();
  TW_ASSIGN(const Problem problem, Problem::parse("q64 k64 qk64 v64 fp16"));
  TW_ASSIGN(const Arch arch, arch_from_target("sm_80"));
  TW_ASSIGN(const Choice choice, choose_config(problem, arch));
  TW_ASSIGN(const CacheResult compiled,
            compile_offline(uncached, problem, choice.config, arch.target()));
  return compiled.binary->code.seconds;
}

std::vector<Finding> look_at_compiler(const Options& options, int driver_major) {
  const std::string mend =
      "install a CUDA toolkit or the wheel nvidia-cuda-nvrtc whose major version is at most the "
      "driver's, or name the library with --nvrtc or TILEWRIGHT_NVRTC";
  Result<NvrtcLocation> location = nvrtc_for(options, driver_major);
  if (!location.ok()) return {wrong("NVRTC", location.error(), mend)};
  Nvrtc nvrtc(*location);
  const Result<std::string> version = nvrtc.version();
  if (!version.ok()) return {wrong("NVRTC", version.error(), mend)};
  std::vector<Finding> findings = {
      {"NVRTC", Health::kOk, fmt::format("{} at {}", *version, location->path), ""}};
  const Result<double> seconds = try_compiling(options);
  if (seconds.ok()) {
    findings.push_back({"compile", Health::kOk,
                        fmt::format("a kernel for sm_80 in {}", seconds_text(*seconds)), ""});
  } else {
    findings.push_back(wrong("compile", seconds.error(),
                             "see the log above; another NVRTC may "
                             "do better (--nvrtc)"));
  }
  return findings;
}

std::string_view word(Health health) {
  return health == Health::kOk ? "ok" : health == Health::kNote ? "note" : "WRONG";
}

std::string as_text(const std::vector<Finding>& findings) {
  Table table;
  for (const Finding& finding : findings) {
    const Colour colour = finding.health == Health::kOk     ? Colour::kGreen
                          : finding.health == Health::kNote ? Colour::kYellow
                                                            : Colour::kRed;
    // Padded before colouring, since colour codes have no width.
    table.row({finding.subject, coloured(fmt::format("{:<5}", word(finding.health)), colour),
               finding.detail});
    if (!finding.mend.empty()) table.row({"", "     ", "-> " + finding.mend});
  }
  return table.text();
}

Json as_json(const std::vector<Finding>& findings, bool healthy) {
  Json list = Json::array();
  for (const Finding& finding : findings) {
    list.push(Json::object({{"subject", finding.subject},
                            {"status", word(finding.health)},
                            {"detail", finding.detail},
                            {"mend", finding.mend}}));
  }
  return Json::object({{"ok", healthy}, {"findings", std::move(list)}});
}

}  // namespace

int run_doctor(Words words) {
  CommonFlags flags;
  ArgumentParser parser("doctor", "Checks this machine, and says how to mend what is wrong.");
  add_json_flag(parser, flags);
  add_runtime_flags(parser, flags);
  if (const auto code = parser.parse_or_finish(words)) return *code;

  const Options options = make_options(flags);
  const Progress progress("looking at this machine");
  int driver_major = 0;
  std::vector<Finding> findings = look_at_devices(&driver_major);
  for (Finding& finding : look_at_compiler(options, driver_major)) {
    findings.push_back(std::move(finding));
  }
  findings.push_back(look_at_templates(options));
  findings.push_back(look_at_cache(options));

  bool healthy = true;
  for (const Finding& finding : findings) healthy = healthy && finding.health != Health::kWrong;
  if (flags.json) {
    print_json(as_json(findings, healthy));
  } else {
    print_text(as_text(findings));
  }
  return healthy ? kSuccess : kFailure;
}

}  // namespace tilewright::cli
