#include "tests/hopper_kernels/device.h"

#include <fmt/format.h>

#include <cstring>

#include "core/check.h"
#include "emulator/driver/symbols.h"

#define TW_CU(name) \
  reinterpret_cast<decltype(&::name)>(::tilewright::emulator::emulated_driver_symbol(#name))

namespace tilewright::hopper_kernels {
namespace {

constexpr size_t kGuardBytes = 1024;
constexpr std::byte kGuard{0xff};  // NaN in every float type
constexpr uint64_t kInstructionLimit = 20'000'000;

template <class Function>
Function extension(std::string_view name) {
  return reinterpret_cast<Function>(emulator::emulated_driver_symbol(name));
}

std::string last_report() {
  const auto read = extension<TwEmulatorGetLastReportFn>("twEmulatorGetLastReport");
  size_t needed = 0;
  read(nullptr, 0, &needed);
  std::string text(needed, '\0');
  read(text.data(), text.size(), &needed);
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

void succeed(CUresult result, const char* what) {
  TW_CHECK(result == CUDA_SUCCESS, "{}: error {}: {}", what, static_cast<int>(result),
           last_report());
}

Outcome refused() { return {Verdict::kRefused, last_report()}; }

}  // namespace

void apply_settings(const Schedule& schedule) {
  extension<TwEmulatorSetScheduleFn>("twEmulatorSetSchedule")(schedule.kind, schedule.seed);
  extension<TwEmulatorSetObserversFn>("twEmulatorSetObservers")(TW_EMULATOR_OBSERVERS_FULL);
  extension<TwEmulatorSetInstructionLimitFn>("twEmulatorSetInstructionLimit")(kInstructionLimit);
  extension<TwEmulatorClearLastReportFn>("twEmulatorClearLastReport")();
}

Verdict verdict_of_report(const std::string& report) {
  if (report.find("deadlock: ") != std::string::npos) return Verdict::kDeadlock;
  if (report.find("instruction limit: ") != std::string::npos) return Verdict::kEndless;
  return Verdict::kReported;
}

Device::Device(const Schedule& schedule) {
  succeed(TW_CU(cuInit)(0), "cuInit");
  int count = 0;
  succeed(TW_CU(cuDeviceGetCount)(&count), "cuDeviceGetCount");
  for (CUdevice each = 0; each < count && device_ < 0; ++each) {
    char name[128] = "";
    succeed(TW_CU(cuDeviceGetName)(name, sizeof(name), each), "cuDeviceGetName");
    if (std::string_view(name).find("H100") != std::string_view::npos) device_ = each;
  }
  TW_CHECK(device_ >= 0, "no emulated H100 among {} devices", count);
  succeed(TW_CU(cuDevicePrimaryCtxRetain)(&context_, device_), "cuDevicePrimaryCtxRetain");
  succeed(TW_CU(cuCtxPushCurrent_v2)(context_), "cuCtxPushCurrent");
  apply_settings(schedule);
}

Device::~Device() {
  TW_CU(cuCtxPopCurrent_v2)(nullptr);
  TW_CU(cuDevicePrimaryCtxRelease_v2)(device_);  // memory, modules and faults end with it
}

CUdeviceptr Device::upload(std::span<const std::byte> bytes) {
  Buffer buffer;
  buffer.bytes.resize(kGuardBytes + bytes.size() + kGuardBytes, kGuard);
  std::memcpy(buffer.bytes.data() + kGuardBytes, bytes.data(), bytes.size());
  CUdeviceptr base = 0;
  succeed(TW_CU(cuMemAlloc_v2)(&base, buffer.bytes.size()), "cuMemAlloc");
  succeed(TW_CU(cuMemcpyHtoD_v2)(base, buffer.bytes.data(), buffer.bytes.size()), "cuMemcpyHtoD");
  buffer.address = base + kGuardBytes;
  buffers_.push_back(std::move(buffer));
  return buffers_.back().address;
}

TensorMap Device::tensor_map(const TensorShape& shape) {
  static_assert(sizeof(TensorMap) == sizeof(CUtensorMap));
  const std::vector<uint32_t> element_strides(shape.extents.size(), 1);
  std::vector<cuuint64_t> extents(shape.extents.begin(), shape.extents.end());
  std::vector<cuuint64_t> strides(shape.strides.begin(), shape.strides.end());
  CUtensorMap map;
  succeed(TW_CU(cuTensorMapEncodeTiled)(
              &map, shape.type, static_cast<cuuint32_t>(shape.extents.size()),
              reinterpret_cast<void*>(shape.address), extents.data(), strides.data(),
              shape.box.data(), element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
              shape.swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
          "cuTensorMapEncodeTiled");
  TensorMap opaque;
  std::memcpy(&opaque, &map, sizeof(map));
  return opaque;
}

CUfunction Device::load(const std::string& ptx, const char* entry, unsigned shared_bytes) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  const bool loaded =
      TW_CU(cuModuleLoadData)(&module, ptx.c_str()) == CUDA_SUCCESS &&
      TW_CU(cuModuleGetFunction)(&function, module, entry) == CUDA_SUCCESS &&
      TW_CU(cuFuncSetAttribute)(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                static_cast<int>(shared_bytes)) == CUDA_SUCCESS;
  return loaded ? function : nullptr;
}

Outcome Device::launch(const std::string& ptx, const char* entry, const LaunchShape& shape,
                       void* parameters) {
  const CUfunction function = load(ptx, entry, shape.shared_bytes);
  return function == nullptr ? refused() : run(function, shape, parameters);
}

Outcome Device::run(CUfunction function, const LaunchShape& shape, void* parameters) {
  CUlaunchAttribute cluster{};
  cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  cluster.value.clusterDim = {shape.cluster, 1, 1};
  CUlaunchConfig config{};
  config.gridDimX = shape.grid_x;
  config.gridDimY = shape.grid_y;
  config.gridDimZ = 1;
  config.blockDimX = shape.block;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = shape.shared_bytes;
  config.attrs = &cluster;
  config.numAttrs = 1;
  CUresult result = TW_CU(cuLaunchKernelEx)(&config, function, &parameters, nullptr);
  if (result == CUDA_SUCCESS) result = TW_CU(cuCtxSynchronize)();
  if (result == CUDA_SUCCESS) return {};
  if (result == CUDA_ERROR_INVALID_VALUE) return refused();
  const std::string report = last_report();
  return {verdict_of_report(report), report};
}

std::vector<std::byte> Device::download(CUdeviceptr address) {
  for (const Buffer& buffer : buffers_) {
    if (buffer.address != address) continue;
    std::vector<std::byte> bytes(buffer.bytes.size() - 2 * kGuardBytes);
    succeed(TW_CU(cuMemcpyDtoH_v2)(bytes.data(), address, bytes.size()), "cuMemcpyDtoH");
    return bytes;
  }
  TW_CHECK(false, "{:#x} is no buffer", address);
}

std::string Device::check_unchanged(std::span<const CUdeviceptr> changed) {
  for (const Buffer& buffer : buffers_) {
    std::vector<std::byte> now(buffer.bytes.size());
    succeed(TW_CU(cuMemcpyDtoH_v2)(now.data(), buffer.address - kGuardBytes, now.size()),
            "cuMemcpyDtoH");
    bool is_output = false;
    for (const CUdeviceptr each : changed) is_output = is_output || each == buffer.address;
    for (size_t i = 0; i < now.size(); ++i) {
      const bool guard = i < kGuardBytes || i >= now.size() - kGuardBytes;
      if (now[i] == buffer.bytes[i] || (is_output && !guard)) continue;
      return fmt::format("byte {} of the buffer at {:#x} ({} bytes) was changed",
                         static_cast<int64_t>(i) - static_cast<int64_t>(kGuardBytes),
                         buffer.address, now.size() - 2 * kGuardBytes);
    }
  }
  return {};
}

}  // namespace tilewright::hopper_kernels
