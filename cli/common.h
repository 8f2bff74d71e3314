// Flags that several subcommands share, and what they mean.
#pragma once

#include <cstdint>
#include <string>

#include "cli/arguments.h"
#include "core/arch.h"
#include "core/json.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"
#include "tilewright/session.h"

namespace tilewright::cli {

// Each overrides its environment variable (TILEWRIGHT_DEVICE, …) if given.
struct CommonFlags {
  std::string device, cache_dir, nvrtc, templates, log;
  bool no_cache = false;
  bool json = false;
};

void add_json_flag(ArgumentParser& parser, CommonFlags& flags);
void add_device_flag(ArgumentParser& parser, CommonFlags& flags);
// --cache-dir, --no-cache, --nvrtc, --templates, --log (or TILEWRIGHT_LOG, with the same words).
void add_runtime_flags(ArgumentParser& parser, CommonFlags& flags);

// The environment with the flags over it; warnings go to stderr unless --log says otherwise.
Options make_options(const CommonFlags& flags);

// A problem's text; an absent flag is a usage error.
Result<Problem> parse_problem_flag(const std::string& text);

// What compile and explain assume of absent items: fp16, v = qk, lengths of 4096.
void fill_for_planning(Problem& problem);

// An architecture by "sm_80", or that of the device.
Result<Arch> arch_from_flags(const std::string& target, const Options& options);

Json resources_json(const KernelResources& resources);
std::string_view origin_name(BinaryOrigin origin);  // "compiled", "disk", "memory"

}  // namespace tilewright::cli
