// The path through dlopen, over a libcuda.so.1 that executes nothing (fake_cuda.h); CTest puts it
// on the loader's path.
#include <dlfcn.h>
#include <gmock/gmock.h>

#include <array>

#include "runtime/device.h"
#include "tests/runtime/fake_cuda.h"
#include "tests/runtime/runtime_test_support.h"

namespace tilewright::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

class DriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    ASSERT_NE(library, nullptr) << dlerror();
    auto* control = reinterpret_cast<FakeCudaControl>(dlsym(library, "fake_cuda_control"));
    if (control == nullptr) GTEST_SKIP() << "this machine's own driver came first";
    fake_ = control();
    *fake_ = {};
  }

  static Binary some_binary() {
    Binary binary;
    binary.entry_names = {"tw_test"};
    binary.code.resources = {{}};
    binary.target = "sm_80";
    binary.code.cubin =
        "\x7f"
        "ELF of a kernel";
    binary.code.ptx = ".version 8.0";
    binary.code.compiler_version = "NVRTC 13.0";
    return binary;
  }

  FakeCuda* fake_ = nullptr;
};

TEST(DriverTable, NamesTheMissingSymbols) {
  const Result<DriverTable> table = DriverTable::from_library("libm.so.6");
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code, ErrorCode::kDriverError);
  EXPECT_THAT(table.error().message, AllOf(HasSubstr("libm.so.6"), HasSubstr("cuInit")));
  EXPECT_THAT(table.error().reasons, Contains("cuLaunchKernelEx"));
}

TEST(DriverTable, NoLibraryIsNoDevice) {
  const Result<DriverTable> table = DriverTable::from_library("libnowhere.so.1");
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code, ErrorCode::kNoDevice);
  EXPECT_THAT(table.error().message, HasSubstr("libnowhere.so.1"));
}

TEST_F(DriverTest, WithNoNameTheGpuIsTaken) {
  const auto device = Device::open("");
  ASSERT_TRUE(device.ok()) << device.error().to_string();
  EXPECT_EQ((*device)->info().name, "Fake GPU");
  EXPECT_FALSE((*device)->info().simulated);
  EXPECT_EQ((*device)->target(), "sm_80");
  EXPECT_EQ((*device)->arch().num_sms, 108);
  EXPECT_EQ((*device)->arch().max_warps_per_sm, 64);
}

TEST_F(DriverTest, OrdinalBeyondTheLastIsNoDevice) {
  const auto device = Device::open("cuda:1");
  ASSERT_FALSE(device.ok());
  EXPECT_EQ(device.error().code, ErrorCode::kNoDevice);
  EXPECT_THAT(device.error().message, AllOf(HasSubstr("cuda:1"), HasSubstr("has 1")));
}

TEST_F(DriverTest, CubinIsEnough) {
  const auto device = *Device::open("cuda:0");
  const auto module = device->load(some_binary(), std::array<int64_t, 1>{100000});
  ASSERT_TRUE(module.ok()) << module.error().to_string();
  EXPECT_FALSE((*module)->from_ptx());
  EXPECT_EQ(fake_->ptx_loaded, 0);
  EXPECT_EQ(fake_->largest_shared_bytes, 100000);
}

TEST_F(DriverTest, PtxServesWhereTheCubinDoesNot) {
  for (const CUresult refusal : {CUDA_ERROR_NO_BINARY_FOR_GPU, CUDA_ERROR_INVALID_IMAGE}) {
    *fake_ = {};
    fake_->cubin_result = refusal;
    const auto device = *Device::open("cuda:0");
    const auto module = device->load(some_binary(), std::array<int64_t, 1>{0});
    ASSERT_TRUE(module.ok()) << module.error().to_string();
    EXPECT_TRUE((*module)->from_ptx());
    EXPECT_EQ(fake_->cubins_loaded, 1);
    EXPECT_EQ(fake_->ptx_loaded, 1);
  }
}

TEST_F(DriverTest, RefusedPtxNamesDriverAndCompiler) {
  fake_->cubin_result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  fake_->ptx_result = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  const auto device = *Device::open("cuda:0");
  const auto module = device->load(some_binary(), std::array<int64_t, 1>{0});
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().code, ErrorCode::kDriverError);
  EXPECT_THAT(module.error().message, AllOf(HasSubstr("PTX"), HasSubstr("NVRTC 13.0"),
                                            HasSubstr("13000"), HasSubstr("FAKE_ERROR")));
}

TEST_F(DriverTest, OtherLoadErrorsAreNotRetried) {
  fake_->cubin_result = CUDA_ERROR_OUT_OF_MEMORY;
  const auto device = *Device::open("cuda:0");
  const auto module = device->load(some_binary(), std::array<int64_t, 1>{0});
  ASSERT_FALSE(module.ok());
  EXPECT_EQ(module.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(fake_->ptx_loaded, 0);
}

TEST_F(DriverTest, CallersContextIsLeftAsFound) {
  const auto device = *Device::open("cuda:0");
  auto* const mine = reinterpret_cast<CUcontext>(uintptr_t{0x9000});
  for (CUcontext current : {static_cast<CUcontext>(nullptr), mine, device->context()}) {
    fake_->current = current;
    EXPECT_TRUE(device->load(some_binary(), std::array<int64_t, 1>{0}).ok());
    EXPECT_TRUE(device->allocate(16).ok());
    EXPECT_TRUE(device->synchronize().ok());
    EXPECT_EQ(fake_->current, current);
  }
}

TEST_F(DriverTest, EverythingIsGivenBack) {
  {
    const auto device = *Device::open("cuda:0");
    EXPECT_TRUE(device->load(some_binary(), std::array<int64_t, 1>{0}).ok());
    EXPECT_EQ(fake_->modules_unloaded, 1);
  }
  EXPECT_EQ(fake_->contexts_retained, 1);
  EXPECT_EQ(fake_->contexts_released, 1);
}

TEST_F(DriverTest, FaultsAndMemoryHaveCodesOfTheirOwn) {
  const auto device = *Device::open("cuda:0");
  fake_->alloc_result = CUDA_ERROR_OUT_OF_MEMORY;
  EXPECT_EQ(device->allocate(16).error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(device->allocate(-1).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(*device->allocate(0), nullptr);
  fake_->sync_result = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(device->synchronize().error().code, ErrorCode::kDeviceFault);
}

TEST_F(DriverTest, ChildOfForkIsToldSo) {
  const auto device = *Device::open("cuda:0");
  const int status = in_child([&] {
    const Status synchronized = device->synchronize();
    const bool told =
        !synchronized.ok() && synchronized.error().message.find("fork()") != std::string::npos;
    return told && !device->load(some_binary(), std::array<int64_t, 1>{0}).ok() &&
                   !device->allocate(1).ok()
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(device->synchronize().ok());
}

// NVRTC 13 makes code that a driver of CUDA 12 may not take.
TEST_F(DriverTest, CompilerTooNewForTheDriverIsOneSentence) {
  fake_->driver_version = 11080;
  const auto session = Session::open({.device = "cuda:0"});
  ASSERT_TRUE(session.ok()) << session.error().to_string();
  const auto kernel = (*session)->prepare(*Problem::parse("hq1 qk64 v64 fp16"));
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().code, ErrorCode::kCompilerUnavailable);
  EXPECT_THAT(kernel.error().message, HasSubstr("too new for this driver"));
}

}  // namespace
}  // namespace tilewright::testing
