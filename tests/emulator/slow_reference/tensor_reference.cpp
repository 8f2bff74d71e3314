#include "tests/emulator/slow_reference/tensor_reference.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/emulator/slow_reference/atomic.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Op;
using ptx::StateSpace;
using ptx::Type;

// cuda.h's CUtensorMapDataType.
struct MapType {
  int code;
  Type type;
};
constexpr MapType kCopied[] = {{0, Type::kU8},   {1, Type::kU16},  {2, Type::kU32},
                               {3, Type::kS32},  {4, Type::kU64},  {5, Type::kS64},
                               {6, Type::kF16},  {7, Type::kF32},  {8, Type::kF64},
                               {9, Type::kBf16}, {10, Type::kF32}, {11, Type::kF32}};

bool can_reduce(Op op, Type type) {
  switch (op) {
    case Op::kAdd:
      return type == Type::kU32 || type == Type::kS32 || type == Type::kU64 || type == Type::kF32 ||
             type == Type::kF64 || type == Type::kF16 || type == Type::kBf16;
    case Op::kMin:
    case Op::kMax:
      return type == Type::kU32 || type == Type::kS32 || type == Type::kU64 || type == Type::kS64 ||
             type == Type::kF16 || type == Type::kBf16;
    case Op::kInc:
    case Op::kDec:
      return type == Type::kU32;
    default:
      return type == Type::kU32 || type == Type::kU64;
  }
}

struct Box {
  TensorMap map{};
  int bytes = 2;  // of an element
  std::array<int, 5> count{1, 1, 1, 1, 1};
  std::array<int32_t, 5> start{};
  int num_elements = 1;
};

// A tensor of a few KB at most, a box of at most 2 KB.
Box random_box(int dims, const MapType& type, int swizzle, int fill, bool is_load, Random& random) {
  Box box;
  box.bytes = ptx::type_bits(type.type) / 8;
  TensorMap& map = box.map;
  map.data_type = static_cast<uint8_t>(type.code);
  map.rank = static_cast<uint8_t>(dims);
  map.swizzle = static_cast<uint8_t>(swizzle);
  map.fill = static_cast<uint8_t>(fill);
  const int span = swizzle == 0 ? 16 * static_cast<int>(1 + random() % 4) : 16 << swizzle;
  const int inner = span / box.bytes;
  uint64_t stride = static_cast<uint64_t>(box.bytes);
  int budget = 2048 / span;
  for (int i = 0; i < dims; ++i) {
    const auto n = static_cast<size_t>(i);
    int size = inner;
    if (i > 0) size = 1 + static_cast<int>(random() % static_cast<uint64_t>(std::min(budget, 9)));
    const int step = i > 0 ? 1 + static_cast<int>(random() % 3) : 1;
    const int extent = i == 0 ? 4 + static_cast<int>(random() % 40)
                              : 1 + static_cast<int>(random() % (dims > 3 ? 3 : 5));
    map.box_dim[n] = static_cast<uint16_t>(size);
    map.element_stride[n] = static_cast<uint8_t>(step);
    map.global_dim_minus_one[n] = static_cast<uint32_t>(extent - 1);
    box.count[n] = (size + step - 1) / step;
    budget = std::max(1, budget / box.count[n]);
    if (i == 0) budget = 2048 / span;
    box.num_elements *= box.count[n];
    stride = (stride * static_cast<uint64_t>(extent) + 15) / 16 * 16;
    if (i + 1 < dims) map.global_stride[n] = stride;
    const int low = is_load ? -3 : 0;
    box.start[n] = low + static_cast<int>(random() % static_cast<uint64_t>(extent - low + 2));
  }
  return box;
}

// Element n of the packed box: its byte address in shared memory before the swizzle, and its offset
// in global memory, or -1 outside the tensor.
int64_t global_offset(const Box& box, int n) {
  int64_t offset = 0;
  for (size_t i = 0; i < box.map.rank; ++i) {
    const int x = n % box.count[i];
    n /= box.count[i];
    const int64_t at = int64_t{box.start[i]} + int64_t{x} * box.map.element_stride[i];
    if (at < 0 || at > int64_t{box.map.global_dim_minus_one[i]}) return -1;
    offset += at * (i == 0 ? box.bytes : static_cast<int64_t>(box.map.global_stride[i - 1]));
  }
  return offset;
}

size_t tile_offset(const Box& box, uint32_t base, int n) {
  static constexpr uint32_t kMasks[] = {0, 1, 3, 7};
  const uint32_t x = kTileAddress + base + static_cast<uint32_t>(n * box.bytes);
  return (x ^ ((x >> 7 & kMasks[box.map.swizzle]) << 4)) - kTileAddress;
}

uint64_t fill_of(const Box& box, Type type) {
  if (box.map.fill == 0) return 0;
  return format_of(type).canonical_nan();
}

