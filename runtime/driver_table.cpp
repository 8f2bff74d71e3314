#include "runtime/driver_table.h"

#include <dlfcn.h>

#include <functional>

#include "core/check.h"
#include "emulator/driver/symbols.h"

namespace tilewright {
namespace {

Result<DriverTable> fill(const std::string& origin,
                         const std::function<void*(const char*)>& lookup) {
  DriverTable table;
  std::vector<std::string> missing;
#define TW_FILL_MEMBER(member, name, parameters)                                \
  table.member = reinterpret_cast<CUresult(CUDAAPI*) parameters>(lookup(name)); \
  if (table.member == nullptr) missing.emplace_back(name);
  TW_DRIVER_SYMBOLS(TW_FILL_MEMBER)
#undef TW_FILL_MEMBER
  if (!missing.empty()) {
    Error error = make_error(
        ErrorCode::kDriverError,
        "{} lacks {} of the driver functions that Tilewright needs, the first being {} (it needs a "
        "driver of CUDA 12.0 or newer)",
        origin, missing.size(), missing.front());
    error.reasons = std::move(missing);
    return error;
  }
  table.emulator_version = reinterpret_cast<TwEmulatorVersionFn>(lookup("twEmulatorVersion"));
  table.emulator_set_resources =
      reinterpret_cast<TwEmulatorSetResourcesFn>(lookup("twEmulatorSetResources"));
  table.emulator_last_report =
      reinterpret_cast<TwEmulatorGetLastReportFn>(lookup("twEmulatorGetLastReport"));
  return table;
}

// The codes after which nothing in the context works any more: a kernel did something illegal.
bool is_device_fault(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ASSERT:
      return true;
    default:
      return false;
  }
}

ErrorCode code_of(CUresult result) {
  if (is_device_fault(result)) return ErrorCode::kDeviceFault;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return ErrorCode::kOutOfMemory;
  if (result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_INVALID_DEVICE) {
    return ErrorCode::kNoDevice;
  }
  return ErrorCode::kDriverError;
}

}  // namespace

Result<DriverTable> DriverTable::from_library(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    return make_error(ErrorCode::kNoDevice, "no CUDA driver: {}", dlerror());
  }
  return fill(library, [handle](const char* name) { return dlsym(handle, name); });
}

Result<DriverTable> DriverTable::from_emulator() {
  return fill("the emulated driver",
              [](const char* name) { return emulator::emulated_driver_symbol(name); });
}

Status DriverTable::check(CUresult result, std::string_view action) const {
  if (result == CUDA_SUCCESS) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  get_error_name(result, &name);
  get_error_string(result, &text);
  Error error = make_error(code_of(result), "{}: {} ({}, {})", action,
                           text != nullptr ? text : "unknown driver error",
                           name != nullptr ? name : "no name", static_cast<int>(result));
  if (simulated() && emulator_last_report != nullptr) {
    size_t needed = 0;
    if (emulator_last_report(nullptr, 0, &needed) == 0 && needed > 1) {
      std::string report(needed, '\0');
      emulator_last_report(report.data(), report.size(), &needed);
      report.resize(report.find('\0'));
      error.reasons.push_back(std::move(report));
    }
  }
  return error;
}

}  // namespace tilewright
