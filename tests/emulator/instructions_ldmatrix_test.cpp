// ldmatrix, stmatrix and movmatrix against the ISA's tables, element by element.
#include "emulator/instructions/ldmatrix.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/emulator/instructions_reference.h"

namespace tilewright::emulator {
namespace {

// Four matrices whose rows lie apart; element (matrix, row, column) holds its own coordinates.
struct Rows {
  Rows() {
    for (int lane = 0; lane < 32; ++lane) {
      for (int column = 0; column < 8; ++column) {
        const uint16_t value = code(lane / 8, lane % 8, column);
        std::memcpy(&bytes[lane][2 * column], &value, 2);
      }
      // Scattered, so that only the given address finds a row.
      source[lane] = bytes[lane];
    }
  }
  static uint16_t code(int matrix, int row, int column) {
    return static_cast<uint16_t>(matrix << 8 | row << 4 | column);
  }
  uint8_t bytes[32][48] = {};
  const uint8_t* source[32];
};

uint32_t pair(int low, int high) {
  return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16;
}

TEST(Ldmatrix, EveryLaneAndRegister) {
  const Rows rows;
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      uint32_t words[4][32];
      std::memset(words, 0xee, sizeof(words));
      uint32_t* const registers[4] = {words[0], words[1], words[2], words[3]};
      load_matrices(count, transposed, rows.source, registers);
      for (int j = 0; j < 4; ++j) {
        for (int lane = 0; lane < 32; ++lane) {
          const int g = lane / 4, t = lane % 4;
          const uint32_t plain = pair(Rows::code(j, g, 2 * t), Rows::code(j, g, 2 * t + 1));
          const uint32_t turned = pair(Rows::code(j, 2 * t, g), Rows::code(j, 2 * t + 1, g));
          ASSERT_EQ(words[j][lane], j >= count   ? 0xeeeeeeeeu
                                    : transposed ? turned
                                                 : plain)
              << j << " " << lane;
        }
      }
    }
  }
}

TEST(Ldmatrix, WorkedCaseOfLane13) {
  EXPECT_EQ(matrix_row_lane(2, 3), 19);
  EXPECT_EQ(matrix_element(13, 0, false), (MatrixElement{3, 2}));
  EXPECT_EQ(matrix_element(13, 1, false), (MatrixElement{3, 3}));
  EXPECT_EQ(matrix_element(13, 0, true), (MatrixElement{2, 3}));
  EXPECT_EQ(matrix_element(13, 1, true), (MatrixElement{3, 3}));
}

TEST(Stmatrix, IsTheInverse) {
  const Rows rows;
  for (const int count : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      uint32_t words[4][32];
      uint32_t* const registers[4] = {words[0], words[1], words[2], words[3]};
      const uint32_t* const sources[4] = {words[0], words[1], words[2], words[3]};
      load_matrices(count, transposed, rows.source, registers);
      uint8_t stored[32][48];
      std::memset(stored, 0xee, sizeof(stored));
      uint8_t* targets[32];
      for (int lane = 0; lane < 32; ++lane) targets[lane] = stored[lane];
      store_matrices(count, transposed, sources, targets);
      for (int lane = 0; lane < 32; ++lane) {
        if (lane < 8 * count) {
          ASSERT_EQ(std::memcmp(stored[lane], rows.bytes[lane], 16), 0);
        } else {
          ASSERT_EQ(stored[lane][0], 0xee);
        }
        ASSERT_EQ(stored[lane][16], 0xee);
      }
    }
  }
}

TEST(Stmatrix, WritesElementsWhereTheTableSays) {
  uint32_t words[32];
  for (int lane = 0; lane < 32; ++lane) words[lane] = pair(2 * lane, 2 * lane + 1);
  const uint32_t* const sources[1] = {words};
  uint8_t stored[8][16];
  uint8_t* targets[8];
  for (int row = 0; row < 8; ++row) targets[row] = stored[row];
  store_matrices(1, true, sources, targets);
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    uint16_t low = 0, high = 0;
    std::memcpy(&low, &stored[2 * t][2 * g], 2);
    std::memcpy(&high, &stored[2 * t + 1][2 * g], 2);
    ASSERT_EQ(low, 2 * lane);
    ASSERT_EQ(high, 2 * lane + 1);
  }
}

TEST(Movmatrix, Transposes) {
  uint32_t a[32];
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    a[lane] = pair(g * 8 + 2 * t, g * 8 + 2 * t + 1);
  }
  transpose_matrix(a, a);
  for (int lane = 0; lane < 32; ++lane) {
    const int g = lane / 4, t = lane % 4;
    ASSERT_EQ(a[lane], pair(2 * t * 8 + g, (2 * t + 1) * 8 + g));
  }
}

}  // namespace
}  // namespace tilewright::emulator
