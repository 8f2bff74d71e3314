// The fused truncated sum that the tensor cores compute: significands aligned to the largest
// exponent, truncated toward zero, added exactly, normalised, truncated (f16: rounded to nearest).
#include <algorithm>
#include <bit>
#include <cstring>

#include "emulator/instructions/convert.h"
#include "emulator/instructions/integer.h"
#include "emulator/instructions/matrix_core.h"
#include "emulator/instructions/matrix_dense.h"

namespace tilewright::emulator {
namespace {

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

// A row of A.
struct Row {
  int32_t significand[kMaxK];
  int32_t exponent[kMaxK];
  uint32_t special = 0;  // bit k: infinite or NaN
};
// Eight columns of B.
struct Columns {
  int32_t significand[kMaxK][kFusedColumns];
  int32_t exponent[kMaxK][kFusedColumns];
  uint32_t special[kFusedColumns] = {};
};

// The elements of one row of an operand, `count` of them, as vector code: one loop for each type,
// without branches. Returns the special ones as bits.
template <MatrixType kType, class Word>
uint32_t decode_run(const uint8_t* from, int count, bool negate, int32_t* significands,
                    int32_t* exponents) {
  constexpr FloatFormat kFormat = format_of(kType);
  constexpr uint32_t kExponentMask = (1u << kFormat.exponent_bits) - 1;
  constexpr uint32_t kFractionMask = (1u << kFormat.fraction_bits) - 1;
  constexpr int kSignBit = kFormat.fraction_bits + kFormat.exponent_bits;
  uint32_t special[kMaxK];
  for (int k = 0; k < count; ++k) {
    Word word;
    std::memcpy(&word, from + static_cast<size_t>(k) * sizeof word, sizeof word);
    // tf32: the low 13 bits of the container are ignored.
    const uint32_t bits = kType == MatrixType::kTf32 ? uint32_t{word} >> 13 : uint32_t{word};
    const uint32_t exponent = bits >> kFormat.fraction_bits & kExponentMask;
    const uint32_t hidden = exponent != 0 ? 1u << kFormat.fraction_bits : 0u;
    const auto magnitude = static_cast<int32_t>((bits & kFractionMask) | hidden);
    const bool negative = ((bits >> kSignBit & 1u) != 0) != negate;
    significands[k] = negative ? -magnitude : magnitude;
    exponents[k] = static_cast<int32_t>(exponent == 0 ? 1u : exponent) - kFormat.bias;
    special[k] = kType == MatrixType::kE4m3 ? (bits & 0x7f) == 0x7f : exponent == kExponentMask;
  }
  uint32_t result = 0;
  for (int k = 0; k < count; ++k) result |= special[k] << k;
  return result;
}

uint32_t decode_elements(const DenseOperand& operand, int index, int count, int32_t* significands,
                         int32_t* exponents) {
  const uint8_t* row = operand.rows + index * kRowBytes;
  switch (operand.type) {
    case MatrixType::kF16:
      return decode_run<MatrixType::kF16, uint16_t>(row, count, operand.negate, significands,
                                                    exponents);
    case MatrixType::kBf16:
      return decode_run<MatrixType::kBf16, uint16_t>(row, count, operand.negate, significands,
                                                     exponents);
    case MatrixType::kTf32:
      return decode_run<MatrixType::kTf32, uint32_t>(row, count, operand.negate, significands,
                                                     exponents);
    case MatrixType::kE4m3:
      return decode_run<MatrixType::kE4m3, uint8_t>(row, count, operand.negate, significands,
                                                    exponents);
    default:
      return decode_run<MatrixType::kE5m2, uint8_t>(row, count, operand.negate, significands,
                                                    exponents);
  }
}

void decode_row(const DenseOperand& operand, int index, int k_count, Row& row) {
  row.special = decode_elements(operand, index, k_count, row.significand, row.exponent);
}

void decode_columns(const DenseOperand& operand, int first, int k_count, Columns& columns) {
  Row column;
  for (int j = 0; j < kFusedColumns; ++j) {
    decode_row(operand, first + j, k_count, column);
    columns.special[j] = column.special;
    for (int k = 0; k < k_count; ++k) {
      columns.significand[k][j] = column.significand[k];
      columns.exponent[k][j] = column.exponent[k];
    }
  }
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

// 2^exponent for exponents of normal doubles.
double power_of_two(int exponent) {
  return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
}

// truncate_to_f32 where the result is a normal number or zero, which is nearly always; false where
// it may not be. A sum has at most 40 bits and so is exact as a double, whose last places are cut.
bool truncate_normal(int64_t sum, int exponent, int fraction_bits, uint32_t& result) {
  const double value = static_cast<double>(sum) * power_of_two(exponent);
  const auto bits = std::bit_cast<uint64_t>(value) & ~((uint64_t{1} << (52 - fraction_bits)) - 1);
  const uint64_t magnitude = bits & ~(uint64_t{1} << 63);
  result = std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
  return magnitude == 0 ||
         (magnitude >= uint64_t{1023 - 126} << 52 && magnitude < uint64_t{1023 + 128} << 52);
}

uint32_t round_sum_to_f16(int64_t sum, int exponent) {
  // At most 33 bits: exact as a double, which has every exponent that can occur.
  return to_f16(static_cast<double>(sum) * power_of_two(exponent)).bits;
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
uint32_t special_sum(const DenseOperand& a, int row, const DenseOperand& b, int column, int begin,
                     int end, Accumulator c) {
  double sum = static_cast<double>(accumulator_value(c));
  const bool negate = a.negate != b.negate;
  for (int k = begin; k < end; ++k) {
    const uint32_t a_bits = raw_element(a.type, a.rows + row * kRowBytes, k);
    const uint32_t b_bits = raw_element(b.type, b.rows + column * kRowBytes, k);
    const double product = static_cast<double>(element_value(a.type, a_bits)) *
                           static_cast<double>(element_value(b.type, b_bits));
    sum += negate ? -product : product;
  }
  const bool is_f16 = c.type == AccumulatorType::kF16;
  if (sum != sum) return is_f16 ? kCanonicalNan16 : kCanonicalNanF32;
  return is_f16 ? (sum > 0 ? 0x7c00u : 0xfc00u) : (sum > 0 ? 0x7f800000u : 0xff800000u);
}

// |significand| · 2^kept_bits shifted down to the common exponent: truncation toward zero.
int64_t align(int64_t significand, int fraction_bits, int distance, int kept_bits) {
  const uint64_t magnitude = static_cast<uint64_t>(significand < 0 ? -significand : significand);
  const int drop = std::min(distance + fraction_bits, 63);
  const int64_t aligned = static_cast<int64_t>((magnitude << kept_bits) >> drop);
  return significand < 0 ? -aligned : aligned;
}

// One row of A against a block of columns, over k in [begin, end).
void fused_block(const HardwareSum& rule, const DenseOperand& a, int row_index, const Row& row,
                 const DenseOperand& b, int first_column, const Columns& columns, int begin,
                 int end, AccumulatorType type, uint32_t* accumulators) {
  const bool is_f16 = type == AccumulatorType::kF16;
  const FloatFormat c_format = is_f16 ? format_of(MatrixType::kF16) : kF32Format;
  int32_t c_significand[kFusedColumns];
  int32_t c_exponent[kFusedColumns];
  for (int j = 0; j < kFusedColumns; ++j) {
    const Parts parts = decode(accumulators[j], c_format);
    c_significand[j] = parts.significand;
    c_exponent[j] = parts.exponent;
  }
  int64_t sums[kFusedColumns];
  int32_t largest[kFusedColumns];
  matrix_core().fused_sum(
      {.k = end - begin,
       .a_significand = row.significand + begin,
       .a_exponent = row.exponent + begin,
       .b_significand = columns.significand + begin,
       .b_exponent = columns.exponent + begin,
       .c_significand = c_significand,
       .c_exponent = c_exponent,
       .product_fraction_bits = format_of(a.type).fraction_bits + format_of(b.type).fraction_bits,
       .c_fraction_bits = c_format.fraction_bits,
       .kept_bits = rule.fraction_bits},
      sums, largest);
  const uint32_t in_range = static_cast<uint32_t>((uint64_t{1} << end) - (uint64_t{1} << begin));
  for (int j = 0; j < kFusedColumns; ++j) {
    const Accumulator c = {type, accumulators[j]};
    const int exponent = largest[j] - rule.fraction_bits;
    if (((row.special | columns.special[j]) & in_range) != 0 || accumulator_special(c)) {
      accumulators[j] = special_sum(a, row_index, b, first_column + j, begin, end, c);
    } else if (is_f16) {
      accumulators[j] = round_sum_to_f16(sums[j], exponent);
    } else if (!truncate_normal(sums[j], exponent, rule.result_fraction_bits, accumulators[j])) {
      accumulators[j] = truncate_to_f32(sums[j], exponent, rule.result_fraction_bits);
    }
  }
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

void fused_sum_portable(const FusedRow& row, int64_t* sums, int32_t* largest) {
  for (int j = 0; j < kFusedColumns; ++j) {
    int32_t products[kMaxK];
    int32_t exponents[kMaxK];
    const int32_t c_exponent = row.c_significand[j] == 0 ? kZeroExponent : row.c_exponent[j];
    int32_t top = c_exponent;
    for (int k = 0; k < row.k; ++k) {
      products[k] = row.a_significand[k] * row.b_significand[k][j];
      exponents[k] = products[k] == 0 ? kZeroExponent : row.a_exponent[k] + row.b_exponent[k][j];
      top = std::max(top, exponents[k]);
    }
    int64_t sum = align(row.c_significand[j], row.c_fraction_bits, top - c_exponent, row.kept_bits);
    for (int k = 0; k < row.k; ++k) {
      sum += align(products[k], row.product_fraction_bits, top - exponents[k], row.kept_bits);
    }
    sums[j] = sum;
    largest[j] = top;
  }
}

void hardware_product(const HardwareSum& sum, const DenseOperand& a, const DenseOperand& b, int k,
                      AccumulatorType d, uint32_t* accumulators) {
  const int step = std::min(k, sum.k_bytes / element_bytes(a.type));
  Row rows[kMaxRows];
  for (int i = 0; i < a.count; ++i) decode_row(a, i, k, rows[i]);
  Columns columns;
  for (int first = 0; first < b.count; first += kFusedColumns) {
    decode_columns(b, first, k, columns);
    for (int i = 0; i < a.count; ++i) {
      for (int begin = 0; begin < k; begin += step) {
        fused_block(sum, a, i, rows[i], b, first, columns, begin, begin + step, d,
                    accumulators + i * b.count + first);
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
