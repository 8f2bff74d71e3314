// What no family takes is refused by name, all reasons at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "generator/generator.h"

namespace tilewright {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

Problem parse(const std::string& text) {
  const auto problem = Problem::parse(text);
  EXPECT_TRUE(problem.ok()) << text << ": " << problem.error().to_string();
  return *problem;
}

Arch arch_of(const char* target) { return *arch_from_target(target); }

// Those of forward_sm80, or of another forward family.
std::vector<std::string> reasons(const std::string& text, const Arch& arch = arch_of("sm_80"),
                                 const std::string& family = "forward_sm80") {
  std::vector<std::string> result;
  for (const Refusal& refusal : refusals(parse(text), arch)) {
    EXPECT_TRUE(refusal.family.starts_with("forward_sm")) << refusal.family;
    if (refusal.family == family) result.push_back(refusal.reason);
  }
  return result;
}

TEST(Refusals, NoneForWhatIsBuilt) {
  for (const char* text : {"qk128 v128",
                           "qk8",
                           "qk256 v8 bf16 causal",
                           "qk80 v48 causal=top-left",
                           "qk64 softcap=50",
                           "qk64 scale=0.1",
                           "qk64 window=256,0",
                           "qk64 window=*,3 causal",
                           "qk64 strided",
                           "qk64 window=2,2,dilation:3",
                           "qk64 causal+prefix=8",
                           "qk64 global={0,17}",
                           "qk64 chunk=64",
                           "qk64 documents",
                           "qk64 blocks=128",
                           "qk64 bigbird",
                           "qk64 longformer=window:512",
                           "qk64 layout=bhsd",
                           "qk64 deterministic",
                           "qk64 splits=1",
                           "b70000 hq8 hkv2 qk64 q1 k0"}) {
    EXPECT_THAT(reasons(text), IsEmpty()) << text;
  }
}

TEST(Refusals, NameTheFeature) {
  const std::pair<const char*, const char*> cases[] = {
      {"qk64 fp8e4m3 out=bf16", "type fp8e4m3"},
      {"qk64 blocks=128 blocks=64", "more than one mask blocks"},
      {"qk64 mask='q >= k'", "mask expression"},
      {"qk64 score='score * 2'", "score expression"},
      {"qk64 bias", "bias"},
      {"qk64 sink", "sink"},
      {"qk64 alibi", "alibi"},
      {"qk64 dropout=0.1", "dropout"},
      {"qk64 scale=-1", "a negative scale"},
  };
  for (const auto& [text, feature] : cases) {
    EXPECT_THAT(reasons(text), Contains(std::string(feature) + " is not built yet in forward_sm80"))
        << text;
  }
}

// `standard` has no tile lists.
TEST(Refusals, NameTheMask) {
  const std::pair<const char*, const char*> cases[] = {
      {"window=2,2,dilation:3", "window dilation 3"},
      {"causal+prefix=8", "mask prefix"},
      {"causal+prefix=8", "a union of masks"},
      {"chunk=64", "mask chunk"},
      {"documents", "mask documents"},
      {"blocks=128", "mask blocks"},
      {"bigbird=block:64", "mask bigbird"},
      {"longformer=window:512", "mask longformer"},
  };
  for (const auto& [mask, name] : cases) {
    std::vector<std::string> found;
    for (const Refusal& refusal :
         refusals(parse(std::string("standard qk64 ") + mask), arch_of("sm_80"))) {
      found.push_back(refusal.reason);
    }
    EXPECT_THAT(found, Contains(std::string(name) + " is not built yet in standard")) << mask;
  }
}

TEST(Refusals, OfLengthsThatVary) {
  for (const char* text : {"qk64 varlen", "qk64 paged=16 causal", "qk64 varlen paged=1 splits=9",
                           "qk64 varlen chunk=64", "qk64 paged=16 bigbird splits=2",
                           "qk120 v128 varlen paged=16 splits=4 chunk=64 strided softcap=9"}) {
    EXPECT_THAT(reasons(text), IsEmpty()) << text;
  }
  EXPECT_THAT(reasons("qk64 paged=16 layout=bhsd"),
              Contains("varlen and paged have one layout: leave out layout=bhsd"));
  EXPECT_THAT(reasons("qk64 splits=257"), Contains("splits=257 is more than 256"));
  EXPECT_THAT(reasons("qk64 paged=2000000"), Contains("paged=2000000 is more than 1048576"));
}

TEST(Refusals, OfAPassNoFamilyHas) {
  const std::vector<Refusal> found = refusals(parse("linear-backward qk64"), arch_of("sm_80"));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].reason, "pass linear-backward is not built yet");
  EXPECT_FALSE(choose_config(parse("linear-backward qk64"), arch_of("sm_80")).ok());
}

