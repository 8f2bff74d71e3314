// Integer and bit instructions against bit-by-bit references, on all pairs of edge values and on
// random operands.
#include "emulator/instructions/integer.h"

#include <gtest/gtest.h>

#include "tests/emulator/instructions_reference.h"

namespace tilewright::emulator {
namespace {

using reference::RandomBits;
__extension__ using Int128 = __int128;
__extension__ using Uint128ForTest = unsigned __int128;

template <class T>
std::vector<T> operands() {
  std::vector<T> result;
  for (const int64_t x : {0LL, 1LL, 2LL, 7LL, 255LL, -1LL, -2LL, -128LL}) {
    result.push_back(static_cast<T>(x));
  }
  result.push_back(std::numeric_limits<T>::max());
  result.push_back(std::numeric_limits<T>::min());
  result.push_back(static_cast<T>(std::numeric_limits<T>::max() - 1));
  RandomBits random(31);
  for (int i = 0; i < 40; ++i) result.push_back(static_cast<T>(random.u64() >> random.below(60)));
  return result;
}

template <class T>
void check_arithmetic() {
  for (const T a : operands<T>()) {
    for (const T b : operands<T>()) {
      const Int128 x = a;
      const Int128 y = b;
      ASSERT_EQ(add_wrapping(a, b), static_cast<T>(x + y));
      ASSERT_EQ(sub_wrapping(a, b), static_cast<T>(x - y));
      // A u64 product needs the full unsigned 128 bits.
      const Uint128ForTest product =
          static_cast<Uint128ForTest>(x) * static_cast<Uint128ForTest>(y);
      ASSERT_EQ(mul_lo(a, b), static_cast<T>(product));
      const Int128 high = std::is_signed_v<T> ? static_cast<Int128>(product) >> kBits<T>
                                              : static_cast<Int128>(product >> kBits<T>);
      ASSERT_EQ(mul_hi(a, b), static_cast<T>(high));
      ASSERT_EQ(mad_lo(a, b, a), static_cast<T>(product + static_cast<Uint128ForTest>(x)));
      ASSERT_EQ(mad_hi(a, b, a), static_cast<T>(high + x));
      if constexpr (sizeof(T) < 8) {
        ASSERT_EQ(mul_wide(a, b), static_cast<Wide<T>>(product));
        ASSERT_EQ(mad_wide(a, b, Wide<T>{7}), static_cast<Wide<T>>(product + 7));
      }
      if (b != 0) {
        ASSERT_EQ(div(a, b), static_cast<T>(x / y));
        ASSERT_EQ(rem(a, b), static_cast<T>(x % y));
      }
      ASSERT_EQ(min(a, b), x < y ? a : b);
      ASSERT_EQ(max(a, b), x < y ? b : a);
      ASSERT_EQ(sad(a, b, T{3}), static_cast<T>(3 + (x < y ? y - x : x - y)));
    }
    if constexpr (std::is_signed_v<T>) {
      ASSERT_EQ(neg(a), static_cast<T>(-Int128{a}));
      ASSERT_EQ(abs(a), static_cast<T>(a < 0 ? -Int128{a} : Int128{a}));
    }
  }
  EXPECT_EQ(div(T{5}, T{0}), static_cast<T>(~T{0}));
  EXPECT_EQ(rem(T{5}, T{0}), T{5});
}
TEST(IntegerInstructions, Arithmetic) {
  check_arithmetic<int16_t>();
  check_arithmetic<uint16_t>();
  check_arithmetic<int32_t>();
  check_arithmetic<uint32_t>();
  check_arithmetic<int64_t>();
  check_arithmetic<uint64_t>();
}

TEST(IntegerInstructions, SaturatingAndTwentyFourBit) {
  for (const int32_t a : operands<int32_t>()) {
    for (const int32_t b : operands<int32_t>()) {
      const auto clamp = [](int64_t x) {
        return static_cast<int32_t>(std::clamp<int64_t>(x, INT32_MIN, INT32_MAX));
      };
      ASSERT_EQ(add_saturating(a, b), clamp(int64_t{a} + b));
      ASSERT_EQ(sub_saturating(a, b), clamp(int64_t{a} - b));
      const int64_t hi = (int64_t{a} * b) >> 32;
      ASSERT_EQ(mad_hi_saturating(a, b, a), clamp(hi + a));
      const auto low_24 = [](int32_t x) {
        const int64_t low = x & 0xffffff;
        return low >= 0x800000 ? low - 0x1000000 : low;
      };
      const int64_t product = low_24(a) * low_24(b);
      ASSERT_EQ(mul24_lo(a, b), static_cast<int32_t>(product));
      ASSERT_EQ(mul24_hi(a, b), static_cast<int32_t>(product >> 16));
      const uint64_t u =
          uint64_t{static_cast<uint32_t>(a) & 0xffffffu} * (static_cast<uint32_t>(b) & 0xffffffu);
      ASSERT_EQ(mul24_lo(static_cast<uint32_t>(a), static_cast<uint32_t>(b)),
                static_cast<uint32_t>(u));
      ASSERT_EQ(mul24_hi(static_cast<uint32_t>(a), static_cast<uint32_t>(b)),
                static_cast<uint32_t>(u >> 16));
    }
  }
}

TEST(IntegerInstructions, CarryChainsMakeWideArithmetic) {
  RandomBits random(32);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t a = i % 5 == 0 ? ~uint64_t{0} : random.u64();
    const uint64_t b = i % 7 == 0 ? (random.u32() & 1u) : random.u64();
    const auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
    const auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
    const auto sum_low = add_carry(low(a), low(b));
    const auto sum_high = add_carry(high(a), high(b), sum_low.carry);
    ASSERT_EQ(uint64_t{sum_high.value} << 32 | sum_low.value, a + b);
    ASSERT_EQ(sum_high.carry, a + b < a);
    const auto difference_low = sub_borrow(low(a), low(b));
    const auto difference_high = sub_borrow(high(a), high(b), difference_low.carry);
    ASSERT_EQ(uint64_t{difference_high.value} << 32 | difference_low.value, a - b);
    ASSERT_EQ(difference_high.carry, a < b);
  }
  EXPECT_TRUE(sub_borrow(0u, 0xffffffffu, true).carry);
  EXPECT_TRUE(add_carry(0xffffffffu, 0xffffffffu, true).carry);
}

TEST(IntegerInstructions, DotProducts) {
  RandomBits random(33);
  for (int i = 0; i < 20000; ++i) {
    const uint32_t a = random.u32(), b = random.u32(), c = random.u32();
    for (const bool a_signed : {false, true}) {
      for (const bool b_signed : {false, true}) {
        const auto byte = [](uint32_t x, int n, bool is_signed) {
          const uint8_t raw = static_cast<uint8_t>(x >> (8 * n));
          return is_signed ? int64_t{static_cast<int8_t>(raw)} : int64_t{raw};
        };
        const auto half = [](uint32_t x, int n, bool is_signed) {
          const uint16_t raw = static_cast<uint16_t>(x >> (16 * n));
          return is_signed ? int64_t{static_cast<int16_t>(raw)} : int64_t{raw};
        };
        int64_t four = c;
        for (int n = 0; n < 4; ++n) four += byte(a, n, a_signed) * byte(b, n, b_signed);
        ASSERT_EQ(dp4a(a, b, c, a_signed, b_signed), static_cast<uint32_t>(four));
        for (const bool high : {false, true}) {
          int64_t two = c;
          for (int n = 0; n < 2; ++n) {
            two += half(a, n, a_signed) * byte(b, n + (high ? 2 : 0), b_signed);
          }
          ASSERT_EQ(dp2a(a, b, c, a_signed, b_signed, high), static_cast<uint32_t>(two));
        }
      }
    }
  }
}

// The ISA's pseudo-code of bfe and bfi, bit by bit.
template <class T>
T obvious_bfe(T a, uint32_t c_position, uint32_t c_length) {
  const uint32_t msb = kBits<T> - 1;
  const uint32_t pos = c_position & 0xff;
  const uint32_t len = c_length & 0xff;
  const auto bit = [&](uint32_t i) { return (static_cast<std::make_unsigned_t<T>>(a) >> i) & 1; };
  const auto sbit = std::is_unsigned_v<T> || len == 0 ? 0 : bit(std::min(pos + len - 1, msb));
  std::make_unsigned_t<T> d = 0;
  for (uint32_t i = 0; i <= msb; ++i) {
    const auto value = i < len && pos + i <= msb ? bit(pos + i) : sbit;
    d |= static_cast<std::make_unsigned_t<T>>(value) << i;
  }
  return static_cast<T>(d);
}
template <class T>
T obvious_bfi(T a, T b, uint32_t c_position, uint32_t c_length) {
  const uint32_t msb = kBits<T> - 1;
  const uint32_t pos = c_position & 0xff;
  const uint32_t len = c_length & 0xff;
  T f = b;
  for (uint32_t i = 0; i < len && pos + i <= msb; ++i) {
    f = (f & ~(T{1} << (pos + i))) | ((a >> i & 1) << (pos + i));
  }
  return f;
}

TEST(IntegerInstructions, BitFields) {
  RandomBits random(34);
  for (int i = 0; i < 50000; ++i) {
    const uint64_t a = random.u64(), b = random.u64();
    const uint32_t pos = static_cast<uint32_t>(i % 4 == 0 ? random.below(300) : random.below(70));
    const uint32_t len = static_cast<uint32_t>(i % 4 == 1 ? random.below(300) : random.below(70));
    const uint32_t a32 = static_cast<uint32_t>(a), b32 = static_cast<uint32_t>(b);
    ASSERT_EQ(bfe(a32, pos, len), obvious_bfe(a32, pos, len)) << pos << " " << len;
    ASSERT_EQ(bfe(static_cast<int32_t>(a32), pos, len),
              obvious_bfe(static_cast<int32_t>(a32), pos, len));
    ASSERT_EQ(bfe(a, pos, len), obvious_bfe(a, pos, len));
    ASSERT_EQ(bfe(static_cast<int64_t>(a), pos, len),
              obvious_bfe(static_cast<int64_t>(a), pos, len));
    ASSERT_EQ(bfi(a32, b32, pos, len), obvious_bfi(a32, b32, pos, len));
    ASSERT_EQ(bfi(a, b, pos, len), obvious_bfi(a, b, pos, len));
  }
}

template <class T>
uint32_t obvious_bfind(T a) {
  for (int i = static_cast<int>(kBits<T>) - 1; i >= 0; --i) {
    const bool bit = (a >> i & 1) != 0;
    if (bit != (a < T{0})) return static_cast<uint32_t>(i);
  }
  return 0xffffffffu;
}

TEST(IntegerInstructions, BitCountsAndReversal) {
  RandomBits random(35);
  for (int i = 0; i < 20000; ++i) {
    const uint64_t a = random.u64() >> random.below(64);
    const uint32_t a32 = static_cast<uint32_t>(random.u32() >> random.below(32));
    uint32_t ones = 0, zeros = 0;
    uint64_t reversed = 0;
    for (int bit = 0; bit < 64; ++bit) {
      ones += a >> bit & 1;
      reversed |= (a >> bit & 1) << (63 - bit);
    }
    while (zeros < 64 && (a >> (63 - zeros) & 1) == 0) ++zeros;
    ASSERT_EQ(popc(a), ones);
    ASSERT_EQ(clz(a), zeros);
    ASSERT_EQ(brev(a), reversed);
    ASSERT_EQ(brev(a32), static_cast<uint32_t>(brev(uint64_t{a32}) >> 32));
    ASSERT_EQ(bfind(a32), obvious_bfind(a32));
    ASSERT_EQ(bfind(static_cast<int32_t>(~a32)), obvious_bfind(static_cast<int32_t>(~a32)));
    ASSERT_EQ(bfind(static_cast<int64_t>(~a)), obvious_bfind(static_cast<int64_t>(~a)));
    if (a32 != 0) {
      ASSERT_EQ(bfind(a32, true), 31 - obvious_bfind(a32));
    }
  }
  EXPECT_EQ(clz(0u), 32u);
  EXPECT_EQ(clz(uint64_t{0}), 64u);
  EXPECT_EQ(bfind(int32_t{-1}), 0xffffffffu);
  EXPECT_EQ(bfind(0u, true), 0xffffffffu);
}

TEST(IntegerInstructions, ShiftsClamp) {
  for (uint32_t n = 0; n < 80; ++n) {
    const uint32_t a = 0x9abcdef1u;
    const uint64_t wide = 0x9abcdef112345678u;
    ASSERT_EQ(shl(a, n), n > 31 ? 0u : a << n);
    ASSERT_EQ(shr(a, n), n > 31 ? 0u : a >> n);
    ASSERT_EQ(shr(static_cast<int32_t>(a), n), n > 31 ? -1 : static_cast<int32_t>(a) >> n);
    ASSERT_EQ(shl(wide, n), n > 63 ? 0u : wide << n);
    ASSERT_EQ(shr(static_cast<int64_t>(wide), n), static_cast<int64_t>(wide) >> std::min(n, 63u));
    ASSERT_EQ(shl(static_cast<uint16_t>(0x8001), n),
              n > 15 ? 0 : static_cast<uint16_t>(0x8001u << n));
    const uint32_t b = 0x13579bdfu;
    for (const bool wrap : {false, true}) {
      const uint32_t amount = wrap ? n % 32 : std::min(n, 32u);
      uint32_t left = 0, right = 0;
      for (uint32_t bit = 0; bit < 32; ++bit) {
        const auto source = [&](uint32_t i) { return i < 32 ? a >> i & 1 : b >> (i - 32) & 1; };
        left |= source(32 + bit - amount) << bit;
        if (bit + amount < 64) right |= source(bit + amount) << bit;
      }
      ASSERT_EQ(shf_left(a, b, n, wrap), left) << n;
      ASSERT_EQ(shf_right(a, b, n, wrap), right) << n;
    }
  }
  EXPECT_EQ(shl(1u, 0xffffffffu), 0u);
}

TEST(IntegerInstructions, MasksAndExtension) {
  for (uint32_t pos = 0; pos < 70; ++pos) {
    for (uint32_t width = 0; width < 70; ++width) {
      uint32_t clamp = 0, wrap = 0;
      for (uint32_t bit = 0; bit < 32; ++bit) {
        if (bit >= pos && bit < pos + width) clamp |= 1u << bit;
        if (bit >= pos % 32 && bit < pos % 32 + width % 32) wrap |= 1u << bit;
      }
      ASSERT_EQ(bmsk(pos, width, false), clamp);
      ASSERT_EQ(bmsk(pos, width, true), wrap);
    }
    const uint32_t a = 0xdeadbeefu;
    const auto extended = [&](uint32_t n, bool is_signed) {
      if (n == 0) return 0u;
      if (n >= 32) return a;
      const uint32_t kept = a % (1u << n);
      return is_signed && (a >> (n - 1) & 1) != 0 ? kept - (1u << n) : kept;
    };
    ASSERT_EQ(szext(a, pos, false), extended(pos, false));
    ASSERT_EQ(szext(a, pos, true), extended(pos % 32, false));
    ASSERT_EQ(static_cast<uint32_t>(szext(static_cast<int32_t>(a), pos, false)),
              extended(pos, true));
  }
}

TEST(IntegerInstructions, FindNthSet) {
  EXPECT_EQ(fns(0xaaaaaaaau, 0, 0), 0xffffffffu);
  EXPECT_EQ(fns(0xaaaaaaaau, 1, 0), 1u);
  EXPECT_EQ(fns(0xaaaaaaaau, 0, 1), 1u);
  EXPECT_EQ(fns(0xaaaaaaaau, 1, 2), 3u);
  EXPECT_EQ(fns(0xaaaaaaaau, 2, 2), 5u);
  EXPECT_EQ(fns(0xaaaaaaaau, 5, -2), 3u);
  EXPECT_EQ(fns(0xaaaaaaaau, 4, -1), 3u);
  EXPECT_EQ(fns(0xaaaaaaaau, 31, 2), 0xffffffffu);
  EXPECT_EQ(fns(1u, 0, INT32_MIN), 0xffffffffu);
}

TEST(IntegerInstructions, PrmtFollowsTheTableOfModes) {
  const uint32_t a = 0x83828180u, b = 0x07060504u;  // byte n holds n, a's with the sign bit
  // Rows of the ISA's table: destination bytes 3 2 1 0 for c = 0..3.
  struct Row {
    PrmtMode mode;
    int bytes[4][4];
  };
  const Row rows[] = {
      {PrmtMode::kF4e, {{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}}},
      {PrmtMode::kB4e, {{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}}},
      {PrmtMode::kRc8, {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}}},
      {PrmtMode::kEcl, {{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}}},
      {PrmtMode::kEcr, {{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}}},
      {PrmtMode::kRc16, {{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}}},
  };
  for (const Row& row : rows) {
    for (uint32_t c = 0; c < 4; ++c) {
      uint32_t want = 0;
      for (int n = 0; n < 4; ++n) {
        const int source = row.bytes[c][3 - n];
        want |= static_cast<uint32_t>(source < 4 ? source | 0x80 : source) << (8 * n);
      }
      EXPECT_EQ(prmt(a, b, c + 0xfffffff0u, row.mode), want) << static_cast<int>(row.mode) << c;
    }
  }
  EXPECT_EQ(prmt(a, b, 0x7531u), 0x07058381u);
  EXPECT_EQ(prmt(a, b, 0x4c0au), 0x0400'80ffu);
  EXPECT_EQ(prmt(a, b, 0xfedcu), 0u);
  EXPECT_EQ(prmt(a, b, 0x3210ba98u), 0xffffffffu);  // only the low 16 bits select
}

TEST(IntegerInstructions, Lop3LooksUpEachBit) {
  const uint32_t a = 0xf0f0f0f0u, b = 0xccccccccu, c = 0xaaaaaaaau;
  for (uint32_t table = 0; table < 256; ++table) {
    ASSERT_EQ(lop3(a, b, c, table), table * 0x01010101u);
  }
}

TEST(IntegerInstructions, PackedHalfwords) {
  const auto minimum = [](int16_t x, int16_t y) { return relu(min(x, y)); };
  EXPECT_EQ(map_halfwords<int16_t>(minimum, 0xffff0005u, 0x00010007u), 0x00000005u);
  const auto sum = [](uint16_t x, uint16_t y) { return add_wrapping(x, y); };
  EXPECT_EQ(map_halfwords<uint16_t>(sum, 0xffff0001u, 0x00020003u), 0x00010004u);
}

}  // namespace
}  // namespace tilewright::emulator
