#include "emulator/observers/shadow.h"

namespace tilewright::emulator {

ShadowMemory::ShadowMemory(uint32_t bytes)
    : granules_((bytes + 15) / 16), words_(4), bytes_(4), lists_(1) {}

std::vector<PastAccess>& ShadowMemory::list(Cell& cell) {
  if (cell.more == 0) {
    if (free_lists_.empty()) {
      cell.more = static_cast<uint32_t>(lists_.size());
      lists_.emplace_back();
    } else {
      cell.more = free_lists_.back();
      free_lists_.pop_back();
    }
  }
  return lists_[cell.more];
}

void ShadowMemory::forget_others(Cell& cell) {
  cell.other.clock = 0;
  if (cell.more == 0) return;
  lists_[cell.more].clear();
  free_lists_.push_back(cell.more);
  cell.more = 0;
}

Cell ShadowMemory::copy(const Cell& cell) {
  Cell result = cell;
  result.more = 0;
  if (cell.more != 0) {
    const std::vector<PastAccess> entries = lists_[cell.more];
    list(result) = entries;
  }
  return result;
}

void ShadowMemory::split(Granule& granule) {
  if (granule.words != 0) return;
  if (free_words_.empty()) {
    granule.words = static_cast<uint32_t>(words_.size());
    words_.resize(words_.size() + 4);
  } else {
    granule.words = free_words_.back();
    free_words_.pop_back();
  }
  for (uint32_t i = 0; i < 4; ++i) words_[granule.words + i] = {copy(granule.cell), 0};
  forget_others(granule.cell);
}

void ShadowMemory::split(uint32_t word) {
  if (words_[word].bytes != 0) return;
  uint32_t first = 0;
  if (free_bytes_.empty()) {
    first = static_cast<uint32_t>(bytes_.size());
    bytes_.resize(bytes_.size() + 4);
  } else {
    first = free_bytes_.back();
    free_bytes_.pop_back();
  }
  words_[word].bytes = first;
  for (uint32_t i = 0; i < 4; ++i) bytes_[first + i] = copy(words_[word].cell);
  forget_others(words_[word].cell);
}

void ShadowMemory::merge(Granule& granule) {
  for (uint32_t i = 0; i < 4; ++i) {
    Word& word = words_[granule.words + i];
    forget_others(word.cell);
    if (word.bytes == 0) continue;
    for (uint32_t b = 0; b < 4; ++b) forget_others(bytes_[word.bytes + b]);
    free_bytes_.push_back(word.bytes);
    word.bytes = 0;
  }
  free_words_.push_back(granule.words);
  granule.words = 0;
}

void ShadowMemory::overwrite(uint32_t offset, uint32_t bytes, const PastAccess& write) {
  const uint32_t end = offset + bytes;
  for (uint32_t at = (offset + 15) / 16 * 16; at + 16 <= end; at += 16) {
    if (granules_[at / 16].words != 0) merge(granules_[at / 16]);
  }
  for_each(offset, bytes, [&](Cell& cell, uint32_t, uint32_t) {
    if (cell.other.clock != 0) forget_others(cell);
    cell.write = write;
    return true;
  });
}

}  // namespace tilewright::emulator
