// Masks pair by pair against pictures drawn by hand: rows are queries, columns keys.
#include "reference/visibility.h"

#include <gtest/gtest.h>

#include <string>

namespace tilewright::reference {
namespace {

std::string picture(std::vector<MaskUnion> masks, int64_t seqlen_q, int64_t seqlen_k) {
  Problem problem;
  problem.masks = std::move(masks);
  const Result<Visibility> visible = make_visibility(problem, seqlen_q, seqlen_k);
  if (!visible.ok()) return visible.error().message;
  std::string text;
  for (int64_t query = 0; query < seqlen_q; ++query) {
    for (int64_t key = 0; key < seqlen_k; ++key) text += (*visible)(query, key) ? 'x' : '.';
    text += '\n';
  }
  return text;
}

TEST(Visibility, CausalAlignments) {
  EXPECT_EQ(picture({{{CausalMask{}}}}, 3, 5), "xxx..\nxxxx.\nxxxxx\n");
  EXPECT_EQ(picture({{{CausalMask{}}}}, 4, 2), "..\n..\nx.\nxx\n");
  EXPECT_EQ(picture({{{CausalMask{MaskAlignment::kTopLeft}}}}, 3, 5), "x....\nxx...\nxxx..\n");
}

TEST(Visibility, Windows) {
  EXPECT_EQ(picture({{{WindowMask{1, 0, 1}}}}, 4, 4), "x...\nxx..\n.xx.\n..xx\n");
  EXPECT_EQ(picture({{{WindowMask{1, 1, 1}}}}, 3, 5), ".xxx.\n..xxx\n...xx\n");
  EXPECT_EQ(picture({{{WindowMask{std::nullopt, 0, 1}}}}, 2, 3), "xx.\nxxx\n");
  EXPECT_EQ(picture({{{WindowMask{1, 1, 2}}}}, 5, 5), "x.x..\n.x.x.\nx.x.x\n.x.x.\n..x.x\n");
}

TEST(Visibility, WideningMasks) {
  EXPECT_EQ(picture({{{CausalMask{}, PrefixMask{2}}}}, 3, 3), "xx.\nxx.\nxxx\n");
  EXPECT_EQ(picture({{{WindowMask{0, 0, 1}, GlobalMask{1, {}}}}}, 3, 3), "xxx\nxx.\nx.x\n");
  EXPECT_EQ(picture({{{LongformerMask{3, {2}}}}}, 4, 4), "xxx.\nxxx.\nxxxx\n..xx\n");
}

TEST(Visibility, IntersectionOfUnions) {
  EXPECT_EQ(picture({{{CausalMask{}}}, {{WindowMask{1, 1, 1}}}}, 3, 3), "x..\nxx.\n.xx\n");
  EXPECT_EQ(picture({{{ChunkMask{2}}}}, 4, 4), "x...\nxx..\n..x.\n..xx\n");
}

TEST(Visibility, MasksWithoutReferenceAreRefused) {
  EXPECT_EQ(picture({{{ExpressionMask{"q >= k"}}}}, 1, 1),
            "mask number 9 has no fp64 reference yet");
}

}  // namespace
}  // namespace tilewright::reference
