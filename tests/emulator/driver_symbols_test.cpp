// The lookup: every name of cuda.h is there, with cuda.h's type, and nothing else is.
#include <set>
#include <type_traits>

#include "emulator/driver/entry_points.h"
#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

#define TW_SYMBOL(name, version) \
  static_assert(std::is_same_v<decltype(&::name), decltype(&driver::name)>);
#include "emulator/driver/symbols.def"
#undef TW_SYMBOL

std::vector<const char*> implemented() {
  return {
#define TW_SYMBOL(name, version) #name,
#include "emulator/driver/symbols.def"
#undef TW_SYMBOL
  };
}

std::vector<const char*> unsupported() {
  return {
#define TW_UNSUPPORTED(name) #name,
#include "emulator/driver/unsupported.def"
#undef TW_UNSUPPORTED
  };
}

TEST(DriverSymbols, EveryImplementedNameHasItsOwnFunction) {
  std::set<void*> functions;
  for (const char* name : implemented()) {
    void* function = emulated_driver_symbol(name);
    ASSERT_NE(function, nullptr) << name;
    EXPECT_TRUE(functions.insert(function).second) << name << " shares another name's function";
  }
}

TEST(DriverSymbols, TheRestOfTheHeaderAnswersNotSupported) {
  EXPECT_GT(unsupported().size(), 100u);
  for (const char* name : unsupported()) {
    auto* function = reinterpret_cast<CUresult (*)()>(emulated_driver_symbol(name));
    ASSERT_NE(function, nullptr) << name;
    EXPECT_EQ(function(), CUDA_ERROR_NOT_SUPPORTED) << name;
  }
}

TEST(DriverSymbols, OtherNamesAreNotFound) {
  for (const char* name : {"", "cu", "cuMemAlloc_v3", "cuInitialise", "cuInit_ptsz", "main"}) {
    EXPECT_EQ(emulated_driver_symbol(name), nullptr) << name;
  }
}

TEST(DriverSymbols, TheExtensionSaysThatTheDeviceIsSimulated) {
  int version = 0;
  EXPECT_EQ(TW_EXT(twEmulatorVersion, TwEmulatorVersionFn)(&version), CUDA_SUCCESS);
  EXPECT_EQ(version, TW_EMULATOR_VERSION);
}

TEST(DriverSymbols, SettingsRefuseWhatTheyDoNotKnow) {
  ASSERT_EQ(TW_CU(cuInit)(0), CUDA_SUCCESS);
  EXPECT_EQ(TW_EXT(twEmulatorSetSchedule, TwEmulatorSetScheduleFn)(3, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_EXT(twEmulatorSetObservers, TwEmulatorSetObserversFn)(-1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_EXT(twEmulatorSetMatrixNumerics, TwEmulatorSetMatrixNumericsFn)(2),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_EXT(twEmulatorSetHostThreads, TwEmulatorSetHostThreadsFn)(-1),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_EXT(twEmulatorSetResources, TwEmulatorSetResourcesFn)(nullptr, nullptr),
            CUDA_ERROR_INVALID_HANDLE);
}

void* by_version(const char* name, int version, cuuint64_t flags = 0) {
  void* function = nullptr;
  CUdriverProcAddressQueryResult status{};
  EXPECT_EQ(TW_CU(cuGetProcAddress_v2)(name, &function, version, flags, &status), CUDA_SUCCESS);
  EXPECT_EQ(function != nullptr, status == CU_GET_PROC_ADDRESS_SUCCESS);
  return function;
}

TEST(DriverSymbols, GetProcAddressPicksTheVersionOfTheCallersToolkit) {
  EXPECT_EQ(by_version("cuCtxCreate", 11000), emulated_driver_symbol("cuCtxCreate_v2"));
  EXPECT_EQ(by_version("cuCtxCreate", 12000), emulated_driver_symbol("cuCtxCreate_v3"));
  EXPECT_EQ(by_version("cuCtxCreate", 13000), emulated_driver_symbol("cuCtxCreate_v4"));
  EXPECT_EQ(by_version("cuMemAlloc", 12000), emulated_driver_symbol("cuMemAlloc_v2"));
  EXPECT_EQ(by_version("cuGraphInstantiate", 12000),
            emulated_driver_symbol("cuGraphInstantiateWithFlags"));
  EXPECT_EQ(by_version("cuEventElapsedTime", 12000), emulated_driver_symbol("cuEventElapsedTime"));
  EXPECT_EQ(by_version("cuLaunchKernel", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            emulated_driver_symbol("cuLaunchKernel_ptsz"));
  EXPECT_EQ(by_version("cuMemcpyHtoD", 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM),
            emulated_driver_symbol("cuMemcpyHtoD_v2_ptds"));
  EXPECT_EQ(by_version("cuNothing", 12000), nullptr);
  EXPECT_EQ(by_version("cuLaunchKernelEx", 11000), nullptr);
}

TEST(DriverSymbols, ErrorsHaveNamesAndWords) {
  const char* text = nullptr;
  ASSERT_EQ(TW_CU(cuGetErrorName)(CUDA_ERROR_ILLEGAL_ADDRESS, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "CUDA_ERROR_ILLEGAL_ADDRESS");
  ASSERT_EQ(TW_CU(cuGetErrorString)(CUDA_ERROR_OUT_OF_MEMORY, &text), CUDA_SUCCESS);
  EXPECT_STREQ(text, "out of memory");
  int unknown = 4242;
  EXPECT_EQ(TW_CU(cuGetErrorName)(static_cast<CUresult>(unknown), &text), CUDA_ERROR_INVALID_VALUE);
}

}  // namespace
}  // namespace tilewright::emulator
