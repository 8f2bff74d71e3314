// Tiles of 16-bit elements in shared memory: a swizzled layout whose ldmatrix reads are free of
// bank conflicts for every row length, and the copies that fill them from global memory.
#pragma once

#include "attention/params/tensor_strides.h"
#include "attention/types.cuh"
#include "ptx/cp_async.cuh"

namespace tilewright::attention {

// Rows of kColumns elements, in chunks of 16 bytes. ldmatrix reads one chunk column of 8
// consecutive rows at once, so these must fall on the 8 groups of four banks. With c chunks a row
// and g = gcd(c, 8), row r starts at group r·c mod 8: 8/g rows take different multiples of g. The
// remaining factor g comes from xor-ing the chunk index with (r / (8/g)) mod g, which stays inside
// the row because g divides c.
template <int kRows, int kColumns>
struct SharedTile {
  static_assert(kColumns % kChunkElements == 0, "rows of a tile are whole chunks of 8 elements");
  static constexpr int rows() { return kRows; }
  static constexpr int chunks() { return kColumns / kChunkElements; }
  static constexpr int row_bytes() { return chunks() * kChunkBytes; }
  static constexpr int bytes() { return kRows * row_bytes(); }
  static constexpr int swizzle_span() { return greatest_common_divisor(chunks(), 8); }
  // The swizzle repeats after this many rows.
  static constexpr int period() { return 8; }

  static constexpr int swizzle(int row) {
    constexpr int kShift = log2_of_power(8 / swizzle_span());
    return (row >> kShift) & (swizzle_span() - 1);
  }
  // Byte offset of a chunk.
  static constexpr int offset(int row, int chunk) {
    return row * row_bytes() + (chunk ^ swizzle(row)) * kChunkBytes;
  }
};

// One lane's view of a tile for ldmatrix: its row is `row` plus multiples of 8, its chunk `chunk`
// plus even numbers whose bits `chunk` does not have (any, if it is 0 or 1), best known at compile
// time. The chunk bits that the swizzle moves are the low bits of the address, as rows are
// multiples of swizzle_span chunks and tiles are 128-byte aligned; so one xor with an immediate
// steps through them.
template <class Tile>
struct FragmentAddress {
  unsigned lane_offset;

  __device__ __forceinline__ FragmentAddress(int row, int chunk)
      : lane_offset(static_cast<unsigned>(Tile::offset(row, chunk))) {}

  __device__ __forceinline__ unsigned at(unsigned tile_address, int row, int chunk_pair) const {
    constexpr unsigned kMoved = Tile::swizzle_span() - 1;
    const unsigned column = static_cast<unsigned>(2 * chunk_pair);
    return ((tile_address + lane_offset) ^ ((column & kMoved) * kChunkBytes)) +
           (column & ~kMoved) * kChunkBytes + static_cast<unsigned>(row * Tile::row_bytes());
  }
};

// Eight elements from global memory, `dim_bytes` apart if strided.
template <bool kStrided>
__device__ __forceinline__ Chunk load_chunk(const char* from, long long dim_bytes) {
  if constexpr (!kStrided) return *reinterpret_cast<const Chunk*>(from);
  Chunk elements = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const unsigned low = *reinterpret_cast<const unsigned short*>(from + 2 * i * dim_bytes);
    const unsigned high = *reinterpret_cast<const unsigned short*>(from + (2 * i + 1) * dim_bytes);
    elements.words[i] = low | high << 16;
  }
  return elements;
}

// Where the rows of a loader lie, in bytes from the first one: one stride apart, so that they are
// stepped through …
struct EvenRows {
  static constexpr bool even() { return true; }
  long long row_bytes;

  __device__ __forceinline__ explicit EvenRows(const TensorStrides& strides)
      : row_bytes(strides.row * 2) {}
  __device__ __forceinline__ long long offset(int row) const { return row * row_bytes; }
};

// … or in pages of kPageSize rows, which a table names: each is looked up.
template <int kPageSize>
struct PagedRows {
  static constexpr bool even() { return false; }
  long long row_bytes;
  const int* page_table;
  long long page_bytes;

  __device__ __forceinline__ PagedRows(const TensorStrides& strides, const int* table)
      : row_bytes(strides.row * 2), page_table(table), page_bytes(strides.batch * 2) {}
  __device__ __forceinline__ long long offset(int row) const {
    return page_table[row / kPageSize] * page_bytes + row % kPageSize * row_bytes;
  }
};

