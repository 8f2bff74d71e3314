#include "emulator/ptx/ast.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tilewright::emulator::ptx {
namespace {

double immediate_value(const Operand& operand) {
  const auto bits = static_cast<uint64_t>(operand.value);
  switch (operand.immediate) {
    case ImmediateKind::kF32:
      return static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits)));
    case ImmediateKind::kF64:
      return std::bit_cast<double>(bits);
    case ImmediateKind::kInteger:
      return static_cast<double>(operand.value);
  }
  return 0;
}

template <class T>
uint32_t find_by_name(const std::vector<T>& things, std::string_view name) {
  const auto it = std::ranges::find(things, name, &T::name);
  return it == things.end() ? kNoIndex : static_cast<uint32_t>(it - things.begin());
}

}  // namespace

uint64_t immediate_bits(const Operand& operand, Type type) {
  const auto bits = static_cast<uint64_t>(operand.value);
  const int width = type_bits(type);
  const uint64_t cut = width >= 64 || width == 0 ? bits : bits & ((uint64_t{1} << width) - 1);
  if (operand.immediate == ImmediateKind::kInteger) {
    // An integer where a float is wanted is its value, as C has it.
    if (type == Type::kF32) {
      return std::bit_cast<uint32_t>(static_cast<float>(operand.value));
    }
    if (type == Type::kF64) return std::bit_cast<uint64_t>(static_cast<double>(operand.value));
    return cut;
  }
  const bool is_f32 = operand.immediate == ImmediateKind::kF32;
  if (type == Type::kF64) {
    return is_f32 ? std::bit_cast<uint64_t>(immediate_value(operand)) : bits;
  }
  if (width == 32) {
    // Exact for 0f literals: a NaN keeps its bits.
    return is_f32 ? cut : std::bit_cast<uint32_t>(static_cast<float>(immediate_value(operand)));
  }
  return cut;
}

std::string Function::register_name(uint32_t index) const {
  const auto after = std::ranges::upper_bound(register_groups, index, {}, &RegisterGroup::first);
  if (after == register_groups.begin()) return fmt::format("register {}", index);
  const RegisterGroup& group = *std::prev(after);
  if (group.is_range) return fmt::format("{}{}", group.name, index - group.first);
  if (group.count > 1) return fmt::format("{}.{}", group.name, "xyzw"[(index - group.first) & 3]);
  return group.name;
}

uint32_t Module::find_function(std::string_view name) const {
  return find_by_name(functions, name);
}

uint32_t Module::find_variable(std::string_view name) const {
  return find_by_name(variables, name);
}

}  // namespace tilewright::emulator::ptx
