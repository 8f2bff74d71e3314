// Exchange among the lanes of a warp. Lanes that have not arrived are gathered first; lanes of one
// instruction that name different masks form independent sets.
#include <bit>
#include <cstring>

#include "core/check.h"
#include "emulator/machine/block.h"
#include "emulator/machine/execute.h"
#include "emulator/machine/watch.h"

namespace tilewright::emulator::execute {
namespace {

const LaneForm& form_of(Warp& warp, const Instruction* i) {
  return warp.launch->kernel->lane_forms[i->extra];
}

size_t lowest(uint32_t lanes) { return static_cast<size_t>(std::countr_zero(lanes)); }

// Calls work(lanes) for each set of executing lanes with one membership mask. Null: parked, done by
// another group, or a fault.
template <class Work>
const Instruction* for_each_set(Warp& warp, const Instruction* i, Slot membership, Work&& work) {
  const auto* masks = warp.at<uint32_t>(membership);
  const uint32_t first = masks[lowest(warp.mask)];
  uint32_t same = 0;
  for (uint32_t rest = warp.mask; rest != 0; rest &= rest - 1) {
    const size_t lane = lowest(rest);
    if (((masks[lane] >> lane) & 1) == 0) {
      return fault(
          warp, i,
          {.kind = FaultKind::kDivergent,
           .message = fmt::format("lane {} is not in its own mask {:#010x}", lane, masks[lane]),
           .lane = static_cast<uint32_t>(lane)});
    }
    if (masks[lane] == first) same |= 1u << lane;
  }
  if (same == warp.mask) [[likely]] {
    const Instruction* result = nullptr;
    if (!gather(warp, i, first, &result)) return result;
    note_together(warp, i, warp.mask);
    work(warp.mask);
    return i + 1;
  }
  // Several sets: all of each must be here.
  const uint32_t all = warp.mask;
  for (uint32_t rest = all; rest != 0;) {
    const uint32_t mask = masks[lowest(rest)];
    uint32_t set = 0;
    for (uint32_t lanes = rest; lanes != 0; lanes &= lanes - 1) {
      if (masks[lowest(lanes)] == mask) set |= 1u << lowest(lanes);
    }
    if ((mask & warp.live & ~set) != 0) return diverge(warp, set, i, i, nullptr);
    rest &= ~set;
  }
  for (uint32_t rest = all; rest != 0;) {
    const uint32_t mask = masks[lowest(rest)];
    note_together(warp, i, rest & mask & all);
    work(rest & mask & all);
    rest &= ~mask;
  }
  return i + 1;
}

void set_bits(Warp& warp, Slot slot, uint32_t lanes, uint32_t bits) {
  if (slot == kNoSlot) return;
  uint32_t& target = warp.predicate(slot);
  target = (target & ~lanes) | (bits & lanes);
}

struct Source {
  int lane;
  bool in_range;
};

Source shuffle_source(ptx::ShuffleMode mode, int lane, uint32_t b, uint32_t c) {
  const int amount = static_cast<int>(b & 31);
  const int clamp = static_cast<int>(c & 31);
  const int segment = static_cast<int>((c >> 8) & 31);
  const int max_lane = (lane & segment) | (clamp & ~segment);
  const int min_lane = lane & segment;
  switch (mode) {
    case ptx::ShuffleMode::kUp:
      return {lane - amount, lane - amount >= max_lane};
    case ptx::ShuffleMode::kDown:
      return {lane + amount, lane + amount <= max_lane};
    case ptx::ShuffleMode::kBfly:
      return {lane ^ amount, (lane ^ amount) <= max_lane};
    default: {
      const int source = min_lane | (amount & ~segment);
      return {source, source <= max_lane};
    }
  }
}

// The value that a lane outside the exchange gives: visible, so that a test notices.
constexpr uint32_t kUndefined = 0xdeadbeef;

uint32_t reduce(ptx::Op op, bool is_signed, uint32_t a, uint32_t b) {
  switch (op) {
    case ptx::Op::kAdd:
      return a + b;
    case ptx::Op::kMin:
      if (is_signed) return static_cast<int32_t>(a) < static_cast<int32_t>(b) ? a : b;
      return a < b ? a : b;
    case ptx::Op::kMax:
      if (is_signed) return static_cast<int32_t>(a) > static_cast<int32_t>(b) ? a : b;
      return a > b ? a : b;
    case ptx::Op::kAnd:
      return a & b;
    case ptx::Op::kOr:
      return a | b;
    default:
      return a ^ b;
  }
}

void write_lanes(Warp& warp, Slot slot, uint32_t lanes, uint32_t value) {
  if (slot == kNoSlot) return;
  auto* d = warp.at<uint32_t>(slot);
  for (; lanes != 0; lanes &= lanes - 1) d[lowest(lanes)] = value;
}

}  // namespace

const Instruction* shuffle(Warp& warp, const Instruction* i) {
  const LaneForm& form = form_of(warp, i);
  return for_each_set(warp, i, form.membership, [&](uint32_t lanes) {
    uint32_t values[32];
    std::memcpy(values, warp.at<uint32_t>(form.value), sizeof values);
    const auto* b = warp.at<uint32_t>(form.b);
    const auto* c = warp.at<uint32_t>(form.c);
    auto* d = warp.at<uint32_t>(i->d);
    uint32_t in_range = 0;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const size_t lane = lowest(rest);
      const Source source = shuffle_source(form.shuffle, static_cast<int>(lane), b[lane], c[lane]);
      if (!source.in_range) {
        d[lane] = values[lane];
        continue;
      }
      in_range |= 1u << lane;
      const auto from = static_cast<size_t>(source.lane & 31);
      d[lane] = ((lanes >> from) & 1) != 0 ? values[from] : kUndefined;
    }
    set_bits(warp, form.predicate, lanes, in_range);
  });
}

