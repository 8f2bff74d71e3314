// The stand-alone libcuda.so.1 cannot be handed options, so it reads them from the environment,
// once:
//   TILEWRIGHT_EMULATED_DEVICES    profile names in the order of their ordinals: a100,h100
//   TILEWRIGHT_EMULATOR_SCHEDULE   eager | lazy | random:SEED
//   TILEWRIGHT_EMULATOR_OBSERVERS  off | memory | full
//   TILEWRIGHT_EMULATOR_THREADS    CPU threads, 0 = one per processor
#include <cstdlib>

#include "core/text.h"
#include "emulator/driver/configuration.h"

namespace tilewright::emulator::driver {
namespace {

void read_devices(std::string_view text, Configuration* configuration) {
  configuration->devices.clear();
  for (const std::string_view name : split(text, ',')) {
    Result<DeviceProfile> profile = find_profile(trim(name));
    if (!profile.ok()) {
      configuration->error = "TILEWRIGHT_EMULATED_DEVICES: " + profile.error().message;
      return;
    }
    configuration->devices.push_back(*std::move(profile));
  }
}

void read_schedule(std::string_view text, Configuration* configuration) {
  LaunchSettings& launch = configuration->settings.launch;
  constexpr std::string_view kRandom = "random:";
  if (text == "eager") {
    launch.schedule = Schedule::kEager;
  } else if (text == "lazy") {
    launch.schedule = Schedule::kLazy;
  } else if (const auto seed = text.starts_with(kRandom) ? parse_uint(text.substr(kRandom.size()))
                                                         : parse_uint("");
             seed.ok()) {
    launch.schedule = Schedule::kRandom;
    launch.seed = *seed;
  } else {
    configuration->error =
        fmt::format("TILEWRIGHT_EMULATOR_SCHEDULE: '{}' is not eager, lazy or random:SEED", text);
  }
}

void read_observers(std::string_view text, Configuration* configuration) {
  ObserverLevel& level = configuration->settings.launch.observers;
  if (text == "off") {
    level = ObserverLevel::kOff;
  } else if (text == "memory") {
    level = ObserverLevel::kMemory;
  } else if (text == "full") {
    level = ObserverLevel::kFull;
  } else {
    configuration->error =
        fmt::format("TILEWRIGHT_EMULATOR_OBSERVERS: '{}' is not off, memory or full", text);
  }
}

void read_threads(std::string_view text, Configuration* configuration) {
  const Result<int64_t> threads = parse_int(text);
  if (!threads.ok() || *threads < 0 || *threads > 4096) {
    configuration->error =
        fmt::format("TILEWRIGHT_EMULATOR_THREADS: '{}' is not a number from 0 to 4096", text);
    return;
  }
  configuration->settings.launch.host_threads = static_cast<int>(*threads);
}

}  // namespace

Configuration initial_configuration() {
  using Reader = void (*)(std::string_view, Configuration*);
  constexpr std::pair<const char*, Reader> kVariables[] = {
      {"TILEWRIGHT_EMULATED_DEVICES", read_devices},
      {"TILEWRIGHT_EMULATOR_SCHEDULE", read_schedule},
      {"TILEWRIGHT_EMULATOR_OBSERVERS", read_observers},
      {"TILEWRIGHT_EMULATOR_THREADS", read_threads},
  };
  Configuration configuration = default_configuration();
  for (const auto& [name, read] : kVariables) {
    if (const char* text = std::getenv(name)) read(text, &configuration);
  }
  return configuration;
}

}  // namespace tilewright::emulator::driver
