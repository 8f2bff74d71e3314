#include "runtime/device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "core/check.h"
#include "core/text.h"

namespace tilewright {
namespace {

constexpr std::string_view kCudaPrefix = "cuda:";
constexpr std::string_view kEmulatedPrefix = "emulated:";
constexpr const char* kDriverLibrary = "libcuda.so.1";

// A driver that is initialised and has at least one device.
Result<DriverTable> cuda_driver() {
  TW_ASSIGN(DriverTable driver, DriverTable::from_library(kDriverLibrary));
  TW_TRY(driver.check(driver.init(0), "cannot start the CUDA driver"));
  int count = 0;
  TW_TRY(driver.check(driver.device_get_count(&count), "cannot count CUDA devices"));
  if (count == 0) return make_error(ErrorCode::kNoDevice, "the CUDA driver has no device");
  return driver;
}

Result<DriverTable> emulated_driver() {
  TW_ASSIGN(DriverTable driver, DriverTable::from_emulator());
  TW_TRY(driver.check(driver.init(0), "cannot start the emulated driver"));
  return driver;
}

// The emulator's devices are the profiles, in their order.
Result<int> profile_ordinal(std::string_view profile) {
  TW_TRY(find_profile(profile));
  int ordinal = 0;
  for (const DeviceProfile& each : device_profiles()) {
    if (each.name == profile) break;
    ++ordinal;
  }
  return ordinal;
}

// Whether the driver says that this image is not for this device, or not one it can read.
bool needs_ptx(CUresult result) {
  return result == CUDA_ERROR_NO_BINARY_FOR_GPU || result == CUDA_ERROR_INVALID_IMAGE;
}

int attribute(const DriverTable& driver, CUdevice device, CUdevice_attribute which) {
  int value = 0;
  return driver.device_get_attribute(&value, which, device) == CUDA_SUCCESS ? value : 0;
}

Arch read_arch(const DriverTable& driver, CUdevice device) {
  const auto get = [&](CUdevice_attribute which) { return attribute(driver, device, which); };
  Arch arch;
  arch.compute_major = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  arch.compute_minor = get(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  // From compute capability 9.0 on every target has arch-specific features.
  arch.has_suffix = arch.compute_major >= 9;
  arch.num_sms = get(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  arch.shared_bytes_per_sm = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
  arch.shared_bytes_per_block = get(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  arch.shared_bytes_reserved = get(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK);
  const int warp = std::max(1, get(CU_DEVICE_ATTRIBUTE_WARP_SIZE));
  arch.max_warps_per_sm = get(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / warp;
  arch.max_blocks_per_sm = get(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
  arch.registers_per_sm = get(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR);
  arch.l2_bytes = get(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  return arch;
}

CUdeviceptr as_address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

ScopedContext::ScopedContext(const DriverTable& driver, CUcontext context) : driver_(driver) {
  CUcontext current = nullptr;
  if (driver_.ctx_get_current(&current) == CUDA_SUCCESS && current == context) return;
  status_ = driver_.check(driver_.ctx_push_current(context), "cannot enter the device's context");
  pushed_ = status_.ok();
}

ScopedContext::~ScopedContext() {
  CUcontext popped = nullptr;
  if (pushed_) driver_.ctx_pop_current(&popped);
}

Module::Module(std::shared_ptr<const Device> device, CUmodule module, bool from_ptx)
    : device_(std::move(device)), module_(module), from_ptx_(from_ptx) {}

Module::~Module() {
  if (!device_->check_process().ok()) return;
  const ScopedContext context(device_->driver(), device_->context());
  if (context.status().ok()) device_->driver().module_unload(module_);
}

Result<std::shared_ptr<Device>> Device::open(std::string_view name) {
  std::shared_ptr<Device> device(new Device);
  if (name.empty()) {
    Result<DriverTable> driver = cuda_driver();
    if (driver.ok()) {
      device->driver_ = *driver;
      TW_TRY(device->initialise(0, "cuda:0"));
      return device;
    }
    name = "emulated:h100";
  }
  if (name.starts_with(kEmulatedPrefix)) {
    TW_ASSIGN(const int ordinal, profile_ordinal(name.substr(kEmulatedPrefix.size())));
    TW_ASSIGN(device->driver_, emulated_driver());
    TW_TRY(device->initialise(ordinal, name));
    return device;
  }
  const Result<int64_t> ordinal = name.starts_with(kCudaPrefix)
                                      ? parse_int(name.substr(kCudaPrefix.size()))
                                      : Result<int64_t>(Error{});
  if (!ordinal.ok() || *ordinal < 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "'{}' names no device: write cuda:N or emulated:PROFILE", name);
  }
  TW_ASSIGN(device->driver_, cuda_driver());
  int count = 0;
  TW_TRY(
      device->driver_.check(device->driver_.device_get_count(&count), "cannot count CUDA devices"));
  if (*ordinal >= count) {
    return make_error(ErrorCode::kNoDevice, "there is no device '{}': the driver has {}", name,
                      count);
  }
  TW_TRY(device->initialise(static_cast<int>(*ordinal), name));
  return device;
}

Status Device::initialise(int ordinal, std::string_view name) {
  pid_ = getpid();
  const auto check = [this, name](CUresult result, std::string_view what) {
    return driver_.check(result, fmt::format("cannot {} device '{}'", what, name));
  };
  TW_TRY(check(driver_.driver_get_version(&driver_version_), "ask the driver's version for"));
  TW_TRY(check(driver_.device_get(&device_, ordinal), "find"));
  std::array<char, 256> text{};
  TW_TRY(check(driver_.device_get_name(text.data(), static_cast<int>(text.size()), device_),
               "ask the name of"));
  size_t bytes = 0;
  TW_TRY(check(driver_.device_total_mem(&bytes, device_), "ask the memory of"));
  arch_ = read_arch(driver_, device_);
  info_.name = text.data();
  info_.target = arch_.target();
  info_.simulated = driver_.simulated();
  info_.num_sms = arch_.num_sms;
  info_.memory_bytes = static_cast<int64_t>(bytes);
  if (info_.simulated && !info_.name.ends_with("(emulated)")) info_.name += " (emulated)";
  return check(driver_.primary_ctx_retain(&context_, device_), "open");
}

Device::~Device() {
  if (context_ != nullptr && check_process().ok()) driver_.primary_ctx_release(device_);
}

Status Device::check_process() const {
  const pid_t now = getpid();
  if (now == pid_) return {};
  return make_error(ErrorCode::kDriverError,
                    "this session was opened by process {} and is used in its child {}: a CUDA "
                    "driver does not survive fork(), open a session in the child instead",
                    pid_, now);
}

Status Module::find_functions(const Binary& binary, std::span<const int64_t> shared_bytes) {
  TW_CHECK(shared_bytes.size() == binary.entry_names.size(), "{} sizes for {} entries",
           shared_bytes.size(), binary.entry_names.size());
  const DriverTable& driver = device_->driver();
  for (size_t i = 0; i < binary.entry_names.size(); ++i) {
    const std::string& name = binary.entry_names[i];
    CUfunction function = nullptr;
    TW_TRY(driver.check(driver.module_get_function(&function, module_, name.c_str()),
                        fmt::format("no kernel '{}' in its module", name)));
    TW_TRY(driver.check(
        driver.func_set_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  static_cast<int>(shared_bytes[i])),
        fmt::format("'{}' cannot have {} bytes of shared memory", name, shared_bytes[i])));
    if (driver.emulator_set_resources != nullptr) {
      const KernelResources& report = binary.code.resources.at(i);
      const TwEmulatorResources resources{.size = sizeof(TwEmulatorResources),
                                          .registers_per_thread = report.registers,
                                          .barriers = report.barriers,
                                          .local_bytes = report.stack_bytes,
                                          .spill_load_bytes = report.spill_load_bytes,
                                          .spill_store_bytes = report.spill_store_bytes};
      driver.emulator_set_resources(function, &resources);
    }
    functions_.push_back(function);
  }
  return {};
}

Result<std::shared_ptr<const Module>> Device::load(const Binary& binary,
                                                   std::span<const int64_t> shared_bytes) const {
  TW_TRY(check_process());
  const ScopedContext context(driver_, context_);
  TW_TRY(context.status());

  CUmodule handle = nullptr;
  const auto load_image = [&](const std::string& image) {
    return driver_.module_load_data_ex(&handle, image.c_str(), 0, nullptr, nullptr);
  };
  CUresult result = load_image(binary.code.cubin);
  const bool from_ptx = needs_ptx(result);
  if (from_ptx) result = load_image(binary.code.ptx);
  TW_TRY(driver_.check(
      result,
      fmt::format("cannot load the {} of {} ({}, {}) into '{}' with driver {}",
                  from_ptx ? "PTX" : "cubin", fmt::join(binary.entry_names, ", "), binary.target,
                  binary.code.compiler_version, info_.name, driver_version_)));
  auto module = std::make_shared<Module>(shared_from_this(), handle, from_ptx);
  TW_TRY(module->find_functions(binary, shared_bytes));
  return std::shared_ptr<const Module>(std::move(module));
}

Result<void*> Device::allocate(int64_t bytes) const {
  if (bytes < 0) {
    return make_error(ErrorCode::kInvalidArgument, "cannot allocate {} bytes", bytes);
  }
  if (bytes == 0) return static_cast<void*>(nullptr);
  TW_TRY(check_process());
  const ScopedContext context(driver_, context_);
  TW_TRY(context.status());
  CUdeviceptr pointer = 0;
  TW_TRY(driver_.check(driver_.mem_alloc(&pointer, static_cast<size_t>(bytes)),
                       fmt::format("cannot allocate {} bytes on '{}'", bytes, info_.name)));
  return reinterpret_cast<void*>(pointer);
}

Status Device::release(void* pointer) const {
  if (pointer == nullptr) return {};
  TW_TRY(check_process());
  const ScopedContext context(driver_, context_);
  TW_TRY(context.status());
  return driver_.check(driver_.mem_free(as_address(pointer)),
                       fmt::format("cannot release {}", fmt::ptr(pointer)));
}

Status Device::copy_in(void* device, const void* host, int64_t bytes) const {
  if (bytes < 0) return make_error(ErrorCode::kInvalidArgument, "cannot copy {} bytes", bytes);
  if (bytes == 0) return {};
  TW_TRY(check_process());
  const ScopedContext context(driver_, context_);
  TW_TRY(context.status());
  return driver_.check(driver_.memcpy_htod(as_address(device), host, static_cast<size_t>(bytes)),
                       fmt::format("cannot copy {} bytes to the device", bytes));
}

Status Device::copy_out(void* host, const void* device, int64_t bytes) const {
  if (bytes < 0) return make_error(ErrorCode::kInvalidArgument, "cannot copy {} bytes", bytes);
  if (bytes == 0) return {};
  TW_TRY(check_process());
  const ScopedContext context(driver_, context_);
  TW_TRY(context.status());
  return driver_.check(driver_.memcpy_dtoh(host, as_address(device), static_cast<size_t>(bytes)),
                       fmt::format("cannot copy {} bytes from the device", bytes));
}

Status Device::synchronize() const {
  TW_TRY(check_process());
  const ScopedContext context(driver_, context_);
  TW_TRY(context.status());
  return driver_.check(driver_.ctx_synchronize(), "a kernel or copy failed");
}

std::vector<DeviceListing> list_devices(std::string* driver_error) {
  std::vector<DeviceListing> listings;
  const auto add = [&listings](std::string name) {
    const Result<std::shared_ptr<Device>> device = Device::open(name);
    if (device.ok()) listings.push_back({std::move(name), (*device)->info()});
  };
  const Result<DriverTable> driver = cuda_driver();
  int count = 0;
  if (driver.ok()) {
    driver->device_get_count(&count);
  } else if (driver_error != nullptr) {
    *driver_error = driver.error().message;
  }
  for (int i = 0; i < count; ++i) add(fmt::format("{}{}", kCudaPrefix, i));
  for (const DeviceProfile& profile : device_profiles()) {
    add(fmt::format("{}{}", kEmulatedPrefix, profile.name));
  }
  return listings;
}

}  // namespace tilewright
