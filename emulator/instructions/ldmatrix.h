// Which shared-memory bytes ldmatrix, stmatrix and movmatrix move to which lane and register: pure
// index maps, without memory. m8n8 b16 forms (sm_75 and later) and stmatrix's (sm_90); the b8 forms
// of sm_100 are not built.
#pragma once

#include <cstdint>

namespace tilewright::emulator {

// The lane whose address operand names row r (0..7) of matrix j (0..3).
constexpr int matrix_row_lane(int matrix, int row) { return 8 * matrix + row; }

// A 16-bit element of an 8×8 matrix.
struct MatrixElement {
  int row = 0;
  int column = 0;
  bool operator==(const MatrixElement&) const = default;
};

// The element held in half `half` (0 low, 1 high) of a lane's register.
constexpr MatrixElement matrix_element(int lane, int half, bool transposed) {
  const int group = lane >> 2;
  const int pair = 2 * (lane & 3) + half;
  return transposed ? MatrixElement{pair, group} : MatrixElement{group, pair};
}

// ldmatrix: rows[8·j + r] points at the 16 bytes of row r of matrix j; registers[j] at 32 lanes.
// count is 1, 2 or 4.
void load_matrices(int count, bool transposed, const uint8_t* const* rows,
                   uint32_t* const* registers);
// stmatrix: the inverse.
void store_matrices(int count, bool transposed, const uint32_t* const* registers,
                    uint8_t* const* rows);
// movmatrix.trans: d may alias a.
void transpose_matrix(const uint32_t* a, uint32_t* d);

}  // namespace tilewright::emulator
