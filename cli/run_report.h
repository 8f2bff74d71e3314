// What `run` was asked and what came of it, as text and as JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autotune/trial.h"
#include "cli/common.h"
#include "cli/run_input.h"
#include "cli/run_output.h"
#include "core/json.h"
#include "tilewright/session.h"

namespace tilewright::cli {

struct RunFlags {
  CommonFlags common;
  std::string problem;
  InputFiles files;
  OutputFiles outputs;
  std::optional<uint64_t> seed;
  int64_t repeat = 1;
  bool check = false, counters = false;
};

struct RunOutcome {
  RunInput input;
  DeviceInfo device;
  std::optional<Kernel> kernel;
  CacheCounters cache;
  TrialOutputs outputs;
  std::vector<NotFinite> not_finite;
  double host_seconds = 0;
  std::optional<Verdict> verdict;
  std::vector<std::pair<std::string, uint64_t>> counters;
  std::string reproducer;

  bool passed() const { return !verdict || verdict->ok(); }
};

Json run_json(const RunFlags& flags, const RunOutcome& outcome);
std::string run_text(const RunFlags& flags, const RunOutcome& outcome);

}  // namespace tilewright::cli
