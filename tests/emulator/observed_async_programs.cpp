// Asynchronous copies against everything else, their descriptors, and mbarriers.
#include "tests/emulator/observed_programs.h"

namespace tilewright::emulator::test {
namespace {

constexpr ObserverLevel kFull = ObserverLevel::kFull;

// An mbarrier for one arrival; thread 0 goes on to `issue`, all meet behind.
std::string with_mbarrier(const std::string& body) {
  return "  @%p1 mbarrier.init.shared.b64 [%r3], 1;\n  @%p1 mbarrier.init.shared.b64 [%r3+8], 32;\n"
         "  bar.sync 0;\n" +
         body;
}
// Thread 0 loads 128 bytes to tile + `offset`.
std::string load(const char* offset, const char* mark = "") {
  return std::string(
             "  @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;\n"
             "  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2") +
         offset + "], [%rd1], 128, [%r3];" + mark + "\n";
}
std::string wait(const char* label, const char* barrier = "[%r3]", const char* parity = "0") {
  return std::string(label) + ":\n  mbarrier.try_wait.parity.shared.b64 %p3, " + barrier + ", " +
         parity + ";\n  @!%p3 bra " + label + ";\n";
}
const std::string kClear =
    std::string(kClearTile) + "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n";
// Thread 0 stores 128 bytes of tile.
std::string store(const char* mark = "") {
  return std::string("  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 128;") +
         mark + "\n  @%p1 cp.async.bulk.commit_group;\n";
}
const std::string kReadWait = "  @%p1 cp.async.bulk.wait_group.read 0;\n";

}  // namespace

std::vector<ObservedProgram> async_programs() {
  using enum FaultKind;
  return {
      // ---- cp.async ----
      {kAsynchronous, "copy_not_awaited",
       "  cp.async.ca.shared.global [%r4], [%rd4], 4; //!\n  cp.async.commit_group;\n"
       "  ld.shared.u32 %r10, [%r4]; //!\n",
       "  cp.async.ca.shared.global [%r4], [%rd4], 4;\n  cp.async.commit_group;\n"
       "  cp.async.wait_group 0;\n  ld.shared.u32 %r10, [%r4];\n",
       32, "in flight"},
      {kAsynchronous, "copy_of_the_newest_group",
       "  cp.async.ca.shared.global [%r4], [%rd4], 4;\n  cp.async.commit_group;\n"
       "  cp.async.ca.shared.global [%r4+128], [%rd4], 4; //!\n  cp.async.commit_group;\n"
       "  cp.async.wait_group 1;\n  ld.shared.u32 %r10, [%r4+128]; //!\n",
       "  cp.async.ca.shared.global [%r4], [%rd4], 4;\n  cp.async.commit_group;\n"
       "  cp.async.ca.shared.global [%r4+128], [%rd4], 4;\n  cp.async.commit_group;\n"
       "  cp.async.wait_group 1;\n  ld.shared.u32 %r10, [%r4];\n  cp.async.wait_all;\n",
       32, "in flight"},
      {kAsynchronous, "copy_not_awaited_by_a_store",
       kClear + "  cp.async.ca.shared.global [%r4], [%rd4], 4; //!\n" + store(" //!") +
           "  cp.async.wait_all;\n" + kReadWait,
       kClear +
           "  cp.async.ca.shared.global [%r4], [%rd4], 4;\n  cp.async.wait_all;\n"
           "  fence.proxy.async;\n  bar.sync 0;\n" +
           store() + kReadWait,
       32, "read of shared address"},
      {kAsynchronous, "copy_awaited_behind_the_barrier",
       "  cp.async.ca.shared.global [%r4], [%rd4], 4; //!\n  bar.sync 0;\n  cp.async.wait_all;\n"
       "  ld.shared.u32 %r10, [%r5]; //!\n",
       "  cp.async.ca.shared.global [%r4], [%rd4], 4;\n  cp.async.wait_all;\n  bar.sync 0;\n"
       "  ld.shared.u32 %r10, [%r5];\n",
       64, "", kFull},
      {kAsynchronous, "copy_into_a_slot_in_use",
       kClear +
           "  ld.shared.u32 %r10, [%r5]; //!\n  cp.async.ca.shared.global [%r4], [%rd4], 4; //!\n"
           "  cp.async.wait_all;\n",
       kClear + "  ld.shared.u32 %r10, [%r5];\n  bar.sync 0;\n"
                "  cp.async.ca.shared.global [%r4], [%rd4], 4;\n  cp.async.wait_all;\n",
       64, "", kFull},
      // ---- bulk loads ----
      {kAsynchronous, "load_not_awaited",
       with_mbarrier(load("", " //!") + "  @%p1 ld.shared.u32 %r10, [%r2]; //!\n" + wait("W")),
       with_mbarrier(load("") + wait("W") + "  @%p1 ld.shared.u32 %r10, [%r2];\n"), 32, "", kFull},
      {kAsynchronous, "load_awaited_by_another_lane",
       with_mbarrier(load("", " //!") + "  @!%p1 bra L;\n" + wait("W") +
                     "L:\n  ld.shared.u32 %r10, [%r4]; //!\n"),
       with_mbarrier(load("") + "  @!%p1 bra L;\n" + wait("W") +
                     "L:\n  bar.warp.sync 0xffffffff;\n  ld.shared.u32 %r10, [%r4];\n"),
       32, "", kFull},
      {kAsynchronous, "load_awaited_at_another_mbarrier",
       with_mbarrier(load("", " //!") + "  mbarrier.arrive.shared.b64 _, [%r3+8];\n" +
                     wait("W", "[%r3+8]") + "  ld.shared.u32 %r10, [%r4]; //!\n" + wait("V")),
       with_mbarrier(load("") + "  mbarrier.arrive.shared.b64 _, [%r3+8];\n" +
                     wait("W", "[%r3+8]") + wait("V") + "  ld.shared.u32 %r10, [%r4];\n"),
       32, "", kFull},
      {kAsynchronous, "load_into_a_slot_in_use",
       // The readers do not tell thread 0 that they are done.
       kClear + with_mbarrier("  @!%p2 bra READ;\n" + load("", " //!") + wait("W") +
                              "  bra E;\nREAD:\n  ld.shared.u32 %r10, [%r5]; //!\nE:\n"),
       // One arrival a lane, no proxy fence.
       kClear + with_mbarrier("  @!%p2 bra READ;\n" + wait("V", "[%r3+8]") + load("") + wait("W") +
                              "  bra E;\nREAD:\n  ld.shared.u32 %r10, [%r5];\n"
                              "  mbarrier.arrive.shared.b64 _, [%r3+8];\nE:\n"),
       64, "", kFull},
      {kAsynchronous, "two_loads_into_one_slot",
       with_mbarrier("  @%p1 mbarrier.expect_tx.shared::cta.b64 [%r3], 128;\n"
                     "  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%r2], [%rd1], 128, [%r3]; //!\n" +
                     load("+64", " //!") + wait("W")),
       with_mbarrier("  @%p1 mbarrier.expect_tx.shared::cta.b64 [%r3], 128;\n"
                     "  @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%r2], [%rd1], 128, [%r3];\n" +
                     load("+128") + wait("W")),
       32, "", kFull},
      {kAsynchronous, "write_over_a_load",
       with_mbarrier(load("", " //!") + "  @%p1 st.shared.u32 [%r2+64], 0; //!\n" + wait("W")),
       with_mbarrier(load("") + "  @%p1 st.shared.u32 [%r2+128], 0;\n" + wait("W")), 32, "", kFull},
      // ---- bulk stores ----
      {kAsynchronous, "store_source_overwritten",
       kClear + store(" //!") + "  @%p1 st.shared.u32 [%r2], 1; //!\n" + kReadWait,
       kClear + store() + kReadWait + "  @%p1 st.shared.u32 [%r2], 1;\n", 32, "", kFull},
      {kAsynchronous, "store_source_overwritten_by_others",
       kClear + store(" //!") + kReadWait + "  st.shared.u32 [%r4], 1; //!\n",
       kClear + store() + kReadWait + "  bar.warp.sync 0xffffffff;\n  st.shared.u32 [%r4], 1;\n",
       32, "", kFull},
      {kAsynchronous, "store_awaited_by_another_lane",
       // A bulk group is its issuer's own.
       kClear + store(" //!") +
           "  setp.eq.u32 %p4, %r1, 1;\n  @%p4 cp.async.bulk.wait_group.read 0;\n"
           "  bar.warp.sync 0xffffffff;\n  @%p4 st.shared.u32 [%r2], 1; //!\n" +
           kReadWait,
       kClear + store() + kReadWait +
           "  setp.eq.u32 %p4, %r1, 1;\n  bar.warp.sync 0xffffffff;\n"
           "  @%p4 st.shared.u32 [%r2], 1;\n",
       32, "", kFull},
      {kAsynchronous, "store_of_the_newest_group",
       kClear + store(" //!") +
           "  @%p1 cp.async.bulk.commit_group;\n  @%p1 cp.async.bulk.wait_group.read 2;\n"
           "  @%p1 st.shared.u32 [%r2], 1; //!\n" +
           kReadWait,
       kClear + store() +
           "  @%p1 cp.async.bulk.commit_group;\n  @%p1 cp.async.bulk.wait_group.read 1;\n"
           "  @%p1 st.shared.u32 [%r2], 1;\n" +
           kReadWait,
       32, "", kFull},
      {kAsynchronous, "block_ends_before_its_store", kClear + store(" //!"),
       kClear + store() + kReadWait, 32, "may still be read"},

      // ---- mbarriers ----
      {kMbarrier, "mbarrier_not_initialised", "  mbarrier.arrive.shared.b64 _, [%r3]; //!\n",
       "  mbarrier.init.shared.b64 [%r3], 1;\n  mbarrier.arrive.shared.b64 _, [%r3];\n", 1,
       "not initialised"},
      {kMbarrier, "mbarrier_count_of_none", "  mbarrier.init.shared.b64 [%r3], 0; //!\n",
       "  mbarrier.init.shared.b64 [%r3], 1048575;\n", 1, "count of 0"},
      {kMbarrier, "mbarrier_arrivals_beyond_its_count",
       "  mbarrier.init.shared.b64 [%r3], 1;\n  mbarrier.arrive.shared.b64 _, [%r3], 2; //!\n",
       "  mbarrier.init.shared.b64 [%r3], 2;\n  mbarrier.arrive.shared.b64 _, [%r3], 2;\n", 1,
       "an arrival of 2"},
      {kMbarrier, "mbarrier_overwritten",
       "  mbarrier.init.shared.b64 [%r3], 1;\n  st.shared.u32 [%r3], 5;\n"
       "  mbarrier.arrive.shared.b64 _, [%r3]; //!\n",
       "  mbarrier.init.shared.b64 [%r3], 1;\n  st.shared.u32 [%r3+8], 5;\n"
       "  mbarrier.arrive.shared.b64 _, [%r3];\n",
       1, "overwritten"},
      {kMbarrier, "mbarrier_used_beside_its_init",
       // In front of the barrier the init may be still to come.
       "  @%p1 mbarrier.init.shared.b64 [%r3], 1; //!\n  setp.eq.u32 %p4, %r1, 1;\n"
       "  @%p4 mbarrier.arrive.shared.b64 _, [%r3]; //!\n",
       "  @%p1 mbarrier.init.shared.b64 [%r3], 1;\n  setp.eq.u32 %p4, %r1, 1;\n"
       "  bar.warp.sync 0xffffffff;\n  @%p4 mbarrier.arrive.shared.b64 _, [%r3];\n",
       32, "init by thread (0, 0, 0)", kFull},

      {kMbarrier, "mbarrier_init_without_its_fence",
       // Across a relaxed arrival at the cluster barrier.
       "  @%p1 mbarrier.init.shared.b64 [%r3], 1; //!\n  barrier.cluster.arrive.relaxed;\n"
       "  barrier.cluster.wait;\n  setp.eq.u32 %p4, %r1, 1;\n"
       "  @%p4 mbarrier.arrive.shared.b64 _, [%r3]; //!\n",
       "  @%p1 mbarrier.init.shared.b64 [%r3], 1;\n  @%p1 fence.mbarrier_init.release.cluster;\n"
       "  barrier.cluster.arrive.relaxed;\n  barrier.cluster.wait;\n  setp.eq.u32 %p4, %r1, 1;\n"
       "  @%p4 mbarrier.arrive.shared.b64 _, [%r3];\n",
       32, "init by thread (0, 0, 0)", kFull},

      // ---- tensor maps ----
      {kDescriptor, "tensor_map_missing",
       with_mbarrier("  @%p1 mbarrier.expect_tx.shared::cta.b64 [%r3], 128;\n"
                     "  @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::"
                     "complete_tx::bytes [%r2], [%rd1, {%r1, %r1}], [%r3]; //!\n"),
       with_mbarrier(load("") + wait("W")), 32, "no tensor map"},
  };
}

}  // namespace tilewright::emulator::test
