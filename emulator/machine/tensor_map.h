// The emulator's own content of the opaque 128-byte CUtensorMap: written by cuTensorMapEncodeTiled,
// read by the bulk tensor instructions, edited by tensormap.replace. Enumerations hold cuda.h's
// host values (CUtensorMapDataType and so on), not the codes of tensormap.replace.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "emulator/ptx/types.h"

namespace tilewright::emulator {

struct TensorMap {
  // The first eight bytes of every valid map; anything else is a bad map.
  static constexpr uint64_t kMagic = 0x3150414d54575431;  // "1TWTMAP1" in memory order

  uint64_t magic = kMagic;
  uint64_t global_address = 0;
  uint8_t data_type = 0;     // CUtensorMapDataType
  uint8_t rank = 0;          // 1..5
  uint8_t interleave = 0;    // CUtensorMapInterleave
  uint8_t swizzle = 0;       // CUtensorMapSwizzle
  uint8_t l2_promotion = 0;  // CUtensorMapL2promotion
  uint8_t fill = 0;          // CUtensorMapFloatOOBfill
  uint8_t unused[2] = {};
  // Innermost dimension first; entries at and above rank are 1 (strides: 0).
  uint16_t box_dim[5] = {1, 1, 1, 1, 1};        // 1..256
  uint8_t element_stride[5] = {1, 1, 1, 1, 1};  // 1..8
  uint8_t unused_after_strides = 0;
  uint64_t global_stride[4] = {};         // bytes; [i] is the stride of dimension i + 1
  uint32_t global_dim_minus_one[5] = {};  // 2^32 elements are legal, hence minus one
  uint32_t unused_tail[9] = {};

  uint64_t global_dim(int i) const { return uint64_t{global_dim_minus_one[i]} + 1; }
};
static_assert(sizeof(TensorMap) == 128);

// Bytes of one element of a CUtensorMapDataType; 0 for the packed sub-byte types (13 and above) and
// for values outside the enumeration.
constexpr int tensor_map_element_bytes(int data_type) {
  constexpr uint8_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return data_type >= 0 && data_type < 13 ? kBytes[data_type] : 0;
}

// Empty, or why no copy can use the map.
std::string check_tensor_map(const TensorMap& map);
// tensormap.replace. Empty, or what is wrong with the value. A stride is in bytes, a dimension of 0
// is refused.
std::string replace_field(TensorMap& map, ptx::TensormapField field, uint32_t ordinal,
                          uint64_t value);

// The tensor maps in global memory that a running kernel has edited, and which blocks may use them:
// the editing block has to release an edit, the using block to acquire it, through the tensormap
// proxy. Kept by block, since barriers carry both to its other threads. Thread-safe.
class TensorMapEdits {
 public:
  void edit(uint64_t address, uint64_t block);
  void release(uint64_t block);
  void acquire(uint64_t address, uint64_t block);
  // Empty, or what is missing.
  std::string check_use(uint64_t address, uint64_t block);

 private:
  struct Edit {
    uint64_t editor = 0;
    bool is_released = false;
    std::set<uint64_t> acquired_by;
  };
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::map<uint64_t, Edit> edits_;
};

}  // namespace tilewright::emulator
