#include "reference/paged.h"

#include "core/check.h"

namespace tilewright::reference {

Result<SequenceKeys> gather_keys(const Sizes& sizes, const PagedKeys& cache, int64_t batch) {
  TW_CHECK(cache.page_size > 0 && batch < std::ssize(cache.seqused_k) &&
               (batch + 1) * cache.table_width <= std::ssize(cache.block_table),
           "sequence {} of a table of {} rows", batch, cache.seqused_k.size());
  const int64_t row_k = sizes.num_heads_kv * sizes.head_dim_qk;
  const int64_t row_v = sizes.num_heads_kv * sizes.head_dim_v;
  const int64_t elements = cache.page_size * row_k;
  const int64_t num_pages = elements == 0 ? INT64_MAX : std::ssize(cache.k_pages) / elements;
  const int64_t seqlen_k = cache.seqused_k[static_cast<size_t>(batch)];
  if (seqlen_k < 0 || seqlen_k > cache.table_width * cache.page_size) {
    return make_error(ErrorCode::kInvalidArgument,
                      "sequence {} uses {} keys, its {} pages of {} hold {}", batch, seqlen_k,
                      cache.table_width, cache.page_size, cache.table_width * cache.page_size);
  }
  SequenceKeys result{.sizes = sizes, .k = {}, .v = {}};
  result.sizes.batch = 1;
  result.sizes.seqlen_k = seqlen_k;
  for (int64_t key = 0; key < seqlen_k; ++key) {
    const int64_t page =
        cache.block_table[static_cast<size_t>(batch * cache.table_width + key / cache.page_size)];
    if (page < 0 || page >= num_pages) {
      return make_error(ErrorCode::kInvalidArgument, "key {} of sequence {} is in page {} of {}",
                        key, batch, page, num_pages);
    }
    const int64_t row = page * cache.page_size + key % cache.page_size;
    const auto k =
        cache.k_pages.subspan(static_cast<size_t>(row * row_k), static_cast<size_t>(row_k));
    const auto v =
        cache.v_pages.subspan(static_cast<size_t>(row * row_v), static_cast<size_t>(row_v));
    result.k.insert(result.k.end(), k.begin(), k.end());
    result.v.insert(result.v.end(), v.begin(), v.end());
  }
  return result;
}

}  // namespace tilewright::reference
