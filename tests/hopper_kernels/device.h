// One emulated H100 for one run of one kernel: buffers between guard bytes, tensor maps, a launch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "emulator/driver/cuda_api.h"
#include "tests/hopper_kernels/gemm_config.h"
#include "tests/hopper_kernels/subject.h"

namespace tilewright::hopper_kernels {

// Dimensions innermost first; strides in bytes, of dimension 1 and up.
struct TensorShape {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  CUdeviceptr address = 0;
  std::vector<uint64_t> extents;
  std::vector<uint64_t> strides;
  std::vector<uint32_t> box;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_128B;
};

struct LaunchShape {
  unsigned grid_x = 1, grid_y = 1;
  unsigned block = 1;
  unsigned cluster = 1;
  unsigned shared_bytes = 0;
};

// Of the process: the schedule, observers `full`, a limit of instructions; the last report is
// forgotten.
void apply_settings(const Schedule& schedule);
// What the emulator's report of a launch means.
Verdict verdict_of_report(const std::string& report);

class Device {
 public:
  // With apply_settings().
  explicit Device(const Schedule& schedule);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // A copy of `bytes` between guards.
  CUdeviceptr upload(std::span<const std::byte> bytes);
  TensorMap tensor_map(const TensorShape& shape);
  // Loads the PTX, runs one entry to its end. `parameters`: the entry's single parameter.
  Outcome launch(const std::string& ptx, const char* entry, const LaunchShape& shape,
                 void* parameters);
  // The two parts of it. load() gives null where the PTX is refused.
  CUfunction load(const std::string& ptx, const char* entry, unsigned shared_bytes);
  Outcome run(CUfunction function, const LaunchShape& shape, void* parameters);
  // After a launch that ended well.
  std::vector<std::byte> download(CUdeviceptr address);
  // Empty if every guard byte is as it was, and every buffer that is not `changed`.
  std::string check_unchanged(std::span<const CUdeviceptr> changed);

 private:
  struct Buffer {
    CUdeviceptr address = 0;
    std::vector<std::byte> bytes;  // guards included
  };
  CUdevice device_ = -1;
  CUcontext context_ = nullptr;
  std::vector<Buffer> buffers_;
};

}  // namespace tilewright::hopper_kernels
