#include "emulator/driver/state.h"

#include "emulator/driver/configuration.h"

namespace tilewright::emulator::driver {

uintptr_t next_handle_value() {
  // Not an address of user space on x86-64 or aarch64, so no object of the program has it.
  constexpr uintptr_t kFirst = uintptr_t{0x7e57} << 48;
  static std::atomic<uintptr_t> next{kFirst};
  return next.fetch_add(16) + 16;
}

Driver& Driver::instance() {
  // Never destroyed: a program may call the driver from destructors of its own statics.
  static Driver* const driver = new Driver();
  return *driver;
}

Driver::Driver() {
  Configuration configuration = initial_configuration();
  settings_ = configuration.settings;
  configuration_error = std::move(configuration.error);
  for (const DeviceProfile& profile : configuration.devices) {
    auto device = std::make_unique<Device>();
    device->profile = profile;
    device->ordinal = static_cast<CUdevice>(devices.size());
    auto pool = std::make_shared<MemoryPool>();
    pool->device = device.get();
    pool->is_default = true;
    device->current_pool = pools.add(std::move(pool));
    device->default_pool = device->current_pool;
    devices.push_back(std::move(device));
  }
}

Settings Driver::settings() const {
  const std::lock_guard lock(settings_mutex_);
  return settings_;
}

void Driver::set_report(std::string text) {
  const std::lock_guard lock(report_mutex_);
  report_ = std::move(text);
}

std::string Driver::last_report() const {
  const std::lock_guard lock(report_mutex_);
  return report_;
}

void Driver::add_counters(const Counters& counters) {
  const std::lock_guard lock(counters_mutex_);
  for (const auto& [name, count] : counters.opcodes) {
    OpcodeCount& total = counters_.opcodes[name];
    total.warp_level += count.warp_level;
    total.thread_level += count.thread_level;
  }
  counters_.warp_instructions += counters.warp_instructions;
  counters_.blocks += counters.blocks;
}

Counters Driver::counters() const {
  const std::lock_guard lock(counters_mutex_);
  return counters_;
}

void Driver::reset_counters() {
  const std::lock_guard lock(counters_mutex_);
  counters_ = {};
}

Device* Driver::device(CUdevice ordinal) const {
  if (ordinal < 0 || static_cast<size_t>(ordinal) >= devices.size()) return nullptr;
  return devices[static_cast<size_t>(ordinal)].get();
}

Device* Driver::device_of(CUdeviceptr address) const {
  if (address < kGlobalBase) return nullptr;
  const uint64_t ordinal = (address - kGlobalBase) / kDeviceStride;
  if (ordinal >= devices.size()) return nullptr;
  Device& candidate = *devices[ordinal];
  return candidate.has_memory && candidate.memory->in_range(address) ? &candidate : nullptr;
}

}  // namespace tilewright::emulator::driver
