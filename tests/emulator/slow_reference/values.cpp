#include "tests/emulator/slow_reference/values.h"

#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Type;

Type element_of(Type type) {
  switch (type) {
    case Type::kF16x2:
      return Type::kF16;
    case Type::kBf16x2:
      return Type::kBf16;
    case Type::kE4m3x2:
      return Type::kE4m3;
    case Type::kE5m2x2:
      return Type::kE5m2;
    case Type::kU16x2:
      return Type::kU16;
    case Type::kS16x2:
      return Type::kS16;
    default:
      return type;
  }
}

std::vector<uint64_t> float_edges(Format f) {
  const uint64_t sign = f.sign_mask();
  const uint64_t one = f.one();
  const uint64_t normal = uint64_t{1} << f.fraction_bits;
  std::vector<uint64_t> values = {0,
                                  1,           // smallest subnormal
                                  normal - 1,  // largest subnormal
                                  normal,      // smallest normal
                                  normal + 1,
                                  one - 1,
                                  one,
                                  one + 1,
                                  one - normal,               // 0.5
                                  one + normal + normal / 2,  // 3
                                  one + normal / 2 + 1,
                                  f.max_finite(),
                                  f.max_finite() - 1,
                                  f.canonical_nan()};
  if (f.has_infinity) {
    values.push_back(f.infinity());
    values.push_back(f.infinity() + 1);                                     // signalling NaN
    values.push_back(f.infinity() | uint64_t{1} << (f.fraction_bits - 1));  // quiet NaN
  }
  // Halfway between integers, and around the ends of integer types.
  for (const int power : {7, 8, 15, 16, 31, 32, 63, 64}) {
    if (power > f.bias()) continue;
    values.push_back(one + static_cast<uint64_t>(power) * normal);
    values.push_back(one + static_cast<uint64_t>(power) * normal - 1);
  }
  // Halfway between values of the narrower formats, and just beside.
  for (const int bits : {10, 7, 23, 3, 2}) {
    const int cut = f.fraction_bits - bits;
    if (cut < 1) continue;
    const uint64_t half = uint64_t{1} << (cut - 1);
    for (const uint64_t odd : {uint64_t{0}, uint64_t{1}}) {
      values.push_back(one + (odd << cut) + half);
      values.push_back(one + (odd << cut) + half + 1);
    }
  }
  const size_t count = values.size();
  for (size_t i = 0; i < count; ++i) values.push_back(values[i] | sign);
  return values;
}

std::vector<uint64_t> integer_edges(int bits) {
  std::vector<uint64_t> values;
  for (const uint64_t v : {0, 1, 2, 3, 5, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 65, 127, 128}) {
    values.push_back(low_bits(v, bits));
    values.push_back(low_bits(0 - v, bits));
  }
  for (const uint64_t v : {255, 256, 0x7fff, 0x8000, 0xffff, 0x10000, 0x800000, 0xffffff}) {
    values.push_back(low_bits(v, bits));
  }
  values.push_back(low_bits(uint64_t{1} << (bits - 1), bits));
  values.push_back(low_bits((uint64_t{1} << (bits - 1)) - 1, bits));
  values.push_back(low_bits(0x5555555555555555, bits));
  values.push_back(low_bits(0x80000000, bits));
  values.push_back(low_bits(0x7fffffff, bits));
  values.push_back(low_bits(0xffffffff, bits));
  return values;
}

}  // namespace

std::vector<uint64_t> edge_values(Type type) {
  if (type == Type::kPred) return {0, 1};
  const Type element = element_of(type);
  if (element == Type::kTf32) return edge_values(Type::kF32);
  const int bits = ptx::is_float(element) ? format_of(element).bits() : ptx::type_bits(element);
  std::vector<uint64_t> values =
      ptx::is_float(element) ? float_edges(format_of(element)) : integer_edges(bits);
  if (element == type) return values;
  std::vector<uint64_t> pairs;
  for (size_t i = 0; i < values.size(); ++i) {
    pairs.push_back(values[i] | values[(i * 7 + 3) % values.size()] << bits);
  }
  return pairs;
}

uint64_t random_value(Type type, Random& random) {
  if (type == Type::kPred) return random() & 1;
  const Type element = element_of(type);
  const int bits = ptx::type_bits(type);
  const uint64_t choice = random() % 8;
  if (element != type) {  // both halves apart
    return random_value(element, random) | random_value(element, random) << (bits / 2);
  }
  if (choice < 3) return low_bits(random(), bits);
  if (choice == 3 && !ptx::is_float(type)) return random() % 80;  // shifts, positions, lengths
  if (choice == 3 && bits >= 32) {                                // of moderate size
    const Format f = format_of(type == Type::kTf32 ? Type::kF32 : type);
    const uint64_t exponent = static_cast<uint64_t>(f.bias()) + random() % 40 - 20;
    return (random() & f.sign_mask()) | exponent << f.fraction_bits |
           low_bits(random(), f.fraction_bits);
  }
  const std::vector<uint64_t> edges = edge_values(type);
  const uint64_t edge = edges[random() % edges.size()];
  return choice < 6 ? edge : low_bits(edge + random() % 5 - 2, bits);
}

uint64_t small_value(Type type, int value) {
  if (!ptx::is_float(type)) {
    return low_bits(static_cast<uint64_t>(int64_t{value}), ptx::type_bits(type));
  }
  const Format format = format_of(type);
  const uint64_t bits = from_integer(format, Round::kNearestEven, value < 0,
                                     static_cast<uint64_t>(value < 0 ? -value : value));
  return type == Type::kTf32 ? bits << 13 : bits;
}

}  // namespace tilewright::emulator::slow
