// Instructions that exchange values between lanes, with every lane and with subsets that got there
// by a branch or a guard, against lane-by-lane formulas.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/assembly.h"
#include "tests/emulator/slow_reference/scalar.h"
#include "tests/emulator/slow_reference/values.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Op;
using ptx::Opcode;

constexpr uint32_t kSentinel = 0xa5a5a5a5;

struct Lane {
  uint64_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t q = 0;
  uint32_t unused = 0;
};
struct Result {
  uint32_t d = 0;
  uint32_t p = 0;
};

struct Warp {
  std::array<Lane, 32> lanes{};
  uint32_t mask = 0;
  bool has(int lane) const { return lane >= 0 && lane < 32 && ((mask >> lane) & 1) != 0; }
};

// What a lane receives; `open` where the ISA leaves d open.
struct Received {
  uint64_t d = 0;
  bool p = false;
  bool open = false;
};

Received shuffle(ptx::ShuffleMode mode, const Warp& warp, int lane) {
  const Lane& own = warp.lanes[static_cast<size_t>(lane)];
  const int bv = static_cast<int>(own.b & 31);
  const int cv = static_cast<int>(own.c & 31);
  const int seg = static_cast<int>((own.c >> 8) & 31);
  const int max_lane = (lane & seg) | (cv & ~seg);
  const int min_lane = lane & seg;
  int j = 0;
  bool inside = false;
  switch (mode) {
    case ptx::ShuffleMode::kUp:
      j = lane - bv;
      inside = j >= max_lane;
      break;
    case ptx::ShuffleMode::kDown:
      j = lane + bv;
      inside = j <= max_lane;
      break;
    case ptx::ShuffleMode::kBfly:
      j = lane ^ bv;
      inside = j <= max_lane;
      break;
    default:
      j = min_lane | (bv & ~seg);
      inside = j <= max_lane;
      break;
  }
  if (!inside) j = lane;
  if (!warp.has(j)) return {0, inside, true};
  return {low_bits(warp.lanes[static_cast<size_t>(j)].a, 32), inside, false};
}

uint64_t reduce(const Tuple& t, const Warp& warp) {
  bool first = true;
  __int128 total = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (!warp.has(lane)) continue;
    const __int128 x = integer_value(t.type(), warp.lanes[static_cast<size_t>(lane)].a);
    if (first) {
      total = x;
    } else {
      switch (t.modifiers.op) {
        case Op::kAdd:
          total += x;
          break;
        case Op::kMin:
          total = x < total ? x : total;
          break;
        case Op::kMax:
          total = x > total ? x : total;
          break;
        case Op::kAnd:
          total &= x;
          break;
        case Op::kOr:
          total |= x;
          break;
        default:
          total ^= x;
          break;
      }
    }
    first = false;
  }
  return low_bits(static_cast<uint64_t>(total), 32);
}

uint64_t match(const Tuple& t, const Warp& warp, uint64_t value) {
  const int bits = ptx::type_bits(t.type());
  uint32_t equal = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (warp.has(lane) &&
        low_bits(warp.lanes[static_cast<size_t>(lane)].a, bits) == low_bits(value, bits)) {
      equal |= 1u << lane;
    }
  }
  return equal;
}

Received receive(const Tuple& t, const Warp& warp, int lane) {
  uint32_t ballot = 0;
  for (int i = 0; i < 32; ++i) {
    if (warp.has(i) && warp.lanes[static_cast<size_t>(i)].q != 0) ballot |= 1u << i;
  }
  const uint64_t own = warp.lanes[static_cast<size_t>(lane)].a;
  switch (t.opcode()) {
    case Opcode::kActivemask:
      return {warp.mask};
    case Opcode::kShflSync:
      return shuffle(t.modifiers.shuffle, warp, lane);
    case Opcode::kVoteSync:
      switch (t.modifiers.vote) {
        case ptx::VoteMode::kAll:
          return {ballot == warp.mask};
        case ptx::VoteMode::kAny:
          return {ballot != 0};
        case ptx::VoteMode::kUni:
          return {ballot == 0 || ballot == warp.mask};
        default:
          return {ballot};
      }
    case Opcode::kMatchAnySync:
      return {match(t, warp, own)};
    case Opcode::kMatchAllSync: {
      const bool all = match(t, warp, own) == warp.mask;
      return {all ? warp.mask : 0, all};
    }
    case Opcode::kReduxSync:
      return {reduce(t, warp)};
    default: {  // elect.sync: the ISA asks for one lane, always the same; here the lowest
      const int leader = std::countr_zero(warp.mask);
      return {static_cast<uint64_t>(leader), lane == leader};
    }
  }
}

