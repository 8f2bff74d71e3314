// Modules: loading PTX with its just-in-time options and logs, symbols, unloading.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/image.h"
#include "emulator/driver/jit_options.h"
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

CUresult find_module(CUmodule handle, std::shared_ptr<Module>* module) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  *module = Driver::instance().modules.find(handle);
  return *module != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// Module variables show in address queries like any allocation, but cannot be freed.
void enter_variables(const Module& module, Device& device) {
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.allocation_mutex);
  for (const auto& [name, variable] : module.loaded->variables()) {
    driver.device_allocations[{&device, variable.address}] = {.bytes = variable.bytes,
                                                              .owner = module.owner,
                                                              .id = driver.next_id++,
                                                              .module_variable = true};
  }
}

void remove_variables(const Module& module, Device& device) {
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.allocation_mutex);
  for (const auto& [name, variable] : module.loaded->variables()) {
    driver.device_allocations.erase({&device, variable.address});
  }
}

CUresult load_image(CUmodule* handle, const void* image, JitOptions options) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (handle == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  TW_DRIVER_TRY(check_unsafe_call());
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> texts;
  std::string log;
  std::shared_ptr<Module> module;
  CUresult result = read_image(image, &texts, &log);
  if (result == CUDA_SUCCESS) result = load_module(texts, context, &module, &log);
  if (result == CUDA_SUCCESS) *handle = module->handle;
  const std::chrono::duration<float, std::milli> time = std::chrono::steady_clock::now() - start;
  options.finish(log, time.count());
  return result == CUDA_SUCCESS ? result : refuse(result, "{}", log);
}

}  // namespace

CUresult load_module(const std::vector<std::string>& texts, const std::shared_ptr<Context>& context,
                     std::shared_ptr<Module>* module, std::string* log) {
  const Arch& arch = context->device->profile.arch;
  size_t index = 0;
  TW_DRIVER_TRY(choose_ptx(texts, arch, &index, log));
  auto loaded = LoadedModule::load(texts[index], {.file_name = "ptx input", .arch = arch},
                                   *context->device->memory);
  if (!loaded.ok()) {
    *log = loaded.error().to_string();
    return loaded.error().code == ErrorCode::kOutOfMemory ? CUDA_ERROR_OUT_OF_MEMORY
                                                          : CUDA_ERROR_INVALID_PTX;
  }
  auto made = std::make_shared<Module>();
  made->context = context;
  made->owner = context->handle;
  made->ptx_version = read_directives(texts[index]).compute_capability;
  made->loaded = *std::move(loaded);
  enter_variables(*made, *context->device);
  Driver::instance().modules.add(made);
  *module = std::move(made);
  return CUDA_SUCCESS;
}

void unload_module(Module& module) {
  module.alive = false;
  Driver::instance().functions.remove_if(
      [&](const Function& function) { return function.module.get() == &module; });
  if (const std::shared_ptr<Context> context = module.context.lock()) {
    remove_variables(module, *context->device);
  }
}

CUresult get_function(const std::shared_ptr<Module>& module, std::string_view name,
                      CUfunction* handle) {
  const int kernel = module->loaded->find_kernel(name);
  if (kernel < 0) return refuse(CUDA_ERROR_NOT_FOUND, "the module has no kernel '{}'", name);
  const std::lock_guard lock(module->mutex);
  CUfunction& known = module->functions[std::string(name)];
  if (known == nullptr) {
    auto function = std::make_shared<Function>();
    function->module = module;
    function->kernel = kernel;
    known = Driver::instance().functions.add(std::move(function));
  }
  *handle = known;
  return CUDA_SUCCESS;
}

CUresult read_file(const char* path, std::string* bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return refuse(CUDA_ERROR_FILE_NOT_FOUND, "cannot open '{}'", path);
  bytes->assign(std::istreambuf_iterator<char>(file), {});
  // Room to look for magic numbers and headers beyond the end of a short file.
  bytes->append(64, '\0');
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  return load_image(module, image, {});
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned count,
                            CUjit_option* options, void** values) {
  if (count != 0 && (options == nullptr || values == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  return load_image(module, image, JitOptions(options, values, count));
}

CUresult cuModuleLoadFatBinary(CUmodule* module, const void* image) {
  return load_image(module, image, {});
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::string bytes;
  TW_DRIVER_TRY(read_file(path, &bytes));
  return load_image(module, bytes.c_str(), {});
}

CUresult cuModuleUnload(CUmodule handle) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  std::shared_ptr<Module> module;
  TW_DRIVER_TRY(find_module(handle, &module));
  if (module->of_library) return CUDA_ERROR_NOT_PERMITTED;
  TW_DRIVER_TRY(check_unsafe_call());
  if (Driver::instance().modules.remove(handle) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  unload_module(*module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  const KeepHeld keep;
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (function == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  TW_DRIVER_TRY(find_module(handle, &module));
  return get_function(module, name, function);
}

CUresult cuModuleGetFunctionCount(unsigned* count, CUmodule handle) {
  std::shared_ptr<Module> module;
  TW_DRIVER_TRY(find_module(handle, &module));
  if (count == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<unsigned>(module->loaded->num_kernels());
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction* functions, unsigned count, CUmodule handle) {
  std::shared_ptr<Module> module;
  TW_DRIVER_TRY(find_module(handle, &module));
  if (functions == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const unsigned all = static_cast<unsigned>(module->loaded->num_kernels());
  for (unsigned i = 0; i < std::min(count, all); ++i) {
    TW_DRIVER_TRY(
        get_function(module, module->loaded->kernel(static_cast<int>(i)).name, &functions[i]));
  }
  return CUDA_SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule handle,
                              const char* name) {
  std::shared_ptr<Context> context;
  TW_DRIVER_TRY(current_context(&context));
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return CUDA_ERROR_INVALID_VALUE;
  std::shared_ptr<Module> module;
  TW_DRIVER_TRY(find_module(handle, &module));
  const auto& variables = module->loaded->variables();
  const auto it = variables.find(std::string_view(name));
  if (it == variables.end()) {
    return refuse(CUDA_ERROR_NOT_FOUND, "the module has no variable '{}'", name);
  }
  if (address != nullptr) *address = it->second.address;
  if (bytes != nullptr) *bytes = it->second.bytes;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* mode) {
  if (!Driver::instance().initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (mode == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

}  // namespace tilewright::emulator::driver
