// What tests need of an emulated device: a session that is shared by a test program, and the
// emulator's settings for one scope.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tilewright/emulator.h"
#include "tilewright/session.h"

namespace tilewright::testing {

// A session on `device` with the cache of the test run (TILEWRIGHT_CACHE_DIR). One per device and
// process, opened at first use; ends the test program if it cannot be opened.
Session& shared_session(const std::string& device);

struct EmulatorSettings {
  TwEmulatorSchedule schedule = TW_EMULATOR_SCHEDULE_EAGER;
  uint64_t seed = 0;
  TwEmulatorObservers observers = TW_EMULATOR_OBSERVERS_MEMORY;
  int host_threads = 1;
  TwEmulatorMatrixNumerics numerics = TW_EMULATOR_MATRIX_HARDWARE;
};

// Applies settings for a scope; the destructor restores the defaults of EmulatorSettings.
class ScopedEmulatorSettings {
 public:
  explicit ScopedEmulatorSettings(const EmulatorSettings& settings);
  ~ScopedEmulatorSettings();
  ScopedEmulatorSettings(const ScopedEmulatorSettings&) = delete;
  ScopedEmulatorSettings& operator=(const ScopedEmulatorSettings&) = delete;
};

struct ScheduleCase {
  std::string name;
  EmulatorSettings settings;
};

// Every order in which blocks, warps and copies may come, with all observers: eager, lazy, and
// random from the seeds 1 to `num_random`, every other one on two host threads.
std::vector<ScheduleCase> watched_schedules(int num_random);

// Warp instructions of an opcode ("mma.sync") executed since the last reset.
uint64_t executed_instructions(const std::string& opcode);
void reset_executed_instructions();

// The report of the newest fault, "" if none.
std::string last_emulator_report();

}  // namespace tilewright::testing
