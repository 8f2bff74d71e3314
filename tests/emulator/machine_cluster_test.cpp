// Clusters: ranks and addresses, the cluster barrier, and everything that reaches into another
// block's shared memory, under every schedule; and what a missing barrier does.
#include <gtest/gtest.h>

#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

constexpr std::string_view kClusterBarrier =
    "  barrier.cluster.arrive.aligned;\n  barrier.cluster.wait.aligned;\n";

// %r2 = data, %r3 = mbarrier, %r4 = own rank, %r5 = the next rank, %r1 = tid, %rd1 = out of the
// block (256 bytes), %rd3 = in, %p1 = first thread.
std::string kernel(std::string_view body) {
  return R"(
.visible .entry k(.param .u64 in, .param .u64 out)
{
  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
  .shared .align 128 .b8 data[1024];
  .shared .align 8 .b8 bar[8];
  ld.param.u64 %rd3, [in];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, data;
  mov.u32 %r3, bar;
  mov.u32 %r4, %cluster_ctarank;
  mov.u32 %r6, %cluster_nctarank;
  add.u32 %r5, %r4, 1;
  rem.u32 %r5, %r5, %r6;
  mov.u32 %r7, %ctaid.x;
  mul.wide.u32 %rd2, %r7, 256;
  add.s64 %rd1, %rd1, %rd2;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  shl.b32 %r8, %r1, 2;
  add.u32 %r8, %r8, %r2;
  setp.eq.u32 %p1, %r1, 0;
)" + std::string(body) +
         "\n  ret;\n}\n";
}

struct Ran {
  LaunchOutcome outcome;
  std::vector<uint32_t> values;  // 64 words per block
};

// `blocks` blocks of 64 threads in clusters of `size`.
Ran run(const std::string& text, uint32_t blocks, uint32_t size, const LaunchSettings& settings) {
  Machine machine("sm_90a");
  Ran ran;
  if (machine.load(text) == nullptr) return ran;
  std::vector<uint32_t> numbers(1024);
  for (uint32_t n = 0; n < 1024; ++n) numbers[n] = 5000 + n;
  const DeviceAddress in = machine.upload(numbers);
  const DeviceAddress out = machine.upload(std::vector<uint32_t>(size_t{blocks} * 64, 0xcccccccc));
  Arguments arguments;
  arguments.add(in).add(out);
  ran.outcome = machine.run("k", {blocks}, {64}, arguments, settings, 0, {size});
  ran.values = machine.download<uint32_t>(out, size_t{blocks} * 64);
  return ran;
}

std::string read_the_next(std::string_view first, std::string_view last) {
  return kernel(R"(
  mad.lo.u32 %r9, %r7, 1000, %r1;
  st.shared.u32 [%r8], %r9;
)" + std::string(first) +
                R"(
  mapa.shared::cluster.u32 %r10, %r8, %r5;
  ld.shared::cluster.u32 %r11, [%r10];
  st.global.u32 [%rd1], %r11;
)" + std::string(last));
}

TEST(Cluster, BlocksReadEachOthersSharedMemory) {
  bool first_shown = false;
  bool last_shown = false;
  const auto is_right = [](const Ran& ran) {
    for (uint32_t block = 0; block < 6; ++block) {
      const uint32_t peer = block / 3 * 3 + (block + 1) % 3;
      for (uint32_t t = 0; t < 64; ++t) {
        if (ran.values[block * 64 + t] != peer * 1000 + t) return false;
      }
    }
    return true;
  };
  under_every_schedule([&](LaunchSettings settings) {
    for (settings.host_threads = 1; settings.host_threads <= 2; ++settings.host_threads) {
      const Ran ran = run(read_the_next(kClusterBarrier, kClusterBarrier), 6, 3, settings);
      ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
      EXPECT_TRUE(is_right(ran));
    }
    const Ran no_first = run(read_the_next("", kClusterBarrier), 6, 3, settings);
    first_shown |= no_first.outcome.fault || !is_right(no_first);
    const Ran no_last = run(read_the_next(kClusterBarrier, ""), 6, 3, settings);
    last_shown |= no_last.outcome.fault || !is_right(no_last);
  });
  EXPECT_TRUE(first_shown);
  EXPECT_TRUE(last_shown);
}

