// Schedule: which tiles of the query x key grid a launch computes, for masks that are no interval a
// row. Made on the host by Kernel::make_schedule from a shape and the mask's data, uploaded by the
// caller, passed to every launch of that shape (and of the same lengths, where they vary). What it
// leaves out costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tilewright {

// What masks need beyond the problem's text.
struct MaskData {
  // For `documents`: ids of the query rows [batch, seqlen_q] and of the keys [batch, seqlen_k];
  // [total_q] and [total_k] where they are packed.
  std::span<const int32_t> documents_q = {}, documents_k = {};
  // For `blocks=b`: [blocks_batch, blocks_heads, ceil(seqlen_q / b), ceil(seqlen_k / b)], not 0
  // where visible. blocks_batch is 1 (the same for all) or batch, blocks_heads 1 or num_heads_q.
  std::span<const uint8_t> blocks = {};
  int64_t blocks_batch = 1, blocks_heads = 1;
  // Where lengths vary (varlen, paged), the host's copies of the launch's tensors of these names:
  // every sequence then has lists of its own. A shorter one takes the first rows and columns of
  // its blocks.
  std::span<const int32_t> cu_seqlens_q = {}, cu_seqlens_k = {}, seqused_k = {};
};

// What launch() must know of a schedule in device memory, and checks against its plan.
struct ScheduleLayout {
  int64_t seqlen_q = 0, seqlen_k = 0;
  int tile_m = 0, tile_n = 0;
  // 1 where all batches, or heads, have the same tiles; else batch, num_heads_q.
  int64_t num_batches = 1, num_heads = 1;
  // Sections of the bytes, each 16-byte aligned; the first one begins at 0.
  int64_t order_offset = 0, entries_offset = 0, patterns_offset = 0;
  int64_t num_bytes = 0;
  bool operator==(const ScheduleLayout&) const = default;
};

// A schedule whose bytes were uploaded.
struct DeviceSchedule {
  const void* data = nullptr;  // 16-byte aligned
  ScheduleLayout layout = {};
};

// Counts are sums over the layout's num_batches x num_heads lists.
struct Schedule {
  ScheduleLayout layout;
  std::vector<std::byte> bytes;
  int64_t visible_pairs = 0;
  int64_t full_tiles = 0;     // every pair visible: run without a mask
  int64_t partial_tiles = 0;  // some pairs visible: run with a bit for each
  int64_t grid_tiles = 0;     // full, partial and empty
  int64_t num_patterns = 0;   // different bit patterns among the partial tiles

  // What a launch computes, for each (batch, head) that a list stands for.
  int64_t live_tiles() const { return full_tiles + partial_tiles; }
};

}  // namespace tilewright
