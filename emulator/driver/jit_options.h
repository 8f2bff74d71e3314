// The just-in-time options of cuModuleLoadDataEx and cuLibraryLoadData: two log buffers whose sizes
// go in and out, the time taken; all others do not change what an emulated kernel computes.
#pragma once

#include <string_view>

#include "emulator/driver/cuda_api.h"

namespace tilewright::emulator::driver {

class JitOptions {
 public:
  JitOptions() = default;
  // The arrays must outlive the object; they receive the results.
  JitOptions(const CUjit_option* options, void** values, unsigned count);

  // Writes the error log (empty after success), an empty information log, their sizes and the time.
  void finish(std::string_view error_log, float milliseconds);

 private:
  struct Log {
    char* buffer = nullptr;
    void** size = nullptr;
    void write(std::string_view text) const;
  };

  Log info_, error_;
  void** wall_time_ = nullptr;
};

}  // namespace tilewright::emulator::driver