TEST(Cluster, AddressesAndRanks) {
  const Ran ran = run(kernel(R"(
  mapa.shared::cluster.u32 %r10, %r2, 1;
  getctarank.shared::cluster.u32 %r11, %r10;
  sub.u32 %r12, %r10, %r2;
  cvt.u64.u32 %rd4, %r2;
  cvta.shared.u64 %rd5, %rd4;
  mapa.u64 %rd6, %rd5, 1;
  getctarank.u64 %r13, %rd6;
  isspacep.shared::cluster %p2, %rd6;
  isspacep.shared::cta %p3, %rd6;
  selp.u32 %r14, 1, 0, %p2;
  selp.u32 %r15, 1, 0, %p3;
  @!%p1 bra DONE;
  st.global.u32 [%rd1], %r11;
  st.global.u32 [%rd1+4], %r12;
  st.global.u32 [%rd1+8], %r13;
  st.global.u32 [%rd1+12], %r14;
  st.global.u32 [%rd1+16], %r15;
  st.global.u32 [%rd1+20], %r6;
DONE:
)"),
                      2, 2, {});
  ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
  for (uint32_t block = 0; block < 2; ++block) {
    const uint32_t* v = &ran.values[block * 64];
    EXPECT_EQ(v[0], 1u);
    EXPECT_EQ(v[1], block == 0 ? 1u << 24 : 0u);
    EXPECT_EQ(v[2], 1u);
    EXPECT_EQ(v[3], 1u);
    EXPECT_EQ(v[4], block == 0 ? 0u : 1u);
    EXPECT_EQ(v[5], 2u);
  }
}

// Every thread of every block arrives at the mbarrier of the next block, after writing there.
TEST(Cluster, RemoteStoresAndArrivals) {
  const auto text = [](std::string_view wait) {
    return kernel(
        "  @%p1 mbarrier.init.shared.b64 [%r3], 64;\n"
        "  fence.mbarrier_init.release.cluster;\n" +
        std::string(kClusterBarrier) + R"(
  mapa.shared::cluster.u32 %r10, %r8, %r5;
  mapa.shared::cluster.u32 %r11, %r3, %r5;
  add.u32 %r12, %r7, 70;
  st.shared::cluster.u32 [%r10], %r12;
  atom.shared::cluster.add.u32 %r13, [%r10], %r1;
  mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r11];
)" + std::string(wait) +
        R"(
  xor.b32 %r14, %r8, 252;
  ld.shared.u32 %r15, [%r14];
  st.global.u32 [%rd1], %r15;
)" + std::string(kClusterBarrier));
  };
  constexpr std::string_view kWait = R"(
WAIT:
  mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
)";
  bool shown = false;
  const auto is_right = [](const Ran& ran) {
    for (uint32_t block = 0; block < 4; ++block) {
      const uint32_t from = block / 4 * 4 + (block + 3) % 4;
      for (uint32_t t = 0; t < 64; ++t) {
        if (ran.values[block * 64 + t] != from + 70 + (63 - t)) return false;
      }
    }
    return true;
  };
  under_every_schedule([&](const LaunchSettings& settings) {
    const Ran ran = run(text(kWait), 4, 4, settings);
    ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
    EXPECT_TRUE(is_right(ran));
    const Ran unwaited = run(text(""), 4, 4, settings);
    shown |= unwaited.outcome.fault || !is_right(unwaited);
  });
  EXPECT_TRUE(shown);
}

// What lands through the peer's mbarrier: `issue` runs in the first thread (%r10: the peer's data,
// %r11: its mbarrier) and credits each block `bytes` bytes.
std::string delivery(std::string_view bytes, std::string_view issue, bool waits = true) {
  return kernel(
      "  @%p1 mbarrier.init.shared.b64 [%r3], 1;\n"
      "  add.u32 %r9, %r7, 900;\n  st.shared.u32 [%r8], %r9;\n"
      "  st.shared.u32 [%r8+512], %r9;\n  fence.proxy.async;\n" +
      std::string(kClusterBarrier) + "  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], " +
      std::string(bytes) + ";\n" + std::string(kClusterBarrier) + R"(
  mapa.shared::cluster.u32 %r10, %r2, %r5;
  mapa.shared::cluster.u32 %r11, %r3, %r5;
  @!%p1 bra ISSUED;
)" + std::string(issue) +
      "\nISSUED:\n" +
      (waits ? R"(
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
)"
             : "") +
      "  ld.shared.u32 %r15, [%r8];\n  st.global.u32 [%rd1], %r15;\n" +
      std::string(kClusterBarrier));
}

