#include "tests/support/emulated_session.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/check.h"
#include "emulator/driver/symbols.h"

namespace tilewright::testing {
namespace {

template <class Function>
Function lookup(const char* name) {
  auto* symbol = emulator::emulated_driver_symbol(name);
  TW_CHECK(symbol != nullptr, "the emulator has no {}", name);
  return reinterpret_cast<Function>(symbol);
}

void apply(const EmulatorSettings& settings) {
  const int status =
      lookup<TwEmulatorSetScheduleFn>("twEmulatorSetSchedule")(settings.schedule, settings.seed) |
      lookup<TwEmulatorSetObserversFn>("twEmulatorSetObservers")(settings.observers) |
      lookup<TwEmulatorSetHostThreadsFn>("twEmulatorSetHostThreads")(settings.host_threads) |
      lookup<TwEmulatorSetMatrixNumericsFn>("twEmulatorSetMatrixNumerics")(settings.numerics);
  TW_CHECK(status == 0, "the emulator refused a setting: {}", status);
}

}  // namespace

Session& shared_session(const std::string& device) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Session>> sessions;
  const std::lock_guard lock(mutex);
  std::unique_ptr<Session>& session = sessions[device];
  if (session == nullptr) {
    Options options = Options::from_environment();
    options.device = device;
    Result<std::unique_ptr<Session>> opened = Session::open(options);
    TW_CHECK(opened.ok(), "{}", opened.error().to_string());
    session = *std::move(opened);
  }
  return *session;
}

ScopedEmulatorSettings::ScopedEmulatorSettings(const EmulatorSettings& settings) {
  apply(settings);
}

ScopedEmulatorSettings::~ScopedEmulatorSettings() { apply({}); }

std::vector<ScheduleCase> watched_schedules(int num_random) {
  constexpr TwEmulatorObservers kFull = TW_EMULATOR_OBSERVERS_FULL;
  std::vector<ScheduleCase> cases = {
      {"eager", {.observers = kFull}},
      {"lazy", {.schedule = TW_EMULATOR_SCHEDULE_LAZY, .observers = kFull}}};
  for (int seed = 1; seed <= num_random; ++seed) {
    cases.push_back({fmt::format("random{}", seed),
                     {.schedule = TW_EMULATOR_SCHEDULE_RANDOM,
                      .seed = static_cast<uint64_t>(seed),
                      .observers = kFull,
                      .host_threads = seed % 2 == 0 ? 2 : 1}});
  }
  return cases;
}

uint64_t executed_instructions(const std::string& opcode) {
  const auto get = lookup<TwEmulatorGetCountersFn>("twEmulatorGetCounters");
  size_t count = 0;
  TW_CHECK(get(nullptr, 0, &count) == 0, "no counters");
  std::vector<TwEmulatorCounter> counters(count);
  TW_CHECK(get(counters.data(), counters.size(), &count) == 0, "no counters");
  const auto found = std::find_if(counters.begin(), counters.end(),
                                  [&](const auto& counter) { return counter.name == opcode; });
  return found == counters.end() ? 0 : found->count;
}

void reset_executed_instructions() {
  const int status = lookup<TwEmulatorResetCountersFn>("twEmulatorResetCounters")();
  TW_CHECK(status == 0, "the emulator kept its counters: {}", status);
}

std::string last_emulator_report() {
  char text[8192] = "";
  lookup<TwEmulatorGetLastReportFn>("twEmulatorGetLastReport")(text, sizeof text, nullptr);
  return text;
}

}  // namespace tilewright::testing
