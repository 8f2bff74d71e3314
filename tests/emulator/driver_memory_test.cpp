// Device memory, copies, fills, host memory and pointer queries.
#include <numeric>

#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

TEST_F(DriverTest, FreesOnceAndOnlyWhatItGave) {
  const CUdeviceptr address = allocate(100);
  EXPECT_EQ(TW_CU(cuMemFree_v2)(address + 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuMemFree_v2)(0), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemFree_v2)(address), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemFree_v2)(address), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(last_report().find("free"), std::string::npos) << last_report();
  int local = 0;
  EXPECT_EQ(TW_CU(cuMemFree_v2)(reinterpret_cast<CUdeviceptr>(&local)), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr none = 0;
  EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&none, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, MemoryEndsAtTheProfileAndAtTheCap) {
  size_t free = 0, total = 0;
  ASSERT_EQ(TW_CU(cuMemGetInfo_v2)(&free, &total), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&address, total + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&address, ~size_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
  TW_EXT(twEmulatorSetMemoryCap, TwEmulatorSetMemoryCapFn)(1 << 20);
  EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&address, (1 << 20) + 1), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_NE(last_report().find("1048576"), std::string::npos) << last_report();
  EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&address, 1 << 19), CUDA_SUCCESS);
  size_t rest = 0;
  ASSERT_EQ(TW_CU(cuMemGetInfo_v2)(&rest, &total), CUDA_SUCCESS);
  EXPECT_EQ(total, size_t{1} << 20);
  EXPECT_LE(rest, size_t{1} << 19);
}

TEST_F(DriverTest, CopiesStayInsideAllocations) {
  std::vector<std::byte> bytes(128);
  const CUdeviceptr address = allocate(64);
  EXPECT_EQ(TW_CU(cuMemcpyHtoD_v2)(address, bytes.data(), 65), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuMemcpyHtoD_v2)(address + 60, bytes.data(), 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuMemcpyDtoH_v2)(bytes.data(), address - 1, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuMemcpyDtoH_v2)(bytes.data(), address, ~size_t{0}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuMemcpyHtoD_v2)(address, nullptr, 4), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuMemcpyHtoD_v2)(address, nullptr, 0), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemcpyHtoD_v2)(address, bytes.data(), 64), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemsetD32_v2)(address + 2, 1, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuMemsetD8_v2)(address, 1, 65), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, UnifiedCopiesTellHostFromDevice) {
  const std::vector<float> values = {1, 2, 3, 4};
  const CUdeviceptr a = upload(values);
  const CUdeviceptr b = allocate(16);
  std::vector<float> back(4);
  ASSERT_EQ(TW_CU(cuMemcpy)(b, a, 16), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuMemcpy)(reinterpret_cast<CUdeviceptr>(back.data()), b, 16), CUDA_SUCCESS);
  EXPECT_EQ(back, values);
}

// An address of one device means nothing on another, save to a copy that asks whose it is.
TEST_F(DriverTest, ForeignPointersAreRefused) {
  const std::vector<float> values = {1, 2, 3, 4};
  const CUdeviceptr own = upload(values);
  CUcontext ampere = nullptr;
  ASSERT_EQ(TW_CU(cuCtxCreate_v2)(&ampere, 0, device_named("A100")), CUDA_SUCCESS);
  CUdeviceptr foreign = allocate(16);
  EXPECT_NE(own >> 40, foreign >> 40);
  ASSERT_EQ(TW_CU(cuCtxSetCurrent)(context_), CUDA_SUCCESS);
  std::vector<float> back(4);
  const auto is_refused = [&](CUresult result) {
    EXPECT_EQ(result, CUDA_ERROR_INVALID_VALUE);
    EXPECT_NE(last_report().find("an address of device"), std::string::npos) << last_report();
  };
  is_refused(TW_CU(cuMemcpyHtoD_v2)(foreign, values.data(), 16));
  is_refused(TW_CU(cuMemcpyDtoH_v2)(back.data(), foreign, 16));
  is_refused(TW_CU(cuMemcpyDtoD_v2)(foreign, own, 16));
  is_refused(TW_CU(cuMemsetD32_v2)(foreign, 1, 4));
  is_refused(TW_CU(cuMemFree_v2)(foreign));
  CUdeviceptr base = 0;
  EXPECT_EQ(TW_CU(cuMemGetAddressRange_v2)(&base, nullptr, foreign), CUDA_ERROR_NOT_FOUND);
  // The unified address says where it lies.
  EXPECT_EQ(TW_CU(cuMemcpy)(foreign, own, 16), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(TW_CU(cuMemcpy)(reinterpret_cast<CUdeviceptr>(back.data()), foreign, 16), CUDA_SUCCESS);
  EXPECT_EQ(back, values);
  EXPECT_EQ(TW_CU(cuMemcpyPeer)(own, context_, foreign, ampere, 16), CUDA_SUCCESS);
  int ordinal = -1;
  EXPECT_EQ(TW_CU(cuPointerGetAttribute)(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, foreign),
            CUDA_SUCCESS);
  EXPECT_EQ(ordinal, device_named("A100"));
  // A kernel faults on it, and not on its own.
  const CUfunction store = function(load(), "store");
  unsigned value = 7;
  CUdeviceptr to = own;
  ASSERT_EQ(launch(store, {&to, &value}), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_SUCCESS) << last_report();
  ASSERT_EQ(launch(store, {&foreign, &value}), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_NE(last_report().find("an address of device"), std::string::npos) << last_report();
  ASSERT_EQ(TW_CU(cuCtxDestroy_v2)(ampere), CUDA_SUCCESS);
  TW_CU(cuDevicePrimaryCtxReset_v2)(device_);
}

TEST_F(DriverTest, FillsWritePatternsByElement) {
  const CUdeviceptr address = allocate(64);
  std::vector<uint16_t> halves(8);
  ASSERT_EQ(TW_CU(cuMemsetD16_v2)(address, 0xabcd, 8), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuMemcpyDtoH_v2)(halves.data(), address, 16), CUDA_SUCCESS);
  EXPECT_EQ(halves, std::vector<uint16_t>(8, 0xabcd));
  // Two rows of three words in a pitch of five: the words between keep their value.
  ASSERT_EQ(TW_CU(cuMemsetD8_v2)(address, 0, 64), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuMemsetD2D32_v2)(address, 20, 9, 3, 2), CUDA_SUCCESS);
  std::vector<uint32_t> words(10);
  ASSERT_EQ(TW_CU(cuMemcpyDtoH_v2)(words.data(), address, 40), CUDA_SUCCESS);
  EXPECT_EQ(words, (std::vector<uint32_t>{9, 9, 9, 0, 0, 9, 9, 9, 0, 0}));
}

