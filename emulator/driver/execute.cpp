// Executes what streams and graphs hold: copies, fills, kernels, host calls.
#include <cstdio>
#include <cstring>

#include "core/threads.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

// One end of a copy: host bytes, or an address in a device's memory.
struct Endpoint {
  Device* device = nullptr;  // null: host
  DeviceMemory* memory = nullptr;
  uint64_t address = 0;  // of the region's first byte
  uint64_t row_pitch = 0;
  uint64_t plane_pitch = 0;
};

struct EndpointFields {
  CUmemorytype type;
  const void* host;
  CUdeviceptr device;
  size_t x, y, z, pitch, height;
};

// Bytes from the first to one past the last of the region; false if that overflows 64 bits.
bool extent_of(const Endpoint& end, const CUDA_MEMCPY3D& region, uint64_t* bytes) {
  uint64_t rows = 0, planes = 0;
  return !__builtin_mul_overflow(end.row_pitch, region.Height - 1, &rows) &&
         !__builtin_mul_overflow(end.plane_pitch, region.Depth - 1, &planes) &&
         !__builtin_add_overflow(rows, planes, bytes) &&
         !__builtin_add_overflow(*bytes, region.WidthInBytes, bytes);
}

CUresult resolve(const EndpointFields& fields, const CUDA_MEMCPY3D& region, Device* device,
                 const char* name, Endpoint* end) {
  uint64_t address = fields.device;
  switch (fields.type) {
    case CU_MEMORYTYPE_HOST:
      address = reinterpret_cast<uint64_t>(fields.host);
      break;
    case CU_MEMORYTYPE_DEVICE:
      end->device = device;
      break;
    case CU_MEMORYTYPE_UNIFIED:
      end->device = Driver::instance().device_of(address);
      break;
    case CU_MEMORYTYPE_ARRAY:
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "copy with a CUarray as its {}", name);
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "copy: memory type {} of the {}",
                    static_cast<int>(fields.type), name);
  }
  if (end->device != nullptr) end->memory = end->device->memory.get();
  end->row_pitch = fields.pitch != 0 ? fields.pitch : region.WidthInBytes + fields.x;
  const uint64_t plane_rows = fields.height != 0 ? fields.height : region.Height + fields.y;
  uint64_t row = 0, plane = 0, extent = 0;
  if (__builtin_mul_overflow(end->row_pitch, plane_rows, &end->plane_pitch) ||
      __builtin_mul_overflow(end->row_pitch, fields.y, &row) ||
      __builtin_mul_overflow(end->plane_pitch, fields.z, &plane) ||
      __builtin_add_overflow(address, row, &end->address) ||
      __builtin_add_overflow(end->address, plane, &end->address) ||
      __builtin_add_overflow(end->address, fields.x, &end->address) ||
      !extent_of(*end, region, &extent)) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "copy: the {} overflows 64 bits", name);
  }
  if (region.Height > 1 && end->row_pitch < region.WidthInBytes) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "copy: {} pitch {} is less than the width {}", name,
                  end->row_pitch, region.WidthInBytes);
  }
  if (end->memory == nullptr && address == 0) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "copy: the {} is a null host pointer", name);
  }
  if (end->memory != nullptr && !end->memory->contains(end->address, extent)) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "copy: {} of {} bytes at {:#x}: {}", name, extent,
                  end->address, describe_address(*end->device, end->address));
  }
  return CUDA_SUCCESS;
}

Status copy_row(const Endpoint& from, uint64_t source, const Endpoint& to, uint64_t target,
                uint64_t bytes) {
  if (to.memory == nullptr && from.memory == nullptr) {
    std::memmove(reinterpret_cast<void*>(target), reinterpret_cast<const void*>(source), bytes);
    return {};
  }
  if (to.memory == nullptr) {
    return from.memory->copy_out(reinterpret_cast<void*>(target), source, bytes);
  }
  if (from.memory == nullptr) {
    return to.memory->copy_in(target, reinterpret_cast<const void*>(source), bytes);
  }
  return to.memory->copy_in(target, from.memory->translate(source, bytes), bytes);
}

