#include "io_model/machine.h"

#include "core/check.h"

namespace tilewright::io_model {

Status Machine::status() const {
  if (first_excess_ == 0) return {};
  return make_error(ErrorCode::kOutOfMemory, "{} words were resident in a fast memory of {}",
                    first_excess_, fast_words_);
}

Matrix Machine::matrix(int64_t rows, int64_t cols, double fill) const {
  Matrix matrix{rows, cols, {}};
  if (arithmetic()) matrix.values.assign(static_cast<size_t>(rows * cols), fill);
  return matrix;
}

Tile Machine::accumulator(int64_t rows, int64_t cols, double fill) {
  Tile tile(this, rows, cols, accumulator_words_);
  if (arithmetic()) tile.values_.assign(static_cast<size_t>(rows * cols), fill);
  return tile;
}

void Machine::copy_words(const Matrix& from, Span rows, Span cols, Tile& tile) {
  tile.values_.reserve(static_cast<size_t>(rows.size() * cols.size()));
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    for (int64_t col = cols.begin; col < cols.end; ++col) {
      tile.values_.push_back(from.at(row, col));
      ++reads_;
    }
  }
}

void Machine::store(const Tile& tile, Matrix& to, Span rows, Span cols) {
  TW_CHECK(tile.rows() == rows.size() && tile.cols() == cols.size() && rows.end <= to.rows &&
               cols.end <= to.cols,
           "a {}x{} tile into rows {}..{} cols {}..{} of a {}x{} matrix", tile.rows(), tile.cols(),
           rows.begin, rows.end, cols.begin, cols.end, to.rows, to.cols);
  if (!arithmetic()) {
    writes_ += rows.size() * cols.size();
    return;
  }
  for (int64_t row = 0; row < tile.rows(); ++row) {
    store_row(tile, row, to, rows.begin + row, cols);
  }
}

void Machine::store_row(const Tile& tile, int64_t row, Matrix& to, int64_t to_row, Span cols) {
  if (!arithmetic()) {
    writes_ += cols.size();
    return;
  }
  for (int64_t col = 0; col < cols.size(); ++col) {
    to.at(to_row, cols.begin + col) = tile.at(row, col);
    ++writes_;
  }
}

void multiply_add(Machine& machine, Tile& sum, const Operand& a, const Operand& b, double scale) {
  TW_CHECK(a.rows() == sum.rows() && b.cols() == sum.cols() && a.cols() == b.rows(),
           "({}x{}) += ({}x{}) ({}x{})", sum.rows(), sum.cols(), a.rows(), a.cols(), b.rows(),
           b.cols());
  if (!machine.arithmetic()) return;
  for (int64_t row = 0; row < sum.rows(); ++row) {
    for (int64_t inner = 0; inner < a.cols(); ++inner) {
      const double factor = scale * a.at(row, inner);
      for (int64_t col = 0; col < sum.cols(); ++col) {
        sum.at(row, col) += factor * b.at(inner, col);
      }
    }
  }
}

}  // namespace tilewright::io_model
