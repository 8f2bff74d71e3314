// Every ld, ldu and st: all spaces (generic ones into each space), a peer's shared memory in a
// cluster, vectors, cache operators and orders, into registers of the type's width and wider.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/assembly.h"
#include "tests/emulator/slow_reference/scalar.h"
#include "tests/emulator/slow_reference/values.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::StateSpace;

constexpr int kThreads = 64;  // of a block; the two blocks are a cluster
constexpr int kBlocks = 2;
constexpr int kWindow = 16;  // bytes per thread
constexpr int kArea = kThreads * kWindow;
constexpr uint64_t kSentinel = 0xa5a5a5a5a5a5a5a5;

// Thread whose window `thread` reads or writes.
int partner(int thread) { return (thread * 7 + 3) % kThreads; }

struct Parameter {
  alignas(16) std::byte bytes[32];
};

// Where an access goes.
enum class Place : uint8_t { kGlobal, kShared, kPeer, kLocal, kConst, kParam, kReturned };
const char* base_register(Place place, bool generic) {
  switch (place) {
    case Place::kGlobal:
      return "%global";
    case Place::kShared:
      return generic ? "%generic_shared" : "%shared";
    case Place::kPeer:
      return generic ? "%generic_peer" : "%peer";
    case Place::kLocal:
      return generic ? "%generic_local" : "%local";
    case Place::kConst:
      return generic ? "%generic_const" : "%const";
    case Place::kParam:
      return generic ? "%generic_param" : "parameter";
    case Place::kReturned:
      return "returned";
  }
  return "";
}

std::vector<Place> places_of(const Tuple& t) {
  const bool store = t.opcode() == ptx::Opcode::kSt;
  switch (t.modifiers.space) {
    case StateSpace::kGlobal:
      return {Place::kGlobal};
    case StateSpace::kShared:
      return {Place::kShared};
    case StateSpace::kSharedCluster:
      return {Place::kShared, Place::kPeer};
    case StateSpace::kLocal:
      return {Place::kLocal};
    case StateSpace::kConst:
      return {Place::kConst};
    case StateSpace::kParam:
      if (store) return {Place::kReturned};
      if (t.mnemonic.find("::func") != std::string::npos) return {Place::kReturned};
      if (t.mnemonic.find("::entry") != std::string::npos) return {Place::kParam};
      return {Place::kParam, Place::kReturned};
    default:
      break;
  }
  if (store || t.opcode() == ptx::Opcode::kLdu || t.has(ptx::Flag::kMmio)) {
    if (t.opcode() != ptx::Opcode::kSt || t.has(ptx::Flag::kMmio)) return {Place::kGlobal};
    return {Place::kGlobal, Place::kShared, Place::kPeer, Place::kLocal};
  }
  return {Place::kGlobal, Place::kShared, Place::kPeer,
          Place::kLocal,  Place::kConst,  Place::kParam};
}

constexpr const char* kIdentity =
    ".func (.param .align 16 .b8 result[32]) identity(.param .align 16 .b8 given[32])\n{\n"
    ".reg .b64 %d<8>;\nld.param.v2.b64 {%d0, %d1}, [given];\n"
    "ld.param.v2.b64 {%d2, %d3}, [given+16];\nst.param.v2.b64 [result], {%d0, %d1};\n"
    "st.param.v2.b64 [result+16], {%d2, %d3};\nret;\n}\n";

struct Access {
  const Tuple* tuple = nullptr;
  Place place = Place::kGlobal;
  bool wide = false;
  bool guarded = false;  // only threads divisible by 3 take part
  int offset = 0;        // in the window
  int slot = 0;
};

