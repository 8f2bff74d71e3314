#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/text.h"
#include "tilewright/problem.h"

namespace tilewright {
namespace {

using testing::HasSubstr;

Problem parsed(std::string_view text) {
  const Result<Problem> problem = Problem::parse(text);
  if (problem.ok()) return *problem;
  ADD_FAILURE() << problem.error().message;
  return {};
}

TEST(ProblemParse, ReadsEveryField) {
  const Problem p = parsed("b2 hq32 hkv8 q1024 k2048 qk128 v64 bf16 causal");
  EXPECT_EQ(p.pass, Pass::kForward);
  EXPECT_EQ(p.batch, 2);
  EXPECT_EQ(p.num_heads_q, 32);
  EXPECT_EQ(p.num_heads_kv, 8);
  EXPECT_EQ(p.seqlen_q, 1024);
  EXPECT_EQ(p.seqlen_k, 2048);
  EXPECT_EQ(p.head_dim_qk, 128);
  EXPECT_EQ(p.head_dim_v, 64);
  EXPECT_EQ(p.dtype, Dtype::kBFloat16);
  ASSERT_EQ(p.masks.size(), 1u);
  EXPECT_EQ(p.masks[0].terms, (std::vector<Mask>{CausalMask{}}));

  const Problem q = parsed(
      "backward fp8e4m3 out=bf16 scales=block rotate scale=0.125 softcap=50 alibi bias sink "
      "score='score - 0.1 * abs(q_aligned - k)' varlen layout=bhsd strided deterministic paged=16 "
      "splits=4 dropout=0.1");
  EXPECT_EQ(q.pass, Pass::kBackward);
  EXPECT_EQ(q.out_dtype, Dtype::kBFloat16);
  EXPECT_EQ(q.fp8_scales, Fp8Scales::kBlock);
  EXPECT_EQ(q.softmax_scale, 0.125);
  EXPECT_EQ(q.softcap, 50);
  EXPECT_TRUE(q.rotate && q.alibi && q.bias && q.sink && q.varlen && q.strided && q.deterministic);
  EXPECT_EQ(q.score_expression, "score - 0.1 * abs(q_aligned - k)");
  EXPECT_EQ(q.layout, Layout::kBhsd);
  EXPECT_EQ(q.page_size, 16);
  EXPECT_EQ(q.num_splits, 4);
  EXPECT_EQ(q.dropout, 0.1);
  EXPECT_EQ(parsed("linear-forward feature=elu1").feature, FeatureMap::kElu1);
}

TEST(ProblemParse, ReadsEveryMask) {
  struct Case {
    std::string_view text;
    Mask mask;
  };
  const Case cases[] = {
      {"causal", CausalMask{}},
      {"causal=top-left", CausalMask{MaskAlignment::kTopLeft}},
      {"window=256,0", WindowMask{256, 0, 1}},
      {"window=*,0", WindowMask{std::nullopt, 0, 1}},
      {"window=*,*", WindowMask{}},
      {"window=256,256,dilation:2", WindowMask{256, 256, 2}},
      {"prefix=128", PrefixMask{128}},
      {"global=4", GlobalMask{4, {}}},
      {"global={0,17}", GlobalMask{0, {0, 17}}},
      {"bigbird", BigBirdMask{}},
      {"bigbird=block:64,window:3,global:2,ends:0,random:3,seed:18446744073709551615",
       BigBirdMask{64, 3, 2, false, 3, ~uint64_t{0}}},
      {"longformer=window:512,global:{0}", LongformerMask{512, {0}}},
      {"longformer", LongformerMask{}},
      {"chunk=512", ChunkMask{512}},
      {"documents", DocumentsMask{}},
      {"blocks=128", BlocksMask{128}},
      {"mask='q >= k + 1, x'", ExpressionMask{"q >= k + 1, x"}},
      {"mask='it\\'s \\\\'", ExpressionMask{"it's \\"}},
  };
  for (const Case& c : cases) {
    const Problem problem = parsed(c.text);
    ASSERT_EQ(problem.masks.size(), 1u) << c.text;
    EXPECT_EQ(problem.masks[0].terms, std::vector<Mask>{c.mask}) << c.text;
    EXPECT_EQ(parsed(problem.to_string()), problem) << c.text;
  }
}

TEST(ProblemParse, PlusUnitesAndSpaceIntersects) {
  const Problem p = parsed("causal+prefix=128 window=256,0 documents");
  ASSERT_EQ(p.masks.size(), 3u);
  EXPECT_EQ(p.masks[0].terms, (std::vector<Mask>{CausalMask{}, PrefixMask{128}}));
  EXPECT_EQ(p.to_string(), "causal+prefix=128 window=256,0 documents");
  EXPECT_EQ(parsed("prefix=3").masks.size(), 1u);
  EXPECT_EQ(parsed("window=1,1+global={0,5}+longformer=global:{1,2},window:4 causal")
                .masks[0]
                .terms.size(),
            3u);
}

TEST(ProblemPrint, IsCanonical) {
  EXPECT_EQ(parsed("  causal   v48 qk80 k257  hkv2 q129 bf16 hq6 b2 ").to_string(),
            "b2 hq6 hkv2 q129 k257 qk80 v48 bf16 causal");
  EXPECT_EQ(parsed("forward q1 layout=bshd bigbird=block:64 dropout=0").to_string(), "q1 bigbird");
  EXPECT_EQ(parsed("dropout=0.25 splits=2 softcap=1e20 alibi sink causal fp8e5m2 scales=head")
                .to_string(),
            "fp8e5m2 scales=head causal softcap=1e20 alibi sink splits=2 dropout=0.25");
  EXPECT_EQ(parsed("linear-step feature=identity").to_string(), "linear-step feature=identity");
  EXPECT_EQ(Problem{}.to_string(), "");
  EXPECT_EQ(parsed(""), Problem{});
}

// The text with '^' under the part that is pointed at.
TEST(ProblemParse, ErrorsPointAtTheToken) {
  struct Case {
    std::string_view text, carets, words;
  };
  const Case cases[] = {
      {"q12 casual", "    ^^^^^^", "did you mean 'causal'?"},
      {"q12 q13", "    ^^^", "given twice"},
      {"bf16 fp16", "     ^^^^", "type is given twice"},
      {"q12 backward", "    ^^^^^^^^", "must come first"},
      {"q-5", " ^^", "negative"},
      {"q", "^", "needs a number"},
      {"k1 q", "   ^", "needs a number"},
      {"q10.5", " ^^^^", "'10.5' is not an integer"},
      {"q99999999999999999999", " ^^^^^^^^^^^^^^^^^^^^", "64 bits"},
      {"q1e9", " ^^^", "not an integer"},
      {"qkv8", "^^^^", "unknown item"},
      {"fp32", "^^^^", "fp32 is no type"},
      {"x\ty", "^", "unknown item"},
      {"=3", "^^", "expected an item"},
      {"q1,k2", " ^^^^", "not an integer"},
      {"alibi=2", "     ^", "takes no value"},
      {"scale", "^^^^^", "needs a value"},
      {"scale=", "      ^", "got nothing"},
      {"scale=nan", "      ^^^", "finite"},
      {"scale=0.1x", "      ^^^^", "not a number"},
      {"softcap=-1", "        ^^", "positive"},
      {"softcap=0", "        ^", "positive"},
      {"softcap=1e999", "        ^^^^^", "fit"},
      {"dropout=1", "        ^", "[0, 1)"},
      {"paged=0", "      ^", "at least 1"},
      {"splits=-1", "       ^^", "negative"},
      {"layout=hsdb", "       ^^^^", "bshd, bhsd"},
      {"out=fp32", "    ^^^^", "fp16, bf16"},
      {"scale=1 scale=1", "        ^^^^^", "given twice"},
      {"causal=bottom", "       ^^^^^^", "top-left"},
      {"causal=top-leftish", "       ^^^^^^^^^^^", "top-left"},
      {"window", "^^^^^^", "window=256,0"},
      {"window=5", "^^^^^^^^", "left,right"},
      {"window=-5,0", "       ^^", "negative"},
      {"window=**,0", "       ^^", "not an integer"},
      {"window=1,2,3", "           ^", "dilation"},
      {"window=1,2,dilation:x", "                    ^", "not an integer"},
      {"prefix", "^^^^^^", "prefix=128"},
      {"global={0,x}", "          ^", "not an integer"},
      {"global={}", "        ^", "got nothing"},
      {"global={0,1", "       ^^^^", "not closed"},
      {"bigbird=size:3", "        ^^^^", "block, window"},
      {"bigbird=block:3,block:3", "                ^^^^^", "given twice"},
      {"bigbird=ends:2", "             ^", "0 or 1"},
      {"bigbird=seed:-1", "             ^^", "non-negative"},
      {"longformer=global:3", "                  ^", "list"},
      {"documents=3", "^^^^^^^^^^", "--documents"},
      {"causal+", "       ^", "a mask after '+'"},
      {"causal+q3", "       ^^", "a mask after '+'"},
      {"chunk=8x", "      ^^", "not an integer"},
      {"mask=q", "     ^", "single quotes"},
      {"mask='q", "     ^^", "not closed"},
      {"mask='a\\nb'", "       ^", "backslash"},
      {"mask=''", "     ^^", "empty"},
      {"mask='a'b", "        ^", "unexpected text"},
      {"score='a\nb'", "^", "control"},
      {"score='a'b", "         ^", "separated by spaces"},
      {"causal prefix=128", "       ^^^^^^^^^^", "causal+prefix=128"},
      {"global=4 window=9,9", "^^^^^^^^", "window=9,9+global=4"},
  };
  for (const Case& c : cases) {
    const Result<Problem> problem = Problem::parse(c.text);
    ASSERT_FALSE(problem.ok()) << c.text;
    EXPECT_EQ(problem.error().code, ErrorCode::kParseError);
    const std::string& message = problem.error().message;
    EXPECT_THAT(message, HasSubstr(c.words)) << c.text;
    if (c.text.find_first_of("\n\t") != std::string_view::npos) continue;
    const auto lines = split(message, '\n');
    ASSERT_EQ(lines.size(), 3u) << message;
    EXPECT_EQ(lines[1].substr(2), c.text);
    EXPECT_EQ(lines[2].substr(2), c.carets) << message;
  }
}

TEST(Names, OfTypes) {
  EXPECT_EQ(to_string(Dtype::kFloat8E4M3), "fp8e4m3");
  EXPECT_EQ(to_string(Dtype::kFloat32), "fp32");
  EXPECT_EQ(size_in_bytes(Dtype::kBFloat16), 2);
  EXPECT_EQ(size_in_bytes(Dtype::kFloat8E5M2), 1);
  EXPECT_EQ(to_string(Pass::kLinearStep), "linear-step");
}

}  // namespace
}  // namespace tilewright
