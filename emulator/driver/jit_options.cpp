#include "emulator/driver/jit_options.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace tilewright::emulator::driver {

JitOptions::JitOptions(const CUjit_option* options, void** values, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    switch (options[i]) {
      case CU_JIT_INFO_LOG_BUFFER:
        info_.buffer = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        info_.size = &values[i];
        break;
      case CU_JIT_ERROR_LOG_BUFFER:
        error_.buffer = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_.size = &values[i];
        break;
      case CU_JIT_WALL_TIME:
        wall_time_ = &values[i];
        break;
      default:
        break;
    }
  }
}

void JitOptions::Log::write(std::string_view text) const {
  // The size is an unsigned int stored in the pointer itself.
  const size_t capacity =
      size != nullptr ? static_cast<uint32_t>(reinterpret_cast<uintptr_t>(*size)) : 0;
  size_t length = 0;
  if (buffer != nullptr && capacity > 0) {
    length = std::min(text.size(), capacity - 1);
    std::memcpy(buffer, text.data(), length);
    buffer[length] = '\0';
  }
  if (size != nullptr) *size = reinterpret_cast<void*>(uintptr_t{length});
}

void JitOptions::finish(std::string_view error_log, float milliseconds) {
  info_.write({});
  error_.write(error_log);
  if (wall_time_ != nullptr) std::memcpy(wall_time_, &milliseconds, sizeof(milliseconds));
}

}  // namespace tilewright::emulator::driver