// Fills tiles from the rows of one head of a tensor. Columns from kValidColumns on, and rows from
// `num_rows` on, become zero: memory outside the tensor never reaches a result, not even as
// 0 · NaN.
template <class Tile, int kValidColumns, int kNumThreads, bool kStrided, class Rows = EvenRows>
struct TileLoader {
  static constexpr int valid_chunks() { return kValidColumns / kChunkElements; }
  // Thread i handles chunk i % chunks of row i / chunks of every pass. A pass of a multiple of the
  // swizzle's period leaves only immediates to add in shared memory.
  static constexpr int pass_rows() {
    const int fitting = kNumThreads / Tile::chunks();
    const int periodic =
        fitting >= Tile::period() ? fitting / Tile::period() * Tile::period() : fitting;
    return periodic < Tile::rows() ? periodic : Tile::rows();
  }
  static constexpr int num_passes() { return ceil_div(Tile::rows(), pass_rows()); }
  static constexpr bool all_threads_load() { return pass_rows() * Tile::chunks() == kNumThreads; }
  static_assert(pass_rows() > 0, "a row has more chunks than the block has threads");

  Rows rows;
  const char* thread_base;  // this thread's chunk: of rows [0, pass_rows) if even, else of row 0
  long long dim_bytes;      // between elements; used by strided tensors only
  int row;
  int chunk;

  __device__ __forceinline__ TileLoader(const void* tensor, const TensorStrides& strides,
                                        long long batch, long long head, int thread)
      : TileLoader(tensor, strides, batch, head, thread, Rows(strides)) {}
  __device__ __forceinline__ TileLoader(const void* tensor, const TensorStrides& strides,
                                        long long batch, long long head, int thread,
                                        const Rows& where)
      : rows(where),
        dim_bytes(kStrided ? strides.dim * 2 : 2),
        row(thread / Tile::chunks()),
        chunk(thread % Tile::chunks()) {
    thread_base = static_cast<const char*>(tensor) +
                  (batch * strides.batch + head * strides.head) * 2 +
                  (Rows::even() ? rows.offset(row) : 0) + chunk * kChunkElements * dim_bytes;
  }

  // Starts copying rows [first_row, first_row + Tile::rows()). kChecked: rows from `num_rows` of
  // the tensor on do not exist.
  template <bool kChecked>
  __device__ __forceinline__ void load(unsigned tile_address, int first_row, int num_rows) const {
    if (!all_threads_load() && row >= pass_rows()) return;
    const char* from = thread_base;
    if constexpr (Rows::even()) from += rows.offset(first_row);
    const unsigned to = tile_address + static_cast<unsigned>(Tile::offset(row, chunk));
#pragma unroll
    for (int pass = 0; pass < num_passes(); ++pass) {
      const int tile_row = row + pass * pass_rows();
      if (num_passes() * pass_rows() != Tile::rows() && tile_row >= Tile::rows()) break;
      unsigned address = to + static_cast<unsigned>(pass * pass_rows() * Tile::row_bytes());
      if constexpr (pass_rows() % Tile::period() != 0) {
        address = tile_address + static_cast<unsigned>(Tile::offset(tile_row, chunk));
      }
      const bool exists = !kChecked || first_row + tile_row < num_rows;
      if constexpr (Rows::even()) {
        copy_chunk<kChecked>(address, from, exists);
        from += rows.offset(pass_rows());
      } else {
        const long long offset = exists ? rows.offset(first_row + tile_row) : 0;
        copy_chunk<kChecked>(address, from + offset, exists);
      }
    }
  }

 private:
  template <bool kChecked>
  __device__ __forceinline__ void copy_chunk(unsigned address, const char* from,
                                             bool row_exists) const {
    constexpr bool kPadded = valid_chunks() != Tile::chunks();
    const bool valid = row_exists && (!kPadded || chunk < valid_chunks());
    if constexpr (kStrided) {
      store_elements(address, from, valid);
    } else if constexpr (kChecked || kPadded) {
      ptx::cp_async_16_or_zero(address, from, valid);
    } else {
      ptx::cp_async_16(address, from);
    }
  }

  __device__ __forceinline__ void store_elements(unsigned address, const char* from,
                                                 bool valid) const {
    Chunk elements = {};
    if (valid) elements = load_chunk<true>(from, dim_bytes);
    *static_cast<Chunk*>(__cvta_shared_to_generic(address)) = elements;
  }
};

}  // namespace tilewright::attention