void check_box(const Tuple& t, const Box& box, const MapType& type, int number, Ledger& ledger) {
  Random random(static_cast<uint64_t>(number) + 5);
  CopyState before = random_state(random);
  CopyState expected = before;
  const bool reduces = t.modifiers.op != Op::kNone;
  const bool is_load = t.modifiers.source_space == StateSpace::kGlobal;
  if (reduces) tame_range(type.type, before, expected, random);
  const uint32_t base = 128 * static_cast<uint32_t>(random() % 40);
  const bool multicast = t.has(ptx::Flag::kMulticast);
  const bool remote =
      is_load && !multicast && t.modifiers.space == StateSpace::kSharedCluster && number % 2 == 0;
  CopyRequest request;
  request.map = box.map;
  request.coordinates = box.start;
  request.settings.schedule = number % 3 == 0   ? Schedule::kEager
                              : number % 3 == 1 ? Schedule::kLazy
                                                : Schedule::kRandom;
  request.settings.seed = static_cast<uint64_t>(number);
  std::string tensor = "[%map, {";
  for (int i = 0; i < box.map.rank; ++i) tensor += fmt::format("{}%c{}", i > 0 ? ", " : "", i);
  tensor += "}]";
  const auto tx = static_cast<uint32_t>(box.num_elements * box.bytes);
  if (is_load) {
    request.code = fmt::format("mov.b16 %h9, 3;\n{} [{}+{}], {}, [{}]{};\n", t.mnemonic,
                               remote ? "%peer_tile" : "%tile", base, tensor,
                               remote ? "%peer_bar" : "%bar", multicast ? ", %h9" : "");
    request.expected_tx[remote ? 1 : 0] = tx;
    if (multicast) request.expected_tx[1] = tx;
  } else {
    request.code = fmt::format(
        "{} {}, [%tile+{}];\ncp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\n",
        t.mnemonic, tensor, base);
  }
  for (int n = 0; n < box.num_elements; ++n) {
    const int64_t global = global_offset(box, n);
    const size_t tile = tile_offset(box, base, n);
    if (is_load) {
      const uint64_t value =
          global < 0 ? fill_of(box, type.type)
                     : read_bytes(before.global, static_cast<size_t>(global), box.bytes);
      write_bytes(expected.tile[remote ? 1 : 0], tile, box.bytes, value);
      if (multicast) write_bytes(expected.tile[1], tile, box.bytes, value);
    } else if (global >= 0) {
      if (reduces) {
        reduce_range(t.modifiers.op, type.type, before.tile[0], tile, expected.global,
                     static_cast<size_t>(global), box.bytes);
      } else {
        write_bytes(expected.global, static_cast<size_t>(global), box.bytes,
                    read_bytes(before.tile[0], tile, box.bytes));
      }
    }
  }
  const CopyState after = run_copy(request, before);
  EXPECT_TRUE(after == expected) << request.code << "type " << type.code << " swizzle "
                                 << int{box.map.swizzle} << " number " << number << ": "
                                 << difference(after, expected);
  ledger.compared(t);
}

}  // namespace

void reduce_range(Op op, Type type, const std::vector<uint8_t>& source, size_t from,
                  std::vector<uint8_t>& target, size_t to, int bytes) {
  const int step = ptx::type_bits(type) / 8;
  for (size_t i = 0; i < static_cast<size_t>(bytes); i += static_cast<size_t>(step)) {
    const Part part = atomic_result(op, type, true, read_bytes(target, to + i, step),
                                    read_bytes(source, from + i, step), 0);
    write_bytes(target, to + i, step, part.bits);
  }
}

void tame_range(Type type, CopyState& before, CopyState& expected, Random& random) {
  const int bytes = ptx::type_bits(type) / 8;
  for (auto [a, b] : {std::pair{&before.tile[0], &expected.tile[0]},
                      std::pair{&before.tile[1], &expected.tile[1]},
                      std::pair{&before.global, &expected.global}}) {
    for (size_t at = 0; at < a->size(); at += static_cast<size_t>(bytes)) {
      uint64_t value = random_value(type, random);
      if (ptx::is_float(type) && bytes >= 4) {
        const Format format = format_of(type);
        while (decode(format, value).kind == Kind::kInfinity || is_nan(format, value)) {
          value = random_value(type, random);
        }
      }
      write_bytes(*a, at, bytes, value);
      write_bytes(*b, at, bytes, value);
    }
  }
}

void check_tensor(const Tuple& t, Ledger& ledger) {
  const bool is_load = t.modifiers.source_space == StateSpace::kGlobal;
  int number = 0;
  for (const MapType& type : kCopied) {
    if (t.modifiers.op != Op::kNone &&
        (!can_reduce(t.modifiers.op, type.type) || type.code >= 10)) {
      continue;
    }
    for (int swizzle = 0; swizzle < 4; ++swizzle) {
      const int fill = is_load && ptx::is_float(type.type) ? number % 2 : 0;
      Random random(static_cast<uint64_t>(number) * 31 +
                    static_cast<uint64_t>(t.modifiers.tensor_dims));
      const Box box = random_box(t.modifiers.tensor_dims, type, swizzle, fill, is_load, random);
      check_box(t, box, type, number++, ledger);
    }
  }
}

}  // namespace tilewright::emulator::slow
