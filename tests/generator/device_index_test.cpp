// Index arithmetic of the device templates, compiled for the host: the swizzled layout and the
// extent of masks, against their definitions.
#include <cstddef>
#define __device__
#define __forceinline__ inline
void* __cvta_shared_to_generic(size_t address);  // named, never called
#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "templates/attention/masks.cuh"
#include "templates/attention/params/forward.h"
#include "templates/attention/tile.cuh"

namespace tilewright::attention {
namespace {

// Every element has its own place, and the 8 chunks that ldmatrix reads at once (one chunk column
// of 8 consecutive rows) lie on different groups of four banks.
template <int kColumns>
void check_layout() {
  using Tile = SharedTile<32, kColumns>;
  std::set<int> offsets;
  for (int row = 0; row < 32; ++row) {
    for (int chunk = 0; chunk < Tile::chunks(); ++chunk) offsets.insert(Tile::offset(row, chunk));
  }
  EXPECT_EQ(offsets.size(), size_t{32} * kColumns / 8);
  EXPECT_EQ(*offsets.begin(), 0);
  EXPECT_EQ(*offsets.rbegin(), 32 * kColumns * 2 - 16);
  for (int first_row = 0; first_row < 32; first_row += 8) {
    for (int chunk = 0; chunk < Tile::chunks(); ++chunk) {
      std::set<int> bank_groups;
      for (int row = first_row; row < first_row + 8; ++row) {
        bank_groups.insert(Tile::offset(row, chunk) / 16 % 8);
      }
      EXPECT_EQ(bank_groups.size(), 8u) << "columns " << kColumns << ", chunk " << chunk;
    }
  }
  // What FragmentAddress adds by xor and immediates is the same offset.
  for (int row = 0; row < 16; ++row) {
    for (int chunk = 0; chunk < Tile::chunks(); ++chunk) {
      const FragmentAddress<Tile> address(row, chunk % 2);
      EXPECT_EQ(address.at(1024, 16, chunk / 2),
                static_cast<unsigned>(1024 + Tile::offset(row + 16, chunk)));
    }
  }
}

template <int... kIndices>
void check_layouts(std::integer_sequence<int, kIndices...>) {
  (check_layout<8 * (kIndices + 1)>(), ...);
}

TEST(SharedTile, IsFreeOfBankConflictsForEveryHeadDim) {
  check_layouts(std::make_integer_sequence<int, 32>());
}

// Rows of packed heads: every pair of query and head once, queries never falling.
template <int kHeads>
void check_places() {
  std::set<std::pair<int, int>> places;
  int last_query = 0;
  for (int row = 0; row < 17 * kHeads; ++row) {
    const RowPlace place = place_of_row<kHeads>(row);
    EXPECT_GE(place.query, last_query);
    EXPECT_TRUE(place.head >= 0 && place.head < kHeads);
    last_query = place.query;
    places.emplace(place.query, place.head);
    EXPECT_EQ(PackedRows<kHeads>({0, 1000, 7, 1}).offset(row),
              (place.head * 1000 + place.query * 7) * 2);
  }
  EXPECT_EQ(places.size(), size_t{17} * kHeads);
  EXPECT_EQ(last_query, 16);
}

TEST(PackedRows, HoldEveryPairOfQueryAndHead) {
  check_places<1>();
  check_places<3>();
  check_places<7>();
  check_places<8>();
}

constexpr int kTileM = 16, kTileN = 8;

template <class Mask, int kPackedHeads = 1>
void check_key_tiles(const ForwardParams& params) {
  const Mask mask(params);
  const int num_rows = params.seqlen_q * kPackedHeads;
  for (int query_tile = 0; query_tile * kTileM < num_rows; ++query_tile) {
    const KeyTiles tiles = mask.key_tiles(query_tile);
    for (int tile = 0; tile * kTileN < params.seqlen_k + kTileN; ++tile) {
      bool any = false, all = true;
      for (int i = 0; i < kTileM && query_tile * kTileM + i < num_rows; ++i) {
        const int row = query_tile * kTileM + i;
        const long long query = row / kPackedHeads;
        for (int key = tile * kTileN; key < (tile + 1) * kTileN; ++key) {
          const bool visible = key < params.seqlen_k && key >= params.row_left + query &&
                               key <= params.row_right + query;
          EXPECT_EQ(mask.row(row).visible(key), visible);
          any |= visible;
          all &= visible;
        }
      }
      const bool visited = tile >= tiles.begin && tile < tiles.end;
      EXPECT_TRUE(visited || !any) << "a visible key is left out";
      EXPECT_EQ(visited && tiles.clean(tile), all);
      if (visited && (tile + 1) * kTileN > params.seqlen_k) {
        EXPECT_EQ(tile, tiles.end - 1) << "only the last tile is checked when loaded";
      }
    }
  }
}

TEST(Masks, ExtentsMatchTheDefinition) {
  for (const int seqlen_q : {1, 15, 16, 17, 50}) {
    for (const int seqlen_k : {0, 1, 7, 8, 9, 33, 64}) {
      ForwardParams params = {};
      params.seqlen_q = seqlen_q;
      params.seqlen_k = seqlen_k;
      params.row_left = -(1ll << 40);
      params.row_right = 1ll << 40;
      check_key_tiles<AllVisible<kTileM, kTileN>>(params);
      check_key_tiles<RowRange<kTileM, kTileN>>(params);
      for (const int offset : {seqlen_k - seqlen_q, 0}) {
        for (const auto& [left, right] :
             {std::pair{1 << 20, 0}, {0, 0}, {3, 2}, {20, 30}, {-3, 2}}) {
          params.row_left = offset - left;
          params.row_right = offset + right;
          check_key_tiles<RowRange<kTileM, kTileN>>(params);
          check_key_tiles<RowRange<kTileM, kTileN, 3>, 3>(params);
          check_key_tiles<RowRange<kTileM, kTileN, 8>, 8>(params);
        }
      }
    }
  }
}

}  // namespace
}  // namespace tilewright::attention
