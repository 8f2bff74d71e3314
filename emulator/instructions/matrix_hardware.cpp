// The fused truncated sum that the tensor cores compute: significands aligned to the largest
// exponent, truncated toward zero, added exactly, normalised, truncated (f16: rounded to nearest).
#include <algorithm>
#include <bit>
#include <limits>

#include "core/check.h"
#include "emulator/instructions/convert.h"
#include "emulator/instructions/integer.h"
#include "emulator/instructions/matrix_dense.h"

namespace tilewright::emulator {
namespace {

constexpr int kMaxColumns = 8;       // of one pass
constexpr int kZeroExponent = -126;  // a zero summand takes part in the alignment with this

// A finite value: significand · 2^(exponent − fraction bits of its format).
struct Parts {
  int32_t significand;
  int32_t exponent;
};

struct FloatFormat {
  int fraction_bits;
  int exponent_bits;
  int bias;
};

constexpr FloatFormat format_of(MatrixType type) {
  switch (type) {
    case MatrixType::kF16:
      return {10, 5, 15};
    case MatrixType::kBf16:
      return {7, 8, 127};
    case MatrixType::kTf32:
      return {10, 8, 127};
    case MatrixType::kE4m3:
      return {3, 4, 7};
    default:
      return {2, 5, 15};
  }
}
constexpr FloatFormat kF32Format = {23, 8, 127};

Parts decode(uint32_t bits, FloatFormat format) {
  const int32_t fraction = static_cast<int32_t>(bits & ((1u << format.fraction_bits) - 1));
  const int32_t exponent =
      static_cast<int32_t>(bits >> format.fraction_bits & ((1u << format.exponent_bits) - 1));
  const bool negative = (bits >> (format.fraction_bits + format.exponent_bits) & 1u) != 0;
  const int32_t significand = exponent == 0 ? fraction : fraction | 1 << format.fraction_bits;
  return {negative ? -significand : significand, std::max(exponent, 1) - format.bias};
}

uint32_t raw_element(MatrixType type, const uint8_t* row, int k) {
  const int bytes = element_bytes(type);
  uint32_t bits = 0;
  for (int i = 0; i < bytes; ++i) bits |= static_cast<uint32_t>(row[k * bytes + i]) << (8 * i);
  // tf32: the low 13 bits of the container are ignored.
  return type == MatrixType::kTf32 ? bits >> 13 : bits;
}

bool is_special(MatrixType type, uint32_t bits) {
  const FloatFormat format = format_of(type);
  const uint32_t magnitude = bits & ((1u << (format.fraction_bits + format.exponent_bits)) - 1);
  if (type == MatrixType::kE4m3) return magnitude == 0x7f;
  return magnitude >> format.fraction_bits == (1u << format.exponent_bits) - 1;
}

float element_value(MatrixType type, uint32_t bits) {
  switch (type) {
    case MatrixType::kF16:
      return to_float(Half{static_cast<uint16_t>(bits)});
    case MatrixType::kBf16:
      return to_float(Bfloat16{static_cast<uint16_t>(bits)});
    case MatrixType::kTf32:
      return std::bit_cast<float>(bits << 13);
    case MatrixType::kE4m3:
      return to_float(E4m3{static_cast<uint8_t>(bits)});
    default:
      return to_float(E5m2{static_cast<uint8_t>(bits)});
  }
}

struct Row {
  Parts parts[32];
  float values[32];  // read only when something is infinite or NaN
  bool special = false;
};

Row decode_row(const DenseOperand& operand, int index, int k) {
  Row row;
  const uint8_t* bytes = operand.rows + index * kRowBytes;
  for (int i = 0; i < k; ++i) {
    const uint32_t bits = raw_element(operand.type, bytes, i);
    row.parts[i] = decode(bits, format_of(operand.type));
    row.values[i] = element_value(operand.type, bits);
    row.special |= is_special(operand.type, bits);
    if (operand.negate) {
      row.parts[i].significand = -row.parts[i].significand;
      row.values[i] = -row.values[i];
    }
  }
  return row;
}

// sum · 2^exponent, truncated toward zero to an f32 of `fraction_bits`.
uint32_t truncate_to_f32(int64_t sum, int exponent, int fraction_bits) {
  if (sum == 0) return 0;
  const uint32_t sign = sum < 0 ? 0x80000000u : 0u;
  const uint64_t magnitude = static_cast<uint64_t>(sum < 0 ? -sum : sum);
  const int top = 63 - std::countl_zero(magnitude) + exponent;  // the leading bit's exponent
  if (top > 127) return sign | 0x7f800000u;
  const int scale = std::max(top, -126);
  const int last = scale - fraction_bits;  // exponent of the last place kept
  const int drop = last - exponent;
  const uint64_t kept = drop >= 64 ? 0 : drop >= 0 ? magnitude >> drop : magnitude << -drop;
  const uint64_t significand = kept << (23 - fraction_bits);
  const uint32_t biased = top < -126 ? 0u : static_cast<uint32_t>(scale + 127);
  return sign | biased << 23 | static_cast<uint32_t>(significand & 0x7fffffu);
}

uint32_t round_sum_to_f16(int64_t sum, int exponent) {
  // At most 33 bits: exact as a double, which has every exponent that can occur.
  const double value = static_cast<double>(sum) *
                       std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
  return to_f16(value).bits;
}

struct Accumulator {
  AccumulatorType type;
  uint32_t bits;
};
float accumulator_value(Accumulator c) {
  return c.type == AccumulatorType::kF16 ? to_float(Half{static_cast<uint16_t>(c.bits)})
                                         : std::bit_cast<float>(c.bits);
}
bool accumulator_special(Accumulator c) {
  return c.type == AccumulatorType::kF16 ? (c.bits & 0x7c00u) == 0x7c00u
                                         : (c.bits & 0x7f800000u) == 0x7f800000u;
}

// With an infinity or a NaN among the summands the sum is one of them, whatever the rounding.
uint32_t special_sum(const Row& a, const Row& b, int begin, int end, Accumulator c) {
  double sum = static_cast<double>(accumulator_value(c));
  for (int k = begin; k < end; ++k) {
    sum += static_cast<double>(a.values[k]) * static_cast<double>(b.values[k]);
  }
  const bool is_f16 = c.type == AccumulatorType::kF16;
  if (sum != sum) return is_f16 ? kCanonicalNan16 : kCanonicalNanF32;
  return is_f16 ? (sum > 0 ? 0x7c00u : 0xfc00u) : (sum > 0 ? 0x7f800000u : 0xff800000u);
}

// The significand shifted to F fraction bits at the common exponent, truncated toward zero.
int64_t align(int64_t significand, int fraction_bits, int distance, int kept_bits) {
  const uint64_t magnitude = static_cast<uint64_t>(significand < 0 ? -significand : significand);
  const int drop = std::min(distance + fraction_bits, 63);
  const int64_t aligned = static_cast<int64_t>((magnitude << kept_bits) >> drop);
  return significand < 0 ? -aligned : aligned;
}

uint32_t fused_sum(const HardwareSum& rule, const Row& a, const Row& b, int product_fraction_bits,
                   int begin, int end, Accumulator c) {
  if (a.special || b.special || accumulator_special(c)) return special_sum(a, b, begin, end, c);
  const bool is_f16 = c.type == AccumulatorType::kF16;
  const FloatFormat c_format = is_f16 ? format_of(MatrixType::kF16) : kF32Format;
  const Parts c_parts = decode(c.bits, c_format);
  int32_t products[32];
  int32_t exponents[32];
  int32_t largest = c_parts.significand == 0 ? kZeroExponent : c_parts.exponent;
  for (int k = begin; k < end; ++k) {
    products[k] = a.parts[k].significand * b.parts[k].significand;
    exponents[k] = products[k] == 0 ? kZeroExponent : a.parts[k].exponent + b.parts[k].exponent;
    largest = std::max(largest, exponents[k]);
  }
  int64_t sum = c_parts.significand == 0 ? 0
                                         : align(c_parts.significand, c_format.fraction_bits,
                                                 largest - c_parts.exponent, rule.fraction_bits);
  for (int k = begin; k < end; ++k) {
    sum += align(products[k], product_fraction_bits, largest - exponents[k], rule.fraction_bits);
  }
  const int exponent = largest - rule.fraction_bits;
  return is_f16 ? round_sum_to_f16(sum, exponent)
                : truncate_to_f32(sum, exponent, rule.result_fraction_bits);
}

int32_t integer_element(MatrixType type, uint8_t byte) {
  return type == MatrixType::kS8 ? static_cast<int8_t>(byte) : byte;
}

}  // namespace

HardwareSum hardware_sum(MatrixType type, int compute_capability, bool is_wgmma) {
  const bool is_fp8 = type == MatrixType::kE4m3 || type == MatrixType::kE5m2;
  // The fp8 mma.sync of sm_90 is not run by the fp8 unit of wgmma and has the full width.
  if (compute_capability >= 90) {
    return is_fp8 && is_wgmma ? HardwareSum{13, 13, 32} : HardwareSum{25, 23, 32};
  }
  return is_fp8 ? HardwareSum{13, 13, 16} : HardwareSum{24, 23, 16};
}

void hardware_product(const HardwareSum& sum, const DenseOperand& a, const DenseOperand& b, int k,
                      AccumulatorType d, uint32_t* accumulators) {
  const int product_fraction_bits =
      format_of(a.type).fraction_bits + format_of(b.type).fraction_bits;
  const int step = std::min(k, sum.k_bytes / element_bytes(a.type));
  for (int first = 0; first < b.count; first += kMaxColumns) {
    const int columns = std::min(kMaxColumns, b.count - first);
    Row b_rows[kMaxColumns];
    for (int j = 0; j < columns; ++j) b_rows[j] = decode_row(b, first + j, k);
    for (int i = 0; i < a.count; ++i) {
      const Row a_row = decode_row(a, i, k);
      for (int j = 0; j < columns; ++j) {
        uint32_t& c = accumulators[i * b.count + first + j];
        for (int begin = 0; begin < k; begin += step) {
          c = fused_sum(sum, a_row, b_rows[j], product_fraction_bits, begin, begin + step, {d, c});
        }
      }
    }
  }
}

void integer_product(const DenseOperand& a, const DenseOperand& b, int k, bool saturate,
                     uint32_t* accumulators) {
  for (int i = 0; i < a.count; ++i) {
    for (int j = 0; j < b.count; ++j) {
      int32_t products = 0;  // at most 32 · 2^16
      for (int step = 0; step < k; ++step) {
        products += integer_element(a.type, a.rows[i * kRowBytes + step]) *
                    integer_element(b.type, b.rows[j * kRowBytes + step]);
      }
      uint32_t& c = accumulators[i * b.count + j];
      const int64_t total = int64_t{static_cast<int32_t>(c)} + products;
      c = static_cast<uint32_t>(saturate ? clamp_to_s32(total) : static_cast<int32_t>(total));
    }
  }
}

}  // namespace tilewright::emulator
