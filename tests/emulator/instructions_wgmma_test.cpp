// wgmma: descriptors, element addresses and register layouts against the ISA's worked cases;
// products against a naive loop over elements addressed one by one.
#include "emulator/instructions/wgmma_descriptor.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "emulator/instructions/mma.h"
#include "tests/emulator/instructions_reference.h"

namespace tilewright::emulator {
namespace {

using reference::RandomBits;

WgmmaDescriptor descriptor(Swizzle swizzle, uint32_t leading, uint32_t stride, uint32_t start = 0) {
  return {.start_address = start,
          .leading_offset = leading,
          .stride_offset = stride,
          .swizzle = swizzle};
}

TEST(WgmmaDescriptor, WorkedAddresses) {
  const auto at = [](const WgmmaDescriptor& d, Major major, int row, int k) {
    return element_address(d, major, 2, row, k);
  };
  EXPECT_EQ(at(descriptor(Swizzle::k128B, 0, 1024), Major::kK, 13, 20), 1784u);
  EXPECT_EQ(at(descriptor(Swizzle::k64B, 0, 512), Major::kK, 6, 21), 410u);
  EXPECT_EQ(at(descriptor(Swizzle::k32B, 0, 256), Major::kK, 6, 11), 198u);
  EXPECT_EQ(at(descriptor(Swizzle::kNone, 128, 256), Major::kK, 9, 13), 410u);
  EXPECT_EQ(at(descriptor(Swizzle::k128B, 8192, 1024), Major::kMn, 70, 11), 9660u);
  EXPECT_EQ(at(descriptor(Swizzle::k64B, 512, 1024), Major::kMn, 40, 9), 1616u);
  // The third k16 step of a 128-byte tile: element (5, 9) is the tile's (5, 41).
  EXPECT_EQ(at(descriptor(Swizzle::k128B, 0, 1024, 64), Major::kK, 5, 9),
            at(descriptor(Swizzle::k128B, 0, 1024), Major::kK, 5, 41));
  // The swizzle looks at the absolute address, whose line 3 flips chunk 0 to chunk 3.
  EXPECT_EQ(at(descriptor(Swizzle::k128B, 0, 1024, 3 * 128), Major::kK, 0, 0), 0x1b0u);
  // Addresses keep 18 bits.
  EXPECT_EQ(at(descriptor(Swizzle::kNone, 128, 256, 0x3ff80), Major::kK, 8, 0), 0x80u);
}

TEST(WgmmaDescriptor, WorkedEncodings) {
  EXPECT_EQ(decode_wgmma_descriptor(0x4000004000010840),
            descriptor(Swizzle::k128B, 16, 1024, 0x8400));
  EXPECT_EQ(decode_wgmma_descriptor(0x4000004000010842).start_address, 0x8420u);
  EXPECT_EQ(decode_wgmma_descriptor(0x4000004002000840),
            descriptor(Swizzle::k128B, 8192, 1024, 0x8400));
  EXPECT_EQ(decode_wgmma_descriptor(0x0000001000080040),
            descriptor(Swizzle::kNone, 128, 256, 0x400));
  EXPECT_EQ(decode_wgmma_descriptor(uint64_t{2} << 62).swizzle, Swizzle::k64B);
  EXPECT_EQ(decode_wgmma_descriptor(uint64_t{3} << 62).swizzle, Swizzle::k32B);
  EXPECT_EQ(decode_wgmma_descriptor(uint64_t{5} << 49).base_offset, 5u);
  for (const int bit : {14, 15, 30, 31, 46, 47, 48, 52, 61}) {
    EXPECT_FALSE(decode_wgmma_descriptor(uint64_t{1} << bit).reserved_bits_clear) << bit;
  }
  EXPECT_TRUE(decode_wgmma_descriptor(0xc00e3fff3fff3fffu).reserved_bits_clear);
}

TEST(WgmmaDescriptor, BaseOffsetMovesThePattern) {
  // A 128-byte-swizzled tile whose pattern starts 3 lines into a repeat: as the aligned tile,
  // moved.
  WgmmaDescriptor moved = descriptor(Swizzle::k128B, 0, 1024, 3 * 128);
  moved.base_offset = 3;
  const WgmmaDescriptor aligned = descriptor(Swizzle::k128B, 0, 1024);
  EXPECT_EQ(element_address(moved, Major::kK, 2, 2, 20) - 3 * 128,
            element_address(aligned, Major::kK, 2, 2, 20));
}

TEST(Swizzle, DefinitionByChunkAndLine) {
  for (uint32_t address = 0; address < 4096; ++address) {
    const uint32_t line = address / 128, chunk = address / 16 % 8;
    const auto moved = [&](uint32_t lines) {
      return line * 128 + (chunk ^ (line % lines)) * 16 + address % 16;
    };
    ASSERT_EQ(swizzle_address(address, Swizzle::kNone), address);
    ASSERT_EQ(swizzle_address(address, Swizzle::k32B), moved(2));
    ASSERT_EQ(swizzle_address(address, Swizzle::k64B), moved(4));
    ASSERT_EQ(swizzle_address(address, Swizzle::k128B), moved(8));
  }
  EXPECT_EQ(swizzle_repeat(Swizzle::k32B), 256u);
  EXPECT_EQ(swizzle_repeat(Swizzle::k64B), 512u);
  EXPECT_EQ(swizzle_repeat(Swizzle::k128B), 1024u);
}

TEST(WgmmaRegisters, WorkedLayouts) {
  EXPECT_EQ(wgmma_d_coordinate(37, 0), (TileCoordinate{17, 2}));
  EXPECT_EQ(wgmma_d_coordinate(37, 3), (TileCoordinate{25, 3}));
  EXPECT_EQ(wgmma_d_coordinate(37, 6), (TileCoordinate{25, 10}));
  EXPECT_EQ(wgmma_d_coordinate(37, 13), (TileCoordinate{17, 27}));
  EXPECT_EQ(wgmma_d_coordinate(127, 7), (TileCoordinate{63, 15}));
  for (int thread = 0; thread < 128; ++thread) {
    const int w = thread / 32, g = thread % 32 / 4, t = thread % 4;
    for (int i = 0; i < 8; ++i) {
      EXPECT_EQ(wgmma_a_coordinate(thread, i, 2),
                (TileCoordinate{16 * w + g + 8 * ((i >> 1) & 1), 2 * t + (i & 1) + 8 * (i >> 2)}));
    }
    for (int i = 0; i < 16; ++i) {
      EXPECT_EQ(wgmma_a_coordinate(thread, i, 1),
                (TileCoordinate{16 * w + g + 8 * ((i >> 2) & 1), 4 * t + (i & 3) + 16 * (i >> 3)}));
    }
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(wgmma_a_coordinate(thread, i, 4),
                (TileCoordinate{16 * w + g + 8 * (i & 1), t + 4 * (i >> 1)}));
    }
  }
}

// A layout that leaves no two elements on one byte, for `rows` rows of 32 bytes.
WgmmaDescriptor dense_layout(Swizzle swizzle, Major major, uint32_t start) {
  const uint32_t span = static_cast<uint32_t>(swizzle);
  if (major == Major::kK) {
    return swizzle == Swizzle::kNone ? descriptor(swizzle, 128, 256, start)
                                     : descriptor(swizzle, 16, 8 * span, start);
  }
  return swizzle == Swizzle::kNone ? descriptor(swizzle, 8192, 128, start)
                                   : descriptor(swizzle, 16 * span, 8 * span, start);
}

TEST(WgmmaDescriptor, GatherAgreesWithElementAddresses) {
  RandomBits random(51);
  std::vector<uint8_t> shared(1 << 18);
  for (uint8_t& byte : shared) byte = static_cast<uint8_t>(random.u32());
  std::vector<uint8_t> tile(256 * 32);
  for (const Swizzle swizzle : {Swizzle::kNone, Swizzle::k32B, Swizzle::k64B, Swizzle::k128B}) {
    for (const Major major : {Major::kK, Major::kMn}) {
      for (const int bytes : {1, 2, 4}) {
        if (major == Major::kMn && bytes != 2) continue;
        const WgmmaDescriptor layout = dense_layout(swizzle, major, 0x2400);
        gather_tile(layout, major, 64, shared.data(), tile.data());
        std::set<uint32_t> seen;
        for (int row = 0; row < 64; ++row) {
          for (int k = 0; k < 32 / bytes; ++k) {
            const uint32_t address = element_address(layout, major, bytes, row, k);
            EXPECT_TRUE(seen.insert(address).second) << "two elements on one address";
            ASSERT_EQ(std::memcmp(&tile[static_cast<size_t>(row * 32 + k * bytes)],
                                  &shared[address], static_cast<size_t>(bytes)),
                      0)
                << row << " " << k;
          }
        }
        // Chunks cover exactly the elements' bytes.
        std::set<uint32_t> covered;
        for (int chunk = 0; chunk < chunk_count(64); ++chunk) {
          const uint32_t address = chunk_address(layout, major, chunk);
          EXPECT_EQ(address % 16, 0u);
          for (uint32_t i = 0; i < 16; i += static_cast<uint32_t>(bytes)) {
            covered.insert(address + i);
          }
        }
        EXPECT_EQ(covered, seen);
      }
    }
  }
}

double decode(MatrixType type, const uint8_t* bytes) {
  uint32_t word = 0;
  std::memcpy(&word, bytes, static_cast<size_t>(element_bytes(type)));
  switch (type) {
    case MatrixType::kF16:
      return reference::f16().value(word);
    case MatrixType::kBf16:
      return reference::bf16().value(word);
    case MatrixType::kTf32:
      return static_cast<double>(reference::float_of(word & 0xffffe000u));
    case MatrixType::kE4m3:
      return reference::e4m3().value(word);
    case MatrixType::kE5m2:
      return reference::e5m2().value(word);
    case MatrixType::kS8:
      return static_cast<int8_t>(word);
    default:
      return word;
  }
}

// Finite elements of moderate size.
void fill(MatrixType type, std::vector<uint8_t>& tile, RandomBits& random) {
  const int bytes = element_bytes(type);
  for (size_t i = 0; i < tile.size(); i += static_cast<size_t>(bytes)) {
    uint32_t word = random.u32();
    const uint32_t exponent = static_cast<uint32_t>(random.below(6));
    if (type == MatrixType::kF16) word = (word & 0x83ffu) | (exponent + 12) << 10;
    if (type == MatrixType::kBf16) word = (word & 0x807fu) | (exponent + 124) << 7;
    if (type == MatrixType::kTf32) word = (word & 0x807fffffu) | (exponent + 124) << 23;
    if (type == MatrixType::kE4m3) word = (word & 0x87u) | (exponent + 4) << 3;
    if (type == MatrixType::kE5m2) word = (word & 0x83u) | (exponent + 12) << 2;
    std::memcpy(&tile[i], &word, static_cast<size_t>(bytes));
  }
}

struct Accumulators {
  explicit Accumulators(int registers) : words(static_cast<size_t>(4 * registers * 32)) {
    for (int warp = 0; warp < 4; ++warp) {
      for (int i = 0; i < registers; ++i) {
        lists[warp].push_back(words.data() + (warp * registers + i) * 32);
      }
    }
  }
  uint32_t element(bool is_f16, int thread, int i) const {
    if (!is_f16) return lists[thread / 32][static_cast<size_t>(i)][thread % 32];
    const uint32_t word = lists[thread / 32][static_cast<size_t>(i / 2)][thread % 32];
    return word >> (16 * (i % 2)) & 0xffffu;
  }
  std::vector<uint32_t> words;
  std::vector<uint32_t*> lists[4];
};

uint32_t expected(const WgmmaForm& form, const WgmmaOperands& operands, const uint8_t* a,
                  const uint8_t* b, TileCoordinate at, uint32_t old) {
  const int k_count = 32 / element_bytes(form.a);
  const bool is_f16 = form.d == AccumulatorType::kF16;
  if (form.d == AccumulatorType::kS32) {
    int64_t sum = operands.scale_d ? static_cast<int32_t>(old) : 0;
    for (int k = 0; k < k_count; ++k) {
      sum += static_cast<int64_t>(decode(form.a, a + at.row * 32 + k) *
                                  decode(form.b, b + at.column * 32 + k));
    }
    if (form.saturate) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
    return static_cast<uint32_t>(sum);
  }
  float sum = 0;
  if (operands.scale_d) {
    sum = is_f16 ? static_cast<float>(reference::f16().value(old)) : reference::float_of(old);
  }
  const float sign = (operands.negate_a ? -1.0f : 1.0f) * (operands.negate_b ? -1.0f : 1.0f);
  for (int k = 0; k < k_count; ++k) {
    const int offset = k * element_bytes(form.a);
    sum = std::fma(sign * static_cast<float>(decode(form.a, a + at.row * 32 + offset)),
                   static_cast<float>(decode(form.b, b + at.column * 32 + offset)), sum);
  }
  return is_f16
             ? reference::f16().round(static_cast<double>(sum), reference::Direction::kNearestEven)
             : reference::bits_of(sum);
}

std::vector<WgmmaForm> forms() {
  using enum MatrixType;
  std::vector<WgmmaForm> result;
  for (const int n : {8, 16, 24, 80, 128, 256}) {
    result.push_back({n, kF16, kF16, AccumulatorType::kF32});
    result.push_back({n, kF16, kF16, AccumulatorType::kF16});
    result.push_back({n, kBf16, kBf16, AccumulatorType::kF32});
    result.push_back({n, kTf32, kTf32, AccumulatorType::kF32});
    result.push_back({n, kE4m3, kE5m2, AccumulatorType::kF32});
    result.push_back({n, kE5m2, kE4m3, AccumulatorType::kF16});
    result.push_back({n, kS8, kU8, AccumulatorType::kS32, n == 16});
  }
  return result;
}

TEST(Wgmma, MatchesTheNaiveLoop) {
  RandomBits random(52);
  for (const WgmmaForm& form : forms()) {
    ASSERT_TRUE(is_legal(form)) << form.n;
    const bool is_f16 = form.d == AccumulatorType::kF16;
    std::vector<uint8_t> a(64 * 32), b(static_cast<size_t>(form.n) * 32);
    fill(form.a, a, random);
    fill(form.b, b, random);
    for (int variant = 0; variant < 4; ++variant) {
      Accumulators d(d_registers(form));
      for (uint32_t& word : d.words) {
        const float x = static_cast<float>(random.below(200) - 100);
        word = is_f16                            ? 0x3c003800u
               : form.d == AccumulatorType::kS32 ? random.u32()
                                                 : reference::bits_of(x);
      }
      WgmmaOperands operands;
      operands.scale_d = variant != 1;
      // With the old D not read, its NaNs must not show.
      if (variant == 1) std::fill(d.words.begin(), d.words.end(), 0xffffffffu);
      operands.negate_a = variant == 2 && form.d != AccumulatorType::kS32;
      operands.negate_b = variant == 3 && form.d != AccumulatorType::kS32;
      operands.b_tile = b.data();
      for (int warp = 0; warp < 4; ++warp) operands.d[warp] = d.lists[warp].data();
      // Variants 1 and 3 hold A in registers, gathered by the layout's formula.
      std::vector<uint32_t> a_words(4 * 4 * 32);
      const uint32_t* a_lists[4][4];
      if (variant % 2 == 1) {
        const int bytes = element_bytes(form.a);
        for (int thread = 0; thread < 128; ++thread) {
          for (int i = 0; i < 16 / bytes; ++i) {
            const TileCoordinate at = wgmma_a_coordinate(thread, i, bytes);
            uint32_t* word =
                &a_words[static_cast<size_t>((thread / 32 * 4 + i * bytes / 4) * 32 + thread % 32)];
            std::memcpy(reinterpret_cast<uint8_t*>(word) + i * bytes % 4,
                        &a[static_cast<size_t>(at.row * 32 + at.column * bytes)],
                        static_cast<size_t>(bytes));
          }
        }
        for (int warp = 0; warp < 4; ++warp) {
          for (int r = 0; r < 4; ++r)
            a_lists[warp][r] = &a_words[static_cast<size_t>((warp * 4 + r) * 32)];
          operands.a_registers[warp] = a_lists[warp];
        }
      } else {
        operands.a_tile = a.data();
      }
      const Accumulators before = [&] {
        Accumulators copy(d_registers(form));
        copy.words = d.words;
        for (int warp = 0; warp < 4; ++warp) {
          for (size_t i = 0; i < copy.lists[warp].size(); ++i) {
            copy.lists[warp][i] = copy.words.data() + (d.lists[warp][i] - d.words.data());
          }
        }
        return copy;
      }();
      wgmma(form, {}, operands);
      for (int thread = 0; thread < 128; ++thread) {
        for (int i = 0; i < form.n / 2; ++i) {
          const TileCoordinate at = wgmma_d_coordinate(thread, i);
          ASSERT_EQ(d.element(is_f16, thread, i), expected(form, operands, a.data(), b.data(), at,
                                                           before.element(is_f16, thread, i)))
              << "n " << form.n << " type " << static_cast<int>(form.a) << " variant " << variant
              << " at " << at.row << "," << at.column;
        }
      }
    }
  }
}

// Hopper's mma.sync and wgmma have the same 25-bit sum for 16-bit types.
TEST(Wgmma, HardwareNumericsAgreeWithMmaSync) {
  RandomBits random(53);
  const WgmmaForm form = {16, MatrixType::kF16, MatrixType::kF16, AccumulatorType::kF32};
  const MmaForm small = {16, 8, 16, MatrixType::kF16, MatrixType::kF16};
  std::vector<uint8_t> a(64 * 32), b(16 * 32);
  fill(form.a, a, random);
  fill(form.b, b, random);
  Accumulators d(8);
  for (uint32_t& word : d.words) word = reference::bits_of(static_cast<float>(random.below(99)));
  const std::vector<uint32_t> old = d.words;
  WgmmaOperands operands;
  operands.a_tile = a.data();
  operands.b_tile = b.data();
  for (int warp = 0; warp < 4; ++warp) operands.d[warp] = d.lists[warp].data();
  wgmma(form, {Numerics::kHardware, 90}, operands);
  for (int warp = 0; warp < 4; ++warp) {
    for (int block = 0; block < 2; ++block) {
      uint32_t a_words[4][32], b_words[2][32], c_words[4][32], d_words[4][32];
      for (int lane = 0; lane < 32; ++lane) {
        const int g = lane / 4, t = lane % 4;
        for (int r = 0; r < 4; ++r) {
          const int row = 16 * warp + g + 8 * (r % 2);
          std::memcpy(&a_words[r][lane], &a[static_cast<size_t>(row * 32 + t * 4 + 16 * (r / 2))],
                      4);
          c_words[r][lane] = old[static_cast<size_t>((warp * 8 + block * 4 + r) * 32 + lane)];
        }
        for (int r = 0; r < 2; ++r) {
          std::memcpy(&b_words[r][lane],
                      &b[static_cast<size_t>((8 * block + g) * 32 + t * 4 + 16 * r)], 4);
        }
      }
      const uint32_t* a_list[] = {a_words[0], a_words[1], a_words[2], a_words[3]};
      const uint32_t* b_list[] = {b_words[0], b_words[1]};
      const uint32_t* c_list[] = {c_words[0], c_words[1], c_words[2], c_words[3]};
      uint32_t* d_list[] = {d_words[0], d_words[1], d_words[2], d_words[3]};
      mma_sync(small, {Numerics::kHardware, 90}, a_list, b_list, c_list, d_list);
      for (int r = 0; r < 4; ++r) {
        for (int lane = 0; lane < 32; ++lane) {
          ASSERT_EQ(d.lists[warp][static_cast<size_t>(block * 4 + r)][lane], d_words[r][lane]);
        }
      }
    }
  }
}

// fp8 on wgmma keeps 13 fraction bits: 1 + 2^-14 is lost, and so is a 14th bit of the result.
TEST(Wgmma, Fp8SumHasThirteenBits) {
  const WgmmaForm form = {8, MatrixType::kE4m3, MatrixType::kE4m3, AccumulatorType::kF32};
  const auto product = [&](uint32_t c, uint8_t x, uint8_t y) {
    std::vector<uint8_t> a(64 * 32), b(8 * 32);
    a[0] = x;
    b[0] = y;
    Accumulators d(4);
    d.words[0] = c;
    WgmmaOperands operands;
    operands.a_tile = a.data();
    operands.b_tile = b.data();
    for (int warp = 0; warp < 4; ++warp) operands.d[warp] = d.lists[warp].data();
    wgmma(form, {Numerics::kHardware, 90}, operands);
    return reference::float_of(d.words[0]);
  };
  EXPECT_EQ(product(0x3f800000u, 0x08, 0x04), 1.0f + 0x1p-13f * 1.0f);  // 2^-6 · 2^-7
  EXPECT_EQ(product(0x3f800000u, 0x08, 0x02), 1.0f);                    // 2^-6 · 2^-8
  // A sum that grows a place loses its last one: 1 + 2^-13 + 1.
  EXPECT_EQ(product(reference::bits_of(1.0f + 0x1p-13f), 0x38, 0x38), 2.0f);
  EXPECT_EQ(product(reference::bits_of(1.0f + 0x1p-14f), 0, 0), 1.0f);
}

TEST(Wgmma, LegalForms) {
  using enum MatrixType;
  EXPECT_FALSE(is_legal(WgmmaForm{12, kF16, kF16}));
  EXPECT_FALSE(is_legal(WgmmaForm{264, kF16, kF16}));
  EXPECT_FALSE(is_legal(WgmmaForm{8, kBf16, kBf16, AccumulatorType::kF16}));
  EXPECT_FALSE(is_legal(WgmmaForm{8, kF16, kBf16}));
  EXPECT_FALSE(is_legal(WgmmaForm{40, kS8, kS8, AccumulatorType::kS32}));
  EXPECT_TRUE(is_legal(WgmmaForm{48, kS8, kU8, AccumulatorType::kS32}));
}

}  // namespace
}  // namespace tilewright::emulator