TEST(Cluster, AsynchronousDeliveries) {
  const struct {
    const char* name;
    const char* bytes;
    const char* issue;
    uint32_t (*expected)(uint32_t block, uint32_t t);
  } cases[] = {
      {"multicast", "256",
       "setp.eq.u32 %p4, %r4, 0;\n mov.u16 %h1, 3;\n @%p4 cp.async.bulk.shared::cluster.global."
       "mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%rd3], 256, [%r3], %h1;",
       [](uint32_t, uint32_t t) { return 5000 + t; }},
      {"push", "128",
       "add.u32 %r12, %r2, 512;\n cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::"
       "bytes [%r10], [%r12], 128, [%r11];",
       [](uint32_t block, uint32_t t) { return 900 + (t < 32 ? 1 - block : block); }},
      {"remote load", "64",
       "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd3+256], 64, "
       "[%r11];",
       [](uint32_t block, uint32_t t) { return t < 16 ? 5064 + t : 900 + block; }},
      {"st.async", "8",
       "st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.u32 [%r10+8], {%r9, %r4}, [%r11];",
       [](uint32_t block, uint32_t t) {
         return t == 2 ? 901 - block : t == 3 ? 1 - block : 900 + block;
       }},
      {"red.async", "4",
       "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r10+4], "
       "%r9, [%r11];",
       [](uint32_t block, uint32_t t) { return t == 1 ? 1801u : 900 + block; }},
  };
  for (const auto& c : cases) {
    bool shown = false;
    const auto is_right = [&](const Ran& ran) {
      for (uint32_t n = 0; n < 128; ++n) {
        if (ran.values[n] != c.expected(n / 64, n % 64)) return false;
      }
      return true;
    };
    const auto with_register = [](std::string text) {
      return text.replace(text.find(".reg .pred"), 0, ".reg .b16 %h<2>; ");
    };
    under_every_schedule([&](const LaunchSettings& settings) {
      const Ran ran = run(with_register(delivery(c.bytes, c.issue)), 2, 2, settings);
      ASSERT_FALSE(ran.outcome.fault) << c.name << describe(ran.outcome);
      EXPECT_TRUE(is_right(ran)) << c.name;
      const Ran unwaited = run(with_register(delivery(c.bytes, c.issue, false)), 2, 2, settings);
      shown |= unwaited.outcome.fault || !is_right(unwaited);
    });
    EXPECT_TRUE(shown) << c.name;
  }
}

TEST(Cluster, MisuseIsReported) {
  const auto report = [](std::string_view body, FaultKind kind) {
    const Ran ran = run(kernel(body), 2, 2, {});
    EXPECT_TRUE(ran.outcome.fault) << body;
    if (!ran.outcome.fault) return std::string();
    EXPECT_EQ(ran.outcome.fault->kind, kind) << describe(ran.outcome);
    return describe(ran.outcome);
  };
  report("barrier.cluster.wait;", FaultKind::kBarrier);
  report("barrier.cluster.arrive;\n barrier.cluster.arrive;", FaultKind::kBarrier);
  report("mapa.shared::cluster.u32 %r10, %r2, 2;", FaultKind::kOutOfBounds);
  report(
      "mapa.shared::cluster.u32 %r10, %r3, %r5;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [%r10];",
      FaultKind::kMbarrier);
  const std::string stuck = report(
      "setp.eq.u32 %p2, %r4, 0;\n @%p2 barrier.cluster.arrive;\n"
      "@%p2 barrier.cluster.wait;\n @%p2 ret;\n bar.sync 1, 64;\n"
      "WAIT:\n setp.eq.u32 %p3, %r1, 0;\n @%p3 barrier.cluster.arrive;\n"
      "@%p3 barrier.cluster.wait;\n bar.sync 2, 64;",
      FaultKind::kDeadlock);
  EXPECT_NE(stuck.find("waits at the cluster barrier"), std::string::npos) << stuck;
}

// The thread's half of the barrier: other work lies between arrive and wait, lanes diverge.
TEST(Cluster, ArriveAndWaitApartAndDivergent) {
  under_every_schedule([](const LaunchSettings& settings) {
    const Ran ran = run(kernel(R"(
  st.shared.u32 [%r8], %r7;
  and.b32 %r9, %r1, 1;
  setp.eq.u32 %p2, %r9, 0;
  @%p2 bra EVEN;
  barrier.cluster.arrive.release;
  barrier.cluster.wait.acquire;
  bra MEET;
EVEN:
  barrier.cluster.arrive.release;
  add.u32 %r10, %r1, 1;
  barrier.cluster.wait.acquire;
MEET:
  mapa.shared::cluster.u32 %r11, %r8, %r5;
  ld.shared::cluster.u32 %r12, [%r11];
  st.global.u32 [%rd1], %r12;
)" + std::string(kClusterBarrier)),
                        4, 2, settings);
    ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
    for (uint32_t n = 0; n < 256; ++n) EXPECT_EQ(ran.values[n], (n / 64) ^ 1);
  });
}

}  // namespace
}  // namespace tilewright::emulator::test
