#include "generator/forward_launch.h"

#include "core/check.h"
#include "generator/bind_tensors.h"
#include "generator/block_order.h"
#include "generator/forward_problem.h"
#include "generator/launch_size.h"

namespace tilewright {
namespace {

// A config with packed heads is of one size of group, and its rows are counted in 32 bits.
Status check_packing(int packed_heads, int64_t group_size, int64_t seqlen_q) {
  if (group_size % packed_heads != 0) {
    return make_error(ErrorCode::kUnsupportedProblem,
                      "a kernel that packs {} query heads does not take groups of {}", packed_heads,
                      group_size);
  }
  if (saturating_product(seqlen_q, packed_heads) > kMaxLength) {
    return make_error(ErrorCode::kUnsupportedProblem,
                      "seqlen_q={} times {} packed heads exceeds {} rows", seqlen_q, packed_heads,
                      kMaxLength);
  }
  return {};
}

}  // namespace

bool has_no_output(const Shape& shape) {
  return shape.batch == 0 || shape.num_heads_q == 0 || shape.seqlen_q == 0;
}

Result<attention::ForwardParams> forward_params(const Problem& problem, const ForwardTile& tile,
                                                const Arch& arch, const Shape& shape) {
  const int64_t group_size = shape.num_heads_q / shape.num_heads_kv;
  TW_TRY(check_packing(tile.packed_heads, group_size, shape.seqlen_q));
  TW_TRY(check_grid(saturating_product(shape.batch, shape.num_heads_q), shape));
  // A whole group of query heads shares one K and V.
  TW_ASSIGN(const attention::BlockOrder order,
            block_order({.heads = shape.num_heads_q / tile.packed_heads,
                         .tiles = ceil_div(shape.seqlen_q * tile.packed_heads, tile.tile_m),
                         .shared_bytes = shape.seqlen_k * (tile.head_dim_qk + tile.head_dim_v) * 2,
                         .sharers = group_size / tile.packed_heads},
                        shape, arch));

  attention::ForwardParams params = {};
  params.num_heads_q = static_cast<int>(shape.num_heads_q);
  params.group_size = static_cast<int>(group_size);
  params.seqlen_q = static_cast<int>(shape.seqlen_q);
  params.seqlen_k = static_cast<int>(shape.seqlen_k);
  params.total_q = problem.varlen ? static_cast<int>(shape.total_q) : 0;
  params.total_k = problem.varlen && !problem.page_size ? static_cast<int>(shape.total_k) : 0;
  params.num_query_tiles = order.num_tiles;
  params.section_size = order.section_size;
  params.num_batch_heads = order.num_pairs * tile.packed_heads;
  const ScoreFactors factors = score_factors(problem, tile.head_dim_qk);
  params.scale_log2 = factors.scale_log2;
  params.tanh_scale = factors.tanh_scale;
  return params;
}

Dim3 forward_grid(const attention::ForwardParams& params, int packed_heads) {
  return along_x(int64_t{params.num_batch_heads} / packed_heads * params.num_query_tiles);
}

void set_row_bounds(const Problem& problem, const Shape& shape, bool lengths_vary,
                    attention::ForwardParams& params) {
  if (lengths_vary) {
    const AlignedInterval interval = aligned_interval(problem);
    params.row_left = -interval.left;
    params.row_right = interval.right;
    params.aligned_right = interval.aligned_right;
  } else {
    const RowInterval interval = row_interval(problem, shape.seqlen_q, shape.seqlen_k);
    params.row_left = interval.row_left;
    params.row_right = interval.row_right;
  }
}

void bind_forward(const BoundTensors& tensors, attention::ForwardParams& params) {
  bind_attention(tensors, params);
  params.cu_seqlens_q = static_cast<const int*>(tensors[TensorId::kCuSeqlensQ].data);
  params.cu_seqlens_k = static_cast<const int*>(tensors[TensorId::kCuSeqlensK].data);
}

}  // namespace tilewright
