#include "cli/emulator_counters.h"

#include <algorithm>

#include "core/check.h"
#include "emulator/driver/symbols.h"
#include "tilewright/emulator.h"

namespace tilewright::cli {
namespace {

template <class Function>
Function lookup(const char* name) {
  return reinterpret_cast<Function>(emulator::emulated_driver_symbol(name));
}

Status answered(int code, std::string_view what) {
  if (code == 0) return {};
  return make_error(ErrorCode::kDriverError, "the emulator's {} answers {}", what, code);
}

}  // namespace

Status reset_emulator_counters() {
  const auto reset = lookup<TwEmulatorResetCountersFn>("twEmulatorResetCounters");
  TW_CHECK(reset != nullptr, "the emulator has no twEmulatorResetCounters");
  return answered(reset(), "twEmulatorResetCounters");
}

Result<std::vector<std::pair<std::string, uint64_t>>> emulator_counters() {
  const auto get = lookup<TwEmulatorGetCountersFn>("twEmulatorGetCounters");
  TW_CHECK(get != nullptr, "the emulator has no twEmulatorGetCounters");
  size_t count = 0;
  TW_TRY(answered(get(nullptr, 0, &count), "twEmulatorGetCounters"));
  std::vector<TwEmulatorCounter> counters(count);
  TW_TRY(answered(get(counters.data(), counters.size(), &count), "twEmulatorGetCounters"));
  counters.resize(std::min(counters.size(), count));
  std::vector<std::pair<std::string, uint64_t>> result;
  for (const TwEmulatorCounter& counter : counters) {
    if (counter.count > 0) result.emplace_back(counter.name, counter.count);
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return result;
}

}  // namespace tilewright::cli
