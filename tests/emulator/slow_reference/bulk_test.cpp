// cp.async, bulk copies and reductions without tensor maps, st.async and red.async: every byte of
// both blocks' shared memory and of global memory, under all schedules.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/emulator/slow_reference/atomic.h"
#include "tests/emulator/slow_reference/copy_support.h"
#include "tests/emulator/slow_reference/tensor_reference.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Flag;
using ptx::Opcode;
using ptx::StateSpace;

LaunchSettings settings_of(int number) {
  LaunchSettings settings;
  settings.schedule = number % 3 == 0   ? Schedule::kEager
                      : number % 3 == 1 ? Schedule::kLazy
                                        : Schedule::kRandom;
  settings.seed = static_cast<uint64_t>(number);
  settings.observers = ObserverLevel::kMemory;
  return settings;
}

// The offsets of a copy: 16-byte multiples, odd ones.
struct Range {
  int from = 0;
  int to = 0;
  int bytes = 0;
};
Range random_range(Random& random) {
  Range range;
  range.bytes = 16 * static_cast<int>(1 + random() % 90);
  range.from = 16 * static_cast<int>(random() % 300);
  range.to = 16 * static_cast<int>(random() % 300);
  return range;
}

// Thread 0's commit and wait for the forms with bulk groups.
std::string bulk_wait(const Tuple& commit, const Tuple& wait) {
  return commit.mnemonic + ";\n" + wait.mnemonic + " 0;\n";
}

struct Waits {
  Tuple commit;
  std::vector<Tuple> waits;
};
Waits bulk_waits() {
  Waits found;
  for (const Tuple& t : tuples_of(Group::kBulk)) {
    if (t.opcode() == Opcode::kCpAsyncBulkCommitGroup) found.commit = t;
    if (t.opcode() == Opcode::kCpAsyncBulkWaitGroup) found.waits.push_back(t);
  }
  return found;
}

// cp.async.bulk and cp.reduce.async.bulk.
void check_bulk(const Tuple& t, int number, Ledger& ledger) {
  Random random(static_cast<uint64_t>(number) + 1);
  CopyState before = random_state(random);
  const Range r = random_range(random);
  const bool multicast = t.has(Flag::kMulticast);
  const StateSpace to = t.modifiers.space;
  const StateSpace from = t.modifiers.source_space;
  // Into a cluster address: the peer's, or (from global memory) the own one too.
  const bool remote = to == StateSpace::kSharedCluster &&
                      (from == StateSpace::kShared || number % 2 == 0) && !multicast;
  CopyRequest request;
  request.settings = settings_of(number);
  const std::string destination =
      to == StateSpace::kGlobal ? fmt::format("[%global+{}]", r.to)
                                : fmt::format("[{}+{}]", remote ? "%peer_tile" : "%tile", r.to);
  const std::string source = from == StateSpace::kGlobal ? fmt::format("[%global+{}]", r.from)
                                                         : fmt::format("[%tile+{}]", r.from);
  request.code = fmt::format("mov.u32 %r9, {};\nmov.b16 %h9, 3;\n{} {}, {}, %r9", r.bytes,
                             t.mnemonic, destination, source);
  const Waits waits = bulk_waits();
  const Tuple& wait = waits.waits[static_cast<size_t>(number) % waits.waits.size()];
  if (to != StateSpace::kGlobal) {
    request.code += remote ? ", [%peer_bar]" : ", [%bar]";
    request.expected_tx[remote ? 1 : 0] = static_cast<uint32_t>(r.bytes);
    if (multicast) {
      request.code += ", %h9";
      request.expected_tx[1] = static_cast<uint32_t>(r.bytes);
    }
    request.code += ";\n";
  } else {
    request.code += ";\n" + bulk_wait(waits.commit, wait);
    ledger.compared(waits.commit);
    ledger.compared(wait);
  }
  CopyState expected = before;
  const std::vector<uint8_t>& bytes = from == StateSpace::kGlobal ? before.global : before.tile[0];
  const auto apply = [&](std::vector<uint8_t>& target) {
    if (t.modifiers.op == ptx::Op::kNone) {
      for (int i = 0; i < r.bytes; ++i) {
        target[static_cast<size_t>(r.to + i)] = bytes[static_cast<size_t>(r.from + i)];
      }
      return;
    }
    reduce_range(t.modifiers.op, t.type(), bytes, static_cast<size_t>(r.from), target,
                 static_cast<size_t>(r.to), r.bytes);
  };
  if (t.modifiers.op != ptx::Op::kNone) tame_range(t.type(), before, expected, random);
  if (to == StateSpace::kGlobal) {
    apply(expected.global);
  } else {
    apply(expected.tile[remote ? 1 : 0]);
    if (multicast) apply(expected.tile[1]);
  }
  const CopyState after = run_copy(request, before);
  EXPECT_TRUE(after == expected) << request.code << difference(after, expected);
  ledger.compared(t);
}

