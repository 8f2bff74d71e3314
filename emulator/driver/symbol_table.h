// Every exported name with its function: what emulated_driver_symbol and cuGetProcAddress search.
#pragma once

#include <span>
#include <string_view>

namespace tilewright::emulator::driver {

struct Symbol {
  std::string_view name;  // with version and stream suffixes
  int version = 0;        // CUDA version that introduced it, as 12030; 0 for unsupported names
  void* address = nullptr;
};

// Sorted by name.
std::span<const Symbol> all_symbols();
// Null if there is none of exactly this name.
const Symbol* find_symbol(std::string_view name);

}  // namespace tilewright::emulator::driver
