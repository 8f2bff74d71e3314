#include "generator/packed_heads.h"

#include "generator/launch_size.h"

namespace tilewright {

int64_t heads_to_pack(int64_t seqlen_q, int64_t group_size, int64_t tile_m) {
  // Rows stay within 32 bits, by far: of so many rows no tile is left unfilled.
  constexpr int64_t kManyRows = 1 << 24;
  if (group_size <= 1 || seqlen_q > kManyRows / group_size) return 1;
  const int64_t apart = group_size * ceil_div(seqlen_q, tile_m);
  const int64_t packed = ceil_div(group_size * seqlen_q, tile_m);
  return 10 * packed <= 9 * apart ? group_size : 1;
}

}  // namespace tilewright