CUresult run(const Copy& copy) {
  const CUDA_MEMCPY3D& region = copy.region;
  if (region.WidthInBytes == 0 || region.Height == 0 || region.Depth == 0) return CUDA_SUCCESS;
  if (region.srcLOD != 0 || region.dstLOD != 0) return CUDA_ERROR_INVALID_VALUE;
  Endpoint from, to;
  TW_DRIVER_TRY(resolve({region.srcMemoryType, region.srcHost, region.srcDevice, region.srcXInBytes,
                         region.srcY, region.srcZ, region.srcPitch, region.srcHeight},
                        region, copy.source_device, "source", &from));
  TW_DRIVER_TRY(resolve({region.dstMemoryType, region.dstHost, region.dstDevice, region.dstXInBytes,
                         region.dstY, region.dstZ, region.dstPitch, region.dstHeight},
                        region, copy.target_device, "target", &to));
  for (size_t z = 0; z < region.Depth; ++z) {
    for (size_t y = 0; y < region.Height; ++y) {
      const uint64_t source = from.address + z * from.plane_pitch + y * from.row_pitch;
      const uint64_t target = to.address + z * to.plane_pitch + y * to.row_pitch;
      const Status copied = copy_row(from, source, to, target, region.WidthInBytes);
      if (!copied.ok()) return refuse(CUDA_ERROR_INVALID_VALUE, "{}", copied.error().message);
    }
  }
  return CUDA_SUCCESS;
}

CUresult run(Context& context, const Fill& fill) {
  const CUDA_MEMSET_NODE_PARAMS& params = fill.params;
  const unsigned size = params.elementSize;
  if (size != 1 && size != 2 && size != 4) return CUDA_ERROR_INVALID_VALUE;
  if (params.width == 0 || params.height == 0) return CUDA_SUCCESS;
  DeviceMemory& memory = *context.device->memory;
  uint64_t row = 0, extent = 0;
  const bool overflows = __builtin_mul_overflow(params.width, size, &row) ||
                         __builtin_mul_overflow(params.pitch, params.height - 1, &extent) ||
                         __builtin_add_overflow(extent, row, &extent);
  if (overflows || (params.height > 1 && params.pitch < row) || params.dst % size != 0 ||
      (params.height > 1 && params.pitch % size != 0) || !memory.contains(params.dst, extent)) {
    return refuse(CUDA_ERROR_INVALID_VALUE, "fill of {} x {} elements of {} bytes at {:#x}: {}",
                  params.width, params.height, size, params.dst,
                  describe_address(*context.device, params.dst));
  }
  for (size_t y = 0; y < params.height; ++y) {
    const Status filled =
        memory.fill(params.dst + y * params.pitch, params.value, size, params.width);
    if (!filled.ok()) return refuse(CUDA_ERROR_INVALID_VALUE, "{}", filled.error().message);
  }
  return CUDA_SUCCESS;
}

CUresult error_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kOutOfBounds:
    case FaultKind::kUseAfterFree:
    case FaultKind::kReadOnly:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case FaultKind::kMisaligned:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    case FaultKind::kDeadlock:
    case FaultKind::kInstructionLimit:
      return CUDA_ERROR_LAUNCH_TIMEOUT;
    case FaultKind::kAssert:
      return CUDA_ERROR_ASSERT;
    case FaultKind::kIllegalInstruction:
      return CUDA_ERROR_ILLEGAL_INSTRUCTION;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

// What a kernel prints goes where the program's own output goes.
void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

LaunchSettings settings_now() {
  LaunchSettings settings = Driver::instance().settings().launch;
  if (settings.host_threads == 0) settings.host_threads = available_cpus();
  settings.print = print;
  return settings;
}

CUresult make_request(const Context& context, const KernelLaunch& launch,
                      const LaunchSettings& settings, LaunchRequest* request) {
  const Function& function = *launch.function;
  if (!function.module->alive) return CUDA_ERROR_INVALID_HANDLE;
  *request = {.module = function.module->loaded.get(),
              .kernel = function.kernel,
              .grid = launch.grid,
              .block = launch.block,
              .cluster = launch.cluster,
              .dynamic_shared_bytes = launch.dynamic_shared_bytes,
              .parameters = launch.parameters,
              .settings = settings};
  const Status checked = check_launch(*request, context.device->profile.arch);
  if (checked.ok()) return CUDA_SUCCESS;
  const bool lacks_memory = checked.error().code == ErrorCode::kOutOfMemory;
  return refuse(lacks_memory ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE, "{}",
                checked.error().message);
}

