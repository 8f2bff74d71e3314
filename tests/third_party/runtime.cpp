// The part of the CUDA runtime that the programs of this folder use, on the Driver API of whatever
// libcuda.so.1 the loader finds. The toolkit's own runtime needs private tables of the driver; this
// one lets host code that launches with <<<>>> run unmodified on the emulated driver.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <vector>

namespace {

struct Image {
  const void* fatbin = nullptr;
  CUmodule module = nullptr;
};

struct HostFunction {
  Image* image = nullptr;
  std::string name;
  CUfunction function = nullptr;
};

struct LaunchShape {
  dim3 grid;
  dim3 block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

// Registered by constructors of the program's objects, hence behind a function.
std::map<const void*, HostFunction>& host_functions() {
  static std::map<const void*, HostFunction> functions;
  return functions;
}

std::vector<LaunchShape> launch_shapes;
cudaError_t last_error = cudaSuccess;

void print_report(const char* what, CUresult result) {
  const char* name = "unknown error";
  cuGetErrorName(result, &name);
  std::fprintf(stderr, "%s: %s\n", what, name);
  using GetLastReport = int (*)(char*, size_t, size_t*);
  if (void* symbol = dlsym(RTLD_DEFAULT, "twEmulatorGetLastReport")) {
    std::string report(1 << 16, '\0');
    size_t needed = 0;
    reinterpret_cast<GetLastReport>(symbol)(report.data(), report.size(), &needed);
    std::fprintf(stderr, "%s\n", report.c_str());
  }
}

// The runtime's error numbers are the driver's, for all that occur here.
cudaError_t answer(const char* what, CUresult result) {
  if (result == CUDA_SUCCESS) return cudaSuccess;
  print_report(what, result);
  last_error = static_cast<cudaError_t>(result);
  return last_error;
}

// Processor time of launches and the waits for them, without loading modules: printed at the end.
struct KernelTime {
  std::clock_t spent = 0;
  ~KernelTime() {
    if (spent != 0) {
      std::printf("kernels: %.2f s of processor time\n",
                  static_cast<double>(spent) / CLOCKS_PER_SEC);
    }
  }
} kernel_time;

class Timed {
 public:
  ~Timed() { kernel_time.spent += std::clock() - start_; }

