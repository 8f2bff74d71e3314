// What the driver starts with: which devices it has and how it runs kernels. The embedded driver
// has every profile; the stand-alone library reads environment variables (environment.cpp).
#pragma once

#include <string>
#include <vector>

#include "core/arch.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {

struct Configuration {
  std::vector<DeviceProfile> devices;  // in the order of their ordinals
  Settings settings;
  std::string error;  // not empty: cuInit fails and reports it
};

// Called once, when the driver is made. Weak in the embedded driver; the stand-alone library
// defines its own.
Configuration initial_configuration();
Configuration default_configuration();

}  // namespace tilewright::emulator::driver
