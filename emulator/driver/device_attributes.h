// What cuDeviceGetAttribute answers of a device profile: pure.
#pragma once

#include "core/arch.h"
#include "emulator/driver/cuda_api.h"

namespace tilewright::emulator::driver {

// Attributes that a profile does not speak of are 0, which for a feature means "no".
int device_attribute(const DeviceProfile& profile, CUdevice_attribute attribute);

}  // namespace tilewright::emulator::driver