// st.async and red.async: one element group into the peer's tile, credited to the peer's mbarrier.
void check_remote(const Tuple& t, int number, Ledger& ledger) {
  Random random(static_cast<uint64_t>(number) + 77);
  const CopyState before = random_state(random);
  CopyRequest request;
  request.settings = settings_of(number);
  const int bits = ptx::type_bits(t.type());
  const int count = t.modifiers.vector;
  const int bytes = bits / 8 * count;
  const auto at = static_cast<int>(random() % 500) * bytes;
  std::vector<uint64_t> values;
  std::string list = count > 1 ? "{" : "";
  for (int e = 0; e < count; ++e) {
    values.push_back(random_value(t.type(), random));
    const std::string name = fmt::format("%{}{}", bits == 64 ? 'd' : 'r', 20 + e);
    request.code += fmt::format("mov.b{} {}, {:#x};\n", bits, name, values.back());
    list += (e > 0 ? ", " : "") + name;
  }
  if (count > 1) list += "}";
  request.code += fmt::format("{} [%peer_tile+{}], {}, [%peer_bar];\n", t.mnemonic, at, list);
  request.expected_tx[1] = static_cast<uint32_t>(bytes);
  CopyState expected = before;
  for (int e = 0; e < count; ++e) {
    const auto place = static_cast<size_t>(at + e * bits / 8);
    uint64_t value = values[static_cast<size_t>(e)];
    if (t.modifiers.op != ptx::Op::kNone) {
      value = atomic_result(t.modifiers.op, t.type(), false,
                            read_bytes(before.tile[1], place, bits / 8), value, 0)
                  .bits;
    }
    write_bytes(expected.tile[1], place, bits / 8, value);
  }
  const CopyState after = run_copy(request, before);
  EXPECT_TRUE(after == expected) << request.code << difference(after, expected);
  ledger.compared(t);
}

TEST(SlowReference, Bulk) {
  Ledger ledger(Group::kBulk);
  int number = 0;
  for (const Tuple& t : tuples_of(Group::kBulk)) {
    switch (t.opcode()) {
      case Opcode::kCpAsyncBulk:
      case Opcode::kCpReduceAsyncBulk:
        for (int i = 0; i < 6; ++i) check_bulk(t, number++, ledger);
        break;
      case Opcode::kStAsync:
      case Opcode::kRedAsync:
        for (int i = 0; i < 3; ++i) check_remote(t, number++, ledger);
        break;
      case Opcode::kCpAsyncBulkTensor:
      case Opcode::kCpReduceAsyncBulkTensor:
        check_tensor(t, ledger);
        break;
      default:  // commit and wait, around the others
        break;
    }
  }
  ledger.finish();
}

// ---- cp.async ----

struct Waiting {
  std::string text;
  std::vector<Tuple> tuples;
};

TEST(SlowReference, AsyncCopy) {
  Ledger ledger(Group::kAsyncCopy);
  std::vector<Tuple> copies;
  Tuple commit;
  Tuple wait_all;
  Tuple wait_group;
  for (const Tuple& t : tuples_of(Group::kAsyncCopy)) {
    if (t.opcode() == Opcode::kCpAsync) copies.push_back(t);
    if (t.opcode() == Opcode::kCpAsyncCommitGroup) commit = t;
    if (t.opcode() == Opcode::kCpAsyncWaitAll) wait_all = t;
    if (t.opcode() == Opcode::kCpAsyncWaitGroup) wait_group = t;
  }
  const Waiting waitings[] = {
      {wait_all.mnemonic + ";\n", {wait_all}},
      {commit.mnemonic + ";\n" + wait_group.mnemonic + " 0;\n", {commit, wait_group}},
      // An empty younger group may stay.
      {commit.mnemonic + ";\n" + commit.mnemonic + ";\n" + wait_group.mnemonic + " 1;\n",
       {commit, wait_group}}};
  int number = 0;
  for (const Tuple& t : copies) {
    for (const int bytes : {4, 8, 16}) {
      if (bytes != 16 && t.modifiers.cache == ptx::CacheOp::kCg) continue;
      for (int form = 0; form < 4; ++form) {  // plain, source size, ignored, not ignored
        for (const Waiting& waiting : waitings) {
          Random random(static_cast<uint64_t>(++number));
          const CopyState before = random_state(random);
          const auto size = static_cast<int>(random() % static_cast<uint64_t>(bytes + 1));
          CopyRequest request;
          request.all_threads = true;
          request.settings = settings_of(number);
          request.code = fmt::format(
              "mov.u32 %r9, %tid.x;\nmul.lo.u32 %r10, %r9, 48;\nadd.u32 %r10, %tile, %r10;\n"
              "xor.b32 %r11, %r9, 13;\nmul.wide.u32 %d9, %r11, 32;\nadd.u64 %d9, %global, %d9;\n"
              "mov.u32 %r12, {};\nsetp.eq.u32 %p5, {}, 2;\n{} [%r10+16], [%d9+64], {}",
              size, form, t.mnemonic, bytes);
          if (form == 1) request.code += ", %r12";
          if (form >= 2) request.code += ", %p5";
          request.code += ";\n" + waiting.text;
          CopyState expected = before;
          const int copied = form == 1 ? size : form == 2 ? 0 : bytes;
          for (size_t thread = 0; thread < 32; ++thread) {
            for (size_t i = 0; i < static_cast<size_t>(bytes); ++i) {
              expected.tile[0][thread * 48 + 16 + i] =
                  static_cast<int>(i) < copied ? before.global[(thread ^ 13) * 32 + 64 + i]
                                               : uint8_t{0};
            }
          }
          const CopyState after = run_copy(request, before);
          EXPECT_TRUE(after == expected) << request.code << difference(after, expected);
          ledger.compared(t);
          for (const Tuple& tuple : waiting.tuples) ledger.compared(tuple);
        }
      }
    }
  }
  ledger.finish();
}

}  // namespace
}  // namespace tilewright::emulator::slow
