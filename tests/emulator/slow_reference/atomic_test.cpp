// Every atom and red on a cell of its own: what it returns and what it leaves behind, in global
// memory, own shared memory and a peer's. And all threads on one cell at once.
#include "tests/emulator/slow_reference/atomic.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/assembly.h"
#include "tests/emulator/slow_reference/values.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Op;
using ptx::StateSpace;
using ptx::Type;

constexpr int kThreads = 32;
constexpr int kBlocks = 2;
constexpr int kLanes = kThreads * kBlocks;
constexpr int kRecord =
    64;  // bytes per access and thread: cell, operand, comparand's second, result

enum class Place : uint8_t { kGlobal, kShared, kPeer };

std::vector<Place> places_of(const Tuple& t) {
  switch (t.modifiers.space) {
    case StateSpace::kGlobal:
      return {Place::kGlobal};
    case StateSpace::kShared:
      return {Place::kShared};
    case StateSpace::kSharedCluster:
      return {Place::kShared, Place::kPeer};
    default:
      break;
  }
  if (t.modifiers.vector > 1) return {Place::kGlobal};  // of global memory only
  return {Place::kGlobal, Place::kShared, Place::kPeer};
}

struct Access {
  const Tuple* tuple = nullptr;
  Place place = Place::kGlobal;
  int slot = 0;
};

std::string registers(int bits, int first, int count) {
  if (count == 1) return register_name(bits, first);
  std::string list = "{";
  for (int i = 0; i < count; ++i) list += (i > 0 ? ", " : "") + register_name(bits, first + i);
  return list + "}";
}

std::string prologue() {
  return ".visible .entry k(.param .u64 records)\n{\n" + register_declarations(40) +
         ".reg .b32 %own, %peer, %rank;\n.reg .b64 %at, %generic_own, %generic_peer;\n"
         ".shared .align 16 .b8 window[512];\n"
         "ld.param.u64 %at, [records];\nmov.u32 %r0, %ctaid.x;\nmov.u32 %r1, %tid.x;\n" +
         fmt::format("mad.lo.u32 %r2, %r0, {}, %r1;\nmul.wide.u32 %d0, %r2, {};\n", kThreads,
                     kRecord) +
         "add.u64 %at, %at, %d0;\nmov.u32 %own, window;\nshl.b32 %r3, %r1, 4;\n"
         "add.u32 %own, %own, %r3;\nmov.u32 %rank, %cluster_ctarank;\nxor.b32 %rank, %rank, 1;\n"
         "mapa.shared::cluster.u32 %peer, %own, %rank;\ncvt.u64.u32 %d0, %own;\n"
         "cvta.shared.u64 %generic_own, %d0;\nmapa.u64 %generic_peer, %generic_own, %rank;\n";
}