void keep_outcome(Context& context, const LaunchOutcome& outcome) {
  Driver::instance().add_counters(outcome.counters);
  if (!outcome.fault) return;
  std::string report = outcome.fault->to_string();
  const std::string foreign = foreign_owner(*context.device, outcome.fault->address);
  if (!foreign.empty()) report += "\n  " + foreign;
  Driver::instance().set_report(std::move(report));
  CUresult none = CUDA_SUCCESS;
  context.fault.compare_exchange_strong(none, error_of(outcome.fault->kind));
}

// The device's execution is locked in what follows.

std::optional<HeldLaunch> take_held(Device& device) {
  std::optional<HeldLaunch> held = std::move(device.held);
  device.held.reset();
  device.holds = false;
  return held;
}

void run_held(Device& device) {
  std::optional<HeldLaunch> held = take_held(device);
  if (!held) return;
  LaunchRequest request;
  if (make_request(*held->context, held->launch, held->settings, &request) != CUDA_SUCCESS) return;
  keep_outcome(*held->context, run_launch(request, device.profile.arch, *device.memory));
}

// A kernel that lets its dependents start early is held back until the next operation, which may be
// one. Under `eager` nothing overlaps and nothing is held.
CUresult run(Context& context, const KernelLaunch& launch) {
  Device& device = *context.device;
  const LaunchSettings settings = settings_now();
  LaunchRequest request;
  const bool follows = device.held && launch.is_dependent && launch.stream_id != 0 &&
                       device.held->context.get() == &context &&
                       device.held->launch.stream_id == launch.stream_id;
  if (!follows) run_held(device);
  if (context.fault != CUDA_SUCCESS) return context.fault;
  TW_DRIVER_TRY(make_request(context, launch, settings, &request));
  if (follows) {
    const std::optional<HeldLaunch> held = take_held(device);
    LaunchRequest primary;
    TW_DRIVER_TRY(make_request(context, held->launch, held->settings, &primary));
    const OverlappedOutcome outcome =
        run_overlapped(primary, request, device.profile.arch, *device.memory);
    keep_outcome(context, outcome.primary);
    keep_outcome(context, outcome.dependent);
    return CUDA_SUCCESS;
  }
  if (settings.schedule != Schedule::kEager && launch.stream_id != 0 &&
      launch.function->attributes().launches_dependents) {
    device.held = HeldLaunch{Driver::instance().contexts.find(context.handle), launch, settings};
    device.holds = device.held->context != nullptr;
    if (device.holds) return CUDA_SUCCESS;
    device.held.reset();
  }
  keep_outcome(context, run_launch(request, device.profile.arch, *device.memory));
  return CUDA_SUCCESS;
}

}  // namespace

void finish_held(Device& device) {
  if (!device.holds) return;
  const std::lock_guard lock(device.execution);
  run_held(device);
}

void finish_held_everywhere() {
  for (const auto& device : Driver::instance().devices) finish_held(*device);
}

CUresult execute(Context& context, const Operation& operation) {
  // Host functions run outside the lock: they may take as long as they like.
  const bool calls_host = std::holds_alternative<HostCall>(operation) ||
                          std::holds_alternative<StreamCallback>(operation);
  if (calls_host) finish_held(*context.device);
  if (const auto* call = std::get_if<HostCall>(&operation)) {
    if (context.fault == CUDA_SUCCESS) call->function(call->data);
    return CUDA_SUCCESS;
  }
  if (const auto* call = std::get_if<StreamCallback>(&operation)) {
    call->function(call->stream, context.fault, call->data);
    return CUDA_SUCCESS;
  }
  if (context.fault != CUDA_SUCCESS) return context.fault;
  const std::lock_guard lock(context.device->execution);
  if (const auto* launch = std::get_if<KernelLaunch>(&operation)) return run(context, *launch);
  run_held(*context.device);
  if (context.fault != CUDA_SUCCESS) return context.fault;
  if (const auto* copy = std::get_if<Copy>(&operation)) return run(*copy);
  if (const auto* fill = std::get_if<Fill>(&operation)) return run(context, *fill);
  return CUDA_SUCCESS;
}

}  // namespace tilewright::emulator::driver
