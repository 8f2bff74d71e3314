// Occupancy: the worked examples of the launch rules, and the queries built on them.
#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

class DriverOccupancy : public DriverTest {
 protected:
  // The kernel `nothing` with a given register and barrier count, in a context of the device.
  CUfunction with_resources(CUdevice device, int registers, int barriers = 0) {
    CUcontext context = nullptr;
    EXPECT_EQ(TW_CU(cuCtxCreate_v2)(&context, 0, device), CUDA_SUCCESS);
    contexts_.push_back(context);
    const CUfunction f = function(load(), "nothing");
    const TwEmulatorResources resources = {sizeof(resources), registers, barriers, -1, -1, -1};
    EXPECT_EQ(TW_EXT(twEmulatorSetResources, TwEmulatorSetResourcesFn)(f, &resources),
              CUDA_SUCCESS);
    return f;
  }
  int blocks(CUfunction f, int threads, size_t shared) {
    int count = -1;
    EXPECT_EQ(TW_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&count, f, threads, shared),
              CUDA_SUCCESS);
    return count;
  }
  void TearDown() override {
    for (const CUcontext context : contexts_) TW_CU(cuCtxDestroy_v2)(context);
    DriverTest::TearDown();
  }
  std::vector<CUcontext> contexts_;
};

TEST_F(DriverOccupancy, WorkedExamples) {
  EXPECT_EQ(blocks(with_resources(device_named("H100"), 168), 384, 0), 1);
  EXPECT_EQ(blocks(with_resources(device_named("3090"), 128), 128, 40 * 1024), 2);
  EXPECT_EQ(blocks(with_resources(device_named("H100"), 32, 16), 128, 0), 4);
}

TEST_F(DriverOccupancy, EachLimitBinds) {
  const CUdevice h100 = device_named("H100");
  EXPECT_EQ(blocks(with_resources(h100, 16), 32, 0), 32);          // blocks
  EXPECT_EQ(blocks(with_resources(h100, 16), 1024, 0), 2);         // warps
  EXPECT_EQ(blocks(with_resources(h100, 255), 256, 0), 1);         // registers
  EXPECT_EQ(blocks(with_resources(h100, 16), 32, 113 * 1024), 2);  // shared: 2 x (113 + 1) KB
  EXPECT_EQ(blocks(with_resources(h100, 16), 32, 113 * 1024 + 1), 1);
  EXPECT_EQ(blocks(with_resources(h100, 16), 32, 228 * 1024), 0);  // beyond the opt-in
  EXPECT_EQ(blocks(with_resources(device_named("4090"), 16), 32, 0), 24);
  EXPECT_EQ(blocks(with_resources(device_named("3090"), 16), 32, 0), 16);
}

TEST_F(DriverOccupancy, CarveOutCapsSharedMemory) {
  const CUfunction f = with_resources(device_named("H100"), 16);
  EXPECT_EQ(blocks(f, 32, 31 * 1024), 7);  // 228 / 32
  ASSERT_EQ(TW_CU(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 40),
            CUDA_SUCCESS);
  EXPECT_EQ(blocks(f, 32, 31 * 1024), 3);  // 91.2 KB wanted, 100 KB chosen
}

TEST_F(DriverOccupancy, BlockSizeThatFillsTheDevice) {
  const CUfunction f = with_resources(device_named("H100"), 64);
  int grid = 0, block = 0;
  ASSERT_EQ(TW_CU(cuOccupancyMaxPotentialBlockSize)(&grid, &block, f, nullptr, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(grid * block, 132 * 1024);  // 65536 / 64 registers
  ASSERT_EQ(TW_CU(cuOccupancyMaxPotentialBlockSize)(&grid, &block, f, nullptr, 0, 256),
            CUDA_SUCCESS);
  EXPECT_EQ(block, 256);
  EXPECT_EQ(grid, 132 * 4);
  size_t bytes = 0;
  ASSERT_EQ(TW_CU(cuOccupancyAvailableDynamicSMemPerBlock)(&bytes, f, 2, 128), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 113u * 1024);
}

TEST_F(DriverOccupancy, Clusters) {
  CUlaunchConfig config{};
  config.gridDimX = 16;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 128;
  config.blockDimY = config.blockDimZ = 1;
  int size = 0;
  const CUfunction f = with_resources(device_named("H100"), 32);
  ASSERT_EQ(TW_CU(cuOccupancyMaxPotentialClusterSize)(&size, f, &config), CUDA_SUCCESS);
  EXPECT_EQ(size, 8);
  ASSERT_EQ(TW_CU(cuFuncSetAttribute)(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
            CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuOccupancyMaxPotentialClusterSize)(&size, f, &config), CUDA_SUCCESS);
  EXPECT_EQ(size, 16);
  const CUfunction ampere = with_resources(device_named("A100"), 32);
  EXPECT_EQ(TW_CU(cuOccupancyMaxPotentialClusterSize)(&size, ampere, &config),
            CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace
}  // namespace tilewright::emulator
