// Ordinary writes that the async proxy meets without a proxy fence of the writer.
#include "tests/emulator/observed_programs.h"

namespace tilewright::emulator::test {
namespace {

const std::string kFence = "  fence.proxy.async.shared::cta;\n";
const std::string kBarrier = "  bar.sync 0;\n";
// Each thread writes its word of tile.
const std::string kWrite = "  st.shared.u32 [%r4], %r1; //!\n";
const std::string kSilentWrite = "  st.shared.u32 [%r4], %r1;\n";
// Thread 0 stores the first 128 bytes of tile.
std::string store(const char* mark = "") {
  return std::string("  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 128;") +
         mark + "\n  @%p1 cp.async.bulk.commit_group;\n  @%p1 cp.async.bulk.wait_group.read 0;\n";
}
const std::string kMarkedStore = store(" //!");
// Thread 0 loads 128 bytes to tile and waits for them.
std::string load(const char* mark = "") {
  return std::string(
             "  @!%p1 bra LOADED;\n  mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 128;\n"
             "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
             "[%r2], [%rd1], 128, [%r3];") +
         mark +
         "\nWAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n  @!%p3 bra "
         "WAIT;\nLOADED:\n";
}
const std::string kMbarrier = "  @%p1 mbarrier.init.shared.b64 [%r3], 1;\n  bar.sync 0;\n";

}  // namespace

std::vector<ObservedProgram> proxy_programs() {
  constexpr FaultKind kProxy = FaultKind::kProxy;
  constexpr ObserverLevel kFull = ObserverLevel::kFull;
  return {
      {kProxy, "proxy_store_without_fence", kWrite + kBarrier + kMarkedStore,
       kSilentWrite + kFence + kBarrier + store(), 64, "fence.proxy.async", kFull},
      {kProxy, "proxy_store_of_own_write",
       "  @%p1 st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1}; //!\n"
       "  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16; //!\n",
       "  @%p1 st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};\n" + kFence +
           "  @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;\n"
           "  @%p1 cp.async.bulk.commit_group;\n  @%p1 cp.async.bulk.wait_group 0;\n",
       32, "", kFull},
      {kProxy, "proxy_fence_behind_the_barrier", kWrite + kBarrier + kFence + kMarkedStore,
       kSilentWrite + kFence + kBarrier + store(), 64, "", kFull},
      {kProxy, "proxy_fence_by_one_thread_for_all",
       kWrite + "  @%p1 fence.proxy.async.shared::cta;\n" + kBarrier + kMarkedStore,
       kSilentWrite + kFence + kBarrier + store(), 64, "", kFull},
      {kProxy, "proxy_fence_before_the_write", kFence + kWrite + kBarrier + kMarkedStore,
       kSilentWrite + kFence + kBarrier + store(), 64, "", kFull},
      {kProxy, "proxy_fence_of_global_memory",
       kWrite + "  fence.proxy.async.global;\n" + kBarrier + kMarkedStore,
       kSilentWrite + "  fence.proxy.async;\n" + kBarrier + store(), 64, "", kFull},
      {kProxy, "proxy_write_behind_the_fence",
       kSilentWrite + kFence + kBarrier + "  @%p1 st.shared.u32 [%r2+64], 3; //!\n" + kBarrier +
           kMarkedStore,
       "  @%p1 st.shared.u32 [%r2+64], 3;\n" + kBarrier + kSilentWrite + kFence + kBarrier +
           store(),
       32, "", kFull},
      {kProxy, "proxy_store_of_an_atomic",
       kSilentWrite + kFence + kBarrier + "  red.shared.add.u32 [%r4], 1; //!\n" + kBarrier +
           kMarkedStore,
       kSilentWrite + kFence + kBarrier + "  red.shared.add.u32 [%r4], 1;\n" + kFence + kBarrier +
           store(),
       64, "", kFull},
      {kProxy, "proxy_load_over_a_write", kMbarrier + kWrite + kBarrier + load(" //!"),
       kMbarrier + kSilentWrite + kFence + kBarrier + load(), 64, "", kFull},
      // A load over what was only read needs none.
      {kProxy, "proxy_load_over_an_old_write",
       kMbarrier + kWrite + kBarrier + "  ld.shared.u32 %r10, [%r5];\n" + kBarrier + load(" //!"),
       kMbarrier + kSilentWrite + kFence + kBarrier + "  ld.shared.u32 %r10, [%r5];\n" + kBarrier +
           load(),
       64, "", kFull},
      {kProxy, "proxy_store_of_a_copy",
       "  cp.async.ca.shared.global [%r4], [%rd4], 4; //!\n  cp.async.wait_all;\n" + kBarrier +
           kMarkedStore,
       "  cp.async.ca.shared.global [%r4], [%rd4], 4;\n  cp.async.wait_all;\n" + kFence + kBarrier +
           store(),
       64, "", kFull},
      {kProxy, "proxy_fence_before_the_copy_is_there",
       "  cp.async.ca.shared.global [%r4], [%rd4], 4; //!\n" + kFence + "  cp.async.wait_all;\n" +
           kBarrier + kMarkedStore,
       "  cp.async.ca.shared.global [%r4], [%rd4], 4;\n  cp.async.wait_all;\n" + kFence + kBarrier +
           store(),
       64, "", kFull},
  };
}

}  // namespace tilewright::emulator::test
