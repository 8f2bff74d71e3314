// atom and red: lane by lane in lane order, with host atomics where blocks run on several threads.
#include <array>
#include <atomic>
#include <bit>
#include <cstring>

#include "emulator/instructions/float.h"
#include "emulator/instructions/float16.h"
#include "emulator/machine/access.h"
#include "emulator/machine/atomic.h"
#include "emulator/machine/block.h"
#include "emulator/machine/execute.h"

namespace tilewright::emulator {
namespace {

using ptx::Op;
using ptx::Type;

template <class T>
T integer_result(Op op, T old, T b, T c) {
  switch (op) {
    case Op::kAdd:
      return static_cast<T>(old + b);
    case Op::kMin:
      return old < b ? old : b;
    case Op::kMax:
      return old > b ? old : b;
    case Op::kInc:
      return old >= b ? T{0} : static_cast<T>(old + 1);
    case Op::kDec:
      return old == 0 || old > b ? b : static_cast<T>(old - 1);
    case Op::kAnd:
      return old & b;
    case Op::kOr:
      return old | b;
    case Op::kXor:
      return old ^ b;
    case Op::kCas:
      return old == b ? c : old;
    default:
      return b;  // exch
  }
}

template <class T>
T narrow_result(Op op, T old, T b) {
  switch (op) {
    case Op::kMin:
      return min(old, b);
    case Op::kMax:
      return max(old, b);
    default:
      return add(old, b);
  }
}

// The new bits of a memory cell of sizeof(U) bytes.
template <class U>
U result(Type type, Op op, bool flushes, U old, U b, U c) {
  using S = std::make_signed_t<U>;
  switch (type) {
    case Type::kS32:
    case Type::kS64:
      // Only min and max depend on the sign.
      if (op == Op::kMin || op == Op::kMax) {
        return static_cast<U>(
            integer_result<S>(op, static_cast<S>(old), static_cast<S>(b), static_cast<S>(c)));
      }
      return integer_result<U>(op, old, b, c);
    case Type::kF32:
      if constexpr (sizeof(U) == 4) {
        return std::bit_cast<U>(
            add(std::bit_cast<float>(old), std::bit_cast<float>(b), FloatOptions{.ftz = flushes}));
      }
      return old;
    case Type::kF64:
      if constexpr (sizeof(U) == 8) {
        return std::bit_cast<U>(add(std::bit_cast<double>(old), std::bit_cast<double>(b)));
      }
      return old;
    case Type::kF16:
      return static_cast<U>(
          narrow_result(op, Half{static_cast<uint16_t>(old)}, Half{static_cast<uint16_t>(b)}).bits);
    case Type::kBf16:
      return static_cast<U>(narrow_result(op, Bfloat16{static_cast<uint16_t>(old)},
                                          Bfloat16{static_cast<uint16_t>(b)})
                                .bits);
    case Type::kF16x2:
    case Type::kBf16x2:
      if constexpr (sizeof(U) == 4) {
        if (type == Type::kF16x2) {
          return map_halves<Half>([op](Half p, Half q) { return narrow_result(op, p, q); }, old, b);
        }
        return map_halves<Bfloat16>(
            [op](Bfloat16 p, Bfloat16 q) { return narrow_result(op, p, q); }, old, b);
      }
      return old;
    default:
      return integer_result<U>(op, old, b, c);
  }
}

template <class U>
U update(std::byte* cell, bool atomic, Type type, Op op, bool flushes, U b, U c) {
  if (!atomic) {
    U old;
    std::memcpy(&old, cell, sizeof old);
    const U value = result<U>(type, op, flushes, old, b, c);
    std::memcpy(cell, &value, sizeof value);
    return old;
  }
  const std::atomic_ref<U> target(*reinterpret_cast<U*>(cell));
  U old = target.load();
  while (!target.compare_exchange_weak(old, result<U>(type, op, flushes, old, b, c))) {
  }
  return old;
}

}  // namespace

uint64_t update_cell(std::byte* cell, const CellUpdate& how, uint64_t b, uint64_t c) {
  switch (ptx::type_bits(how.type)) {
    case 64:
      return update<uint64_t>(cell, how.host_atomic, how.type, how.op, how.flushes, b, c);
    case 32:
      return update<uint32_t>(cell, how.host_atomic, how.type, how.op, how.flushes,
                              static_cast<uint32_t>(b), static_cast<uint32_t>(c));
    default:
      return update<uint16_t>(cell, how.host_atomic, how.type, how.op, how.flushes,
                              static_cast<uint16_t>(b), static_cast<uint16_t>(c));
  }
}

namespace execute {
namespace {

uint64_t read_lane(Warp& warp, Slot slot, size_t lane, bool wide) {
  return wide ? warp.at<uint64_t>(slot)[lane] : uint64_t{warp.at<uint32_t>(slot)[lane]};
}

}  // namespace

// values: for every element its destination (kNoSlot without), then its b and c.
const Instruction* atomic(Warp& warp, const Instruction* i) {
  const MemoryForm& form = warp.launch->kernel->memory_forms[i->extra];
  HostPointers cells;
  const uint32_t bytes = uint32_t{form.element_bytes} * form.vector;
  if (!resolve(warp, i, form, i->a, form.space, bytes, AccessKind::kAtomic, cells)) return nullptr;
  const bool in_shared_memory =
      form.space == ptx::StateSpace::kShared || form.space == ptx::StateSpace::kSharedCluster;
  const bool wide = form.value_is_wide;
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    // A generic address can lie in the shared memory of any block of the cluster.
    const bool in_cluster =
        in_shared_memory || (form.space == ptx::StateSpace::kGeneric &&
                             read_lane(warp, i->a, lane, form.address_is_wide) +
                                     static_cast<uint64_t>(form.offset) - kSharedWindow <
                                 kSharedWindowBytes);
    for (uint32_t n = 0; n < form.vector; ++n) {
      std::byte* cell = cells.lanes[lane] + n * form.element_bytes;
      const bool in_block = in_shared_memory ||
                            (cell >= warp.shared && cell < warp.shared + warp.launch->shared_bytes);
      const bool host_atomic = warp.launch->parallel && !in_block;
      const Slot* slots = &form.values[n * size_t{3}];
      const uint64_t b = read_lane(warp, slots[1], lane, wide);
      const uint64_t c = slots[2] == kNoSlot ? 0 : read_lane(warp, slots[2], lane, wide);
      // Single-precision atomics flush subnormals in global memory, not in shared memory.
      const uint64_t old = update_cell(
          cell,
          {.type = form.type, .op = form.op, .flushes = !in_cluster, .host_atomic = host_atomic}, b,
          c);
      if (slots[0] == kNoSlot) continue;
      if (wide) {
        warp.at<uint64_t>(slots[0])[lane] = old;
      } else {
        warp.at<uint32_t>(slots[0])[lane] = static_cast<uint32_t>(old);
      }
    }
  }
  return i + 1;
}

// exch and cas of 16 bytes. Those in global memory return a value, so that the kernel's blocks run
// on one host thread, and those in shared memory belong to one block: no host atomics.
const Instruction* atomic_wide(Warp& warp, const Instruction* i) {
  using Pair = std::array<uint64_t, 2>;
  const MemoryForm& form = warp.launch->kernel->memory_forms[i->extra];
  HostPointers cells;
  if (!resolve(warp, i, form, i->a, form.space, 16, AccessKind::kAtomic, cells)) return nullptr;
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<size_t>(std::countr_zero(rest));
    const auto operand = [&](size_t n) {
      return Pair{warp.at<uint64_t>(form.values[n])[lane],
                  warp.at<uint64_t>(form.values[n] + kLaneBytes64)[lane]};
    };
    Pair old;
    std::memcpy(&old, cells.lanes[lane], sizeof old);
    const Pair b = operand(1);
    const Pair value = form.op != Op::kCas ? b : old == b ? operand(2) : old;
    std::memcpy(cells.lanes[lane], &value, sizeof value);
    if (form.values[0] == kNoSlot) continue;
    warp.at<uint64_t>(form.values[0])[lane] = old[0];
    warp.at<uint64_t>(form.values[0] + kLaneBytes64)[lane] = old[1];
  }
  return i + 1;
}

}  // namespace execute
}  // namespace tilewright::emulator
