// Random problems through print and parse, and random damage to their texts through parse. The seed
// is fixed and printed; TILEWRIGHT_FUZZ_SEED and TILEWRIGHT_FUZZ_CASES change the run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "core/text.h"
#include "tilewright/problem.h"

namespace tilewright {
namespace {

class RandomProblem {
 public:
  explicit RandomProblem(uint64_t seed) : random_(seed) {}

  Problem make() {
    Problem p;
    p.pass = static_cast<Pass>(below(6));
    for (auto* dim : {&p.batch, &p.num_heads_q, &p.num_heads_kv, &p.seqlen_q, &p.seqlen_k,
                      &p.head_dim_qk, &p.head_dim_v}) {
      if (coin()) *dim = size();
    }
    if (coin()) p.dtype = static_cast<Dtype>(below(4));
    if (coin()) p.out_dtype = static_cast<Dtype>(below(2));
    p.fp8_scales = static_cast<Fp8Scales>(below(4));
    for (bool* flag :
         {&p.rotate, &p.alibi, &p.bias, &p.sink, &p.varlen, &p.strided, &p.deterministic}) {
      *flag = coin();
    }
    add_masks(p);
    if (coin()) p.softmax_scale = real();
    if (coin()) p.softcap = std::abs(real()) + 1e-300;
    if (coin()) p.score_expression = expression();
    if (coin()) p.layout = Layout::kBhsd;
    if (coin()) p.page_size = 1 + size() / 2;
    if (coin()) p.num_splits = 1 + size() / 2;
    p.feature = static_cast<FeatureMap>(below(3));
    if (coin()) p.dropout = std::uniform_real_distribution<double>(0, 0.999)(random_);
    return p;
  }

  // A text with one to three random edits.
  std::string damage(std::string text) {
    constexpr std::string_view kCharacters = "bhqkv0123456789=,:+{}*'\\ .-e_\t\n\x01\xff";
    for (uint64_t edits = 1 + below(3); edits > 0; --edits) {
      const size_t at = below(text.size() + 1);
      const char c = kCharacters[below(kCharacters.size())];
      if (coin() || at == text.size()) {
        text.insert(at, 1, c);
      } else if (coin()) {
        text[at] = c;
      } else {
        text.erase(at, 1 + below(4));
      }
    }
    return text;
  }

 private:
  uint64_t below(uint64_t bound) { return random_() % bound; }
  bool coin() { return below(2) == 0; }

  int64_t size() {
    switch (below(4)) {
      case 0:
        return 0;
      case 1:
        return static_cast<int64_t>(below(10));
      case 2:
        return static_cast<int64_t>(below(100000));
      default:
        return static_cast<int64_t>(random_() >> (1 + below(62)));
    }
  }

  double real() {
    const double value =
        std::ldexp(static_cast<double>(random_()), static_cast<int>(below(200)) - 160);
    return coin() ? value : -value;
  }

  std::string expression() {
    constexpr std::string_view kCharacters = "qkh score_aligned0123456789+-*/()<>=&|!?:,.'\\\"{}";
    std::string text;
    for (uint64_t length = 1 + below(20); length > 0; --length) {
      text += kCharacters[below(kCharacters.size())];
    }
    return text;
  }

  std::vector<int64_t> indices() {
    std::vector<int64_t> values;
    for (uint64_t count = below(4); count > 0; --count) values.push_back(size());
    return values;
  }

  std::optional<int64_t> distance() {
    if (coin()) return std::nullopt;
    return size();
  }

  Mask mask() {
    switch (below(10)) {
      case 0:
        return CausalMask{coin() ? MaskAlignment::kTopLeft : MaskAlignment::kBottomRight};
      case 1:
        return WindowMask{distance(), distance(), size()};
      case 2:
        return PrefixMask{size()};
      case 3: {
        GlobalMask global{0, indices()};
        if (global.indices.empty()) global.count = size();
        return global;
      }
      case 4:
        return BigBirdMask{size(), size(), size(), coin(), size(), random_()};
      case 5:
        return LongformerMask{size(), indices()};
      case 6:
        return ChunkMask{size()};
      case 7:
        return DocumentsMask{};
      case 8:
        return BlocksMask{size()};
      default:
        return ExpressionMask{expression()};
    }
  }

  void add_masks(Problem& p) {
    const uint64_t unions = below(4);
    for (uint64_t i = 0; i < unions; ++i) {
      MaskUnion mask_union;
      const uint64_t terms = 1 + below(3);
      while (mask_union.terms.size() < terms) {
        Mask term = mask();
        const bool widens =
            std::holds_alternative<PrefixMask>(term) || std::holds_alternative<GlobalMask>(term);
        if (widens && terms == 1 && unions > 1) continue;  // refused by the grammar
        mask_union.terms.push_back(std::move(term));
      }
      p.masks.push_back(std::move(mask_union));
    }
  }

  std::mt19937_64 random_;
};

uint64_t from_environment(const char* name, uint64_t fallback) {
  const char* text = std::getenv(name);
  if (text == nullptr) return fallback;
  const Result<uint64_t> value = parse_uint(text);
  EXPECT_TRUE(value.ok()) << name;
  return value.ok() ? *value : fallback;
}

TEST(ProblemFuzz, PrintedTextReadsBackTheSame) {
  const uint64_t seed = from_environment("TILEWRIGHT_FUZZ_SEED", 20261);
  const uint64_t cases = from_environment("TILEWRIGHT_FUZZ_CASES", 20000);
  RecordProperty("seed", std::to_string(seed));
  RandomProblem random(seed);
  for (uint64_t i = 0; i < cases; ++i) {
    const Problem problem = random.make();
    const std::string text = problem.to_string();
    const Result<Problem> again = Problem::parse(text);
    ASSERT_TRUE(again.ok()) << "seed " << seed << " case " << i << ": " << again.error().message;
    ASSERT_EQ(*again, problem) << "seed " << seed << " case " << i << ": " << text;
    ASSERT_EQ(again->to_string(), text);
    (void)validate(problem).ok();
  }
}

TEST(ProblemFuzz, DamagedTextIsReadOrPointedAt) {
  const uint64_t seed = from_environment("TILEWRIGHT_FUZZ_SEED", 20262);
  const uint64_t cases = from_environment("TILEWRIGHT_FUZZ_CASES", 20000);
  RandomProblem random(seed);
  for (uint64_t i = 0; i < cases; ++i) {
    const std::string text = random.damage(random.make().to_string());
    const Result<Problem> problem = Problem::parse(text);
    if (problem.ok()) {
      const Result<Problem> again = Problem::parse(problem->to_string());
      ASSERT_TRUE(again.ok()) << text;
      ASSERT_EQ(*again, *problem) << text;
      continue;
    }
    ASSERT_EQ(problem.error().code, ErrorCode::kParseError);
    ASSERT_EQ(split(problem.error().message, '\n').size(), 3u) << problem.error().message;
    ASSERT_EQ(problem.error().message.back(), '^') << problem.error().message;
  }
}

}  // namespace
}  // namespace tilewright
