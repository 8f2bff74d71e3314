// Integer and bit instructions: exact, wrapping, without undefined behaviour. T is the
// instruction's type (uint16_t … int64_t); shifts, masks and counts are u32 as in the ISA. add,
// sub, and, or, xor, not and selp are the C operators on the unsigned type and have no function
// here.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tilewright::emulator {

namespace detail {
template <class T>
struct WideType;
template <>
struct WideType<uint16_t> {
  using type = uint32_t;
};
template <>
struct WideType<int16_t> {
  using type = int32_t;
};
template <>
struct WideType<uint32_t> {
  using type = uint64_t;
};
template <>
struct WideType<int32_t> {
  using type = int64_t;
};
template <>
struct WideType<uint64_t> {
  __extension__ using type = unsigned __int128;
};
template <>
struct WideType<int64_t> {
  __extension__ using type = __int128;
};
}  // namespace detail

// The type of twice the width.
template <class T>
using Wide = typename detail::WideType<T>::type;
template <class T>
inline constexpr uint32_t kBits = 8 * sizeof(T);

// ---- add, subtract, multiply ----

template <std::integral T>
constexpr T add_wrapping(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
}
template <std::integral T>
constexpr T sub_wrapping(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(static_cast<U>(a) - static_cast<U>(b)));
}

constexpr int32_t clamp_to_s32(int64_t value) {
  if (value > std::numeric_limits<int32_t>::max()) return std::numeric_limits<int32_t>::max();
  if (value < std::numeric_limits<int32_t>::min()) return std::numeric_limits<int32_t>::min();
  return static_cast<int32_t>(value);
}
// add.sat.s32, sub.sat.s32.
constexpr int32_t add_saturating(int32_t a, int32_t b) { return clamp_to_s32(int64_t{a} + b); }
constexpr int32_t sub_saturating(int32_t a, int32_t b) { return clamp_to_s32(int64_t{a} - b); }

// Exact: 16 → 32 and 32 → 64 bits (and 64 → 128 for mul_hi).
template <std::integral T>
constexpr Wide<T> mul_wide(T a, T b) {
  return static_cast<Wide<T>>(static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b));
}
template <std::integral T>
constexpr T mul_lo(T a, T b) {
  using U = std::make_unsigned_t<T>;
  // Through 64 bits at least: a product of promoted 16-bit values would overflow int.
  return static_cast<T>(static_cast<U>(uint64_t{static_cast<U>(a)} * uint64_t{static_cast<U>(b)}));
}
template <std::integral T>
constexpr T mul_hi(T a, T b) {
  return static_cast<T>(mul_wide(a, b) >> kBits<T>);
}
template <std::integral T>
constexpr T mad_lo(T a, T b, T c) {
  return add_wrapping(mul_lo(a, b), c);
}
template <std::integral T>
constexpr T mad_hi(T a, T b, T c) {
  return add_wrapping(mul_hi(a, b), c);
}
template <std::integral T>
constexpr Wide<T> mad_wide(T a, T b, Wide<T> c) {
  return add_wrapping(mul_wide(a, b), c);
}
constexpr int32_t mad_hi_saturating(int32_t a, int32_t b, int32_t c) {
  return add_saturating(mul_hi(a, b), c);
}

// mul24, mad24: the operands' low 24 bits, sign from bit 23 for s32. lo is bits 31..0, hi bits
// 47..16 of the 48-bit product.
template <std::integral T>
constexpr T mul24_lo(T a, T b);
template <std::integral T>
constexpr T mul24_hi(T a, T b);
constexpr int32_t mad24_hi_saturating(int32_t a, int32_t b, int32_t c);

// Extended precision: the result and the carry (borrow) flag out.
template <std::unsigned_integral T>
struct WithCarry {
  T value;
  bool carry;
};
template <std::unsigned_integral T>
constexpr WithCarry<T> add_carry(T a, T b, bool carry_in = false) {
  const T partial = static_cast<T>(a + b);
  const T value = static_cast<T>(partial + (carry_in ? 1 : 0));
  return {value, partial < a || value < partial};
}
// sub.cc, subc: the flag is the borrow.
template <std::unsigned_integral T>
constexpr WithCarry<T> sub_borrow(T a, T b, bool borrow_in = false) {
  const T partial = static_cast<T>(a - b);
  const T value = static_cast<T>(partial - (borrow_in ? 1 : 0));
  return {value, a < b || partial < static_cast<T>(borrow_in ? 1 : 0)};
}

// ---- division; a zero divisor gives all ones (rem: the dividend); MIN / −1 wraps ----

