// Libraries and kernels: code that is loaded once and becomes a module in each context that uses
// it.
#include <algorithm>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/image.h"
#include "emulator/driver/jit_options.h"
#include "emulator/driver/state.h"
#include "emulator/ptx/parser.h"

namespace tilewright::emulator::driver {
namespace {

CUresult find_library(CUlibrary handle, std::shared_ptr<Library>* library) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *library = Driver::instance().libraries.find(handle);
  return *library != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult find_kernel(CUkernel handle, std::shared_ptr<Kernel>* kernel,
                     std::shared_ptr<Library>* library) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *kernel = Driver::instance().kernels.find(handle);
  if (*kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *library = (*kernel)->library.lock();
  return *library != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// The library's module in the context, loaded at the first use.
CUresult module_in(Library& library, const std::shared_ptr<Context>& context,
                   std::shared_ptr<Module>* module) {
  const std::lock_guard lock(library.mutex);
  CUmodule& known = library.modules[context->handle];
  *module = Driver::instance().modules.find(known);
  if (*module != nullptr) return CUDA_SUCCESS;
  std::string log;
  const CUresult result = load_module(library.ptx, context, module, &log);
  if (result != CUDA_SUCCESS) return refuse(result, "{}", log);
  (*module)->of_library = true;
  known = (*module)->handle;
  return CUDA_SUCCESS;
}

CUresult function_in(Library& library, const std::string& name,
                     const std::shared_ptr<Context>& context, std::shared_ptr<Function>* function) {
  std::shared_ptr<Module> module;
  TW_DRIVER_TRY(module_in(library, context, &module));
  CUfunction handle = nullptr;
  TW_DRIVER_TRY(get_function(module, name, &handle));
  *function = Driver::instance().functions.find(handle);
  if (*function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(library.mutex);
  for (const auto& [attribute, value] : library.attributes[{name, context->device->ordinal}]) {
    TW_DRIVER_TRY(
        set_function_attribute(**function, static_cast<CUfunction_attribute>(attribute), value));
  }
  return CUDA_SUCCESS;
}

CUresult load_library(CUlibrary* handle, const void* image, JitOptions options) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (handle == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto library = std::make_shared<Library>();
  std::string log;
  CUresult result = read_image(image, &library->ptx, &log);
  if (result == CUDA_SUCCESS) {
    const Result<ptx::Module> parsed = ptx::parse(library->ptx.front());
    if (parsed.ok()) {
      for (const ptx::Function& function : parsed->functions) {
        if (function.is_entry) library->kernel_names.push_back(function.name);
      }
    } else {
      log = parsed.error().to_string();
      result = CUDA_ERROR_INVALID_PTX;
    }
  }
  options.finish(log, 0);
  if (result != CUDA_SUCCESS) return refuse(result, "{}", log);
  *handle = driver.libraries.add(std::move(library));
  return CUDA_SUCCESS;
}

CUresult kernel_of(const std::shared_ptr<Library>& library, const std::string& name,
                   CUkernel* handle) {
  const auto& names = library->kernel_names;
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    return refuse(CUDA_ERROR_NOT_FOUND, "the library has no kernel '{}'", name);
  }
  const std::lock_guard lock(library->mutex);
  CUkernel& known = library->kernels[name];
  if (known == nullptr) {
    auto kernel = std::make_shared<Kernel>();
    kernel->library = library;
    kernel->name = name;
    known = Driver::instance().kernels.add(std::move(kernel));
  }
  *handle = known;
  return CUDA_SUCCESS;
}

// The kernel as a function of the current context, which must be on the device asked for.
CUresult function_on(CUkernel handle, CUdevice ordinal, std::shared_ptr<Function>* function) {
  std::shared_ptr<Kernel> kernel;
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_kernel(handle, &kernel, &library));
  if (Driver::instance().device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (context->device->ordinal != ordinal) return CUDA_ERROR_INVALID_DEVICE;
  return function_in(*library, kernel->name, context, function);
}

}  // namespace

CUresult find_function(CUfunction handle, std::shared_ptr<Function>* function) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *function = driver.functions.find(handle);
  if (*function != nullptr) {
    const std::shared_ptr<Context> context = (*function)->module->context.lock();
    return context == nullptr ? CUDA_ERROR_CONTEXT_IS_DESTROYED : context->fault.load();
  }
  // A CUkernel stands for its function in the current context.
  std::shared_ptr<Kernel> kernel;
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_kernel(reinterpret_cast<CUkernel>(handle), &kernel, &library));
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  return function_in(*library, kernel->name, context, function);
}

