// Structure and arithmetic.
#include <bit>
#include <cstring>

#include "core/check.h"
#include "emulator/instructions/integer.h"
#include "emulator/machine/block.h"
#include "emulator/machine/execute.h"
#include "emulator/machine/lane_kernels.h"

namespace tilewright::emulator::execute {
namespace {

struct alignas(64) LaneBuffer {
  uint64_t lanes[32];
};

const LaneHelpers& helpers() {
  static const LaneHelpers kHelpers = lane_helpers();
  return kHelpers;
}

void write_predicate(Warp& warp, Slot slot, uint32_t bits) {
  if (slot == kNoSlot) return;
  uint32_t& target = warp.predicate(slot);
  target = (target & ~warp.mask) | (bits & warp.mask);
}

uint32_t combine(ptx::Op op, uint32_t a, uint32_t b) {
  switch (op) {
    case ptx::Op::kAnd:
      return a & b;
    case ptx::Op::kOr:
      return a | b;
    case ptx::Op::kXor:
      return a ^ b;
    default:
      return a;
  }
}

uint32_t third_of(Warp& warp, const PredicateForm& form) {
  if (form.third == kNoSlot) return 0;
  const uint32_t bits = warp.predicate(form.third);
  return form.third_negated ? ~bits : bits;
}

}  // namespace

const Instruction* enter_block(Warp& warp, const Instruction* i) {
  if (warp.rejoin_at == i) {
    if (arrive(warp, i) == nullptr) return nullptr;
  }
  uint64_t* counts = warp.block_counts + 2 * size_t{i->extra};
  counts[0] += 1;
  counts[1] += static_cast<uint64_t>(std::popcount(warp.mask));
  warp.budget -= i->options;
  if (warp.budget <= 0) {
    warp.stop = Stop::kYield;
    warp.pc = i + 1;
    return nullptr;
  }
  return i + 1;
}

const Instruction* guarded(Warp& warp, const Instruction* i) {
  const uint32_t bits = warp.predicate(i->guard & ~kConstantBit);
  const uint32_t all = warp.mask;
  const uint32_t lanes = all & ((i->guard & kConstantBit) != 0 ? ~bits : bits);
  if (lanes == 0) return i + 1;
  warp.mask = lanes;
  const Instruction* next = i->inner(warp, i);
  if (next != nullptr) warp.mask = all;
  return next;
}

const Instruction* alu32(Warp& warp, const Instruction* i) {
  const void* a = warp.at<char>(i->a);
  const void* b = warp.at<char>(i->b);
  const void* c = warp.at<char>(i->c);
  auto* d = warp.at<uint32_t>(i->d);
  if (warp.mask == kFullMask) [[likely]] {
    i->kernel(d, a, b, c, i->options);
  } else {
    LaneBuffer result;
    i->kernel(&result, a, b, c, i->options);
    helpers().blend32(d, reinterpret_cast<const uint32_t*>(&result), warp.mask);
  }
  return i + 1;
}

const Instruction* alu64(Warp& warp, const Instruction* i) {
  const void* a = warp.at<char>(i->a);
  const void* b = warp.at<char>(i->b);
  const void* c = warp.at<char>(i->c);
  auto* d = warp.at<uint64_t>(i->d);
  if (warp.mask == kFullMask) [[likely]] {
    i->kernel(d, a, b, c, i->options);
  } else {
    LaneBuffer result;
    i->kernel(&result, a, b, c, i->options);
    helpers().blend64(d, result.lanes, warp.mask);
  }
  return i + 1;
}

const Instruction* alu128(Warp& warp, const Instruction* i) {
  for (uint32_t half = 0; half < 2; ++half) {
    helpers().blend64(warp.at<uint64_t>(i->d + half * kLaneBytes64),
                      warp.at<uint64_t>(i->a + half * kLaneBytes64), warp.mask);
  }
  return i + 1;
}

const Instruction* compare(Warp& warp, const Instruction* i) {
  const uint32_t bits = i->compare(warp.at<char>(i->a), warp.at<char>(i->b), i->options);
  write_predicate(warp, i->d, bits);
  if (i->c != kNoSlot) write_predicate(warp, i->c, ~bits);
  return i + 1;
}

const Instruction* compare_combined(Warp& warp, const Instruction* i) {
  const PredicateForm& form = warp.launch->kernel->predicate_forms[i->extra];
  const void* a = warp.at<char>(i->a);
  const void* b = warp.at<char>(i->b);
  const uint32_t low = i->compare(a, b, i->options);
  const uint32_t other = form.high != nullptr ? form.high(a, b, form.high_options) : ~low;
  const uint32_t third = third_of(warp, form);
  write_predicate(warp, form.p, combine(form.op, low, third));
  write_predicate(warp, form.q, combine(form.op, other, third));
  return i + 1;
}

const Instruction* set_lanes(Warp& warp, const Instruction* i) {
  const PredicateForm& form = warp.launch->kernel->predicate_forms[i->extra];
  const void* a = warp.at<char>(i->a);
  const void* b = warp.at<char>(i->b);
  const uint32_t third = third_of(warp, form);
  const uint32_t low = combine(form.op, i->compare(a, b, i->options), third);
  const uint32_t high =
      form.high != nullptr ? combine(form.op, form.high(a, b, form.high_options), third) : 0;
  auto* d = warp.at<uint32_t>(i->d);
  for (int lane = 0; lane < 32; ++lane) {
    if (((warp.mask >> lane) & 1) == 0) continue;
    uint32_t value = ((low >> lane) & 1) != 0 ? form.true_bits : 0;
    if (((high >> lane) & 1) != 0) value |= form.true_bits << 16;
    d[lane] = value;
  }
  return i + 1;
}

const Instruction* predicate_logic(Warp& warp, const Instruction* i) {
  uint32_t a = warp.predicate(i->a);
  uint32_t b = warp.predicate(i->b);
  if ((i->options & 0x100) != 0) a = ~a;
  if ((i->options & 0x200) != 0) b = ~b;
  write_predicate(warp, i->d, combine(static_cast<ptx::Op>(i->options & 0xff), a, b));
  return i + 1;
}

namespace {

template <class U>
U product(U a, U b, uint32_t options) {
  using S = std::make_signed_t<U>;
  if ((options & kCarryHigh) == 0) return mul_lo(a, b);
  if ((options & kCarrySigned) != 0) {
    return static_cast<U>(mul_hi(static_cast<S>(a), static_cast<S>(b)));
  }
  return mul_hi(a, b);
}

template <class U>
void carry_lanes(Warp& warp, const Instruction* i) {
  const auto* a = warp.at<U>(i->a);
  const auto* b = warp.at<U>(i->b);
  const auto* c = warp.at<U>(i->c);
  auto* d = warp.at<U>(i->d);
  uint32_t carry = warp.carry;
  for (int lane = 0; lane < 32; ++lane) {
    if (((warp.mask >> lane) & 1) == 0) continue;
    const bool in = (i->options & kCarryIn) != 0 && ((warp.carry >> lane) & 1) != 0;
    U x = a[lane];
    U y = b[lane];
    if ((i->options & kCarryMultiply) != 0) {
      x = product(x, y, i->options);
      y = c[lane];
    }
    const WithCarry<U> sum =
        (i->options & kCarrySubtract) != 0 ? sub_borrow(x, y, in) : add_carry(x, y, in);
    d[lane] = sum.value;
    carry = (carry & ~(1u << lane)) | (sum.carry ? 1u << lane : 0);
  }
  if ((i->options & kCarryOut) != 0) warp.carry = carry;
}

}  // namespace

const Instruction* carry_arithmetic(Warp& warp, const Instruction* i) {
  if ((i->options & kCarryWide) != 0) {
    carry_lanes<uint64_t>(warp, i);
  } else {
    carry_lanes<uint32_t>(warp, i);
  }
  return i + 1;
}

const Instruction* bit_field_insert(Warp& warp, const Instruction* i) {
  const auto* position = warp.at<uint32_t>(i->c);
  const auto* length = warp.at<uint32_t>(i->extra);
  for (int lane = 0; lane < 32; ++lane) {
    if (((warp.mask >> lane) & 1) == 0) continue;
    if (i->options == 64) {
      warp.at<uint64_t>(i->d)[lane] =
          bfi(warp.at<uint64_t>(i->a)[lane], warp.at<uint64_t>(i->b)[lane], position[lane],
              length[lane]);
    } else {
      warp.at<uint32_t>(i->d)[lane] =
          bfi(warp.at<uint32_t>(i->a)[lane], warp.at<uint32_t>(i->b)[lane], position[lane],
              length[lane]);
    }
  }
  return i + 1;
}

const Instruction* lop3_predicate(Warp& warp, const Instruction* i) {
  const PredicateForm& form = warp.launch->kernel->predicate_forms[i->extra];
  uint32_t nonzero = 0;
  LaneBuffer result;
  auto* values = reinterpret_cast<uint32_t*>(&result);
  for (int lane = 0; lane < 32; ++lane) {
    values[lane] = lop3(warp.at<uint32_t>(i->a)[lane], warp.at<uint32_t>(i->b)[lane],
                        warp.at<uint32_t>(i->c)[lane], form.table);
    nonzero |= (values[lane] != 0 ? 1u : 0u) << lane;
  }
  const uint32_t third = third_of(warp, form);
  helpers().blend32(warp.at<uint32_t>(i->d), values, warp.mask);
  write_predicate(warp, form.p, combine(form.op, nonzero, third));
  return i + 1;
}

const Instruction* unpack(Warp& warp, const Instruction* i) {
  const PieceForm& form = warp.launch->kernel->piece_forms[i->extra];
  const uint32_t bits = form.piece_bytes * 8u;
  for (uint32_t n = 0; n < form.pieces.size(); ++n) {
    if (form.pieces[n] == kNoSlot) continue;
    for (int lane = 0; lane < 32; ++lane) {
      if (((warp.mask >> lane) & 1) == 0) continue;
      if (i->options == 16) {
        warp.at<uint64_t>(form.pieces[n])[lane] = warp.at<uint64_t>(i->a + n * kLaneBytes64)[lane];
        continue;
      }
      const uint64_t whole =
          i->options == 8 ? warp.at<uint64_t>(i->a)[lane] : uint64_t{warp.at<uint32_t>(i->a)[lane]};
      const uint64_t piece = whole >> (n * bits);
      warp.at<uint32_t>(form.pieces[n])[lane] =
          static_cast<uint32_t>(bits == 32 ? piece & 0xffffffffu : piece & ((1u << bits) - 1));
    }
  }
  return i + 1;
}

const Instruction* pack(Warp& warp, const Instruction* i) {
  const PieceForm& form = warp.launch->kernel->piece_forms[i->extra];
  const uint32_t bits = form.piece_bytes * 8u;
  for (int lane = 0; lane < 32; ++lane) {
    if (((warp.mask >> lane) & 1) == 0) continue;
    if (i->options == 16) {
      for (uint32_t n = 0; n < form.pieces.size(); ++n) {
        warp.at<uint64_t>(i->d + n * kLaneBytes64)[lane] = warp.at<uint64_t>(form.pieces[n])[lane];
      }
      continue;
    }
    uint64_t whole = 0;
    for (uint32_t n = 0; n < form.pieces.size(); ++n) {
      const uint64_t mask = (uint64_t{1} << bits) - 1;
      whole |= (warp.at<uint32_t>(form.pieces[n])[lane] & mask) << (n * bits);
    }
    if (i->options == 8) {
      warp.at<uint64_t>(i->d)[lane] = whole;
    } else {
      warp.at<uint32_t>(i->d)[lane] = static_cast<uint32_t>(whole);
    }
  }
  return i + 1;
}

const Instruction* read_special(Warp& warp, const Instruction* i) {
  using ptx::SpecialRegister;
  const auto special = static_cast<SpecialRegister>(i->options);
  // The block's clock counts warp instructions; good for differences, not a time.
  const uint64_t clock = warp.block->clock + static_cast<uint64_t>(-warp.budget + (1 << 20));
  for (int lane = 0; lane < 32; ++lane) {
    if (((warp.mask >> lane) & 1) == 0) continue;
    switch (special) {
      case SpecialRegister::kClock64:
      case SpecialRegister::kGlobaltimer:
        warp.at<uint64_t>(i->d)[lane] = clock;
        break;
      case SpecialRegister::kClockHi:
      case SpecialRegister::kGlobaltimerHi:
        warp.at<uint32_t>(i->d)[lane] = static_cast<uint32_t>(clock >> 32);
        break;
      default:
        warp.at<uint32_t>(i->d)[lane] = static_cast<uint32_t>(clock);
        break;
    }
  }
  return i + 1;
}

const Instruction* mark_written(Warp& warp, const Instruction* i) {
  warp.predicate(i->d) |= warp.mask;
  return i + 1;
}

const Instruction* check_written(Warp& warp, const Instruction* i) {
  if (!warp.observed) return i + 1;
  uint32_t lanes = warp.mask;
  if (i->guard != kNoSlot) {
    const uint32_t bits = warp.predicate(i->guard & ~kConstantBit);
    lanes &= (i->guard & kConstantBit) != 0 ? ~bits : bits;
  }
  const uint32_t unwritten = lanes & ~warp.predicate(i->d);
  if (unwritten == 0 || (i->options == kOneWrittenLane && unwritten != lanes)) return i + 1;
  return fault(warp, i,
               {.kind = FaultKind::kUninitialisedRead,
                .message = fmt::format("register {} was never written",
                                       warp.frame->function->source->register_name(i->extra)),
                .lane = static_cast<uint32_t>(std::countr_zero(unwritten))});
}

}  // namespace tilewright::emulator::execute
