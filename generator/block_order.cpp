#include "generator/block_order.h"

#include <algorithm>

#include "core/check.h"
#include "generator/launch_size.h"

namespace tilewright {

Result<attention::BlockOrder> block_order(const BlockGrid& grid, const Shape& shape,
                                          const Arch& arch) {
  const int64_t num_pairs = saturating_product(shape.batch, grid.heads);
  TW_TRY(check_grid(saturating_product(num_pairs, grid.tiles), shape));
  const int64_t together =
      std::max<int64_t>(1, arch.l2_bytes / 2 / std::max<int64_t>(1, grid.shared_bytes));
  const int64_t section_size =
      together > num_pairs / grid.sharers ? num_pairs : together * grid.sharers;
  return attention::BlockOrder{.num_tiles = static_cast<int>(grid.tiles),
                               .section_size = static_cast<int>(section_size),
                               .num_pairs = static_cast<int>(num_pairs)};
}

int64_t num_blocks(const attention::BlockOrder& order) {
  return int64_t{order.num_pairs} * order.num_tiles;
}

}  // namespace tilewright
