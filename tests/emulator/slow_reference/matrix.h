// One element of a matrix product, and where elements lie in registers: the ISA's fragment tables,
// exact integers, and the published model of the hardware's sum (MMA-Sim, arXiv 2511.10909).
#pragma once

#include <cstdint>
#include <vector>

#include "tests/emulator/slow_reference/exact.h"

namespace tilewright::emulator::slow {

// How a float product sums.
struct SumModel {
  bool fused = true;          // else: f32 fused multiply-add in ascending k
  int fraction_bits = 25;     // kept of each aligned term
  int chunks = 1;             // parts of K, one after the other
  bool short_result = false;  // an f32 result keeps fraction_bits of its fraction
};
// Of a target (compute capability times ten) and the operand type.
SumModel hardware_model(int target, ptx::Type a, bool is_wgmma, int k);

// c + sum of a[i] * b[i], as bits of the result type. `negate`: of each product.
uint64_t float_dot(const SumModel& model, ptx::Type result, ptx::Type a_type, ptx::Type b_type,
                   const std::vector<uint64_t>& a, const std::vector<uint64_t>& b, uint64_t c);
uint64_t integer_dot(ptx::Type a_type, ptx::Type b_type, bool satfinite,
                     const std::vector<uint64_t>& a, const std::vector<uint64_t>& b, uint64_t c);

struct Cell {
  int row = 0;
  int column = 0;
};
// Element i of lane `lane`'s registers, low bits first. `bits`: of an element (tf32: 32).
Cell a_fragment(int bits, int lane, int i);
Cell b_fragment(int bits, int lane, int i);  // row: k, column: n
Cell d_fragment(int lane, int i);            // rows of m8: i < 2 only

// A matrix of bit patterns.
struct Matrix {
  int rows = 0;
  int columns = 0;
  std::vector<uint64_t> values;
  Matrix(int num_rows, int num_columns)
      : rows(num_rows), columns(num_columns), values(static_cast<size_t>(num_rows * num_columns)) {}
  uint64_t& at(int row, int column) { return values[static_cast<size_t>(row * columns + column)]; }
  uint64_t at(int row, int column) const {
    return values[static_cast<size_t>(row * columns + column)];
  }
  uint64_t& at(Cell cell) { return at(cell.row, cell.column); }
  uint64_t at(Cell cell) const { return at(cell.row, cell.column); }
};
// Row of A and column of B.
std::vector<uint64_t> row_of(const Matrix& a, int row);
std::vector<uint64_t> column_of(const Matrix& b, int column);

}  // namespace tilewright::emulator::slow
