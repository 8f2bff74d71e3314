// Modules and libraries: images, logs, symbols, stale handles.
#include <cstring>

#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

std::string with_target(const std::string& target, const std::string& version = "7.8") {
  return ".version " + version + "\n.target " + target +
         "\n.address_size 64\n.visible .entry k() { ret; }\n";
}

// A fatbinary of one entry, as fatbinary(1) lays it out.
std::string fatbin(uint16_t kind, const std::string& payload, uint64_t flags = 0x11) {
  std::string entry(80, '\0');
  const uint32_t header = 80;
  const uint64_t size = payload.size() + 1;
  const uint32_t arch = 80;
  std::memcpy(entry.data(), &kind, 2);
  std::memcpy(entry.data() + 4, &header, 4);
  std::memcpy(entry.data() + 8, &size, 8);
  std::memcpy(entry.data() + 28, &arch, 4);
  std::memcpy(entry.data() + 40, &flags, 8);
  std::string image(16, '\0');
  const uint32_t magic = 0xba55ed50;
  const uint16_t image_header = 16;
  const uint64_t total = entry.size() + size;
  std::memcpy(image.data(), &magic, 4);
  std::memcpy(image.data() + 6, &image_header, 2);
  std::memcpy(image.data() + 8, &total, 8);
  return image + entry + payload + '\0';
}

CUresult load_bytes(const std::string& image) {
  CUmodule module = nullptr;
  const CUresult result = TW_CU(cuModuleLoadData)(&module, image.c_str());
  if (result == CUDA_SUCCESS) TW_CU(cuModuleUnload)(module);
  return result;
}