// Families of other passes neither take a problem nor say that they do not.
TEST(Refusals, PassesDoNotMix) {
  EXPECT_EQ(family_name(choose_config(parse("standard qk64"), arch_of("sm_80"))->config),
            "standard");
  EXPECT_EQ(family_name(choose_config(parse("qk64"), arch_of("sm_80"))->config), "forward_sm80");
  for (const Refusal& refusal : refusals(parse("standard qk64 bias"), arch_of("sm_80"))) {
    EXPECT_EQ(refusal.family, "standard");
  }
}

TEST(Refusals, ListEveryReason) {
  EXPECT_THAT(reasons("qk60 v512 bias alibi"),
              UnorderedElementsAre("bias is not built yet in forward_sm80",
                                   "alibi is not built yet in forward_sm80",
                                   "head_dim_qk=60 is not a multiple of 8 from 8 to 256",
                                   "head_dim_v=512 is not a multiple of 8 from 8 to 256"));
}

TEST(Refusals, OfTheDeviceAndOfMissingHeadDims) {
  Arch turing = arch_of("sm_80");
  turing.compute_major = 7;
  turing.compute_minor = 5;
  EXPECT_THAT(reasons("qk64", turing), ElementsAre("needs sm_80, device is sm_75"));
  EXPECT_THAT(reasons("causal"), ElementsAre("head_dim_qk is missing"));
}

TEST(Refusals, OfTmaAndWgmma) {
  for (const char* text : {"qk64 causal", "qk64 varlen", "qk64 varlen window=3,* softcap=2"}) {
    EXPECT_THAT(reasons(text, arch_of("sm_90a"), "forward_sm90"), IsEmpty()) << text;
  }
  EXPECT_THAT(reasons("qk64 varlen paged=16 splits=2 chunk=9", arch_of("sm_90a"), "forward_sm90"),
              ElementsAre("mask chunk is not built yet in forward_sm90",
                          "paged is not built yet in forward_sm90",
                          "splits is not built yet in forward_sm90"));
  EXPECT_THAT(reasons("qk64 varlen layout=bhsd", arch_of("sm_90a"), "forward_sm90"),
              ElementsAre("varlen and paged have one layout: leave out layout=bhsd"));
  EXPECT_THAT(reasons("qk64 strided", arch_of("sm_90a"), "forward_sm90"),
              ElementsAre("strided: TMA needs 16-byte rows"));
  EXPECT_THAT(
      reasons("qk64 bias", arch_of("sm_90"), "forward_sm90"),
      ElementsAre("needs sm_90a, device is sm_90", "bias is not built yet in forward_sm90"));
  Arch tiny = arch_of("sm_90a");
  tiny.shared_bytes_per_block = 16 * 1024;
  EXPECT_THAT(reasons("qk256 v256", tiny, "forward_sm90"),
              ElementsAre("no config fits the 16384 bytes of shared memory of a block and "
                          "the 255 registers of a thread of sm_90a"));
}

TEST(Refusals, ADeviceTooSmallForAnyConfigIsNamed) {
  Arch tiny = *arch_from_target("sm_80");
  tiny.shared_bytes_per_block = 16 * 1024;
  EXPECT_THAT(reasons("qk256 v256", tiny),
              ElementsAre("no config fits the 16384 bytes of shared memory of a block and "
                          "the 255 registers of a thread of sm_80"));
}

TEST(Refusals, EndInAnErrorWithAllReasons) {
  const auto choice = choose_config(parse("qk60 bias"), arch_of("sm_80"));
  ASSERT_FALSE(choice.ok());
  EXPECT_EQ(choice.error().code, ErrorCode::kUnsupportedProblem);
  EXPECT_THAT(choice.error().reasons,
              ElementsAre("forward_sm90: needs sm_90a, device is sm_80",
                          "forward_sm90: bias is not built yet in forward_sm90",
                          "forward_sm90: head_dim_qk=60 is not a multiple of 8 from 8 to 256",
                          "forward_sm80: bias is not built yet in forward_sm80",
                          "forward_sm80: head_dim_qk=60 is not a multiple of 8 from 8 to 256"));
  EXPECT_THAT(candidates(parse("qk60 bias"), arch_of("sm_80")), IsEmpty());
}

}  // namespace
}  // namespace tilewright