class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {}
  bool is_full() const { return accesses_.size() >= 400; }

  void add(const Tuple& tuple, Place place) {
    const Access access{&tuple, place, static_cast<int>(accesses_.size())};
    accesses_.push_back(access);
    body_ += text(access);
    // A 128-bit cell is filled, and checked, as two halves.
    const Type type = tuple.type() == Type::kB128 ? Type::kB64 : tuple.type();
    const int bytes = ptx::type_bits(type) / 8;
    const int count = tuple.type() == Type::kB128 ? 2 : tuple.modifiers.vector;
    for (int lane = 0; lane < kLanes; ++lane) {
      std::vector<std::byte> record(kRecord, std::byte{0xa5});
      const auto put = [&](int at, uint64_t value) {
        for (int i = 0; i < bytes; ++i) {
          record[static_cast<size_t>(at + i)] = static_cast<std::byte>(value >> (8 * i));
        }
      };
      for (int e = 0; e < count; ++e) {
        const uint64_t cell = random_value(type, random_);
        put(e * bytes, cell);
        const bool same = tuple.modifiers.op == Op::kCas && lane % 2 == 0;
        put(16 + e * bytes, same ? cell : random_value(type, random_));
        put(32 + e * bytes, random_value(type, random_));
      }
      records_.insert(records_.end(), record.begin(), record.end());
    }
  }

  void run(Ledger& ledger, int& failures) {
    if (accesses_.empty()) return;
    test::Machine machine("sm_90a");
    if (machine.load(prologue() + body_ +
                     "barrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}\n") == nullptr) {
      ++failures;
      return;
    }
    const DeviceAddress at = machine.upload(records_);
    LaunchSettings settings;
    settings.observers = ObserverLevel::kMemory;
    const LaunchOutcome outcome =
        machine.run("k", {kBlocks}, {kThreads}, test::Arguments().add(at), settings, 0, {kBlocks});
    ASSERT_FALSE(outcome.fault) << test::describe(outcome);
    const auto after = machine.download<std::byte>(at, records_.size());
    for (const Access& access : accesses_) {
      for (int lane = 0; lane < kLanes; ++lane) check(access, lane, after, ledger, failures);
    }
  }

 private:
  static std::string text(const Access& access) {
    const Tuple& t = *access.tuple;
    const int bits = ptx::type_bits(t.type());
    const int count = t.modifiers.vector;
    const long base = static_cast<long>(access.slot) * kLanes * kRecord;
    const auto field = [&](int at) { return fmt::format("[%at+{}]", base + at); };
    std::string all;
    const bool quad = t.type() == Type::kB128;
    if (quad) {
      all += "ld.global.v2.b64 {%d10, %d11}, " + field(16) + ";\nld.global.v2.b64 {%d20, %d21}, " +
             field(32) + ";\nmov.b128 %q0, {%d10, %d11};\nmov.b128 %q1, {%d20, %d21};\n";
    }
    for (int e = 0; e < count && !quad; ++e) {
      all += fmt::format("ld.global.b{} {}, {};\n", bits, register_name(bits, 10 + e),
                         field(16 + e * bits / 8));
    }
    const bool cas = t.modifiers.op == Op::kCas;
    if (cas && !quad)
      all += fmt::format("ld.global.b{} {}, {};\n", bits, register_name(bits, 20), field(32));
    const bool shared = access.place != Place::kGlobal;
    const std::string fence = "barrier.cluster.arrive;\nbarrier.cluster.wait;\n";
    if (shared) {
      all += "ld.global.v2.b64 {%d30, %d31}, " + field(0) +
             ";\nst.shared.v2.b64 [%own], {%d30, %d31};\n" + fence;
    }
    const bool generic = t.modifiers.space == StateSpace::kGeneric;
    const std::string address = access.place == Place::kGlobal ? field(0)
                                : access.place == Place::kShared
                                    ? (generic ? "[%generic_own]" : "[%own]")
                                    : (generic ? "[%generic_peer]" : "[%peer]");
    if (quad) {
      all += t.mnemonic + " %q2, " + address + ", %q0" + (cas ? ", %q1" : "") +
             ";\nmov.b128 {%d0, %d1}, %q2;\nst.global.v2.b64 " + field(48) + ", {%d0, %d1};\n";
    } else {
      all += t.mnemonic + " ";
      if (t.opcode() == ptx::Opcode::kAtom) all += registers(bits, 0, count) + ", ";
      all += address + ", " + registers(bits, 10, count);
      if (cas) all += ", " + register_name(bits, 20);
      all += ";\n";
    }
    if (t.opcode() == ptx::Opcode::kAtom && !quad) {
      for (int e = 0; e < count; ++e) {
        all += fmt::format("st.global.b{} {}, {};\n", bits, field(48 + e * bits / 8),
                           register_name(bits, e));
      }
    }
    if (shared) {
      all += fence + "ld.shared.v2.b64 {%d30, %d31}, [%own];\nst.global.v2.b64 " + field(0) +
             ", {%d30, %d31};\n";
    }
    return all;
  }

  void check(const Access& access, int lane, const std::vector<std::byte>& after, Ledger& ledger,
             int& failures) const {
    const Tuple& t = *access.tuple;
    const bool quad = t.type() == Type::kB128;
    const Type type = quad ? Type::kB64 : t.type();
    const int bytes = ptx::type_bits(type) / 8;
    const auto get = [&](const std::vector<std::byte>& from, int which, int at) {
      uint64_t value = 0;
      const size_t start =
          (static_cast<size_t>(access.slot) * kLanes + static_cast<size_t>(which)) * kRecord +
          static_cast<size_t>(at);
      for (int i = 0; i < bytes; ++i) {
        value |= static_cast<uint64_t>(from[start + static_cast<size_t>(i)]) << (8 * i);
      }
      return value;
    };
    // The thread whose operation this lane's cell took.
    const int actor = access.place == Place::kPeer ? (lane + kThreads) % kLanes : lane;
    // Both halves of a 128-bit cell have to be equal for its exchange.
    bool equal = true;
    for (int e = 0; e < 2 && quad && t.modifiers.op == Op::kCas; ++e) {
      equal &= get(records_, lane, e * 8) == get(records_, actor, 16 + e * 8);
    }
    for (int e = 0; e < (quad ? 2 : t.modifiers.vector); ++e) {
      const uint64_t old = get(records_, lane, e * bytes);
      const uint64_t b = get(records_, actor, 16 + e * bytes);
      const uint64_t c = get(records_, actor, 32 + e * bytes);
      Part part = atomic_result(t.modifiers.op, type, access.place == Place::kGlobal, old, b, c);
      if (!equal) part.bits = old;
      const uint64_t left = get(after, lane, e * bytes);
      ledger.compared(t);
      const bool returns = t.opcode() == ptx::Opcode::kAtom;
      const uint64_t returned = get(after, actor, 48 + e * bytes);
      if (satisfies(part, left) && (!returns || returned == old)) continue;
      if (++failures > 40) return;
      ADD_FAILURE() << t.mnemonic
                    << fmt::format(
                           " place {} lane {} element {}: {:#x} op ({:#x}, {:#x}) left {:#x},"
                           " expected {}; returned {:#x} round 0",
                           static_cast<int>(access.place), lane, e, old, b, c, left,
                           to_string(part), returned);
    }
  }

  Random random_;
  std::vector<Access> accesses_;
  std::vector<std::byte> records_;
  std::string body_;
};

