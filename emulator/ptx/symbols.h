// Names in scope while a module is parsed: registers (with their %r<N> ranges), variables,
// parameters and functions, in nested scopes that shadow. Internal to emulator/ptx.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "emulator/ptx/ast.h"

namespace tilewright::emulator::ptx {

enum class BindingKind : uint8_t { kNone, kRegister, kSymbol };

struct Binding {
  BindingKind kind = BindingKind::kNone;
  SymbolKind symbol = SymbolKind::kNone;
  uint8_t vector = 1;  // registers of a .v2 or .v4 register
  uint32_t scope = 0;  // depth of its scope, set by the table
  uint32_t index = 0;  // register or symbol index; of a range, its first register
  uint32_t count = 1;  // of a range
};

class SymbolTable {
 public:
  void open_scope() { scopes_.push_back(undo_.size()); }
  void close_scope();
  uint32_t depth() const { return static_cast<uint32_t>(scopes_.size()); }

  // False if the innermost scope has the name already. `name` must outlive the table.
  bool declare(std::string_view name, Binding binding) { return put(names_, name, binding); }
  // In the module's scope, from within the first scope inside it; no scope has the name yet.
  void declare_outer(std::string_view name, Binding binding);
  // prefix0 … prefix(count-1).
  bool declare_range(std::string_view prefix, Binding binding) {
    return put(ranges_, prefix, binding);
  }
  // Kind kNone if the name is unknown.
  Binding find(std::string_view name) const;

 private:
  using Map = std::unordered_map<std::string_view, Binding>;
  struct Undo {
    Map* map;
    std::string_view name;
    Binding previous;
  };

  bool put(Map& map, std::string_view name, Binding binding);
  Binding find_in_range(std::string_view name) const;

  Map names_;
  Map ranges_;
  std::vector<Undo> undo_;
  std::vector<size_t> scopes_;
};

}  // namespace tilewright::emulator::ptx