 private:
  std::clock_t start_ = std::clock();
};

#define TW_DRIVER(call) \
  if (const CUresult result = (call); result != CUDA_SUCCESS) return answer(#call, result)

cudaError_t start() {
  static bool started = false;
  if (started) return cudaSuccess;
  CUdevice device = 0;
  CUcontext context = nullptr;
  TW_DRIVER(cuInit(0));
  TW_DRIVER(cuDeviceGet(&device, 0));
  TW_DRIVER(cuDevicePrimaryCtxRetain(&context, device));
  TW_DRIVER(cuCtxSetCurrent(context));
  started = true;
  return cudaSuccess;
}

#define TW_START() \
  if (const cudaError_t error = start(); error != cudaSuccess) return error

cudaError_t find_function(const void* host_function, CUfunction* function) {
  TW_START();
  const auto entry = host_functions().find(host_function);
  // A handle of __cudaGetKernel is the function itself.
  if (entry == host_functions().end()) {
    *function = static_cast<CUfunction>(const_cast<void*>(host_function));
    return cudaSuccess;
  }
  HostFunction& found = entry->second;
  if (found.image->module == nullptr) {
    TW_DRIVER(cuModuleLoadData(&found.image->module, found.image->fatbin));
  }
  if (found.function == nullptr) {
    TW_DRIVER(cuModuleGetFunction(&found.function, found.image->module, found.name.c_str()));
  }
  *function = found.function;
  return cudaSuccess;
}

}  // namespace

extern "C" {

void** __cudaRegisterFatBinary(void* fatbin) {
  return reinterpret_cast<void**>(new Image{.fatbin = fatbin});
}

void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}

void __cudaRegisterFunction(void** image, const char* host_function, char*, const char* name, int,
                            uint3*, uint3*, dim3*, dim3*, int*) {
  host_functions()[host_function] = {reinterpret_cast<Image*>(image), name, nullptr};
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                     cudaStream_t stream) {
  launch_shapes.push_back({grid, block, shared_bytes, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                       void* stream) {
  const LaunchShape shape = launch_shapes.back();
  launch_shapes.pop_back();
  *grid = shape.grid;
  *block = shape.block;
  *shared_bytes = shape.shared_bytes;
  *static_cast<cudaStream_t*>(stream) = shape.stream;
  return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void* host_function, dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
  CUfunction function = nullptr;
  if (const cudaError_t error = find_function(host_function, &function)) return error;
  const Timed timed;
  TW_DRIVER(cuLaunchKernel(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                           static_cast<unsigned>(shared_bytes), stream, arguments, nullptr));
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host_function) {
  CUfunction function = nullptr;
  const cudaError_t error = find_function(host_function, &function);
  *kernel = reinterpret_cast<cudaKernel_t>(function);
  return error;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               size_t shared_bytes, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared_bytes, stream);
}

// cudaLaunchAttribute and CUlaunchAttribute have one layout and one numbering.
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* host_function,
                                void** arguments) {
  CUfunction function = nullptr;
  if (const cudaError_t error = find_function(host_function, &function)) return error;
  CUlaunchConfig launch = {};
  launch.gridDimX = config->gridDim.x;
  launch.gridDimY = config->gridDim.y;
  launch.gridDimZ = config->gridDim.z;
  launch.blockDimX = config->blockDim.x;
  launch.blockDimY = config->blockDim.y;
  launch.blockDimZ = config->blockDim.z;
  launch.sharedMemBytes = static_cast<unsigned>(config->dynamicSmemBytes);
  launch.hStream = config->stream;
  launch.attrs = reinterpret_cast<CUlaunchAttribute*>(config->attrs);
  launch.numAttrs = config->numAttrs;
  const Timed timed;
  TW_DRIVER(cuLaunchKernelEx(&launch, function, arguments, nullptr));
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* host_function, cudaFuncAttribute attribute,
                                 int value) {
  CUfunction function = nullptr;
  if (const cudaError_t error = find_function(host_function, &function)) return error;
  TW_DRIVER(cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attribute), value));
  return cudaSuccess;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned, cudaLibraryOption*, void**, unsigned) {
  TW_START();
  CUlibrary loaded = nullptr;
  TW_DRIVER(cuLibraryLoadData(&loaded, code, nullptr, nullptr, 0, nullptr, nullptr, 0));
  *library = reinterpret_cast<cudaLibrary_t>(loaded);
  return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  TW_DRIVER(cuLibraryUnload(reinterpret_cast<CUlibrary>(library)));
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  CUkernel found = nullptr;
  TW_DRIVER(cuLibraryGetKernel(&found, reinterpret_cast<CUlibrary>(library), name));
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return cudaSuccess;
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                            int value, int device) {
  TW_DRIVER(cuKernelSetAttribute(static_cast<CUfunction_attribute>(attribute), value,
                                 reinterpret_cast<CUkernel>(kernel), device));
  return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* host_function, int block_size, size_t shared_bytes, unsigned flags) {
  CUfunction function = nullptr;
  if (const cudaError_t error = find_function(host_function, &function)) return error;
  TW_DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, block_size,
                                                                 shared_bytes, flags));
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  TW_START();
  CUdeviceptr address = 0;
  TW_DRIVER(cuMemAlloc(&address, bytes));
  *pointer = reinterpret_cast<void*>(address);
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  TW_DRIVER(cuMemFree(reinterpret_cast<CUdeviceptr>(pointer)));
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  TW_START();
  if (kind == cudaMemcpyHostToDevice) {
    TW_DRIVER(cuMemcpyHtoD(reinterpret_cast<CUdeviceptr>(to), from, bytes));
  } else if (kind == cudaMemcpyDeviceToHost) {
    TW_DRIVER(cuMemcpyDtoH(to, reinterpret_cast<CUdeviceptr>(from), bytes));
  } else {
    return last_error = cudaErrorInvalidMemcpyDirection;
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* pointer, int value, size_t bytes, cudaStream_t stream) {
  TW_START();
  TW_DRIVER(cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(pointer),
                            static_cast<unsigned char>(value), bytes, stream));
  return cudaSuccess;
}

cudaError_t cudaMemset(void* pointer, int value, size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes, nullptr);
}

cudaError_t cudaDeviceSynchronize() {
  TW_START();
  const Timed timed;
  TW_DRIVER(cuCtxSynchronize());
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorString(cudaError_t error) {
  const char* text = "unknown error";
  cuGetErrorString(static_cast<CUresult>(error), &text);
  return text;
}

const char* cudaGetErrorName(cudaError_t error) {
  const char* text = "unknown error";
  cuGetErrorName(static_cast<CUresult>(error), &text);
  return text;
}

cudaError_t cudaSetDevice(int device) { return device == 0 ? start() : cudaErrorInvalidDevice; }

cudaError_t cudaGetDevice(int* device) {
  TW_START();
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  TW_START();
  TW_DRIVER(cuDeviceGetAttribute(value, static_cast<CUdevice_attribute>(attribute), device));
  return cudaSuccess;
}

// The fields that the programs read; the others are zero.
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  TW_START();
  *properties = {};
  TW_DRIVER(cuDeviceGetName(properties->name, sizeof(properties->name), device));
  const auto read = [&](cudaDeviceAttr attribute) {
    int value = 0;
    cudaDeviceGetAttribute(&value, attribute, device);
    return value;
  };
  properties->major = read(cudaDevAttrComputeCapabilityMajor);
  properties->minor = read(cudaDevAttrComputeCapabilityMinor);
  properties->multiProcessorCount = read(cudaDevAttrMultiProcessorCount);
  properties->sharedMemPerBlockOptin =
      static_cast<size_t>(read(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  TW_DRIVER(cuDriverGetVersion(version));
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  TW_START();
  TW_DRIVER(cuMemGetInfo(free_bytes, total_bytes));
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* status) {
  TW_START();
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS;
  const CUresult result =
      cuGetProcAddress(symbol, function, static_cast<int>(version), flags, &found);
  if (status != nullptr) *status = static_cast<cudaDriverEntryPointQueryResult>(found);
  return answer("cuGetProcAddress", result);
}

}  // extern "C"