// An instruction twice: behind a branch, and guarded.
std::string text(const Tuple& t, int number) {
  const bool wide = ptx::type_bits(t.type()) == 64;
  const std::string a = wide ? "%d1" : "%r1";
  const std::string q = number % 2 == 0 ? "%p1" : "!%p1";  // loaded to suit
  std::string destination = "%r5";
  std::string all = fmt::format(
      "ld.global.b64 %d1, [%in+{0}];\ncvt.u32.u64 %r1, %d1;\nld.global.b32 %r2, [%in+{1}];\n"
      "ld.global.b32 %r3, [%in+{2}];\nld.global.b32 %r4, [%in+{3}];\nsetp.{4}.u32 %p1, %r4, 0;\n",
      number * 32 * 24, number * 32 * 24 + 8, number * 32 * 24 + 12, number * 32 * 24 + 16,
      number % 2 == 0 ? "ne" : "eq");
  std::string operands;
  switch (t.opcode()) {
    case Opcode::kActivemask:
      operands = "%r5";
      break;
    case Opcode::kShflSync:
      operands = "%r5|%p5, %r1, %r2, %r3, %mask";
      break;
    case Opcode::kVoteSync:
      operands = t.modifiers.vote == ptx::VoteMode::kBallot ? "%r5, " : "%p6, ";
      operands += q + ", %mask";
      break;
    case Opcode::kMatchAnySync:
      operands = "%r5, " + a + ", %mask";
      break;
    case Opcode::kMatchAllSync:
      operands = "%r5|%p5, " + a + ", %mask";
      break;
    case Opcode::kReduxSync:
      operands = "%r5, %r1, %mask";
      break;
    default:
      operands = "%r5|%p5, %mask";
      break;
  }
  for (const bool guard : {false, true}) {
    const int slot = number * 2 + (guard ? 1 : 0);
    all += fmt::format("mov.b32 %r5, {:#x};\nsetp.ne.u32 %p5, 0, 0;\nsetp.ne.u32 %p6, 0, 0;\n",
                       kSentinel);
    if (guard) {
      all += "@%active " + t.mnemonic + " " + operands + ";\n";
    } else {
      all +=
          fmt::format("@!%active bra SKIP{};\n{} {};\nSKIP{}:\n", slot, t.mnemonic, operands, slot);
    }
    if (operands.starts_with("%p6")) all += "@%active selp.u32 %r5, 1, 0, %p6;\n";
    all += fmt::format(
        "st.global.b32 [%out+{}], %r5;\nselp.u32 %r6, 1, 0, %p5;\nst.global.b32 [%out+{}], %r6;\n",
        slot * 256, slot * 256 + 4);
  }
  return all;
}

bool has_second(const Tuple& t) {
  return t.opcode() == Opcode::kShflSync || t.opcode() == Opcode::kMatchAllSync ||
         t.opcode() == Opcode::kElectSync;
}

Lane random_lane(const Tuple& t, int round, Random& random) {
  static constexpr uint32_t kWidths[] = {0x1f, 0x0, 0x181f, 0x1c1f, 0x1e1f, 0x1800, 0x100f, 0x1c03};
  Lane lane;
  // Half of the rounds few distinct values, for match; edge values for redux.
  lane.a = round % 2 == 0 ? random() % 3 : random_value(t.type(), random);
  if (round % 8 == 0) lane.a = 5;
  lane.b = static_cast<uint32_t>(round % 3 == 0 ? random() : random() % 33);
  lane.c = kWidths[random() % 8];
  lane.q = round % 5 == 0 ? 1 : round % 5 == 1 ? 0 : random() & 1;
  return lane;
}