class Program {
 public:
  explicit Program(uint64_t seed) : random_(seed) {
    for (auto* bytes : {&data_, &constants_, &source_}) {
      bytes->resize(kBlocks * kArea);
      for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random_());
    }
    for (std::byte& byte : parameter_.bytes) byte = static_cast<std::byte>(random_());
  }
  bool is_full() const { return accesses_.size() >= 400; }

  void add(const Tuple& tuple, Place place, bool wide) {
    const int bytes = ptx::type_bits(tuple.type()) / 8 * tuple.modifiers.vector;
    const int offset = static_cast<int>(random_() % static_cast<uint64_t>(kWindow / bytes)) * bytes;
    accesses_.push_back({&tuple, place, wide, wide, offset, static_cast<int>(accesses_.size())});
    body_ += tuple.opcode() == ptx::Opcode::kSt ? store(accesses_.back()) : load(accesses_.back());
  }

  void run(Ledger& ledger, int& failures) {
    test::Machine machine("sm_90a");
    if (machine.load(text()) == nullptr) {
      ++failures;
      return;
    }
    std::vector<uint64_t> nothing(accesses_.size() * kBlocks * kThreads * 4, kSentinel);
    const DeviceAddress in = machine.upload(data_);
    const DeviceAddress from = machine.upload(source_);
    const DeviceAddress out = machine.upload(nothing);
    LaunchSettings settings;
    settings.observers = ObserverLevel::kMemory;
    const LaunchOutcome outcome = machine.run(
        "k", {kBlocks}, {kThreads}, test::Arguments().add(parameter_).add(in).add(from).add(out),
        settings, 0, {kBlocks});
    ASSERT_FALSE(outcome.fault) << test::describe(outcome);
    const auto results = machine.download<uint64_t>(out, nothing.size());
    for (const Access& access : accesses_) {
      for (int i = 0; i < kBlocks * kThreads; ++i) {
        check(access, i / kThreads, i % kThreads,
              &results[static_cast<size_t>(access.slot * kBlocks * kThreads + i) * 4], ledger,
              failures);
      }
    }
  }

 private:
  static std::string place_result(int slot, int element) {
    return fmt::format("[%out+{}]", slot * kBlocks * kThreads * 32 + element * 8);
  }
  static int register_bits(const Access& access) {
    const int bits = std::max(16, ptx::type_bits(access.tuple->type()));
    return access.wide && bits < 64 && !is_exact(access) ? bits * 2 : bits;
  }
  // f32 and f64 name their registers' kind; 128 bits have no wider one.
  static bool is_exact(const Access& access) {
    return ptx::is_float(access.tuple->type()) || access.tuple->type() == ptx::Type::kB128;
  }
  static std::string address(const Access& access) {
    const bool generic = access.tuple->modifiers.space == StateSpace::kGeneric;
    std::string base = base_register(access.place, generic);
    if (access.place == Place::kShared && !generic && access.wide) base = "%shared64";
    return fmt::format("[{}+{}]", base, access.offset);
  }
  static std::string value_list(const Access& access) {
    const int count = access.tuple->modifiers.vector;
    if (access.tuple->type() == ptx::Type::kB128) return "%q0";
    if (count == 1) return register_name(register_bits(access), 0);
    std::string list = "{";
    for (int e = 0; e < count; ++e) {
      list += (e > 0 ? ", " : "") + register_name(register_bits(access), e);
    }
    return list + "}";
  }

  std::string load(const Access& access) {
    const int bits = register_bits(access);
    const bool quad = access.tuple->type() == ptx::Type::kB128;
    std::string all;
    for (int e = 0; e < access.tuple->modifiers.vector && !quad; ++e) {
      all += fmt::format("mov.b{} {}, {:#x};\n", bits, register_name(bits, e),
                         low_bits(kSentinel, bits));
    }
    if (quad) all += fmt::format("mov.b64 %d0, {0:#x}; mov.b128 %q0, {{%d0, %d0}};\n", kSentinel);
    std::string instruction =
        fmt::format("{}{} {}, {};\n", access.guarded ? "@%guard " : "", access.tuple->mnemonic,
                    value_list(access), address(access));
    if (access.place == Place::kReturned) {
      all +=
          "{\n.param .align 16 .b8 given[32];\n.param .align 16 .b8 returned[32];\n"
          "st.param.v2.b64 [given], {%own0, %own1};\nst.param.v2.b64 [given+16], {%own0, "
          "%own1};\ncall (returned), identity, (given);\n" +
          instruction + "}\n";
    } else {
      all += instruction;
    }
    if (quad) {
      all += "mov.b128 {%d0, %d1}, %q0;\n";
      for (int e = 0; e < 2; ++e) {
        all += fmt::format("st.global.b64 {}, %d{};\n", place_result(access.slot, e), e);
      }
      return all;
    }
    for (int e = 0; e < access.tuple->modifiers.vector; ++e) {
      all += fmt::format("st.global.b{} {}, {};\n", bits, place_result(access.slot, e),
                         register_name(bits, e));
    }
    return all;
  }

  // Sentinels into the window, the store, the window to the results.
  std::string store(const Access& access) {
    const int bits = register_bits(access);
    const bool quad = access.tuple->type() == ptx::Type::kB128;
    std::string all = fmt::format("mov.b64 %d9, {:#x};\n", kSentinel);
    if (quad) {
      all += "ld.global.v2.b64 {%d0, %d1}, [%source]; mov.b128 %q0, {%d0, %d1};\n";
    }
    for (int e = 0; e < access.tuple->modifiers.vector && !quad; ++e) {
      const int step = bits / 8 * access.tuple->modifiers.vector <= kWindow ? bits / 8 : 0;
      all +=
          fmt::format("ld.global.b{} {}, [%source+{}];\n", bits, register_name(bits, e), e * step);
    }
    std::string instruction =
        fmt::format("{}{} {}, {};\n", access.guarded ? "@%guard " : "", access.tuple->mnemonic,
                    address(access), value_list(access));
    const std::string keep =
        fmt::format("st.global.v2.b64 {}, {{%d0, %d1}};\n", place_result(access.slot, 0));
    switch (access.place) {
      case Place::kGlobal:
        return all +
               fmt::format("add.u64 %global, %target, {};\n",
                           access.slot * kBlocks * kThreads * 32) +
               instruction;
      case Place::kShared:
        return all + "st.shared.v2.b64 [%own], {%d9, %d9};\nbar.sync 0;\n" + instruction +
               "bar.sync 0;\nld.shared.v2.b64 {%d0, %d1}, [%own];\n" + keep;
      case Place::kPeer:
        return all +
               "st.shared.v2.b64 [%own], {%d9, %d9};\nbarrier.cluster.arrive;\n"
               "barrier.cluster.wait;\n" +
               instruction +
               "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
               "ld.shared.v2.b64 {%d0, %d1}, [%own];\n" +
               keep;
      case Place::kLocal:
        return all + "st.local.v2.b64 [%local], {%d9, %d9};\n" + instruction +
               "ld.local.v2.b64 {%d0, %d1}, [%local];\n" + keep;
      default: {
        instruction.replace(instruction.find("[returned"), 9, "[given");
        return all +
               "{\n.param .align 16 .b8 given[32];\n.param .align 16 .b8 returned[32];\n"
               "st.param.v2.b64 [given], {%d9, %d9};\nst.param.v2.b64 [given+16], {%d9, %d9};\n" +
               instruction +
               "call (returned), identity, (given);\nld.param.v2.b64 {%d0, %d1}, [returned];\n}\n" +
               keep;
      }
    }
  }

  std::string text() const {
    std::string initial;
    for (const std::byte byte : constants_) {
      initial += fmt::format("{}{}", initial.empty() ? "" : ",", static_cast<int>(byte));
    }
    return fmt::format(".const .align 16 .b8 constants[{}] = {{{}}};\n", constants_.size(),
                       initial) +
           kIdentity +
           ".visible .entry k(.param .align 16 .b8 parameter[32], .param .u64 in, .param .u64 "
           "from, "
           ".param .u64 out)\n{\n" +
           register_declarations(16) +
           ".reg .pred %guard;\n.reg .b32 %thread, %cta, %other, %partner, %shared, %peer, %own;\n"
           ".reg .b64 %global, %generic_shared, %generic_peer, %generic_local, %generic_const;\n"
           ".reg .b64 %generic_param, %local, %const, %shared64, %out, %t, %source, %own0, %own1;\n"
           ".reg .b64 %target;\n.shared .align 16 .b8 window[1024];\n.local .align 16 .b8 "
           "frame[16];\n"
           "mov.u32 %thread, %tid.x;\nmov.u32 %cta, %cluster_ctarank;\nxor.b32 %other, %cta, 1;\n"
           "mad.lo.u32 %partner, %thread, 7, 3;\nand.b32 %partner, %partner, 63;\n"
           "shl.b32 %partner, %partner, 4;\n"
           "rem.u32 %r0, %thread, 3;\nsetp.eq.u32 %guard, %r0, 0;\n"
           "ld.param.u64 %global, [in];\nmad.lo.u32 %r1, %cta, 1024, %partner;\n"
           "cvt.u64.u32 %t, %r1;\nadd.u64 %global, %global, %t;\n"
           // Own 16 bytes, into shared and local memory.
           "ld.param.u64 %d0, [in];\nshl.b32 %r2, %thread, 4;\nmad.lo.u32 %r3, %cta, 1024, %r2;\n"
           "cvt.u64.u32 %t, %r3;\nadd.u64 %d0, %d0, %t;\nld.global.v2.b64 {%own0, %own1}, [%d0];\n"
           "mov.u32 %own, window;\nadd.u32 %shared, %own, %partner;\nadd.u32 %own, %own, %r2;\n"
           "st.shared.v2.b64 [%own], {%own0, %own1};\nmov.u64 %local, frame;\n"
           "st.local.v2.b64 [%local], {%own0, %own1};\n"
           "cvt.u64.u32 %shared64, %shared;\nmapa.shared::cluster.u32 %peer, %shared, %other;\n"
           "cvta.shared.u64 %generic_shared, %shared64;\n"
           "cvt.u64.u32 %t, %peer;\ncvta.shared::cluster.u64 %generic_peer, %t;\n"
           "cvta.local.u64 %generic_local, %local;\n"
           "mov.u64 %const, constants;\ncvt.u64.u32 %t, %partner;\nadd.u64 %const, %const, %t;\n"
           "cvta.const.u64 %generic_const, %const;\n"
           "mov.u64 %t, parameter;\ncvta.param.u64 %generic_param, %t;\n"
           "ld.param.u64 %source, [from];\ncvt.u64.u32 %t, %r3;\nadd.u64 %source, %source, %t;\n"
           "ld.param.u64 %out, [out];\nmad.lo.u32 %r4, %cta, 64, %thread;\nshl.b32 %r4, %r4, 5;\n"
           "cvt.u64.u32 %t, %r4;\nadd.u64 %out, %out, %t;\n"
           // The partner's result, for stores to global memory.
           "ld.param.u64 %target, [out];\nshl.b32 %r5, %partner, 1;\nmad.lo.u32 %r5, %cta, 2048, "
           "%r5;\n"
           "cvt.u64.u32 %t, %r5;\nadd.u64 %target, %target, %t;\n"
           "barrier.cluster.arrive;\nbarrier.cluster.wait;\n" +
           body_ + "barrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}\n";
  }

  // The 16 bytes that a load of `thread` sees.
  const std::byte* seen(const Access& access, int block, int thread) const {
    switch (access.place) {
      case Place::kGlobal:
      case Place::kShared:
        return &data_[static_cast<size_t>(block * kArea + partner(thread) * kWindow)];
      case Place::kPeer:
        return &data_[static_cast<size_t>((1 - block) * kArea + partner(thread) * kWindow)];
      case Place::kLocal:
      case Place::kReturned:
        return &data_[static_cast<size_t>(block * kArea + thread * kWindow)];
      case Place::kConst:
        return &constants_[static_cast<size_t>(partner(thread) * kWindow)];
      case Place::kParam:
        return parameter_.bytes;
    }
    return nullptr;
  }
  static uint64_t little_endian(const std::byte* bytes, int count) {
    uint64_t value = 0;
    for (int i = 0; i < count; ++i) value |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    return value;
  }

  void check(const Access& access, int block, int thread, const uint64_t* actual, Ledger& ledger,
             int& failures) const {
    const Tuple& t = *access.tuple;
    const bool quad = t.type() == ptx::Type::kB128;
    const int count = quad ? 2 : t.modifiers.vector;
    const int bytes = quad ? 8 : ptx::type_bits(t.type()) / 8;
    std::vector<uint64_t> expected(4, kSentinel);
    const int bits = quad ? 64 : register_bits(access);
    if (t.opcode() != ptx::Opcode::kSt) {
      const std::byte* from = seen(access, block, thread) + access.offset;
      for (int e = 0; e < count; ++e) {
        uint64_t value = little_endian(from + e * bytes, bytes);
        if (ptx::is_signed(t.type())) value = static_cast<uint64_t>(signed_value(value, 8 * bytes));
        if (access.guarded && thread % 3 != 0) value = kSentinel;
        expected[static_cast<size_t>(e)] =
            low_bits(value, bits) | (bits < 64 ? kSentinel >> bits << bits : 0);
      }
    } else {
      // The thread whose store lands in this thread's window.
      int writer = thread;
      int writer_block = block;
      if (access.place == Place::kGlobal || access.place == Place::kShared ||
          access.place == Place::kPeer) {
        while (partner(writer) != thread) writer = (writer + 1) % kThreads;
      }
      if (access.place == Place::kPeer) writer_block = 1 - block;
      std::byte window[kWindow];
      for (std::byte& byte : window) byte = std::byte{0xa5};
      if (!access.guarded || writer % 3 == 0) {
        const std::byte* from =
            &source_[static_cast<size_t>(writer_block * kArea + writer * kWindow)];
        const int step = bits / 8 * t.modifiers.vector <= kWindow ? bits / 8 : 0;
        for (int e = 0; e < count; ++e) {
          for (int i = 0; i < bytes; ++i) {
            window[access.offset + e * bytes + i] = from[e * (quad ? 8 : step) + i];
          }
        }
      }
      expected[0] = little_endian(window, 8);
      expected[1] = little_endian(window + 8, 8);
    }
    ledger.compared(t);
    for (size_t e = 0; e < 4; ++e) {
      if (actual[e] == expected[e]) continue;
      if (++failures > 40) return;
      ADD_FAILURE() << t.mnemonic
                    << fmt::format(
                           " place {} wide {} block {} thread {} word {}: {:#x}, "
                           "expected {:#x} round 0",
                           static_cast<int>(access.place), access.wide, block, thread, e, actual[e],
                           expected[e]);
      return;
    }
  }

  Random random_;
  std::vector<std::byte> data_;
  std::vector<std::byte> constants_;
  std::vector<std::byte> source_;
  Parameter parameter_{};
  std::vector<Access> accesses_;
  std::string body_;
};

TEST(SlowReference, LoadStore) {
  const std::vector<Tuple> tuples = tuples_of(Group::kLoadStore);
  Ledger ledger(Group::kLoadStore);
  int failures = 0;
  // Loads and stores apart: stores overwrite what loads expect.
  for (const bool stores : {false, true}) {
    uint64_t seed = 1;
    Program program(seed);
    for (const Tuple& tuple : tuples) {
      if ((tuple.opcode() == ptx::Opcode::kSt) != stores) continue;
      for (const Place place : places_of(tuple)) {
        for (const bool wide : {false, true}) {
          program.add(tuple, place, wide);
          if (!program.is_full()) continue;
          program.run(ledger, failures);
          program = Program(++seed);
        }
      }
    }
    program.run(ledger, failures);
  }
  EXPECT_EQ(failures, 0);
  ledger.finish();
}

}  // namespace
}  // namespace tilewright::emulator::slow
