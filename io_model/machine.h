// The two-level memory of the red-blue pebble game: slow memory holds matrices, fast memory at most
// M words of tiles, and only tiles take part in arithmetic. Words read and written are counted
// apart, residency is checked at every tile. With arithmetic off nothing is stored: the same
// programs then only count, slab by slab. A scalar on its way through an operation is not counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/check.h"
#include "io_model/count.h"
#include "io_model/visible_pairs.h"
#include "tilewright/result.h"

namespace tilewright::io_model {

// In slow memory. Starts filled with `fill`, which costs nothing.
struct Matrix {
  int64_t rows = 0, cols = 0;
  std::vector<double> values;  // row-major; empty where arithmetic is off

  double& at(int64_t row, int64_t col) { return values[static_cast<size_t>(row * cols + col)]; }
  double at(int64_t row, int64_t col) const {
    return values[static_cast<size_t>(row * cols + col)];
  }
};

class Machine;

// In fast memory, from its making to its end.
class Tile {
 public:
  Tile(Tile&& other) noexcept
      : machine_(std::exchange(other.machine_, nullptr)),
        rows_(other.rows_),
        cols_(other.cols_),
        words_(other.words_),
        values_(std::move(other.values_)) {}
  Tile(const Tile&) = delete;
  Tile& operator=(const Tile&) = delete;
  Tile& operator=(Tile&&) = delete;
  inline ~Tile();

  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  double& at(int64_t row, int64_t col = 0) {
    return values_[static_cast<size_t>(row * cols_ + col)];
  }
  double at(int64_t row, int64_t col = 0) const {
    return values_[static_cast<size_t>(row * cols_ + col)];
  }

 private:
  friend class Machine;
  inline Tile(Machine* machine, int64_t rows, int64_t cols, int64_t words_each);

  Machine* machine_;
  int64_t rows_, cols_, words_;
  std::vector<double> values_;
};

enum class Arithmetic { kOn, kOff };

class Machine {
 public:
  // `accumulator_words`: what an element of an accumulator tile weighs in fast memory.
  Machine(int64_t fast_words, Arithmetic arithmetic, int64_t accumulator_words = 1)
      : fast_words_(fast_words), accumulator_words_(accumulator_words), arithmetic_(arithmetic) {}
  // Tiles hold its address.
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;

  bool arithmetic() const { return arithmetic_ == Arithmetic::kOn; }

  Matrix matrix(int64_t rows, int64_t cols, double fill = 0.0) const;
  // An accumulator, filled for free.
  Tile accumulator(int64_t rows, int64_t cols, double fill = 0.0);
  // Copies words from slow memory, each counted. load_accumulator gives them an accumulator's room.
  Tile load(const Matrix& from, Span rows, Span cols) { return load_words(from, rows, cols, 1); }
  Tile load_accumulator(const Matrix& from, Span rows, Span cols) {
    return load_words(from, rows, cols, accumulator_words_);
  }
  // Reads rows x cols one row at a time through one row's room: visit(row within `rows`, row tile).
  // With arithmetic off the rows, at least one, are counted together and not visited.
  template <class Visit>
  void stream_rows(const Matrix& from, Span rows, Span cols, const Visit& visit) {
    if (!arithmetic()) {
      load(from, {rows.begin, rows.begin + 1}, cols);
      reads_ += (rows.size() - 1) * cols.size();
      return;
    }
    for (int64_t row = 0; row < rows.size(); ++row) {
      const Tile one = load(from, {rows.begin + row, rows.begin + row + 1}, cols);
      visit(row, one);
    }
  }
  // Copies a tile to slow memory, each word counted. The tile stays.
  void store(const Tile& tile, Matrix& to, Span rows, Span cols);
  // One row of a tile, as above.
  void store_row(const Tile& tile, int64_t row, Matrix& to, int64_t to_row, Span cols);

  int64_t reads() const { return reads_; }
  int64_t writes() const { return writes_; }
  int64_t resident() const { return resident_; }
  int64_t peak() const { return peak_; }
  Traffic traffic() const { return {reads_, writes_, peak_}; }
  // Whether the tiles fitted at all times; the error names the first excess.
  Status status() const;

 private:
  friend class Tile;
  Tile load_words(const Matrix& from, Span rows, Span cols, int64_t words_each) {
    check_inside(from, rows, cols);
    Tile tile(this, rows.size(), cols.size(), words_each);
    if (arithmetic()) {
      copy_words(from, rows, cols, tile);
    } else {
      reads_ += rows.size() * cols.size();
    }
    return tile;
  }
  static void check_inside(const Matrix& matrix, Span rows, Span cols);
  void copy_words(const Matrix& from, Span rows, Span cols, Tile& tile);
  void take(int64_t words) {
    resident_ += words;
    peak_ = std::max(peak_, resident_);
    if (resident_ > fast_words_ && first_excess_ == 0) first_excess_ = resident_;
  }
  void give_back(int64_t words) { resident_ -= words; }

  int64_t fast_words_;
  int64_t accumulator_words_;
  Arithmetic arithmetic_;
  int64_t reads_ = 0, writes_ = 0, resident_ = 0, peak_ = 0;
  int64_t first_excess_ = 0;  // residency when M was first exceeded
};

inline Tile::Tile(Machine* machine, int64_t rows, int64_t cols, int64_t words_each)
    : machine_(machine), rows_(rows), cols_(cols), words_(rows * cols * words_each) {
  machine_->take(words_);
}

inline Tile::~Tile() {
  if (machine_ != nullptr) machine_->give_back(words_);
}

inline void Machine::check_inside(const Matrix& matrix, Span rows, Span cols) {
  TW_CHECK(rows.begin >= 0 && rows.end <= matrix.rows && cols.begin >= 0 && cols.end <= matrix.cols,
           "rows {}..{} cols {}..{} of a {}x{} matrix", rows.begin, rows.end, cols.begin, cols.end,
           matrix.rows, matrix.cols);
}

// --- Arithmetic on tiles. Nothing happens where they hold no values. ---

// A tile as it is, or its transpose.
struct Operand {
  const Tile& tile;
  bool transposed = false;

  int64_t rows() const { return transposed ? tile.cols() : tile.rows(); }
  int64_t cols() const { return transposed ? tile.rows() : tile.cols(); }
  double at(int64_t row, int64_t col) const {
    return transposed ? tile.at(col, row) : tile.at(row, col);
  }
};
inline Operand plain(const Tile& tile) { return {tile, false}; }
inline Operand transposed(const Tile& tile) { return {tile, true}; }

// sum += scale * a b
void multiply_add(Machine& machine, Tile& sum, const Operand& a, const Operand& b,
                  double scale = 1.0);

// [0, length) cut into pieces of `size`, the last one shorter: for (const Span i : blocks(…)).
class Blocks {
 public:
  class Iterator {
   public:
    Iterator(int64_t begin, int64_t size, int64_t length)
        : begin_(begin), size_(size), length_(length) {}
    Span operator*() const { return {begin_, begin_ + size_ < length_ ? begin_ + size_ : length_}; }
    Iterator& operator++() {
      begin_ = begin_ + size_ < length_ ? begin_ + size_ : length_;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return begin_ != other.begin_; }

   private:
    int64_t begin_, size_, length_;
  };

  Blocks(int64_t length, int64_t size) : length_(length), size_(size) {}
  Iterator begin() const { return {0, size_, length_}; }
  Iterator end() const { return {length_, size_, length_}; }

 private:
  int64_t length_, size_;
};
inline Blocks blocks(int64_t length, int64_t size) { return {length, size}; }

}  // namespace tilewright::io_model