TEST(SlowReference, Atomics) {
  Ledger ledger(Group::kAtomic);
  int failures = 0;
  uint64_t seed = 1;
  const std::vector<Tuple> tuples = tuples_of(Group::kAtomic);
  Program program(seed);
  for (const Tuple& tuple : tuples) {
    for (const Place place : places_of(tuple)) {
      program.add(tuple, place);
      if (!program.is_full()) continue;
      program.run(ledger, failures);
      program = Program(++seed);
    }
  }
  program.run(ledger, failures);
  EXPECT_EQ(failures, 0);
  ledger.finish();
}

// Integer operations by 96 threads on one cell: some order explains all that was returned.
TEST(SlowReference, AtomicsOnOneCell) {
  int checked = 0;
  for (const Tuple& t : tuples_of(Group::kAtomic)) {
    if (t.opcode() != ptx::Opcode::kAtom || ptx::is_float(t.type()) || t.modifiers.vector > 1 ||
        t.type() == Type::kB128 || t.modifiers.op == Op::kCas ||
        t.modifiers.semantics != ptx::Semantics::kNone ||
        t.modifiers.space == StateSpace::kSharedCluster) {
      continue;
    }
    const int bits = ptx::type_bits(t.type());
    constexpr int kCount = 96;
    test::Machine machine("sm_90a");
    const bool shared = t.modifiers.space == StateSpace::kShared;
    ASSERT_NE(
        machine.load(fmt::format(
            ".visible .entry k(.param .u64 cell, .param .u64 b, .param .u64 out)\n{{\n"
            "{0}.shared .align 8 .b8 own[8];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %d1, %r1, 8;\n"
            "ld.param.u64 %d2, [b];\nadd.u64 %d2, %d2, %d1;\nld.global.b{1} {2}4, [%d2];\n"
            "ld.param.u64 %d3, [cell];\nld.global.b64 %d7, [%d3];\nst.shared.b64 [own], %d7;\n"
            "bar.sync 0;\n{3} {2}5, [{4}], {2}4;\n"
            "bar.sync 0;\n{5}ld.param.u64 %d6, [out];\nadd.u64 %d6, %d6, %d1;\n"
            "st.global.b{1} [%d6], {2}5;\nret;\n}}\n",
            register_declarations(10), bits, bits == 64 ? "%d" : "%r", t.mnemonic,
            shared ? "own" : "%d3",
            shared ? "ld.shared.b64 %d7, [own];\nst.global.b64 [%d3], %d7;\n" : "")),
        nullptr);
    Random random(static_cast<uint64_t>(checked) + 1);
    const bool steps = t.modifiers.op == Op::kInc || t.modifiers.op == Op::kDec;
    std::vector<uint64_t> operands(kCount);
    for (uint64_t& b : operands) b = steps ? 40 : low_bits(random(), bits);
    const uint64_t start = steps ? 7 : low_bits(random(), bits);
    const DeviceAddress cell = machine.upload(std::vector<uint64_t>{start});
    const DeviceAddress b = machine.upload(operands);
    const DeviceAddress out = machine.upload(std::vector<uint64_t>(kCount));
    const LaunchOutcome outcome =
        machine.run("k", {1}, {kCount}, test::Arguments().add(cell).add(b).add(out));
    ASSERT_FALSE(outcome.fault) << test::describe(outcome);
    const auto returned = machine.download<uint64_t>(out, kCount);
    uint64_t value = start;
    // The order: whoever was returned the current value comes next.
    std::vector<bool> done(kCount);
    for (int step = 0; step < kCount; ++step) {
      // Among several, one that changes nothing first: it could come anywhere here.
      int next = -1;
      for (int i = 0; i < kCount; ++i) {
        if (done[static_cast<size_t>(i)] || returned[static_cast<size_t>(i)] != value) continue;
        next = i;
        const Part r = atomic_result(t.modifiers.op, t.type(), false, value,
                                     operands[static_cast<size_t>(i)], 0);
        if (r.bits == value) break;
      }
      ASSERT_GE(next, 0) << t.mnemonic << ": nobody was returned " << value << " at step " << step;
      done[static_cast<size_t>(next)] = true;
      value = atomic_result(t.modifiers.op, t.type(), false, value,
                            operands[static_cast<size_t>(next)], 0)
                  .bits;
    }
    EXPECT_EQ(low_bits(machine.download<uint64_t>(cell, 1)[0], bits), value) << t.mnemonic;
    ++checked;
  }
  EXPECT_GT(checked, 60);
}

}  // namespace
}  // namespace tilewright::emulator::slow