TEST(SlowReference, Warp) {
  const std::vector<Tuple> tuples = tuples_of(Group::kWarp);
  Ledger ledger(Group::kWarp);
  test::Machine machine("sm_90a");
  std::string body =
      ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 mask)\n{\n" +
      register_declarations(8) +
      ".reg .pred %active;\n.reg .b32 %mask;\n.reg .b64 %in, %out;\nld.param.u64 %in, [in];\n"
      "ld.param.u64 %out, [out];\nld.param.u32 %mask, [mask];\nmov.u32 %r0, %laneid;\n"
      "shr.u32 %r1, %mask, %r0;\nand.b32 %r1, %r1, 1;\nsetp.ne.u32 %active, %r1, 0;\n"
      "mul.wide.u32 %d0, %r0, 24;\nadd.u64 %in, %in, %d0;\nmul.wide.u32 %d0, %r0, 8;\n"
      "add.u64 %out, %out, %d0;\n";
  for (size_t n = 0; n < tuples.size(); ++n) body += text(tuples[n], static_cast<int>(n));
  ASSERT_NE(machine.load(body + "ret;\n}\n"), nullptr);
  Random random(11);
  int failures = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<Lane> in;
    std::vector<Warp> warps(tuples.size());
    const uint32_t masks[] = {0xffffffff, static_cast<uint32_t>(random()), 1u << (random() % 32),
                              0x0000ffff, static_cast<uint32_t>(random() & random())};
    uint32_t mask = masks[round % 5];
    if (mask == 0) mask = 0x80000000;
    for (size_t n = 0; n < tuples.size(); ++n) {
      warps[n].mask = mask;
      const Lane uniform = random_lane(tuples[n], round, random);
      for (Lane& lane : warps[n].lanes) {
        lane = random_lane(tuples[n], round, random);
        if (round % 4 < 2) {  // as compilers use it: the same operands in all lanes
          lane.b = uniform.b;
          lane.c = uniform.c;
        }
        in.push_back(lane);
      }
    }
    const DeviceAddress from = machine.upload(in);
    const DeviceAddress to = machine.upload(std::vector<Result>(tuples.size() * 64));
    const LaunchOutcome outcome =
        machine.run("k", {1}, {32}, test::Arguments().add(from).add(to).add(mask));
    ASSERT_FALSE(outcome.fault) << test::describe(outcome);
    const auto results = machine.download<Result>(to, tuples.size() * 64);
    for (size_t n = 0; n < tuples.size(); ++n) {
      for (int guard = 0; guard < 2; ++guard) {
        for (int lane = 0; lane < 32; ++lane) {
          const Result& actual =
              results[(n * 2 + static_cast<size_t>(guard)) * 32 + static_cast<size_t>(lane)];
          Received expected{kSentinel, false, false};
          if (warps[n].has(lane)) expected = receive(tuples[n], warps[n], lane);
          ledger.compared(tuples[n]);
          const bool d_good = expected.open || actual.d == expected.d;
          const bool p_good = !has_second(tuples[n]) || actual.p == (expected.p ? 1u : 0u);
          if ((d_good && p_good) || ++failures > 20) continue;
          ADD_FAILURE() << tuples[n].mnemonic
                        << fmt::format(" mask {:#x} lane {} guard {}: {:#x}|{}, expected {:#x}|{}",
                                       mask, lane, guard, actual.d, actual.p, expected.d,
                                       expected.p);
        }
      }
    }
    ASSERT_TRUE(machine.memory().release(from).ok());
    ASSERT_TRUE(machine.memory().release(to).ok());
  }
  EXPECT_EQ(failures, 0);
  ledger.finish();
}

}  // namespace
}  // namespace tilewright::emulator::slow
