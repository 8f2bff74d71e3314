// Many threads on one driver: shared and own contexts, allocation, launches, captures and lookups
// at once. Meant to run under ThreadSanitizer too.
#include <thread>

#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

void add_on_own_stream(CUcontext context, CUfunction add, unsigned seed) {
  ASSERT_EQ(TW_CU(cuCtxPushCurrent_v2)(context), CUDA_SUCCESS);
  CUstream stream = nullptr;
  ASSERT_EQ(TW_CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (unsigned round = 0; round < 8; ++round) {
    const std::vector<float> values(64, static_cast<float>(seed * 100 + round));
    CUdeviceptr in = 0, out = 0;
    ASSERT_EQ(TW_CU(cuMemAlloc_v2)(&in, 256), CUDA_SUCCESS);
    ASSERT_EQ(TW_CU(cuMemAlloc_v2)(&out, 256), CUDA_SUCCESS);
    ASSERT_EQ(TW_CU(cuMemcpyHtoDAsync_v2)(in, values.data(), 256, stream), CUDA_SUCCESS);
    unsigned n = 64;
    void* parameters[] = {&in, &in, &out, &n};
    ASSERT_EQ(TW_CU(cuLaunchKernel)(add, 2, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr),
              CUDA_SUCCESS);
    std::vector<float> back(64);
    ASSERT_EQ(TW_CU(cuMemcpyDtoHAsync_v2)(back.data(), out, 256, stream), CUDA_SUCCESS);
    ASSERT_EQ(TW_CU(cuStreamSynchronize)(stream), CUDA_SUCCESS);
    EXPECT_EQ(back, std::vector<float>(64, 2 * values[0]));
    ASSERT_EQ(TW_CU(cuMemFree_v2)(in), CUDA_SUCCESS);
    ASSERT_EQ(TW_CU(cuMemFree_v2)(out), CUDA_SUCCESS);
  }
  ASSERT_EQ(TW_CU(cuStreamDestroy_v2)(stream), CUDA_SUCCESS);
  TW_CU(cuCtxPopCurrent_v2)(nullptr);
}

TEST_F(DriverTest, ThreadsShareAContext) {
  const CUfunction add = function(load(), "vector_add");
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] { add_on_own_stream(context_, add, i + 1); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DriverTest, ThreadsMakeAndDestroyContextsAndModules) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([i] {
      for (int round = 0; round < 4; ++round) {
        CUcontext own = nullptr;
        ASSERT_EQ(TW_CU(cuCtxCreate_v2)(&own, 0, i % 2), CUDA_SUCCESS);
        CUmodule module = nullptr;
        ASSERT_EQ(TW_CU(cuModuleLoadData)(&module, kVectorAdd), CUDA_SUCCESS);
        CUfunction nothing = nullptr;
        ASSERT_EQ(TW_CU(cuModuleGetFunction)(&nothing, module, "nothing"), CUDA_SUCCESS);
        ASSERT_EQ(TW_CU(cuLaunchKernel)(nothing, 4, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr),
                  CUDA_SUCCESS);
        CUcontext primary = nullptr;
        ASSERT_EQ(TW_CU(cuDevicePrimaryCtxRetain)(&primary, i), CUDA_SUCCESS);
        ASSERT_EQ(TW_CU(cuDevicePrimaryCtxRelease_v2)(i), CUDA_SUCCESS);
        ASSERT_EQ(TW_CU(cuCtxDestroy_v2)(own), CUDA_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DriverTest, ThreadsCaptureAndSetOptionsAtOnce) {
  const CUfunction nothing = function(load(), "nothing");
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      ASSERT_EQ(TW_CU(cuCtxPushCurrent_v2)(context_), CUDA_SUCCESS);
      for (int round = 0; round < 8; ++round) {
        TW_EXT(twEmulatorSetSchedule, TwEmulatorSetScheduleFn)(TW_EMULATOR_SCHEDULE_RANDOM, i);
        ASSERT_EQ(TW_CU(cuStreamBeginCapture_v2_ptsz)(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED),
                  CUDA_SUCCESS);
        ASSERT_EQ(
            TW_CU(cuLaunchKernel_ptsz)(nothing, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, nullptr),
            CUDA_SUCCESS);
        CUgraph graph = nullptr;
        CUgraphExec exec = nullptr;
        ASSERT_EQ(TW_CU(cuStreamEndCapture_ptsz)(nullptr, &graph), CUDA_SUCCESS);
        ASSERT_EQ(TW_CU(cuGraphInstantiateWithFlags)(&exec, graph, 0), CUDA_SUCCESS);
        ASSERT_EQ(TW_CU(cuGraphLaunch_ptsz)(exec, nullptr), CUDA_SUCCESS);
        ASSERT_EQ(TW_CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
        ASSERT_EQ(TW_CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
        last_report();
      }
      TW_CU(cuCtxPopCurrent_v2)(nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tilewright::emulator
