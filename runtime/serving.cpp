#include "tilewright/serving.h"

#include <algorithm>

#include "core/check.h"
#include "generator/launch_size.h"
#include "generator/packed_heads.h"

namespace tilewright {
int64_t choose_num_splits(int num_sms, const Shape& shape) {
  // The tiles of short queries; which config runs does not change the picture much.
  constexpr int64_t kTileM = 64, kTileN = 64;
  constexpr int64_t kMostParts = 128;
  constexpr double kBusyEnough = 0.8;
  const int64_t heads_kv = shape.num_heads_kv > 0 ? shape.num_heads_kv : shape.num_heads_q;
  const int64_t group_size = heads_kv > 0 ? shape.num_heads_q / heads_kv : 1;
  const int64_t packed = heads_to_pack(shape.seqlen_q, group_size, kTileM);
  const int64_t blocks =
      shape.batch * (shape.num_heads_q / packed) * ceil_div(shape.seqlen_q * packed, kTileM);
  const int64_t tiles = ceil_div(shape.seqlen_k, kTileN);
  if (blocks == 0 || tiles == 0 || num_sms <= 0) return 1;
  // The share of the multiprocessors that work, averaged over the waves of blocks.
  const auto busy = [&](int64_t parts) {
    const int64_t waves = ceil_div(blocks * parts, num_sms);
    return static_cast<double>(blocks * parts) / static_cast<double>(waves * num_sms);
  };
  if (busy(1) >= kBusyEnough) return 1;
  const int64_t most = std::min({kMostParts, tiles, int64_t{num_sms}});
  double best = 0;
  for (int64_t parts = 1; parts <= most; ++parts) best = std::max(best, busy(parts));
  // The fewest parts that come near the best: each one more costs a part of the output in memory.
  for (int64_t parts = 1; parts <= most; ++parts) {
    if (busy(parts) >= 0.85 * best) return parts;
  }
  return 1;
}

Status check_cu_seqlens(std::string_view name, std::span<const int32_t> cu_seqlens, int64_t total,
                        int64_t longest) {
  if (cu_seqlens.empty() || cu_seqlens[0] != 0) {
    return make_error(ErrorCode::kInvalidArgument, "{} does not begin with 0", name);
  }
  for (size_t i = 1; i < cu_seqlens.size(); ++i) {
    const int64_t length = int64_t{cu_seqlens[i]} - cu_seqlens[i - 1];
    if (length < 0) {
      return make_error(ErrorCode::kInvalidArgument, "{}[{}] = {} is less than {} before it", name,
                        i, cu_seqlens[i], cu_seqlens[i - 1]);
    }
    if (length > longest) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}[{}] = {} makes a sequence of {} rows, the plan's longest has {}", name,
                        i, cu_seqlens[i], length, longest);
    }
  }
  if (cu_seqlens.back() > total) {
    return make_error(ErrorCode::kInvalidArgument, "{} ends at {}, the tensor has {} rows", name,
                      cu_seqlens.back(), total);
  }
  return {};
}

Status check_pages(std::span<const int32_t> block_table, int64_t table_width,
                   std::span<const int32_t> seqused_k, int64_t page_size, int64_t num_pages) {
  const auto width = static_cast<size_t>(table_width);
  if (width > 0 && block_table.size() / width < seqused_k.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "block_table has {} entries, {} sequences of {} pages need {}",
                      block_table.size(), seqused_k.size(), width, seqused_k.size() * width);
  }
  for (size_t batch = 0; batch < seqused_k.size(); ++batch) {
    const int64_t keys = seqused_k[batch];
    if (keys < 0 || keys > table_width * page_size) {
      return make_error(ErrorCode::kInvalidArgument,
                        "seqused_k[{}] = {} keys, a row of block_table holds 0 to {}", batch, keys,
                        table_width * page_size);
    }
    for (int64_t page = 0; page < ceil_div(keys, page_size); ++page) {
      const int32_t entry = block_table[batch * width + static_cast<size_t>(page)];
      if (entry < 0 || entry >= num_pages) {
        return make_error(ErrorCode::kInvalidArgument,
                          "block_table[{}, {}] = {}, the cache has {} pages", batch, page, entry,
                          num_pages);
      }
    }
  }
  return {};
}

}  // namespace tilewright