TEST_F(DriverTest, PlanesCopyByPitchAndOffset) {
  std::vector<uint8_t> host(40);
  std::iota(host.begin(), host.end(), uint8_t{0});
  CUdeviceptr address = 0;
  size_t pitch = 0;
  ASSERT_EQ(TW_CU(cuMemAllocPitch_v2)(&address, &pitch, 6, 4, 4), CUDA_SUCCESS);
  EXPECT_GE(pitch, 6u);
  EXPECT_EQ(pitch % 256, 0u);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host.data();
  copy.srcPitch = 10;
  copy.srcXInBytes = 2;
  copy.srcY = 1;
  copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.dstDevice = address;
  copy.dstPitch = pitch;
  copy.WidthInBytes = 6;
  copy.Height = 3;
  ASSERT_EQ(TW_CU(cuMemcpy2D_v2)(&copy), CUDA_SUCCESS) << last_report();
  uint8_t byte = 0;
  ASSERT_EQ(TW_CU(cuMemcpyDtoH_v2)(&byte, address + 2 * pitch + 5, 1), CUDA_SUCCESS);
  EXPECT_EQ(byte, host[3 * 10 + 2 + 5]);
  copy.dstPitch = 5;
  EXPECT_EQ(TW_CU(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.dstPitch = pitch;
  copy.Height = 5;
  EXPECT_EQ(TW_CU(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
  copy.Height = ~size_t{0};
  EXPECT_EQ(TW_CU(cuMemcpy2D_v2)(&copy), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, PointersAreKnownByAllocation) {
  const CUdeviceptr address = allocate(256);
  CUdeviceptr base = 0;
  size_t bytes = 0;
  ASSERT_EQ(TW_CU(cuMemGetAddressRange_v2)(&base, &bytes, address + 100), CUDA_SUCCESS);
  EXPECT_EQ(base, address);
  EXPECT_EQ(bytes, 256u);
  unsigned type = 0;
  ASSERT_EQ(TW_CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address + 8),
            CUDA_SUCCESS);
  EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_DEVICE});
  CUcontext owner = nullptr;
  ASSERT_EQ(TW_CU(cuPointerGetAttribute)(&owner, CU_POINTER_ATTRIBUTE_CONTEXT, address),
            CUDA_SUCCESS);
  EXPECT_EQ(owner, context_);
  int local = 0;
  EXPECT_EQ(TW_CU(cuPointerGetAttribute)(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                         reinterpret_cast<CUdeviceptr>(&local)),
            CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(TW_CU(cuMemFree_v2)(address), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemGetAddressRange_v2)(&base, &bytes, address), CUDA_ERROR_NOT_FOUND);
}

TEST_F(DriverTest, PageLockedMemory) {
  void* pointer = nullptr;
  ASSERT_EQ(TW_CU(cuMemHostAlloc)(&pointer, 100, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  unsigned flags = 0;
  ASSERT_EQ(TW_CU(cuMemHostGetFlags)(&flags, static_cast<char*>(pointer) + 99), CUDA_SUCCESS);
  EXPECT_EQ(flags, unsigned{CU_MEMHOSTALLOC_PORTABLE});
  EXPECT_EQ(TW_CU(cuMemHostGetFlags)(&flags, static_cast<char*>(pointer) + 100),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuMemHostRegister_v2)(pointer, 100, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(TW_CU(cuMemHostUnregister)(pointer), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  ASSERT_EQ(TW_CU(cuMemFreeHost)(pointer), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemFreeHost)(pointer), CUDA_ERROR_INVALID_VALUE);
  int local[4];
  ASSERT_EQ(TW_CU(cuMemHostRegister_v2)(local, sizeof(local), 0), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemFreeHost)(local), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuMemHostUnregister)(local), CUDA_SUCCESS);
  CUdeviceptr managed = 0;
  EXPECT_EQ(TW_CU(cuMemAllocManaged)(&managed, 16, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_NOT_SUPPORTED);
}

TEST_F(DriverTest, StreamOrderedAllocationCountsInItsPool) {
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(TW_CU(cuDeviceGetMemPool)(&pool, device_), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  ASSERT_EQ(TW_CU(cuMemAllocAsync)(&address, 1000, nullptr), CUDA_SUCCESS);
  cuuint64_t used = 0;
  ASSERT_EQ(TW_CU(cuMemPoolGetAttribute)(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used),
            CUDA_SUCCESS);
  EXPECT_EQ(used, 1000u);
  ASSERT_EQ(TW_CU(cuMemFreeAsync)(address, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemFreeAsync)(address, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuMemPoolDestroy)(pool), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tilewright::emulator
