// One forward problem, run on an emulated device and judged: what every kernel test does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "autotune/trial.h"
#include "core/any_config.h"

namespace tilewright::testing {

struct ForwardRun {
  std::string device = "emulated:a100";
  std::string problem;
  uint64_t seed = 7;
  TrialOptions options = {.gaps = true};
  std::optional<AnyConfig> config = std::nullopt;  // else the generator's choice
};

// A problem text with random inputs.
struct Trial {
  Problem problem;
  reference::Sizes sizes;
  TrialTensors inputs;
};
Trial make_trial(const std::string& text, uint64_t seed);

// "" if the problem runs and is right; else what is wrong, the emulator's report, the config and
// the command that repeats it.
std::string run_and_verify(const ForwardRun& run);

// The same under the schedules eager, lazy and random, with observers `full`: every legal order of
// the asynchronous copies gives the same bits.
std::string verify_under_every_schedule(const std::string& problem);

// The problem with every step-th of its candidates that pack query heads, under all of
// watched_schedules(); "" or what run_and_verify says of the first that is not right.
std::string verify_packed_candidates(const std::string& device, const std::string& problem,
                                     size_t step);

// Matrix instructions of one tile of a config: S = Q·Kᵀ and O += P·V in steps of 16 x 8 x 16.
uint64_t mma_per_tile(const attention::ForwardSm80Config& config);

// The outputs of a run with given inputs, for tests that compare runs with each other. Ends the
// test program on an error.
TrialOutputs outputs_of(const ForwardRun& run, const TrialTensors& inputs);

}  // namespace tilewright::testing
