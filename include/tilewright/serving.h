// Help for servers: the number of key parts of a launch, and checks of what only the host can look
// at before it is uploaded. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tilewright/kernel.h"
#include "tilewright/result.h"

namespace tilewright {

// How many parts (`splits=N`) of the keys keep a device of `num_sms` multiprocessors busy with the
// attention of a complete shape: 1 where its blocks do so anyway, never more than there are tiles
// of keys. Where queries are short, counts one block for a whole group of query heads, as kernels
// with `splits` do whose problem names seqlen_q and both numbers of heads, tile lists apart.
int64_t choose_num_splits(int num_sms, const Shape& shape);

// Prefix sums of packed sequences: from 0, never falling, up to `total` rows; no sequence longer
// than `longest`. kInvalidArgument names tensor, entry and value.
Status check_cu_seqlens(std::string_view name, std::span<const int32_t> cu_seqlens, int64_t total,
                        int64_t longest);

// A paged cache: every sequence's keys fit its row of the table [batch, table_width], and lie in
// pages below num_pages. Entries beyond a sequence's keys are not looked at.
Status check_pages(std::span<const int32_t> block_table, int64_t table_width,
                   std::span<const int32_t> seqused_k, int64_t page_size, int64_t num_pages);

}  // namespace tilewright
