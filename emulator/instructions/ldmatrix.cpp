#include "emulator/instructions/ldmatrix.h"

#include <cstring>

#include "emulator/instructions/types.h"

namespace tilewright::emulator {
namespace {

constexpr int kRows = 8;

uint32_t halfword(const uint8_t* row, int column) {
  uint16_t value;
  std::memcpy(&value, row + 2 * column, 2);
  return value;
}
void set_halfword(uint8_t* row, int column, uint32_t value) {
  const uint16_t narrow = static_cast<uint16_t>(value & 0xffffu);
  std::memcpy(row + 2 * column, &narrow, 2);
}

}  // namespace

void load_matrices(int count, bool transposed, const uint8_t* const* rows,
                   uint32_t* const* registers) {
  for (int j = 0; j < count; ++j) {
    const uint8_t* const* matrix = rows + kRows * j;
    if (!transposed) {
      for (int row = 0; row < kRows; ++row) std::memcpy(registers[j] + 4 * row, matrix[row], 16);
      continue;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      const MatrixElement low = matrix_element(lane, 0, true);
      const MatrixElement high = matrix_element(lane, 1, true);
      registers[j][lane] =
          halfword(matrix[low.row], low.column) | halfword(matrix[high.row], high.column) << 16;
    }
  }
}

void store_matrices(int count, bool transposed, const uint32_t* const* registers,
                    uint8_t* const* rows) {
  for (int j = 0; j < count; ++j) {
    uint8_t* const* matrix = rows + kRows * j;
    if (!transposed) {
      for (int row = 0; row < kRows; ++row) std::memcpy(matrix[row], registers[j] + 4 * row, 16);
      continue;
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      const MatrixElement low = matrix_element(lane, 0, true);
      const MatrixElement high = matrix_element(lane, 1, true);
      set_halfword(matrix[low.row], low.column, registers[j][lane]);
      set_halfword(matrix[high.row], high.column, registers[j][lane] >> 16);
    }
  }
}

void transpose_matrix(const uint32_t* a, uint32_t* d) {
  uint8_t bytes[kRows][16];
  std::memcpy(bytes, a, sizeof(bytes));
  const uint8_t* rows[kRows];
  for (int row = 0; row < kRows; ++row) rows[row] = bytes[row];
  uint32_t* const registers[1] = {d};
  load_matrices(1, true, rows, registers);
}

}  // namespace tilewright::emulator
