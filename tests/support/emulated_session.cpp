#include "tests/support/emulated_session.h"

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

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

std::string last_emulator_report() {
  char text[8192] = "";
  lookup<TwEmulatorGetLastReportFn>("twEmulatorGetLastReport")(text, sizeof text, nullptr);
  return text;
}

}  // namespace tilewright::testing
