#include "emulator/driver/configuration.h"

namespace tilewright::emulator::driver {

Configuration default_configuration() {
  Configuration configuration;
  const auto profiles = device_profiles();
  configuration.devices.assign(profiles.begin(), profiles.end());
  configuration.settings.launch.host_threads = 0;
  configuration.settings.launch.observers = ObserverLevel::kMemory;
  return configuration;
}

__attribute__((weak)) Configuration initial_configuration() { return default_configuration(); }

}  // namespace tilewright::emulator::driver
