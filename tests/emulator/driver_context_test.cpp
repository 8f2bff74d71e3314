// Devices and contexts: what is reported, who is current, what ends with a context.
#include <thread>

#include "core/arch.h"
#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

TEST(DriverDevices, NothingWorksBeforeInit) {
  int count = 0;
  CUcontext context = nullptr;
  EXPECT_EQ(TW_CU(cuDeviceGetCount)(&count), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(TW_CU(cuCtxGetCurrent)(&context), CUDA_ERROR_NOT_INITIALIZED);
  CUdeviceptr address = 0;
  EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&address, 4), CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(TW_CU(cuInit)(1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, ListsEveryProfileByName) {
  int count = 0;
  ASSERT_EQ(TW_CU(cuDeviceGetCount)(&count), CUDA_SUCCESS);
  ASSERT_EQ(static_cast<size_t>(count), device_profiles().size());
  for (int i = 0; i < count; ++i) {
    char name[128];
    ASSERT_EQ(TW_CU(cuDeviceGetName)(name, sizeof(name), i), CUDA_SUCCESS);
    const DeviceProfile& profile = device_profiles()[static_cast<size_t>(i)];
    EXPECT_EQ(std::string(name), std::string(profile.marketing) + " (emulated)");
    int major = 0, minor = 0, sms = 0, shared = 0;
    EXPECT_EQ(TW_CU(cuDeviceComputeCapability)(&major, &minor, i), CUDA_SUCCESS);
    EXPECT_EQ(major * 10 + minor, profile.arch.compute_capability());
    EXPECT_EQ(TW_CU(cuDeviceGetAttribute)(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, i),
              CUDA_SUCCESS);
    EXPECT_EQ(sms, profile.arch.num_sms);
    EXPECT_EQ(TW_CU(cuDeviceGetAttribute)(&shared,
                                          CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, i),
              CUDA_SUCCESS);
    EXPECT_EQ(shared, profile.arch.shared_bytes_per_block);
  }
  CUdevice device = 0;
  EXPECT_EQ(TW_CU(cuDeviceGet)(&device, count), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(TW_CU(cuDeviceGet)(&device, -1), CUDA_ERROR_INVALID_DEVICE);
  char tiny[4];
  ASSERT_EQ(TW_CU(cuDeviceGetName)(tiny, sizeof(tiny), 0), CUDA_SUCCESS);
  EXPECT_EQ(tiny[3], '\0');
}

TEST_F(DriverTest, PrimaryContextIsOneAndCounted) {
  CUcontext again = nullptr;
  ASSERT_EQ(TW_CU(cuDevicePrimaryCtxRetain)(&again, device_), CUDA_SUCCESS);
  EXPECT_EQ(again, context_);
  ASSERT_EQ(TW_CU(cuDevicePrimaryCtxRelease_v2)(device_), CUDA_SUCCESS);
  unsigned flags = 0;
  int active = 0;
  ASSERT_EQ(TW_CU(cuDevicePrimaryCtxGetState)(device_, &flags, &active), CUDA_SUCCESS);
  EXPECT_EQ(active, 1);
  EXPECT_EQ(TW_CU(cuCtxDestroy_v2)(context_), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(DriverTest, ReleasedPrimaryContextIsDestroyedForWhoHasItCurrent) {
  const CUdeviceptr address = allocate(64);
  ASSERT_EQ(TW_CU(cuDevicePrimaryCtxRelease_v2)(device_), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuDevicePrimaryCtxRelease_v2)(device_), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CUcontext again = nullptr;
  ASSERT_EQ(TW_CU(cuDevicePrimaryCtxRetain)(&again, device_), CUDA_SUCCESS);
  EXPECT_EQ(again, context_);
  EXPECT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemFree_v2)(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, StackOfCurrentContexts) {
  CUcontext own = nullptr, current = nullptr, popped = nullptr;
  ASSERT_EQ(TW_CU(cuCtxCreate_v4)(&own, nullptr, CU_CTX_SCHED_BLOCKING_SYNC, 0), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuCtxGetCurrent)(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, own);
  unsigned flags = 0, version = 0;
  EXPECT_EQ(TW_CU(cuCtxGetFlags)(&flags), CUDA_SUCCESS);
  EXPECT_EQ(flags, unsigned{CU_CTX_SCHED_BLOCKING_SYNC});
  EXPECT_EQ(TW_CU(cuCtxGetApiVersion)(own, &version), CUDA_SUCCESS);
  EXPECT_EQ(version, 3020u);
  ASSERT_EQ(TW_CU(cuCtxPopCurrent_v2)(&popped), CUDA_SUCCESS);
  EXPECT_EQ(popped, own);
  ASSERT_EQ(TW_CU(cuCtxGetCurrent)(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context_);
  ASSERT_EQ(TW_CU(cuCtxDestroy_v2)(own), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuCtxDestroy_v2)(own), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(TW_CU(cuCtxSetCurrent)(own), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(TW_CU(cuCtxPushCurrent_v2)(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  ASSERT_EQ(TW_CU(cuCtxGetCurrent)(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, context_);
  EXPECT_EQ(TW_CU(cuCtxCreate_v2)(&own, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, 0),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, AnotherThreadHasNoCurrentContext) {
  std::thread([] {
    CUcontext current = reinterpret_cast<CUcontext>(1);
    EXPECT_EQ(TW_CU(cuCtxGetCurrent)(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
    CUdeviceptr address = 0;
    EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&address, 16), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(TW_CU(cuCtxPopCurrent_v2)(nullptr), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

TEST_F(DriverTest, DestroyingAContextEndsWhatItHeld) {
  CUcontext own = nullptr;
  ASSERT_EQ(TW_CU(cuCtxCreate_v2)(&own, 0, device_), CUDA_SUCCESS);
  const CUmodule module = load();
  const CUfunction nothing = function(module, "nothing");
  CUstream stream = nullptr;
  CUevent event = nullptr;
  ASSERT_EQ(TW_CU(cuStreamCreate)(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuEventCreate)(&event, 0), CUDA_SUCCESS);
  const CUdeviceptr address = allocate(64);
  ASSERT_EQ(TW_CU(cuCtxDestroy_v2)(own), CUDA_SUCCESS);

  EXPECT_EQ(launch(nothing, {}), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(TW_CU(cuStreamSynchronize)(stream), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(TW_CU(cuEventQuery)(event), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(TW_CU(cuModuleUnload)(module), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(TW_CU(cuMemFree_v2)(address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, LimitsAreKeptAndUnknownOnesRefused) {
  size_t value = 0;
  ASSERT_EQ(TW_CU(cuCtxSetLimit)(CU_LIMIT_STACK_SIZE, 4096), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuCtxGetLimit)(&value, CU_LIMIT_STACK_SIZE), CUDA_SUCCESS);
  EXPECT_EQ(value, 4096u);
  int unknown = 99;
  EXPECT_EQ(TW_CU(cuCtxGetLimit)(&value, static_cast<CUlimit>(unknown)),
            CUDA_ERROR_UNSUPPORTED_LIMIT);
}

TEST_F(DriverTest, ForeignHandlesAreRefusedEverywhere) {
  int local = 0;
  void* const bad[] = {nullptr, &local, reinterpret_cast<void*>(0x30)};
  for (void* handle : bad) {
    SCOPED_TRACE(handle);
    int value = 0;
    size_t size = 0;
    CUdeviceptr address = 0;
    CUfunction found = nullptr;
    EXPECT_EQ(TW_CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_NUM_REGS,
                                        static_cast<CUfunction>(handle)),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(launch(static_cast<CUfunction>(handle), {}), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(TW_CU(cuModuleGetFunction)(&found, static_cast<CUmodule>(handle), "x"),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(
        TW_CU(cuModuleGetGlobal_v2)(&address, &size, static_cast<CUmodule>(handle), "counter"),
        CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(TW_CU(cuStreamDestroy_v2)(static_cast<CUstream>(handle)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(TW_CU(cuEventRecord)(static_cast<CUevent>(handle), nullptr),
              CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(TW_CU(cuGraphLaunch)(static_cast<CUgraphExec>(handle), nullptr),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TW_CU(cuGraphDestroy)(static_cast<CUgraph>(handle)), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(TW_CU(cuLibraryUnload)(static_cast<CUlibrary>(handle)), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(TW_CU(cuMemPoolDestroy)(static_cast<CUmemoryPool>(handle)), CUDA_ERROR_INVALID_VALUE);
  }
}

}  // namespace
}  // namespace tilewright::emulator
