#include "emulator/machine/tensor_map.h"

#include <bit>

#include "core/check.h"

namespace tilewright::emulator {

std::string check_tensor_map(const TensorMap& map) {
  if (map.rank < 1 || map.rank > 5) return fmt::format("a tensor map of rank {}", map.rank);
  if (map.interleave != 0) return "a tensor map with interleave, which is not built";
  if (map.swizzle > 3 || tensor_map_element_bytes(map.data_type) == 0 || map.fill > 1) {
    return "a tensor map whose swizzle, type or fill sm_90 lacks";
  }
  if (map.global_address % 16 != 0) {
    return fmt::format("a tensor map over {:#x}, no multiple of 16", map.global_address);
  }
  for (int i = 0; i < map.rank; ++i) {
    if (map.box_dim[i] == 0 || map.box_dim[i] > 256 || map.element_stride[i] == 0 ||
        map.element_stride[i] > 8) {
      return fmt::format("a tensor map with box {} and element stride {} in dimension {}",
                         map.box_dim[i], map.element_stride[i], i);
    }
    const uint64_t stride = i == 0 ? 0 : map.global_stride[i - 1];
    if (stride % 16 != 0 || stride >> 40 != 0) {
      return fmt::format("a tensor map with a stride of {} bytes in dimension {}", stride, i);
    }
  }
  return {};
}

std::string replace_field(TensorMap& map, ptx::TensormapField field, uint32_t ordinal,
                          uint64_t value) {
  using Field = ptx::TensormapField;
  // CUtensorMapDataType by the instruction's code: the two part ways from 8 on.
  static constexpr uint8_t kTypes[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12};
  const auto refuse = [&](std::string_view name) {
    return fmt::format("{} {} of a tensor map", name, value);
  };
  switch (field) {
    case Field::kGlobalAddress:
      map.global_address = value;
      return value % 16 == 0 ? "" : refuse("address");
    case Field::kRank:  // less one
      map.rank = static_cast<uint8_t>(value + 1);
      return value < 5 ? "" : refuse("rank code");
    case Field::kBoxDim:
      map.box_dim[ordinal] = static_cast<uint16_t>(value);
      return value >= 1 && value <= 256 ? "" : refuse("box dimension");
    case Field::kGlobalDim:
      map.global_dim_minus_one[ordinal] = static_cast<uint32_t>(value - 1);
      return value != 0 ? "" : refuse("dimension");
    case Field::kGlobalStride:
      map.global_stride[ordinal] = value;
      return value % 16 == 0 && value >> 40 == 0 ? "" : refuse("stride");
    case Field::kElementStride:
      map.element_stride[ordinal] = static_cast<uint8_t>(value);
      return value >= 1 && value <= 8 ? "" : refuse("element stride");
    case Field::kElemtype:
      map.data_type = kTypes[value];  // the parser has checked the codes
      return {};
    case Field::kInterleaveLayout:
      map.interleave = static_cast<uint8_t>(value);
      return {};
    case Field::kSwizzleMode:
      map.swizzle = static_cast<uint8_t>(value);
      return {};
    case Field::kFillMode:
      map.fill = static_cast<uint8_t>(value);
      return {};
    case Field::kNone:
      break;
  }
  return "no field of a tensor map";
}

void TensorMapEdits::edit(uint64_t address, uint64_t block) {
  const std::lock_guard lock(mutex_);
  edits_[address] = Edit{block, false, {}};
  any_ = true;
}

void TensorMapEdits::release(uint64_t block) {
  if (!any_) return;
  const std::lock_guard lock(mutex_);
  for (auto& [address, edit] : edits_) edit.is_released |= edit.editor == block;
}

void TensorMapEdits::acquire(uint64_t address, uint64_t block) {
  if (!any_) return;
  const std::lock_guard lock(mutex_);
  const auto found = edits_.find(address);
  if (found != edits_.end() && found->second.is_released) found->second.acquired_by.insert(block);
}

std::string TensorMapEdits::check_use(uint64_t address, uint64_t block) {
  if (!any_) return {};
  const std::lock_guard lock(mutex_);
  const auto found = edits_.find(address);
  if (found == edits_.end()) return {};
  const Edit& edit = found->second;
  if (!edit.is_released) {
    return fmt::format("a tensor map that block {} edited, with no fence.proxy.tensormap release",
                       edit.editor);
  }
  if (edit.acquired_by.count(block) == 0) {
    return fmt::format(
        "a tensor map that block {} edited, with no fence.proxy.tensormap acquire of it in block "
        "{} "
        "since",
        edit.editor, block);
  }
  return {};
}

}  // namespace tilewright::emulator
