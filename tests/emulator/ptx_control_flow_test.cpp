// Blocks and post-dominators, against a definition by removal: p post-dominates b if without p no
// way from b to an end is left.
#include "emulator/ptx/control_flow.h"

#include <fmt/format.h>

#include <random>

#include "tests/emulator/ptx_test_support.h"

namespace tilewright::emulator::ptx {
namespace {

ControlFlow flow_of(const Module& module) {
  return build_control_flow(module, module.functions.at(module.find_function("k")));
}

// Whether an end can be reached from `from` without entering `without`.
bool reaches_end(const ControlFlow& flow, uint32_t from, uint32_t without) {
  std::vector<bool> seen(flow.blocks.size(), false);
  std::vector<uint32_t> work{from};
  while (!work.empty()) {
    const uint32_t block = work.back();
    work.pop_back();
    if (block == without || seen[block]) continue;
    seen[block] = true;
    if (flow.blocks[block].may_exit) return true;
    for (const uint32_t to : flow.blocks[block].successors) work.push_back(to);
  }
  return false;
}

// The nearest post-dominator: the one that all others post-dominate.
uint32_t expected_post_dominator(const ControlFlow& flow, uint32_t block) {
  std::vector<uint32_t> candidates;
  for (uint32_t p = 0; p < flow.blocks.size(); ++p) {
    if (p != block && !reaches_end(flow, block, p)) candidates.push_back(p);
  }
  for (const uint32_t nearest : candidates) {
    bool is_nearest = true;
    for (const uint32_t other : candidates) {
      if (other != nearest && reaches_end(flow, nearest, other)) is_nearest = false;
    }
    if (is_nearest) return nearest;
  }
  return kNoIndex;
}

TEST(PtxControlFlow, IfElseMeetsBehind) {
  const Module module =
      parse_or_fail(entry_text("@%p1 bra ELSE; mov.u32 %r1, 1; bra END; ELSE: mov.u32 %r1, 2; END: "
                               "mov.u32 %r2, %r1; ret;"));
  const ControlFlow flow = flow_of(module);
  ASSERT_EQ(flow.blocks.size(), 4u);
  EXPECT_EQ(flow.reconvergence(0), 4u);
  EXPECT_EQ(flow.blocks[0].successors, (std::vector<uint32_t>{1, 2}));
  EXPECT_TRUE(flow.blocks[3].may_exit);
}

TEST(PtxControlFlow, LoopMeetsAtItsExit) {
  const Module module =
      parse_or_fail(entry_text("LOOP: add.u32 %r1, %r1, 1; @%p1 bra LOOP; mov.u32 %r2, 0; ret;"));
  EXPECT_EQ(flow_of(module).reconvergence(1), 2u);
}

TEST(PtxControlFlow, LanesThatExitMeetNowhere) {
  const Module module =
      parse_or_fail(entry_text("@%p1 bra OUT; mov.u32 %r1, 1; exit; OUT: mov.u32 %r1, 2; ret;"));
  EXPECT_EQ(flow_of(module).reconvergence(0), kNoIndex);
  // A guarded exit: those that stay go on.
  const Module guarded = parse_or_fail(entry_text("@%p1 exit; mov.u32 %r1, 1; ret;"));
  const ControlFlow flow = flow_of(guarded);
  EXPECT_EQ(flow.blocks[0].successors, (std::vector<uint32_t>{1}));
  EXPECT_TRUE(flow.blocks[0].may_exit);
}

TEST(PtxControlFlow, TableBranchesAndCalls) {
  const Module module =
      parse_or_fail(std::string(kHeader) + ".func die() .noreturn; .func f() { ret; }\n" +
                    ".entry k() { .reg .b32 %r; .reg .pred %p; t: .branchtargets A, B, C;\n"
                    "brx.idx %r, t; A: call f; bra C; B: @%p call die; C: ret; }\n");
  const ControlFlow flow = flow_of(module);
  // brx | call f, bra | guarded call that does not return | ret
  ASSERT_EQ(flow.blocks.size(), 4u);
  EXPECT_EQ(flow.blocks[0].successors, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_TRUE(flow.blocks[2].may_exit);
  EXPECT_EQ(flow.blocks[2].successors, (std::vector<uint32_t>{3}));
}

TEST(PtxControlFlow, EndlessLoopsTerminate) {
  const Module module = parse_or_fail(
      entry_text("@%p1 bra SPIN; ret; SPIN: @%p2 bra OTHER; bra SPIN; OTHER: bra SPIN;"));
  const ControlFlow flow = flow_of(module);
  EXPECT_EQ(flow.blocks.size(), 5u);
  EXPECT_EQ(flow.reconvergence(0), kNoIndex);
}

TEST(PtxControlFlow, RandomGraphsAgreeWithTheDefinition) {
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const auto blocks = static_cast<uint32_t>(2 + random() % 12);
    std::string body;
    for (uint32_t b = 0; b < blocks; ++b) {
      body += fmt::format("L{}: mov.u32 %r1, 0;\n", b);
      const std::string target = fmt::format("L{}", random() % blocks);
      switch (random() % 6) {
        case 0:
          body += fmt::format("bra {};\n", target);
          break;
        case 1:
          body += "@%p1 exit;\n";
          break;
        case 2:
          break;
        default:
          body += fmt::format("@%p1 bra {};\n", target);
      }
    }
    const Module module = parse_or_fail(entry_text(body + "ret;"));
    const ControlFlow flow = flow_of(module);
    for (uint32_t b = 0; b < flow.blocks.size(); ++b) {
      // Where no end can be reached the choice is free.
      if (!reaches_end(flow, b, kNoIndex)) continue;
      bool mixed = false;
      for (uint32_t other = 0; other < flow.blocks.size(); ++other) {
        mixed |= !reaches_end(flow, other, kNoIndex);
      }
      if (mixed) continue;
      EXPECT_EQ(flow.blocks[b].post_dominator, expected_post_dominator(flow, b)) << body;
    }
  }
}

}  // namespace
}  // namespace tilewright::emulator::ptx
