// A plain CUDA Driver API program with hand-written PTX, opening libcuda.so.1 by its name. It knows
// nothing of Tilewright: on a machine with a GPU it runs there, with the emulator's folder in
// LD_LIBRARY_PATH it runs on the emulated device.
//
//   LD_LIBRARY_PATH=build/release/emulator/libcuda build/release/tests/emulator/emulated_driver
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

constexpr const char* kPtx = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry add(.param .u64 a, .param .u64 b, .param .u64 sum, .param .u32 count)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<8>;
  ld.param.u32 %r1, [count];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 ret;
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [sum];
  mul.wide.u32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
  ret;
}
)";

void* driver = nullptr;

template <class Function>
Function* find(const char* name) {
  void* symbol = dlsym(driver, name);
  if (symbol == nullptr) {
    std::fprintf(stderr, "libcuda.so.1 has no %s\n", name);
    std::exit(1);
  }
  return reinterpret_cast<Function*>(symbol);
}

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* name = "?";
  find<decltype(cuGetErrorName)>("cuGetErrorName")(result, &name);
  std::fprintf(stderr, "%s: %s\n", what, name);
  std::exit(1);
}

// The exported name carries the version suffix that cuda.h gives the function.
#define CALL(function, name, ...) check(find<decltype(function)>(name)(__VA_ARGS__), name)

}  // namespace

int main() {
  driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  CALL(cuInit, "cuInit", 0);
  CUdevice device = 0;
  char name[128];
  CALL(cuDeviceGet, "cuDeviceGet", &device, 0);
  CALL(cuDeviceGetName, "cuDeviceGetName", name, sizeof(name), device);
  CUcontext context = nullptr;
  CALL(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", &context, device);
  CALL(cuCtxSetCurrent, "cuCtxSetCurrent", context);
  CUmodule module = nullptr;
  CUfunction add = nullptr;
  CALL(cuModuleLoadData, "cuModuleLoadData", &module, kPtx);
  CALL(cuModuleGetFunction, "cuModuleGetFunction", &add, module, "add");

  constexpr unsigned kCount = 10000;
  constexpr size_t kBytes = kCount * sizeof(float);
  std::vector<float> a(kCount), b(kCount), sum(kCount);
  for (unsigned i = 0; i < kCount; ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(kCount - i) * 0.5f;
  }
  CUdeviceptr device_a = 0, device_b = 0, device_sum = 0;
  CALL(cuMemAlloc, "cuMemAlloc_v2", &device_a, kBytes);
  CALL(cuMemAlloc, "cuMemAlloc_v2", &device_b, kBytes);
  CALL(cuMemAlloc, "cuMemAlloc_v2", &device_sum, kBytes);
  CALL(cuMemcpyHtoD, "cuMemcpyHtoD_v2", device_a, a.data(), kBytes);
  CALL(cuMemcpyHtoD, "cuMemcpyHtoD_v2", device_b, b.data(), kBytes);
  unsigned count = kCount;
  void* parameters[] = {&device_a, &device_b, &device_sum, &count};
  CALL(cuLaunchKernel, "cuLaunchKernel", add, (kCount + 255) / 256, 1, 1, 256, 1, 1, 0, nullptr,
       parameters, nullptr);
  CALL(cuCtxSynchronize, "cuCtxSynchronize");
  CALL(cuMemcpyDtoH, "cuMemcpyDtoH_v2", sum.data(), device_sum, kBytes);
  for (unsigned i = 0; i < kCount; ++i) {
    if (sum[i] == a[i] + b[i]) continue;
    std::fprintf(stderr, "element %u is %g instead of %g\n", i, static_cast<double>(sum[i]),
                 static_cast<double>(a[i] + b[i]));
    return 1;
  }
  CALL(cuMemFree, "cuMemFree_v2", device_a);
  CALL(cuMemFree, "cuMemFree_v2", device_b);
  CALL(cuMemFree, "cuMemFree_v2", device_sum);
  CALL(cuModuleUnload, "cuModuleUnload", module);
  CALL(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", device);
  std::printf("%s added %u elements\n", name, kCount);
  return 0;
}
