// A device of test size and one-line launches of hand-written PTX.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/arch.h"
#include "emulator/machine/machine.h"
#include "emulator/machine/memory.h"
#include "emulator/machine/program.h"

namespace tilewright::emulator::test {

// Packs kernel arguments as C would.
class Arguments {
 public:
  template <class T>
  Arguments& add(const T& value) {
    const size_t at = (bytes_.size() + alignof(T) - 1) / alignof(T) * alignof(T);
    bytes_.resize(at + sizeof(T));
    std::memcpy(&bytes_[at], &value, sizeof(T));
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

class Machine {
 public:
  // `target`: "sm_80", "sm_90a", …
  explicit Machine(std::string_view target = "sm_80");

  const Arch& arch() const { return arch_; }
  DeviceMemory& memory() { return *memory_; }

  // Fails the test if the module does not load. `body`: everything behind .address_size.
  const LoadedModule* load(std::string_view body);
  Result<std::unique_ptr<LoadedModule>> try_load(std::string_view body);

  template <class T>
  DeviceAddress upload(const std::vector<T>& values) {
    const DeviceAddress address = allocate(values.size() * sizeof(T));
    write(address, values.data(), values.size() * sizeof(T));
    return address;
  }
  template <class T>
  std::vector<T> download(DeviceAddress address, size_t count) {
    std::vector<T> values(count);
    read(address, values.data(), count * sizeof(T));
    return values;
  }
  DeviceAddress allocate(size_t bytes);

  // Runs kernel `name` of the module loaded last.
  LaunchOutcome run(std::string_view name, Dim3 grid, Dim3 block, const Arguments& arguments,
                    const LaunchSettings& settings = {}, uint32_t dynamic_shared_bytes = 0,
                    Dim3 cluster = {});

 private:
  void write(DeviceAddress to, const void* from, size_t bytes);
  void read(DeviceAddress from, void* to, size_t bytes);

  Arch arch_;
  std::string target_;
  std::unique_ptr<DeviceMemory> memory_;
  std::vector<std::unique_ptr<LoadedModule>> modules_;
};

// Every schedule, `random` with several seeds: calls check(settings) under each. What is right has
// nothing to report to the full observer.
template <class Check>
void under_every_schedule(Check&& check) {
  LaunchSettings settings;
  settings.observers = ObserverLevel::kFull;
  for (const Schedule schedule : {Schedule::kEager, Schedule::kLazy, Schedule::kRandom}) {
    settings.schedule = schedule;
    for (settings.seed = 0; settings.seed < (schedule == Schedule::kRandom ? 8u : 1u);
         ++settings.seed) {
      check(settings);
    }
  }
}

// The report, or "no fault": for failure messages.
std::string describe(const LaunchOutcome& outcome);
// Line (from 1) of the first occurrence of `text` in the module that Machine::load makes of `body`.
uint32_t line_of(std::string_view body, std::string_view text);

}  // namespace tilewright::emulator::test
