// Accesses to shared memory that nothing orders.
#include "tests/emulator/observed_programs.h"

namespace tilewright::emulator::test {
namespace {

constexpr FaultKind kRace = FaultKind::kRace;
constexpr ObserverLevel kFull = ObserverLevel::kFull;

std::string operator+(std::string_view a, const char* b) { return std::string(a) + b; }

// Thread 0 initialises the mbarrier at bar for `count` arrivals.
std::string with_mbarrier(const char* count, const char* body) {
  return std::string(kClearTile) + "  @%p1 mbarrier.init.shared.b64 [%r3], " + count +
         ";\n  bar.sync 0;\n" + body;
}
constexpr const char* kWriteThenArrive =
    "  @!%p2 bra READER;\n  st.shared.u32 [%r4], 1;\n"
    "  mbarrier.arrive.shared.b64 _, [%r3];\n  bra END;\nREADER:\n"
    "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n"
    "  @!%p3 bra WAIT;\n  ld.shared.u32 %r10, [%r5];\nEND:\n";
constexpr const char* kWait =
    "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n  @!%p3 bra WAIT;\n";

}  // namespace

std::vector<ObservedProgram> race_programs() {
  return {
      // ---- bar.sync ----
      {kRace, "race_read_after_write",
       kClearTile + "  st.shared.u32 [%r4], %r1; //!\n  ld.shared.u32 %r10, [%r5]; //!\n",
       kClearTile + "  st.shared.u32 [%r4], %r1;\n  bar.sync 0;\n  ld.shared.u32 %r10, [%r5];\n",
       64, "races with", kFull},
      {kRace, "race_write_after_read",
       kClearTile + "  ld.shared.u32 %r10, [%r5]; //!\n  st.shared.u32 [%r4], %r1; //!\n",
       kClearTile + "  ld.shared.u32 %r10, [%r5];\n  bar.sync 0;\n  st.shared.u32 [%r4], %r1;\n",
       64, "races with", kFull},
      {kRace, "race_write_after_write",
       kClearTile + "  st.shared.u32 [%r4], %r1; //!\n  st.shared.u32 [%r5], %r1; //!\n",
       kClearTile + "  st.shared.u32 [%r4], %r1;\n  bar.sync 0;\n  st.shared.u32 [%r5], %r1;\n", 64,
       "races with", kFull},
      {kRace, "race_of_equal_values_in_two_warps",
       kClearTile + "  st.shared.u32 [%r2], 7; //!\n  st.shared.u32 [%r2], 7; //!\n",
       // One instruction, one value.
       kClearTile + "  @%p2 st.shared.u32 [%r2], 7;\n", 64, "", kFull},
      {kRace, "race_of_lanes_in_one_instruction", kClearTile + "  st.shared.u32 [%r2], %r1; //!\n",
       kClearTile + "  and.b32 %r10, %r1, 0;\n  st.shared.u32 [%r2], %r10;\n", 32, "", kFull},
      {kRace, "race_in_one_byte",
       kClearTile + "  shr.u32 %r10, %r1, 5;\n  add.u32 %r10, %r10, %r2;\n"
                    "  @%p1 st.shared.u16 [%r2], 1; //!\n"
                    "  setp.eq.u32 %p3, %r1, 32;\n  @%p3 st.shared.u8 [%r2+1], 1; //!\n",
       // Two bytes of one word.
       kClearTile + "  @%p1 st.shared.u8 [%r2], 1;\n"
                    "  setp.eq.u32 %p3, %r1, 32;\n  @%p3 st.shared.u8 [%r2+1], 1;\n",
       64, "", kFull},
      {kRace, "race_with_a_vector",
       kClearTile + "  @%p1 st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1}; //!\n"
                    "  setp.eq.u32 %p3, %r1, 32;\n  @%p3 ld.shared.u32 %r10, [%r2+12]; //!\n",
       kClearTile + "  @%p1 st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};\n"
                    "  setp.eq.u32 %p3, %r1, 32;\n  @%p3 ld.shared.u32 %r10, [%r2+16];\n",
       64, "", kFull},
      {kRace, "race_after_three_readers",
       // Warps 0 to 2 read, warp 3 writes: only warp 1 has not passed the barrier it waits at.
       kClearTile +
           "  shr.u32 %r10, %r1, 5;\n  setp.eq.u32 %p4, %r10, 1;\n  setp.eq.u32 %p5, %r10, 3;\n"
           "  @%p4 ld.shared.u32 %r11, [%r2]; //!\n  @%p4 bra END;\n"
           "  @!%p5 ld.shared.u32 %r11, [%r2];\n  bar.sync 1, 96;\n"
           "  setp.eq.u32 %p6, %r1, 96;\n  @%p6 st.shared.u32 [%r2], 1; //!\nEND:\n",
       kClearTile + "  shr.u32 %r10, %r1, 5;\n  setp.eq.u32 %p5, %r10, 3;\n"
                    "  @!%p5 ld.shared.u32 %r11, [%r2];\n  bar.sync 1, 128;\n"
                    "  setp.eq.u32 %p6, %r1, 96;\n  @%p6 st.shared.u32 [%r2], 1;\n",
       128, "", kFull},
      {kRace, "race_in_a_loop",
       // One barrier a round: the next round's write meets the reads of this one.
       kClearTile + "  mov.u32 %r10, 0;\nLOOP:\n  st.shared.u32 [%r4], %r10; //!\n  bar.sync 0;\n"
                    "  ld.shared.u32 %r11, [%r5]; //!\n  add.u32 %r10, %r10, 1;\n"
                    "  setp.lt.u32 %p3, %r10, 5;\n  @%p3 bra LOOP;\n",
       kClearTile + "  mov.u32 %r10, 0;\nLOOP:\n  st.shared.u32 [%r4], %r10;\n  bar.sync 0;\n"
                    "  ld.shared.u32 %r11, [%r5];\n  bar.sync 0;\n  add.u32 %r10, %r10, 1;\n"
                    "  setp.lt.u32 %p3, %r10, 5;\n  @%p3 bra LOOP;\n",
       64, "", kFull},
      // ---- named barriers ----
      {kRace, "race_of_one_who_only_arrives",
       // bar.arrive does not wait: warp 0 must not read what warp 1 writes.
       kClearTile + "  @!%p2 bra OTHER;\n  bar.arrive 1, 64;\n  ld.shared.u32 %r10, [%r5]; //!\n"
                    "  bra END;\nOTHER:\n  st.shared.u32 [%r4], 1; //!\n  bar.sync 1, 64;\nEND:\n",
       kClearTile + "  @!%p2 bra OTHER;\n  st.shared.u32 [%r4], 1;\n  bar.arrive 1, 64;\n"
                    "  bra END;\nOTHER:\n  bar.sync 1, 64;\n  ld.shared.u32 %r10, [%r5];\nEND:\n",
       64, "", kFull},
      {kRace, "race_across_two_named_barriers",
       kClearTile + "  shr.u32 %r10, %r1, 6;\n  add.u32 %r10, %r10, 1;\n  xor.b32 %r11, %r4, 256;\n"
                    "  st.shared.u32 [%r4], %r1; //!\n  bar.sync %r10, 64;\n"
                    "  ld.shared.u32 %r12, [%r11]; //!\n",
       kClearTile +
           "  shr.u32 %r10, %r1, 6;\n  add.u32 %r10, %r10, 1;\n"
           "  st.shared.u32 [%r4], %r1;\n  bar.sync %r10, 64;\n  ld.shared.u32 %r12, [%r5];\n",
       128, "", kFull},
      // ---- lanes of one warp ----
      {kRace, "race_of_lanes",
       kClearTile + "  st.shared.u32 [%r4], %r1; //!\n  ld.shared.u32 %r10, [%r6]; //!\n",
       kClearTile + "  st.shared.u32 [%r4], %r1;\n  bar.warp.sync 0xffffffff;\n"
                    "  ld.shared.u32 %r10, [%r6];\n",
       32, "", kFull},
      {kRace, "race_of_divergent_lanes",
       kClearTile + "  setp.lt.u32 %p3, %r1, 16;\n  xor.b32 %r10, %r4, 64;\n  @%p3 bra LOW;\n"
                    "  st.shared.u32 [%r4], %r1; //!\n  bra JOIN;\nLOW:\n"
                    "  ld.shared.u32 %r11, [%r10]; //!\nJOIN:\n  add.u32 %r11, %r1, 1;\n",
       kClearTile + "  setp.lt.u32 %p3, %r1, 16;\n  xor.b32 %r10, %r4, 64;\n  @%p3 bra LOW;\n"
                    "  st.shared.u32 [%r4], %r1;\nLOW:\n  bar.warp.sync 0xffffffff;\n"
                    "  @%p3 ld.shared.u32 %r11, [%r10];\n",
       32, "", kFull},
      {kRace, "race_outside_the_mask",
       kClearTile +
           "  and.b32 %r10, %r1, 16;\n  setp.eq.u32 %p3, %r10, 0;\n  mov.u32 %r12, 0xffff;\n"
           "  @!%p3 mov.u32 %r12, 0xffff0000;\n  xor.b32 %r13, %r4, 64;\n"
           "  st.shared.u32 [%r4], %r1; //!\n  bar.warp.sync %r12;\n"
           "  ld.shared.u32 %r11, [%r13]; //!\n",
       kClearTile +
           "  and.b32 %r10, %r1, 16;\n  setp.eq.u32 %p3, %r10, 0;\n  mov.u32 %r12, 0xffff;\n"
           "  @!%p3 mov.u32 %r12, 0xffff0000;\n"
           "  st.shared.u32 [%r4], %r1;\n  bar.warp.sync %r12;\n  ld.shared.u32 %r11, [%r6];\n",
       32, "", kFull},
      {kRace, "race_past_a_shuffle",
       // shfl.sync orders earlier reads, not writes.
       kClearTile +
           "  st.shared.u32 [%r4], %r1; //!\n  shfl.sync.bfly.b32 %r10, %r1, 1, 31, 0xffffffff;\n"
           "  ld.shared.u32 %r11, [%r6]; //!\n",
       kClearTile +
           "  ld.shared.u32 %r11, [%r6];\n  shfl.sync.bfly.b32 %r10, %r1, 1, 31, 0xffffffff;\n"
           "  st.shared.u32 [%r4], %r1;\n",
       32, "", kFull},
      // ---- mbarriers ----
      {kRace, "race_before_the_arrival",
       with_mbarrier("32",
                     "  @!%p2 bra READER;\n  mbarrier.arrive.shared.b64 _, [%r3];\n"
                     "  st.shared.u32 [%r4], 1; //!\n  bra END;\nREADER:\n"
                     "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n"
                     "  @!%p3 bra WAIT;\n  ld.shared.u32 %r10, [%r5]; //!\nEND:\n"),
       with_mbarrier("32", kWriteThenArrive), 64, "", kFull},
      {kRace, "race_of_a_lane_that_arrives_in_the_next_phase",
       with_mbarrier("31",
                     "  @!%p2 bra READER;\n  st.shared.u32 [%r4], 1; //!\n"
                     "  mbarrier.arrive.shared.b64 _, [%r3];\n  bra END;\nREADER:\n"
                     "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n"
                     "  @!%p3 bra WAIT;\n  ld.shared.u32 %r10, [%r5]; //!\nEND:\n"),
       with_mbarrier("32", kWriteThenArrive), 64, "", kFull},
      {kRace, "race_of_a_reader_that_does_not_wait",
       with_mbarrier(
           "32",
           "  @!%p2 ld.shared.u32 %r10, [%r5]; //!\n  @!%p2 bra END;\n"
           "  st.shared.u32 [%r4], 1; //!\n  mbarrier.arrive.shared.b64 _, [%r3];\nEND:\n"),
       with_mbarrier("32",
                     "  @%p2 bra WRITER;\n"
                     "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n"
                     "  @!%p3 bra WAIT;\n  ld.shared.u32 %r10, [%r5];\n  bra END;\nWRITER:\n"
                     "  st.shared.u32 [%r4], 1;\n  mbarrier.arrive.shared.b64 _, [%r3];\nEND:\n"),
       64, "", kFull},
      {kRace, "race_of_lanes_for_which_one_arrives",
       with_mbarrier("1",
                     "  @!%p2 bra READER;\n  st.shared.u32 [%r4], 1; //!\n"
                     "  @%p1 mbarrier.arrive.shared.b64 _, [%r3];\n  bra END;\nREADER:\n"
                     "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n"
                     "  @!%p3 bra WAIT;\n  ld.shared.u32 %r10, [%r5]; //!\nEND:\n"),
       with_mbarrier("1",
                     "  @!%p2 bra READER;\n  st.shared.u32 [%r4], 1;\n"
                     "  bar.warp.sync 0xffffffff;\n"
                     "  @%p1 mbarrier.arrive.shared.b64 _, [%r3];\n  bra END;\nREADER:\n"
                     "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n"
                     "  @!%p3 bra WAIT;\n  ld.shared.u32 %r10, [%r5];\nEND:\n"),
       64, "", kFull},
      {kRace, "race_after_a_relaxed_arrival",
       with_mbarrier("32",
                     "  @!%p2 bra READER;\n  st.shared.u32 [%r4], 1; //!\n"
                     "  mbarrier.arrive.relaxed.cta.shared.b64 _, [%r3];\n  bra END;\nREADER:\n"
                     "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n"
                     "  @!%p3 bra WAIT;\n  ld.shared.u32 %r10, [%r5]; //!\nEND:\n"),
       with_mbarrier("32",
                     "  @!%p2 bra READER;\n  st.shared.u32 [%r4], 1;\n"
                     "  mbarrier.arrive.release.cta.shared.b64 _, [%r3];\n  bra END;\nREADER:\n"
                     "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n"
                     "  @!%p3 bra WAIT;\n  ld.shared.u32 %r10, [%r5];\nEND:\n"),
       64, "", kFull},
      {kRace, "race_on_a_slot_handed_back_too_early",
       // Warp 1 reads the slot; warp 0 waits for its arrival, then overwrites.
       with_mbarrier("32",
                     "  @%p2 bra WRITER;\n  mbarrier.arrive.shared.b64 _, [%r3];\n"
                     "  ld.shared.u32 %r10, [%r5]; //!\n  bra END;\nWRITER:\n"
                     "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n"
                     "  @!%p3 bra WAIT;\n  st.shared.u32 [%r4], 1; //!\nEND:\n"),
       // One arrival a warp: the shuffle in front of it orders the reads of all lanes.
       with_mbarrier("1",
                     "  @%p2 bra WRITER;\n  ld.shared.u32 %r10, [%r5];\n"
                     "  shfl.sync.idx.b32 %r11, %r10, 0, 31, 0xffffffff;\n"
                     "  setp.eq.u32 %p4, %r1, 32;\n"
                     "  @%p4 mbarrier.arrive.shared.b64 _, [%r3];\n  bra END;\nWRITER:\n"
                     "WAIT:\n  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;\n"
                     "  @!%p3 bra WAIT;\n  st.shared.u32 [%r4], 1;\nEND:\n"),
       64, "", kFull},
      // ---- atomics, flags ----
      {kRace, "race_with_an_atomic",
       kClearTile + "  atom.shared.add.u32 %r10, [%r2], 1; //!\n"
                    "  setp.eq.u32 %p3, %r1, 63;\n  @%p3 ld.shared.u32 %r11, [%r2]; //!\n",
       kClearTile + "  atom.shared.add.u32 %r10, [%r2], 1;\n  bar.sync 0;\n"
                    "  setp.eq.u32 %p3, %r1, 63;\n  @%p3 ld.shared.u32 %r11, [%r2];\n",
       64, "", kFull},
      {kRace, "race_of_an_old_atomic",
       // Warp 2 waits for warp 1's addition, not for warp 0's.
       kClearTile +
           "  shr.u32 %r10, %r1, 5;\n  setp.eq.u32 %p3, %r10, 2;\n  @!%p3 red.shared.add.u32 "
           "[%r2], 1; //!\n  @%p2 bra END;\n  bar.sync 1, 64;\n  setp.eq.u32 %p4, %r1, 64;\n"
           "  @%p4 ld.shared.u32 %r11, [%r2]; //!\nEND:\n",
       kClearTile +
           "  shr.u32 %r10, %r1, 5;\n  setp.eq.u32 %p3, %r10, 2;\n  @!%p3 red.shared.add.u32 "
           "[%r2], 1;\n  bar.sync 1, 96;\n  setp.eq.u32 %p4, %r1, 64;\n"
           "  @%p4 ld.shared.u32 %r11, [%r2];\n",
       96, "", kFull},
      {kRace, "race_past_a_flag_without_fences",
       kClearTile +
           "  setp.eq.u32 %p3, %r1, 32;\n  @%p3 bra READER;\n  @!%p1 bra END;\n"
           "  st.shared.u32 [%r2+8], 5; //!\n  st.volatile.shared.u32 [%r2], 1;\n  bra END;\n"
           "READER:\n  ld.volatile.shared.u32 %r10, [%r2];\n  setp.eq.u32 %p4, %r10, 0;\n"
           "  @%p4 bra READER;\n  ld.shared.u32 %r11, [%r2+8]; //!\nEND:\n",
       kClearTile + "  setp.eq.u32 %p3, %r1, 32;\n  @%p3 bra READER;\n  @!%p1 bra END;\n"
                    "  st.shared.u32 [%r2+8], 5;\n  fence.acq_rel.cta;\n"
                    "  st.volatile.shared.u32 [%r2], 1;\n  bra END;\n"
                    "READER:\n  ld.volatile.shared.u32 %r10, [%r2];\n  setp.eq.u32 %p4, %r10, 0;\n"
                    "  @%p4 bra READER;\n  membar.cta;\n  ld.shared.u32 %r11, [%r2+8];\nEND:\n",
       64, "", kFull},
      {kRace, "race_past_a_relaxed_flag",
       kClearTile +
           "  setp.eq.u32 %p3, %r1, 32;\n  @%p3 bra READER;\n  @!%p1 bra END;\n"
           "  st.shared.u32 [%r2+8], 5; //!\n  st.relaxed.cta.shared.u32 [%r2], 1;\n  bra END;\n"
           "READER:\n  ld.acquire.cta.shared.u32 %r10, [%r2];\n  setp.eq.u32 %p4, %r10, 0;\n"
           "  @%p4 bra READER;\n  ld.shared.u32 %r11, [%r2+8]; //!\nEND:\n",
       kClearTile +
           "  setp.eq.u32 %p3, %r1, 32;\n  @%p3 bra READER;\n  @!%p1 bra END;\n"
           "  st.shared.u32 [%r2+8], 5;\n  st.release.cta.shared.u32 [%r2], 1;\n  bra END;\n"
           "READER:\n  ld.acquire.cta.shared.u32 %r10, [%r2];\n  setp.eq.u32 %p4, %r10, 0;\n"
           "  @%p4 bra READER;\n  ld.shared.u32 %r11, [%r2+8];\nEND:\n",
       64, "", kFull},
      // ---- clusters ----
      {kRace, "race_between_blocks",
       kClearTile + "  mov.u32 %r10, %cluster_ctarank;\n  xor.b32 %r10, %r10, 1;\n"
                    "  mapa.shared::cluster.u32 %r11, %r4, %r10;\n"
                    "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n"
                    "  st.shared::cluster.u32 [%r11], %r1; //!\n  ld.shared.u32 %r12, [%r4]; //!\n"
                    "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n",
       kClearTile +
           "  mov.u32 %r10, %cluster_ctarank;\n  xor.b32 %r10, %r10, 1;\n"
           "  mapa.shared::cluster.u32 %r11, %r4, %r10;\n"
           "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n"
           "  st.shared::cluster.u32 [%r11], %r1;\n"
           "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n  ld.shared.u32 %r12, [%r4];\n",
       64, "", kFull, 2},
      {kRace, "race_after_a_relaxed_cluster_arrival",
       kClearTile + "  mov.u32 %r10, %cluster_ctarank;\n  xor.b32 %r10, %r10, 1;\n"
                    "  mapa.shared::cluster.u32 %r11, %r4, %r10;\n  st.shared.u32 [%r4], %r1; //!\n"
                    "  barrier.cluster.arrive.relaxed;\n  barrier.cluster.wait;\n"
                    "  ld.shared::cluster.u32 %r12, [%r11]; //!\n"
                    "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n",
       kClearTile + "  mov.u32 %r10, %cluster_ctarank;\n  xor.b32 %r10, %r10, 1;\n"
                    "  mapa.shared::cluster.u32 %r11, %r4, %r10;\n  st.shared.u32 [%r4], %r1;\n"
                    "  barrier.cluster.arrive.release;\n  barrier.cluster.wait.acquire;\n"
                    "  ld.shared::cluster.u32 %r12, [%r11];\n"
                    "  barrier.cluster.arrive.relaxed;\n  barrier.cluster.wait;\n",
       64, "", kFull, 2},
      {kRace, "race_in_the_other_blocks_memory",
       // Both blocks write the first block's word.
       kClearTile + "  mov.u32 %r10, 0;\n  mapa.shared::cluster.u32 %r11, %r4, %r10;\n"
                    "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n"
                    "  st.shared::cluster.u32 [%r11], %r1; //!\n  add.u32 %r12, %r1, 1;\n"
                    "  st.shared::cluster.u32 [%r11], %r12; //!\n"
                    "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n",
       kClearTile + "  mov.u32 %r10, 0;\n  mapa.shared::cluster.u32 %r11, %r4, %r10;\n"
                    "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n"
                    "  red.shared::cluster.add.u32 [%r11], %r1;\n"
                    "  barrier.cluster.arrive;\n  barrier.cluster.wait;\n",
       64, "", kFull, 2},
  };
}

}  // namespace tilewright::emulator::test