template <std::integral T>
constexpr T div(T a, T b) {
  if (b == 0) return static_cast<T>(~T{0});
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return sub_wrapping(T{0}, a);
  }
  return static_cast<T>(a / b);
}
template <std::integral T>
constexpr T rem(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>) {
    if (b == -1) return T{0};
  }
  return static_cast<T>(a % b);
}

// ---- abs, neg, min, max, sad ----

template <std::signed_integral T>
constexpr T neg(T a) {
  return sub_wrapping(T{0}, a);
}
template <std::signed_integral T>
constexpr T abs(T a) {
  return a < 0 ? neg(a) : a;
}
template <std::integral T>
constexpr T min(T a, T b) {
  return a < b ? a : b;
}
template <std::integral T>
constexpr T max(T a, T b) {
  return a > b ? a : b;
}
// .relu on s32: negative results become 0.
template <std::signed_integral T>
constexpr T relu(T a) {
  return a < 0 ? T{0} : a;
}
// c + |a − b|
template <std::integral T>
constexpr T sad(T a, T b, T c) {
  return add_wrapping(c, a < b ? sub_wrapping(b, a) : sub_wrapping(a, b));
}
// The u16x2 and s16x2 forms of add, min and max: a function of T on both halves.
template <class T, class Function>
constexpr uint32_t map_halfwords(Function&& function, uint32_t a, uint32_t b) {
  const T low = function(static_cast<T>(a & 0xffffu), static_cast<T>(b & 0xffffu));
  const T high = function(static_cast<T>(a >> 16), static_cast<T>(b >> 16));
  return static_cast<uint32_t>(static_cast<uint16_t>(low)) |
         static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16;
}

// ---- dot products: each operand's elements signed or unsigned by its own flag ----

uint32_t dp4a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed);
// Two 16-bit elements of a with bytes 0, 1 (high: 2, 3) of b.
uint32_t dp2a(uint32_t a, uint32_t b, uint32_t c, bool a_signed, bool b_signed, bool high);

// ---- shifts and fields ----

template <std::integral T>
constexpr T shl(T a, uint32_t amount) {
  using U = std::make_unsigned_t<T>;
  return amount >= kBits<T> ? T{0}
                            : static_cast<T>(static_cast<U>(uint64_t{static_cast<U>(a)} << amount));
}
// Arithmetic on signed T.
template <std::integral T>
constexpr T shr(T a, uint32_t amount) {
  if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(a >> (amount >= kBits<T> ? kBits<T> - 1 : amount));
  } else {
    return amount >= kBits<T> ? T{0} : static_cast<T>(a >> amount);
  }
}
// shf.{l,r}.{clamp,wrap}.b32 on the 64-bit value b:a.
constexpr uint32_t shf_left(uint32_t a, uint32_t b, uint32_t c, bool wrap) {
  const uint32_t n = wrap ? c & 31u : (c > 32u ? 32u : c);
  const uint64_t value = uint64_t{b} << 32 | a;
  return static_cast<uint32_t>((value << n) >> 32);
}
constexpr uint32_t shf_right(uint32_t a, uint32_t b, uint32_t c, bool wrap) {
  const uint32_t n = wrap ? c & 31u : (c > 32u ? 32u : c);
  const uint64_t value = uint64_t{b} << 32 | a;
  return static_cast<uint32_t>(value >> n);
}

