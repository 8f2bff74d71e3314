// Device: one GPU, real or emulated, through its driver table: primary context, memory, modules.
// Every call enters the primary context and leaves the caller's current context as found. All
// functions may be called from many threads at once.
#pragma once

#include <sys/types.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/arch.h"
#include "runtime/compile.h"
#include "runtime/driver_table.h"
#include "tilewright/session.h"

namespace tilewright {

class Device;

// A loaded module and its kernels. Unloaded with the last reference.
class Module {
 public:
  Module(std::shared_ptr<const Device> device, CUmodule module, bool from_ptx);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // In the order of the binary's entry names.
  const std::vector<CUfunction>& functions() const { return functions_; }
  // The most dynamic shared memory that a launch of each entry will ask for.
  Status find_functions(const Binary& binary, std::span<const int64_t> shared_bytes);
  const Device& device() const { return *device_; }
  // Whether the driver compiled the PTX, having no use for the cubin.
  bool from_ptx() const { return from_ptx_; }

 private:
  std::shared_ptr<const Device> device_;
  CUmodule module_;
  std::vector<CUfunction> functions_;
  bool from_ptx_;
};

// Makes a context current for a scope, unless it is already.
class ScopedContext {
 public:
  ScopedContext(const DriverTable& driver, CUcontext context);
  ~ScopedContext();
  ScopedContext(const ScopedContext&) = delete;
  ScopedContext& operator=(const ScopedContext&) = delete;
  const Status& status() const { return status_; }

 private:
  const DriverTable& driver_;
  bool pushed_ = false;
  Status status_;
};

class Device : public std::enable_shared_from_this<Device> {
 public:
  // "cuda:N", "emulated:PROFILE", or "" as Options::device says. kNoDevice or kInvalidArgument
  // with the names that exist.
  static Result<std::shared_ptr<Device>> open(std::string_view name);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceInfo& info() const { return info_; }
  const Arch& arch() const { return arch_; }
  const std::string& target() const { return info_.target; }
  const DriverTable& driver() const { return driver_; }
  int driver_version() const { return driver_version_; }  // 12020 = 12.2
  CUcontext context() const { return context_; }

  // Fails in a child of fork(): a CUDA driver does not survive one.
  Status check_process() const;

  // The cubin first, the PTX where the driver has no use for it. `shared_bytes`: the most dynamic
  // shared memory that a launch of each entry will ask for.
  Result<std::shared_ptr<const Module>> load(const Binary& binary,
                                             std::span<const int64_t> shared_bytes) const;

  Result<void*> allocate(int64_t bytes) const;
  Status release(void* pointer) const;
  Status copy_in(void* device, const void* host, int64_t bytes) const;
  Status copy_out(void* host, const void* device, int64_t bytes) const;
  Status synchronize() const;

 private:
  Device() = default;
  Status initialise(int ordinal, std::string_view name);

  DriverTable driver_;
  CUdevice device_ = 0;
  CUcontext context_ = nullptr;
  DeviceInfo info_;
  Arch arch_;
  int driver_version_ = 0;
  pid_t pid_ = 0;
};

// A device that could be opened, for `tilewright devices`.
struct DeviceListing {
  std::string name;  // "cuda:0", "emulated:h100"
  DeviceInfo info;
};
// Real devices first, then the emulator's profiles. `driver_error` (may be null) receives why there
// are no real ones.
std::vector<DeviceListing> list_devices(std::string* driver_error);

}  // namespace tilewright
