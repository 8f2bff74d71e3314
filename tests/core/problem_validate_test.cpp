#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tilewright/problem.h"

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> reasons(const Problem& problem) {
  const Status status = validate(problem);
  if (status.ok()) return {};
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  return status.error().reasons;
}

std::vector<std::string> reasons(std::string_view text) { return reasons(*Problem::parse(text)); }

TEST(Validate, AcceptsWhatMakesSense) {
  for (const char* text :
       {"", "b2 hq6 hkv2 q129 k257 qk80 v48 bf16 causal", "b0 hq0 hkv0 q0 k0", "hq5 hkv1",
        "fp8e4m3 out=bf16 scales=head rotate", "linear-forward feature=elu1 causal",
        "bigbird longformer=global:{0} window=*,*", "b9000000000000000000 k0 q0"}) {
    EXPECT_THAT(reasons(text), ElementsAre()) << text;
  }
}

TEST(Validate, ListsEveryViolation) {
  EXPECT_THAT(reasons("hq3 hkv2 qk0 bf16 scales=head rotate window=1,1,dilation:0 feature=elu1"),
              ElementsAre("qk0 must be at least 1", "hq3 is not a multiple of hkv2",
                          "scales=head needs an fp8 type", "rotate needs an fp8 type",
                          HasSubstr("dilation 0"), "feature=elu1 needs a linear pass"));
}

TEST(Validate, OneViolationEach) {
  for (const auto& [text, words] : std::vector<std::pair<const char*, const char*>>{
           {"hq2 hkv0", "multiple"},
           {"v0", "v0"},
           {"out=bf16", "fp8"},
           {"global={3,3}", "twice"},
           {"bigbird=block:0", "block 0"},
           {"bigbird=window:2", "odd"},
           {"chunk=0", "chunk 0"},
           {"hq0 hkv2", "without a query head"},
           {"chunk=3000000000", "at most"},
           {"blocks=3000000000", "at most"},
           {"bigbird=block:3000000000", "at most"},
           {"window=1,1,dilation:3000000000", "dilation 3000000000 must be at most"},
           {"window=3000000000,1,dilation:2", "left 3000000000 must be at most"},
           {"blocks=0", "blocks 0"},
           {"linear-forward softcap=3", "softcap"},
           {"scale=1e39", "scale=1e+39 is not"},
           {"scale=-1e39", "scale=-1e+39 is not"},
           {"scale=1e-46", "scale=1e-46 is not"},
           {"softcap=1e40", "softcap=1e+40 must"},
           {"softcap=1e-46", "softcap=1e-46 must"},
           {"scale=3.4e38", "scale=3.4e+38 times log2 e"},
           {"scale=-3.4e38", "scale=-3.4e+38 times log2 e"},
           {"softcap=3e38 scale=9", "softcap=3e+38 times log2 e"},
           {"softcap=1e30 scale=1e-20", "scale / softcap = 1e-20 / 1e+30"},
           {"softcap=1e-30 scale=2e38", "scale / softcap = 2e+38 / 1e-30"},
           {"softcap=2e38 qk64", "scale / softcap = 0.125 / 2e+38"},
           {"linear-backward window=3,0", "causal"}}) {
    EXPECT_THAT(reasons(text), ElementsAre(HasSubstr(words))) << text;
  }
  for (const char* text : {"scale=0", "scale=-2.3e38", "scale=1.2e-38", "softcap=2.3e38 scale=9",
                           "softcap=1.2e-38", "softcap=3 scale=0", "linear-forward scale=3.4e38"}) {
    EXPECT_THAT(reasons(text), ElementsAre()) << text;
  }
  // Q; and by the defaults K, V and O as well.
  EXPECT_EQ(reasons("b4294967296 q4294967296").size(), 4u);
}

// Values that no text can give.
TEST(Validate, ChecksProblemsMadeInCode) {
  const auto with = [](auto change) {
    Problem problem;
    change(problem);
    return reasons(problem);
  };
  EXPECT_THAT(with([](Problem& p) { p.batch = -1; }), ElementsAre(HasSubstr("b-1")));
  EXPECT_THAT(with([](Problem& p) { p.softcap = NAN; }), ElementsAre(HasSubstr("softcap")));
  EXPECT_THAT(with([](Problem& p) { p.softmax_scale = INFINITY; }),
              ElementsAre(HasSubstr("scale")));
  EXPECT_THAT(with([](Problem& p) { p.dropout = NAN; }), ElementsAre(HasSubstr("dropout")));
  EXPECT_THAT(with([](Problem& p) { p.dtype = Dtype::kFloat32; }), ElementsAre(HasSubstr("fp32")));
  EXPECT_THAT(with([](Problem& p) { p.page_size = 0; }), ElementsAre(HasSubstr("paged=0")));
  EXPECT_THAT(with([](Problem& p) { p.num_splits = -3; }), ElementsAre(HasSubstr("splits=-3")));
  EXPECT_THAT(with([](Problem& p) { p.score_expression = "a\nb"; }),
              ElementsAre(HasSubstr("control")));
  EXPECT_THAT(with([](Problem& p) { p.masks = {MaskUnion{}}; }), ElementsAre(HasSubstr("nothing")));
  EXPECT_THAT(with([](Problem& p) {
                p.masks = {{{WindowMask{-5, 0, 1}}}};
              }),
              ElementsAre(HasSubstr("left -5 is negative")));
  EXPECT_THAT(with([](Problem& p) {
                p.masks = {{{GlobalMask{2, {1}}}}};
              }),
              ElementsAre(HasSubstr("both")));
  EXPECT_THAT(with([](Problem& p) {
                p.masks = {{{LongformerMask{4, {-1}}}}};
              }),
              ElementsAre(HasSubstr("index -1 is negative")));
  EXPECT_THAT(with([](Problem& p) { p.masks = {{{ExpressionMask{""}}}}; }),
              ElementsAre(HasSubstr("empty")));
  EXPECT_THAT(with([](Problem& p) {
                p.masks = {{{CausalMask{}}}, {{PrefixMask{3}}}};
              }),
              ElementsAre(HasSubstr("causal+prefix=3")));
}

}  // namespace
}  // namespace tilewright
