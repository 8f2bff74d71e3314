// Query tiles whose rows belong to several query heads of one key head, so that one block reads K
// and V once for all of them. Row r is query r / kHeads of the block's (r % kHeads)-th head: the
// query never falls from row to row, and the masks' intervals grow with the row as they do with the
// query. kHeads is a constant, so that a division is a multiplication or a shift.
#pragma once

#include "attention/params/tensor_strides.h"

namespace tilewright::attention {

struct RowPlace {
  int query;
  int head;  // from the block's first
};

template <int kHeads>
__device__ __forceinline__ RowPlace place_of_row(int row) {
  // Rows are not negative, and unsigned division is the cheaper one.
  const int query = static_cast<int>(static_cast<unsigned>(row) / static_cast<unsigned>(kHeads));
  return {query, row - query * kHeads};
}

// For TileLoader: where the rows lie.
template <int kHeads>
struct PackedRows {
  static constexpr bool even() { return false; }
  long long row_bytes;
  long long head_bytes;

  __device__ __forceinline__ explicit PackedRows(const TensorStrides& strides)
      : row_bytes(strides.row * 2), head_bytes(strides.head * 2) {}

  __device__ __forceinline__ long long offset(int row) const {
    const RowPlace place = place_of_row<kHeads>(row);
    return place.query * row_bytes + place.head * head_bytes;
  }
};

}  // namespace tilewright::attention