CUresult cuLibraryLoadData(CUlibrary* library, const void* image, CUjit_option* jit_options,
                           void** jit_values, unsigned jit_count, CUlibraryOption* options, void**,
                           unsigned count) {
  if (jit_count != 0 && (jit_options == nullptr || jit_values == nullptr)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (count != 0 && options == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return load_library(library, image, JitOptions(jit_options, jit_values, jit_count));
}

CUresult cuLibraryLoadFromFile(CUlibrary* library, const char* path, CUjit_option* jit_options,
                               void** jit_values, unsigned jit_count, CUlibraryOption* options,
                               void** values, unsigned count) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string bytes;
  TW_DRIVER_TRY(read_file(path, &bytes));
  return driver::cuLibraryLoadData(library, bytes.c_str(), jit_options, jit_values, jit_count,
                                   options, values, count);
}

CUresult cuLibraryUnload(CUlibrary handle) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  const std::shared_ptr<Library> library = driver.libraries.remove(handle);
  if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const std::lock_guard lock(library->mutex);
  for (const auto& [name, kernel] : library->kernels) driver.kernels.remove(kernel);
  for (const auto& [context, module_handle] : library->modules) {
    if (const auto module = driver.modules.remove(module_handle)) unload_module(*module);
  }
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetKernel(CUkernel* kernel, CUlibrary handle, const char* name) {
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_library(handle, &library));
  if (kernel == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return kernel_of(library, name, kernel);
}

CUresult cuLibraryGetKernelCount(unsigned* count, CUlibrary handle) {
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_library(handle, &library));
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(library->kernel_names.size());
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel* kernels, unsigned count, CUlibrary handle) {
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_library(handle, &library));
  if (kernels == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < std::min<size_t>(count, library->kernel_names.size()); ++i) {
    TW_DRIVER_TRY(kernel_of(library, library->kernel_names[i], &kernels[i]));
  }
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule* module_handle, CUlibrary handle) {
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_library(handle, &library));
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (module_handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  TW_DRIVER_TRY(module_in(*library, context, &module));
  *module_handle = module->handle;
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary handle,
                            const char* name) {
  CUmodule module = nullptr;
  TW_DRIVER_TRY(driver::cuLibraryGetModule(&module, handle));
  return driver::cuModuleGetGlobal_v2(address, bytes, module, name);
}

CUresult cuLibraryGetManaged(CUdeviceptr*, size_t*, CUlibrary handle, const char* name) {
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_library(handle, &library));
  return name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
}

CUresult cuKernelGetFunction(CUfunction* function, CUkernel handle) {
  std::shared_ptr<Kernel> kernel;
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_kernel(handle, &kernel, &library));
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Function> found;
  TW_DRIVER_TRY(function_in(*library, kernel->name, context, &found));
  *function = found->handle;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetLibrary(CUlibrary* library_handle, CUkernel handle) {
  std::shared_ptr<Kernel> kernel;
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_kernel(handle, &kernel, &library));
  if (library_handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *library_handle = library->handle;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char** name, CUkernel handle) {
  std::shared_ptr<Kernel> kernel;
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_kernel(handle, &kernel, &library));
  if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *name = kernel->name.c_str();
  return CUDA_SUCCESS;
}

CUresult cuKernelGetAttribute(int* value, CUfunction_attribute attribute, CUkernel handle,
                              CUdevice device) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(function_on(handle, device, &function));
  return get_function_attribute(*function, attribute, value);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attribute, int value, CUkernel handle,
                              CUdevice device) {
  std::shared_ptr<Function> function;
  TW_DRIVER_TRY(function_on(handle, device, &function));
  TW_DRIVER_TRY(set_function_attribute(*function, attribute, value));
  std::shared_ptr<Kernel> kernel;
  std::shared_ptr<Library> library;
  TW_DRIVER_TRY(find_kernel(handle, &kernel, &library));
  const std::lock_guard lock(library->mutex);
  library->attributes[{kernel->name, device}][attribute] = value;
  return CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel handle, CUfunc_cache, CUdevice device) {
  std::shared_ptr<Function> function;
  return function_on(handle, device, &function);
}

CUresult cuKernelGetParamInfo(CUkernel handle, size_t index, size_t* offset, size_t* bytes) {
  return driver::cuFuncGetParamInfo(reinterpret_cast<CUfunction>(handle), index, offset, bytes);
}

}  // namespace tilewright::emulator::driver
