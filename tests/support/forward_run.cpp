#include "tests/support/forward_run.h"

#include "core/check.h"
#include "generator/generator.h"
#include "runtime/session_access.h"
#include "tests/support/emulated_session.h"

namespace tilewright::testing {
namespace {

Result<Kernel> prepare(Session& session, const Problem& problem,
                       const std::optional<AnyConfig>& config) {
  if (config) return SessionAccess::prepare_with_config(session, problem, *config);
  return session.prepare(problem);
}

std::string explain(const std::string& what, const ForwardRun& run, const Problem& problem,
                    const Kernel& kernel) {
  return fmt::format("{}\n{}\n{} on {}\nrepeat with {} --device {}", what, last_emulator_report(),
                     kernel.config_text(), run.device, reproducer(problem, run.seed), run.device);
}

}  // namespace

Trial make_trial(const std::string& text, uint64_t seed) {
  Trial trial = {*Problem::parse(text), {}, {}};
  trial.sizes = *trial_sizes(trial.problem);
  trial.inputs = random_inputs(trial.problem, trial.sizes, seed);
  return trial;
}

std::string run_and_verify(const ForwardRun& run) {
  const Result<Problem> problem = Problem::parse(run.problem);
  if (!problem.ok()) return problem.error().to_string();
  Session& session = shared_session(run.device);
  const Result<Kernel> kernel = prepare(session, *problem, run.config);
  if (!kernel.ok()) return kernel.error().to_string();
  const Result<reference::Sizes> sizes = trial_sizes(*problem);
  if (!sizes.ok()) return sizes.error().to_string();
  TrialTensors inputs = random_inputs(*problem, *sizes, run.seed);
  const Status completed = complete_inputs(*problem, *sizes, inputs);
  if (!completed.ok()) return completed.error().to_string();
  const Result<TrialOutputs> outputs = run_trial(session, *kernel, *sizes, inputs, run.options);
  if (!outputs.ok()) return explain(outputs.error().to_string(), run, *problem, *kernel);
  const Result<Verdict> verdict = verify(*problem, *sizes, inputs, *outputs);
  if (!verdict.ok()) return verdict.error().to_string();
  return verdict->ok() ? "" : explain(verdict->detail(), run, *problem, *kernel);
}

std::string verify_under_every_schedule(const std::string& problem) {
  for (const ScheduleCase& each : watched_schedules(2)) {
    const ScopedEmulatorSettings scope(each.settings);
    const std::string wrong =
        run_and_verify({.problem = problem, .options = {.gaps = true, .repeat = 2}});
    if (!wrong.empty()) return fmt::format("{}: {}", each.name, wrong);
  }
  return "";
}

std::string verify_packed_candidates(const std::string& device, const std::string& problem,
                                     size_t step) {
  const Arch& arch = SessionAccess::device(shared_session(device)).arch();
  std::vector<AnyConfig> configs = candidates(*Problem::parse(problem), arch);
  std::erase_if(configs, [](const AnyConfig& config) {
    const auto* const forward = std::get_if<attention::ForwardSm80Config>(&config);
    return forward == nullptr || forward->packed_heads == 1;
  });
  if (configs.empty()) return problem + " has no candidate that packs heads";
  for (size_t i = 0; i < configs.size(); i += step) {
    for (const ScheduleCase& schedule : watched_schedules(1)) {
      const ScopedEmulatorSettings scope(schedule.settings);
      const std::string fault = run_and_verify(
          {.device = device, .problem = problem, .options = {.gaps = true}, .config = configs[i]});
      if (!fault.empty()) return fault;
    }
  }
  return "";
}

uint64_t mma_per_tile(const attention::ForwardSm80Config& config) {
  const int scores = config.key_fragments() * config.depth_fragments();
  const int output = config.out_fragments() * config.tile_n / 16;
  return static_cast<uint64_t>(config.num_warps * config.row_fragments() * (scores + output));
}

TrialOutputs outputs_of(const ForwardRun& run, const TrialTensors& inputs) {
  const Result<Problem> problem = Problem::parse(run.problem);
  Session& session = shared_session(run.device);
  Result<Kernel> kernel = prepare(session, *problem, run.config);
  TW_CHECK(kernel.ok(), "{}", kernel.error().to_string());
  const Result<reference::Sizes> sizes = trial_sizes(*problem);
  Result<TrialOutputs> outputs = run_trial(session, *kernel, *sizes, inputs, run.options);
  TW_CHECK(outputs.ok(), "{}\n{}", outputs.error().to_string(), last_emulator_report());
  return *std::move(outputs);
}

}  // namespace tilewright::testing
