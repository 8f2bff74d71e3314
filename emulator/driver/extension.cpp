#include "emulator/driver/extension.h"

#include <algorithm>
#include <set>

#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

// Names handed out must live as long as the process.
const char* permanent(const std::string& name) {
  static std::mutex mutex;
  static std::set<std::string> names;
  const std::lock_guard lock(mutex);
  return names.insert(name).first->c_str();
}

}  // namespace

int twEmulatorVersion(int* version) {
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *version = TW_EMULATOR_VERSION;
  return CUDA_SUCCESS;
}

int twEmulatorSetSchedule(int kind, uint64_t seed) {
  if (kind < TW_EMULATOR_SCHEDULE_EAGER || kind > TW_EMULATOR_SCHEDULE_RANDOM) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "no schedule {}", kind);
  }
  Driver::instance().change_settings([&](Settings& settings) {
    settings.launch.schedule = static_cast<Schedule>(kind);
    settings.launch.seed = seed;
  });
  return CUDA_SUCCESS;
}

int twEmulatorSetObservers(int level) {
  if (level < TW_EMULATOR_OBSERVERS_OFF || level > TW_EMULATOR_OBSERVERS_FULL) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "no observer level {}", level);
  }
  Driver::instance().change_settings(
      [&](Settings& settings) { settings.launch.observers = static_cast<ObserverLevel>(level); });
  return CUDA_SUCCESS;
}

int twEmulatorSetHostThreads(int threads) {
  if (threads < 0) return refuse(CUDA_ERROR_INVALID_VALUE, "{} host threads", threads);
  Driver::instance().change_settings(
      [&](Settings& settings) { settings.launch.host_threads = threads; });
  return CUDA_SUCCESS;
}

int twEmulatorSetMatrixNumerics(int numerics) {
  if (numerics != TW_EMULATOR_MATRIX_HARDWARE && numerics != TW_EMULATOR_MATRIX_FAST) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "no matrix numerics {}", numerics);
  }
  Driver::instance().change_settings([&](Settings& settings) {
    settings.launch.numerics =
        numerics == TW_EMULATOR_MATRIX_FAST ? MatrixNumerics::kFast : MatrixNumerics::kHardware;
  });
  return CUDA_SUCCESS;
}

int twEmulatorSetMemoryCap(uint64_t bytes) {
  Driver::instance().change_settings(
      [&](Settings& settings) { settings.memory_cap_bytes = bytes; });
  return CUDA_SUCCESS;
}

int twEmulatorSetInstructionLimit(uint64_t warp_instructions) {
  Driver::instance().change_settings(
      [&](Settings& settings) { settings.launch.instruction_limit = warp_instructions; });
  return CUDA_SUCCESS;
}

int twEmulatorSetResources(void* function, const TwEmulatorResources* resources) {
  std::shared_ptr<Function> found;
  TW_DRIVER_TRY(find_function(static_cast<CUfunction>(function), &found));
  if (resources == nullptr || resources->size < sizeof(TwEmulatorResources)) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "TwEmulatorResources is null or too small");
  }
  if (resources->registers_per_thread > 255 || resources->barriers > 16) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "{} registers per thread, {} barriers: beyond 255, 16",
                  resources->registers_per_thread, resources->barriers);
  }
  const std::lock_guard lock(found->mutex);
  found->registers = std::max(resources->registers_per_thread, 0);
  found->barriers = std::max(resources->barriers, 0);
  found->local_bytes = resources->local_bytes;
  return CUDA_SUCCESS;
}

int twEmulatorGetLastReport(char* buffer, size_t capacity, size_t* needed) {
  if (buffer == nullptr && capacity != 0) return CUDA_ERROR_INVALID_VALUE;
  finish_held_everywhere();
  const std::string report = Driver::instance().last_report();
  if (needed != nullptr) *needed = report.size() + 1;
  if (capacity == 0) return CUDA_SUCCESS;
  const size_t length = std::min(report.size(), capacity - 1);
  std::copy_n(report.data(), length, buffer);
  buffer[length] = '\0';
  return CUDA_SUCCESS;
}

int twEmulatorClearLastReport() {
  finish_held_everywhere();
  Driver::instance().set_report({});
  return CUDA_SUCCESS;
}

int twEmulatorGetCounters(TwEmulatorCounter* counters, size_t capacity, size_t* count) {
  if (count == nullptr || (counters == nullptr && capacity != 0)) return CUDA_ERROR_INVALID_VALUE;
  finish_held_everywhere();
  const Counters totals = Driver::instance().counters();
  *count = totals.opcodes.size();
  size_t i = 0;
  for (const auto& [name, opcode] : totals.opcodes) {
    if (i == capacity) break;
    counters[i++] = {permanent(name), opcode.warp_level};
  }
  return CUDA_SUCCESS;
}

int twEmulatorResetCounters() {
  finish_held_everywhere();
  Driver::instance().reset_counters();
  return CUDA_SUCCESS;
}

}  // namespace tilewright::emulator::driver