const Instruction* vote(Warp& warp, const Instruction* i) {
  const LaneForm& form = form_of(warp, i);
  return for_each_set(warp, i, form.membership, [&](uint32_t lanes) {
    const uint32_t bits = warp.predicate(form.value);
    const uint32_t set = lanes & (form.negated ? ~bits : bits);
    switch (form.vote) {
      case ptx::VoteMode::kAll:
        return set_bits(warp, i->d, lanes, set == lanes ? kFullMask : 0);
      case ptx::VoteMode::kAny:
        return set_bits(warp, i->d, lanes, set != 0 ? kFullMask : 0);
      case ptx::VoteMode::kUni:
        return set_bits(warp, i->d, lanes, set == lanes || set == 0 ? kFullMask : 0);
      default:
        return write_lanes(warp, i->d, lanes, set);
    }
  });
}

const Instruction* match(Warp& warp, const Instruction* i) {
  const LaneForm& form = form_of(warp, i);
  return for_each_set(warp, i, form.membership, [&](uint32_t lanes) {
    const auto value = [&](size_t lane) {
      return form.is_wide ? warp.at<uint64_t>(form.value)[lane]
                          : uint64_t{warp.at<uint32_t>(form.value)[lane]};
    };
    uint32_t results[32] = {};
    bool all_equal = true;
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      const size_t lane = lowest(rest);
      for (uint32_t others = lanes; others != 0; others &= others - 1) {
        if (value(lowest(others)) == value(lane)) results[lane] |= 1u << lowest(others);
      }
      all_equal &= results[lane] == lanes;
    }
    if (form.vote == ptx::VoteMode::kAll) {
      write_lanes(warp, i->d, lanes, all_equal ? lanes : 0);
      return set_bits(warp, form.predicate, lanes, all_equal ? kFullMask : 0);
    }
    for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) {
      write_lanes(warp, i->d, rest & (~rest + 1), results[lowest(rest)]);
    }
  });
}

const Instruction* reduce_lanes(Warp& warp, const Instruction* i) {
  const LaneForm& form = form_of(warp, i);
  return for_each_set(warp, i, form.membership, [&](uint32_t lanes) {
    const auto* values = warp.at<uint32_t>(form.value);
    uint32_t result = values[lowest(lanes)];
    for (uint32_t rest = lanes & (lanes - 1); rest != 0; rest &= rest - 1) {
      result = reduce(form.op, form.is_signed, result, values[lowest(rest)]);
    }
    write_lanes(warp, i->d, lanes, result);
  });
}

const Instruction* elect(Warp& warp, const Instruction* i) {
  const LaneForm& form = form_of(warp, i);
  return for_each_set(warp, i, form.membership, [&](uint32_t lanes) {
    write_lanes(warp, i->d, lanes, static_cast<uint32_t>(lowest(lanes)));
    set_bits(warp, form.predicate, lanes, lanes & (~lanes + 1));
  });
}

const Instruction* active_mask(Warp& warp, const Instruction* i) {
  write_lanes(warp, i->d, warp.mask, warp.mask);
  return i + 1;
}

// A guarded .sync instruction: the lanes that pass split off before they wait for others.
const Instruction* guarded_sync(Warp& warp, const Instruction* i) {
  const uint32_t bits = warp.predicate(i->guard & ~kConstantBit);
  const uint32_t lanes = warp.mask & ((i->guard & kConstantBit) != 0 ? ~bits : bits);
  if (lanes == 0) return i + 1;
  if (lanes != warp.mask) return diverge(warp, lanes, i, i + 1, i + 1);
  return i->inner(warp, i);
}

}  // namespace tilewright::emulator::execute
