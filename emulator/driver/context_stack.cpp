// The calling thread's stack of current contexts.
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

// Part of the driver's state that the API itself ties to the thread.
thread_local std::vector<CUcontext> stack;

}  // namespace

CUcontext current_handle() { return stack.empty() ? nullptr : stack.back(); }

void push_current(CUcontext context) { stack.push_back(context); }

CUcontext pop_current() {
  if (stack.empty()) return nullptr;
  const CUcontext top = stack.back();
  stack.pop_back();
  return top;
}

void set_current(CUcontext context) {
  if (!stack.empty()) stack.pop_back();
  if (context != nullptr) stack.push_back(context);
}

CUresult current_context(std::shared_ptr<Context>* context) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = driver.contexts.find(stack.back());
  if (*context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  return (*context)->fault.load();
}

}  // namespace tilewright::emulator::driver
