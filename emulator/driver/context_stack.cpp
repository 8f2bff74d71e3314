// The calling thread's stack of current contexts.
#include "emulator/driver/state.h"

namespace tilewright::emulator::driver {
namespace {

// Part of the driver's state that the API itself ties to the thread. Static objects of a program
// may still call the driver after the main thread's thread_local objects are gone, so the stack is
// reached through a pointer, which needs no destructor, and is made anew if asked for that late.
thread_local std::vector<CUcontext>* thread_stack = nullptr;

struct StackOwner {
  ~StackOwner() {
    delete thread_stack;
    thread_stack = nullptr;
  }
};

thread_local int kept = 0;

std::vector<CUcontext>& stack() {
  if (thread_stack == nullptr) {
    thread_stack = new std::vector<CUcontext>();
    thread_local const StackOwner owner;
    (void)owner;
  }
  return *thread_stack;
}

}  // namespace

KeepHeld::KeepHeld() { ++kept; }
KeepHeld::~KeepHeld() { --kept; }

CUcontext current_handle() { return stack().empty() ? nullptr : stack().back(); }

void push_current(CUcontext context) { stack().push_back(context); }

CUcontext pop_current() {
  if (stack().empty()) return nullptr;
  const CUcontext top = stack().back();
  stack().pop_back();
  return top;
}

void set_current(CUcontext context) {
  if (!stack().empty()) stack().pop_back();
  if (context != nullptr) stack().push_back(context);
}

CUresult current_context(std::shared_ptr<Context>* context) {
  Driver& driver = Driver::instance();
  if (!driver.initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (stack().empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = driver.contexts.find(stack().back());
  if (*context == nullptr) return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (kept == 0) finish_held(*(*context)->device);
  return (*context)->fault.load();
}

}  // namespace tilewright::emulator::driver