// T is uint32_t, int32_t, uint64_t or int64_t.
template <std::integral T>
constexpr T bfe(T a, uint32_t position, uint32_t length) {
  using U = std::make_unsigned_t<T>;
  constexpr uint32_t kTop = kBits<T> - 1;
  const uint32_t pos = position & 0xffu;
  const uint32_t len = length & 0xffu;
  const uint32_t last = pos + len - 1 < kTop ? pos + len - 1 : kTop;
  const bool sign = std::is_signed_v<T> && len != 0 && ((static_cast<U>(a) >> last) & 1u) != 0;
  const U low = len == 0 ? U{0} : len > kTop ? static_cast<U>(~U{0}) : (U{1} << len) - 1;
  const uint32_t available = pos > kTop ? 0 : kBits<T> - pos;
  const U filled = available > kTop ? static_cast<U>(~U{0}) : (U{1} << available) - 1;
  const U field = pos > kTop ? U{0} : static_cast<U>(a) >> pos;
  const U kept = low & filled;
  return static_cast<T>((field & kept) | (sign ? static_cast<U>(~kept) : U{0}));
}
// U is uint32_t or uint64_t: inserts a's low bits into b.
template <std::unsigned_integral U>
constexpr U bfi(U a, U b, uint32_t position, uint32_t length) {
  const uint32_t pos = position & 0xffu;
  const uint32_t len = length & 0xffu;
  if (len == 0 || pos >= kBits<U>) return b;
  const U low = len >= kBits<U> ? static_cast<U>(~U{0}) : (U{1} << len) - 1;
  const U mask = low << pos;
  return (b & ~mask) | ((a << pos) & mask);
}
// The highest bit that differs from the sign, 0xffffffff if none; shift_amount: msb − position.
template <std::integral T>
constexpr uint32_t bfind(T a, bool shift_amount = false) {
  using U = std::make_unsigned_t<T>;
  const U bits = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
  if (bits == 0) return 0xffffffffu;
  const uint32_t from_top = static_cast<uint32_t>(std::countl_zero(bits));
  return shift_amount ? from_top : kBits<T> - 1 - from_top;
}
template <std::unsigned_integral U>
constexpr uint32_t popc(U a) {
  return static_cast<uint32_t>(std::popcount(a));
}
template <std::unsigned_integral U>
constexpr uint32_t clz(U a) {
  return static_cast<uint32_t>(std::countl_zero(a));
}
template <std::unsigned_integral U>
constexpr U brev(U a) {
  constexpr U kOnes = static_cast<U>(~U{0});
  a = ((a >> 1) & (kOnes / 3)) | ((a & (kOnes / 3)) << 1);
  a = ((a >> 2) & (kOnes / 5)) | ((a & (kOnes / 5)) << 2);
  a = ((a >> 4) & (kOnes / 17)) | ((a & (kOnes / 17)) << 4);
  if constexpr (sizeof(U) == 4)
    return __builtin_bswap32(a);
  else
    return __builtin_bswap64(a);
}
// The off-th set bit of mask at or above base (off > 0), at or below (off < 0), base itself
// (off = 0); 0xffffffff if there is none.
uint32_t fns(uint32_t mask, uint32_t base, int32_t offset);

constexpr uint32_t bmsk(uint32_t position, uint32_t width, bool wrap) {
  const uint32_t pos = wrap ? position & 31u : position;
  const uint32_t wid = wrap ? width & 31u : width;
  if (pos >= 32 || wid == 0) return 0;
  const uint32_t ones = wid >= 32 ? 0xffffffffu : (1u << wid) - 1;
  return ones << pos;
}
// Keeps the n low bits and extends them; T is uint32_t or int32_t.
template <std::integral T>
constexpr T szext(T a, uint32_t n, bool wrap) {
  const uint32_t width = wrap ? n & 31u : n;
  if (width == 0) return T{0};
  if (width >= 32) return a;
  return shr(shl(a, 32 - width), 32 - width);
}

// ---- bytes and logic ----

enum class PrmtMode : uint8_t { kIndex, kF4e, kB4e, kRc8, kEcl, kEcr, kRc16 };

uint32_t prmt(uint32_t a, uint32_t b, uint32_t c, PrmtMode mode = PrmtMode::kIndex);

constexpr uint32_t lop3(uint32_t a, uint32_t b, uint32_t c, uint32_t table) {
  uint32_t d = 0;
  d |= (table & 0x01u) ? ~a & ~b & ~c : 0u;
  d |= (table & 0x02u) ? ~a & ~b & c : 0u;
  d |= (table & 0x04u) ? ~a & b & ~c : 0u;
  d |= (table & 0x08u) ? ~a & b & c : 0u;
  d |= (table & 0x10u) ? a & ~b & ~c : 0u;
  d |= (table & 0x20u) ? a & ~b & c : 0u;
  d |= (table & 0x40u) ? a & b & ~c : 0u;
  d |= (table & 0x80u) ? a & b & c : 0u;
  return d;
}

// ---- bodies ----

namespace detail {
template <std::integral T>
constexpr int64_t low_24(T a) {
  static_assert(sizeof(T) == 4);
  if constexpr (std::is_signed_v<T>) {
    return shr(shl(a, 8), 8);
  } else {
    return a & 0xffffffu;
  }
}
}  // namespace detail

template <std::integral T>
constexpr T mul24_lo(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(detail::low_24(a) * detail::low_24(b)));
}
template <std::integral T>
constexpr T mul24_hi(T a, T b) {
  return static_cast<T>(static_cast<uint64_t>(detail::low_24(a) * detail::low_24(b)) >> 16);
}
constexpr int32_t mad24_hi_saturating(int32_t a, int32_t b, int32_t c) {
  return add_saturating(mul24_hi(a, b), c);
}

}  // namespace tilewright::emulator