TEST_F(DriverTest, ImagesByKind) {
  EXPECT_EQ(load_bytes(with_target("sm_80")), CUDA_SUCCESS);
  EXPECT_EQ(load_bytes("\x7f"
                       "ELF\2\1\1 a cubin"),
            CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_NE(last_report().find("cubin"), std::string::npos);
  EXPECT_EQ(load_bytes(fatbin(1, with_target("sm_80"))), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(load_bytes(fatbin(2, "machine code")), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_EQ(load_bytes(fatbin(1, with_target("sm_80"), 0x8011)), CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_NE(last_report().find("compressed"), std::string::npos);
  EXPECT_EQ(load_bytes(""), CUDA_ERROR_INVALID_IMAGE);
  EXPECT_EQ(load_bytes("x"), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(load_bytes("\xff\xfe nonsense"), CUDA_ERROR_INVALID_PTX);
  CUmodule module = nullptr;
  EXPECT_EQ(TW_CU(cuModuleLoadData)(&module, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(TW_CU(cuModuleLoad)(&module, "/nowhere/at.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
}

TEST_F(DriverTest, TargetsFitTheDevice) {
  EXPECT_EQ(load_bytes(with_target("sm_90a", "8.0")), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(load_bytes(with_target("sm_100", "8.6")), CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(load_bytes(with_target("sm_80", "9.9")), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  CUcontext ada = nullptr;
  ASSERT_EQ(TW_CU(cuCtxCreate_v2)(&ada, 0, device_named("4090")), CUDA_SUCCESS);
  EXPECT_EQ(load_bytes(with_target("sm_90a", "8.0")), CUDA_ERROR_INVALID_PTX);
  EXPECT_NE(last_report().find("sm_90"), std::string::npos) << last_report();
  EXPECT_EQ(load_bytes(with_target("sm_86")), CUDA_SUCCESS) << last_report();
  ASSERT_EQ(TW_CU(cuCtxDestroy_v2)(ada), CUDA_SUCCESS);
}

TEST_F(DriverTest, BrokenPtxFillsTheErrorLog) {
  const std::string broken =
      ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n  "
      "frobnicate.u32;\n}\n";
  std::vector<char> log(64, 'x');
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_LOG_VERBOSE};
  void* values[] = {log.data(), reinterpret_cast<void*>(uintptr_t{40}), nullptr};
  CUmodule module = nullptr;
  EXPECT_EQ(TW_CU(cuModuleLoadDataEx)(&module, broken.c_str(), 3, options, values),
            CUDA_ERROR_INVALID_PTX);
  EXPECT_EQ(module, nullptr);
  const auto written = reinterpret_cast<uintptr_t>(values[1]);
  EXPECT_GT(written, 0u);
  EXPECT_LT(written, 40u);
  EXPECT_EQ(std::strlen(log.data()), written);
  EXPECT_EQ(log[41], 'x');
  EXPECT_NE(last_report().find("frobnicate"), std::string::npos) << last_report();
  EXPECT_NE(last_report().find("6"), std::string::npos) << last_report();
}

TEST_F(DriverTest, SymbolsAndTheirValues) {
  const CUmodule module = load();
  CUdeviceptr address = 0;
  size_t bytes = 0;
  ASSERT_EQ(TW_CU(cuModuleGetGlobal_v2)(&address, &bytes, module, "counter"), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 4u);
  uint32_t counter = 0;
  ASSERT_EQ(TW_CU(cuMemcpyDtoH_v2)(&counter, address, 4), CUDA_SUCCESS);
  EXPECT_EQ(counter, 7u);
  EXPECT_EQ(TW_CU(cuMemFree_v2)(address), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(TW_CU(cuModuleGetGlobal_v2)(nullptr, &bytes, module, "table"), CUDA_SUCCESS);
  EXPECT_EQ(bytes, 24u);
  EXPECT_EQ(TW_CU(cuModuleGetGlobal_v2)(&address, &bytes, module, "none"), CUDA_ERROR_NOT_FOUND);
  CUfunction none = nullptr;
  EXPECT_EQ(TW_CU(cuModuleGetFunction)(&none, module, "counter"), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(function(module, "nothing"), function(module, "nothing"));
}

TEST_F(DriverTest, ParametersAndAttributes) {
  const CUfunction add = function(load(), "vector_add");
  const size_t offsets[] = {0, 8, 16, 24};
  const size_t sizes[] = {8, 8, 8, 4};
  for (size_t i = 0; i < 4; ++i) {
    size_t offset = 99, bytes = 0;
    ASSERT_EQ(TW_CU(cuFuncGetParamInfo)(add, i, &offset, &bytes), CUDA_SUCCESS);
    EXPECT_EQ(offset, offsets[i]);
    EXPECT_EQ(bytes, sizes[i]);
  }
  size_t offset = 0;
  EXPECT_EQ(TW_CU(cuFuncGetParamInfo)(add, 4, &offset, nullptr), CUDA_ERROR_INVALID_VALUE);
  int value = 0;
  ASSERT_EQ(TW_CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_PTX_VERSION, add), CUDA_SUCCESS);
  EXPECT_EQ(value, 80);
  ASSERT_EQ(TW_CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_BINARY_VERSION, add), CUDA_SUCCESS);
  EXPECT_EQ(value, 90);
  EXPECT_EQ(TW_CU(cuFuncSetAttribute)(add, CU_FUNC_ATTRIBUTE_NUM_REGS, 8),
            CUDA_ERROR_INVALID_VALUE);
  const char* name = nullptr;
  ASSERT_EQ(TW_CU(cuFuncGetName)(&name, add), CUDA_SUCCESS);
  EXPECT_STREQ(name, "vector_add");
}

TEST_F(DriverTest, UnloadedModulesLeaveNoLiveHandle) {
  const CUmodule module = load();
  const CUfunction nothing = function(module, "nothing");
  ASSERT_EQ(launch(nothing, {}), CUDA_SUCCESS) << last_report();
  ASSERT_EQ(TW_CU(cuModuleUnload)(module), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuModuleUnload)(module), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(launch(nothing, {}), CUDA_ERROR_INVALID_HANDLE);
  const CUmodule next = load();
  EXPECT_NE(function(next, "nothing"), nothing);
}

TEST_F(DriverTest, LibrariesLoadWithoutAContextAndServeEach) {
  TW_CU(cuCtxPopCurrent_v2)(nullptr);
  CUlibrary library = nullptr;
  ASSERT_EQ(
      TW_CU(cuLibraryLoadData)(&library, kVectorAdd, nullptr, nullptr, 0, nullptr, nullptr, 0),
      CUDA_SUCCESS)
      << last_report();
  CUkernel kernel = nullptr;
  ASSERT_EQ(TW_CU(cuLibraryGetKernel)(&kernel, library, "nothing"), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuLibraryGetKernel)(&kernel, library, "none"), CUDA_ERROR_NOT_FOUND);
  ASSERT_EQ(TW_CU(cuCtxPushCurrent_v2)(context_), CUDA_SUCCESS);
  CUfunction of_kernel = nullptr;
  ASSERT_EQ(TW_CU(cuKernelGetFunction)(&of_kernel, kernel), CUDA_SUCCESS);
  EXPECT_EQ(launch(of_kernel, {}), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(launch(reinterpret_cast<CUfunction>(kernel), {}), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuKernelSetAttribute)(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000,
                                        kernel, device_),
            CUDA_SUCCESS);
  int value = 0;
  EXPECT_EQ(
      TW_CU(cuFuncGetAttribute)(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, of_kernel),
      CUDA_SUCCESS);
  EXPECT_EQ(value, 100000);
  CUmodule module = nullptr;
  ASSERT_EQ(TW_CU(cuLibraryGetModule)(&module, library), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuModuleUnload)(module), CUDA_ERROR_NOT_PERMITTED);
  ASSERT_EQ(TW_CU(cuLibraryUnload)(library), CUDA_SUCCESS);
  EXPECT_EQ(launch(of_kernel, {}), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(launch(reinterpret_cast<CUfunction>(kernel), {}), CUDA_ERROR_INVALID_HANDLE);
}

}  // namespace
}  // namespace tilewright::emulator
