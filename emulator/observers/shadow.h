// ShadowMemory: who last wrote and who has since read every byte of a block's shared memory. One
// cell stands for 16 bytes as long as accesses cover them together, then for 4, then for 1.
#pragma once

#include <cstdint>
#include <vector>

namespace tilewright::emulator {

struct Instruction;

// One access that some later one may conflict with.
struct PastAccess {
  const Instruction* at = nullptr;
  uint32_t clock = 0;      // 0: there was none; kInFlight: its end is not known yet
  uint32_t lanes = 0;      // of the warp; of an asynchronous access the issuing thread's number
  uint16_t component = 0;  // of VectorClock: covered there, it has happened before
  uint8_t flags = 0;
};
inline constexpr uint32_t kInFlight = 0xffffffffu;
enum PastFlag : uint8_t {
  kPastWrite = 1,
  kPastStrong = 2,     // atomic, volatile or with memory semantics: no race with its like
  kPastAsync = 4,      // through the async proxy
  kPastCopy = 8,       // by cp.async
  kPastUnwaited = 16,  // a cp.async that its issuer has not waited for
};

struct Cell {
  PastAccess write;   // the last ordinary one
  PastAccess other;   // a read or a strong access since
  uint32_t more = 0;  // further ones: a list of the ShadowMemory, 0: none
};

class ShadowMemory {
 public:
  explicit ShadowMemory(uint32_t bytes);

  // Calls visit(cell, offset, bytes) for the cells of [offset, offset + bytes), split so that none
  // reaches beyond, until one returns false.
  template <class Visit>
  bool for_each(uint32_t offset, uint32_t bytes, Visit&& visit) {
    const uint32_t end = offset + bytes;
    while (offset < end) {
      Granule& granule = granules_[offset / 16];
      const uint32_t granule_end = offset / 16 * 16 + 16;
      if (granule.words == 0 && offset % 16 == 0 && granule_end <= end) {
        if (!visit(granule.cell, offset, 16u)) return false;
        offset = granule_end;
        continue;
      }
      if (!visit_parts(granule, offset, granule_end < end ? granule_end : end, visit)) return false;
      offset = granule_end;
    }
    return true;
  }
  // An ordinary write of [offset, offset + bytes), which forgets everything before.
  void overwrite(uint32_t offset, uint32_t bytes, const PastAccess& write);

  std::vector<PastAccess>& list(Cell& cell);  // made if need be
  const std::vector<PastAccess>* find_list(const Cell& cell) const {
    return cell.more == 0 ? nullptr : &lists_[cell.more];
  }
  void forget_others(Cell& cell);

 private:
  struct Granule {
    Cell cell;
    uint32_t words = 0;  // index of four Words, 0: one cell
  };
  struct Word {
    Cell cell;
    uint32_t bytes = 0;  // index of four Cells, 0: one cell
  };

  template <class Visit>
  bool visit_parts(Granule& granule, uint32_t offset, uint32_t end, Visit&& visit) {
    split(granule);
    while (offset < end) {
      const uint32_t word_end = offset / 4 * 4 + 4;
      const uint32_t index = granule.words + offset % 16 / 4;
      if (words_[index].bytes == 0 && offset % 4 == 0 && word_end <= end) {
        if (!visit(words_[index].cell, offset, 4u)) return false;
        offset = word_end;
        continue;
      }
      split(index);
      for (; offset < end && offset < word_end; ++offset) {
        if (!visit(bytes_[words_[index].bytes + offset % 4], offset, 1u)) return false;
      }
    }
    return true;
  }
  void split(Granule& granule);
  void split(uint32_t word);
  void merge(Granule& granule);
  Cell copy(const Cell& cell);

  std::vector<Granule> granules_;
  std::vector<Word> words_;  // index 0 is unused, as in the other stores
  std::vector<Cell> bytes_;
  std::vector<std::vector<PastAccess>> lists_;
  std::vector<uint32_t> free_words_, free_bytes_, free_lists_;
};

}  // namespace tilewright::emulator
