#include "emulator/ptx/symbols.h"

#include <charconv>

namespace tilewright::emulator::ptx {

void SymbolTable::close_scope() {
  const size_t first = scopes_.back();
  scopes_.pop_back();
  while (undo_.size() > first) {
    const Undo& undo = undo_.back();
    if (undo.previous.kind == BindingKind::kNone) {
      undo.map->erase(undo.name);
    } else {
      (*undo.map)[undo.name] = undo.previous;
    }
    undo_.pop_back();
  }
}

bool SymbolTable::put(Map& map, std::string_view name, Binding binding) {
  binding.scope = depth();
  Binding& slot = map[name];
  if (slot.kind != BindingKind::kNone && slot.scope == binding.scope) return false;
  undo_.push_back({&map, name, slot});
  slot = binding;
  return true;
}

void SymbolTable::declare_outer(std::string_view name, Binding binding) {
  binding.scope = depth() - 1;
  names_[name] = binding;
}

Binding SymbolTable::find_in_range(std::string_view name) const {
  size_t digits = name.size();
  while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
  const std::string_view number = name.substr(digits);
  if (number.empty() || (number.size() > 1 && number[0] == '0')) return {};
  const std::string_view prefix = name.substr(0, digits);
  const auto it = ranges_.find(prefix);
  if (it == ranges_.end()) return {};
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc()) return {};
  Binding binding = it->second;
  // A shorter range hides only the names that it has: outer ones stand in the undo log.
  for (size_t i = undo_.size(); value >= binding.count && i-- > 0;) {
    if (undo_[i].map == &ranges_ && undo_[i].name == prefix) binding = undo_[i].previous;
  }
  if (binding.kind == BindingKind::kNone || value >= binding.count) return {};
  binding.index += value;
  binding.count = 1;
  return binding;
}

Binding SymbolTable::find(std::string_view name) const {
  const Binding ranged = find_in_range(name);
  const auto it = names_.find(name);
  if (it == names_.end()) return ranged;
  const bool inner = ranged.kind == BindingKind::kNone || it->second.scope >= ranged.scope;
  return inner ? it->second : ranged;
}

}  // namespace tilewright::emulator::ptx
