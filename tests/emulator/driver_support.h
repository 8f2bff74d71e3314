// The embedded driver as its callers see it: every call goes through emulated_driver_symbol with
// cuda.h's type of the name.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emulator/driver/cuda_api.h"
#include "emulator/driver/symbols.h"
#include "tilewright/emulator.h"

// TW_CU(cuMemAlloc_v2)(&address, bytes)
#define TW_CU(name) \
  reinterpret_cast<decltype(&::name)>(::tilewright::emulator::emulated_driver_symbol(#name))
#define TW_EXT(name, type) \
  reinterpret_cast<type>(::tilewright::emulator::emulated_driver_symbol(#name))

namespace tilewright::emulator {

inline std::string last_report() {
  std::string text(4096, '\0');
  size_t needed = 0;
  TW_EXT(twEmulatorGetLastReport, TwEmulatorGetLastReportFn)(text.data(), text.size(), &needed);
  text.resize(needed > 0 ? std::min(needed - 1, text.size() - 1) : 0);
  return text;
}

inline CUdevice device_named(std::string_view part) {
  int count = 0;
  TW_CU(cuDeviceGetCount)(&count);
  for (CUdevice device = 0; device < count; ++device) {
    char name[128];
    TW_CU(cuDeviceGetName)(name, sizeof(name), device);
    if (std::string_view(name).find(part) != std::string_view::npos) return device;
  }
  return -1;
}

// c[i] = a[i] + b[i] for i < n.
inline constexpr const char* kVectorAdd = R"(
.version 7.0
.target sm_80
.address_size 64
.global .align 4 .u32 counter = 7;
.const .align 8 .b8 table[24] = {1, 2, 3};
.visible .entry vector_add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
  .reg .pred %p1;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [c];
  ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
DONE:
  ret;
}
.visible .entry nothing() { ret; }
.visible .entry bounded() .maxntid 128, 1, 1 { ret; }
.visible .entry exact() .reqntid 64, 2, 1 { ret; }
.visible .entry store(.param .u64 to, .param .u32 value)
{
  .reg .b32 %r1;
  .reg .b64 %rd1;
  ld.param.u64 %rd1, [to];
  ld.param.u32 %r1, [value];
  st.global.u32 [%rd1], %r1;
  ret;
}
.visible .entry stop() { trap; }
.visible .entry endless()
{
LOOP:
  bra LOOP;
}
)";

// A primary context of the H100, current; gone afterwards.
class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(TW_CU(cuInit)(0), CUDA_SUCCESS);
    device_ = device_named("H100");
    ASSERT_GE(device_, 0);
    ASSERT_EQ(TW_CU(cuDevicePrimaryCtxRetain)(&context_, device_), CUDA_SUCCESS);
    ASSERT_EQ(TW_CU(cuCtxPushCurrent_v2)(context_), CUDA_SUCCESS);
  }
  void TearDown() override {
    TW_CU(cuCtxPopCurrent_v2)(nullptr);
    EXPECT_EQ(TW_CU(cuDevicePrimaryCtxRelease_v2)(device_), CUDA_SUCCESS);
    TW_EXT(twEmulatorSetInstructionLimit, TwEmulatorSetInstructionLimitFn)(0);
    TW_EXT(twEmulatorSetMemoryCap, TwEmulatorSetMemoryCapFn)(0);
  }

  CUmodule load(const char* ptx = kVectorAdd) {
    CUmodule module = nullptr;
    EXPECT_EQ(TW_CU(cuModuleLoadData)(&module, ptx), CUDA_SUCCESS) << last_report();
    return module;
  }
  CUfunction function(CUmodule module, const char* name) {
    CUfunction found = nullptr;
    EXPECT_EQ(TW_CU(cuModuleGetFunction)(&found, module, name), CUDA_SUCCESS) << last_report();
    return found;
  }
  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr address = 0;
    EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&address, bytes), CUDA_SUCCESS) << last_report();
    return address;
  }
  CUdeviceptr upload(const std::vector<float>& values) {
    const CUdeviceptr address = allocate(values.size() * sizeof(float));
    EXPECT_EQ(TW_CU(cuMemcpyHtoD_v2)(address, values.data(), values.size() * sizeof(float)),
              CUDA_SUCCESS);
    return address;
  }
  std::vector<float> download(CUdeviceptr address, size_t count) {
    std::vector<float> values(count);
    EXPECT_EQ(TW_CU(cuMemcpyDtoH_v2)(values.data(), address, count * sizeof(float)), CUDA_SUCCESS)
        << last_report();
    return values;
  }
  CUresult launch(CUfunction f, std::vector<void*> values, CUstream stream = nullptr,
                  unsigned grid = 1, unsigned block = 1, unsigned shared = 0) {
    return TW_CU(cuLaunchKernel)(f, grid, 1, 1, block, 1, 1, shared, stream,
                                 values.empty() ? nullptr : values.data(), nullptr);
  }

  CUdevice device_ = -1;
  CUcontext context_ = nullptr;
};

}  // namespace tilewright::emulator
