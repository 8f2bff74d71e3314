#include "emulator/driver/symbols.h"

#include <algorithm>
#include <vector>

#include "emulator/driver/entry_points.h"
#include "emulator/driver/extension.h"
#include "emulator/driver/symbol_table.h"

namespace tilewright::emulator {
namespace driver {
namespace {

template <class Function>
void* address_of(Function* function) {
  return reinterpret_cast<void*>(function);
}

std::vector<Symbol> make_symbols() {
  std::vector<Symbol> symbols = {
#define TW_SYMBOL(name, version) {#name, version, address_of(&driver::name)},
#include "emulator/driver/symbols.def"
#undef TW_SYMBOL
#define TW_UNSUPPORTED(name) {#name, 0, address_of(&driver::not_supported)},
#include "emulator/driver/unsupported.def"
#undef TW_UNSUPPORTED
#define TW_EXTENSION(name, type) {#name, 0, address_of(&driver::name)},
#include "emulator/driver/extension.def"
#undef TW_EXTENSION
  };
  std::sort(symbols.begin(), symbols.end(),
            [](const Symbol& a, const Symbol& b) { return a.name < b.name; });
  return symbols;
}

}  // namespace

std::span<const Symbol> all_symbols() {
  static const std::vector<Symbol> symbols = make_symbols();
  return symbols;
}

const Symbol* find_symbol(std::string_view name) {
  const std::span<const Symbol> symbols = all_symbols();
  const auto it = std::lower_bound(
      symbols.begin(), symbols.end(), name,
      [](const Symbol& symbol, std::string_view key) { return symbol.name < key; });
  return it != symbols.end() && it->name == name ? &*it : nullptr;
}

CUresult not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }

}  // namespace driver

void* emulated_driver_symbol(std::string_view versioned_name) {
  const driver::Symbol* symbol = driver::find_symbol(versioned_name);
  return symbol == nullptr ? nullptr : symbol->address;
}

}  // namespace tilewright::emulator
