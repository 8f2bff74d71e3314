// The _ptsz and _ptds variants: a null stream means the calling thread's own default stream.
#include "emulator/driver/entry_points.h"

namespace tilewright::emulator::driver {
namespace {

CUstream per_thread(CUstream stream) { return stream == nullptr ? CU_STREAM_PER_THREAD : stream; }

// cuLaunchKernelEx names its stream in the configuration.
const CUlaunchConfig* per_thread(const CUlaunchConfig* config) {
  thread_local CUlaunchConfig copy;
  if (config == nullptr || config->hStream != nullptr) return config;
  copy = *config;
  copy.hStream = CU_STREAM_PER_THREAD;
  return &copy;
}

}  // namespace

#include "emulator/driver/per_thread_stream.inc"

}  // namespace tilewright::emulator::driver
