// Mutated texts: no crash, no hang, and what is accepted can be analysed. TILEWRIGHT_FUZZ_SECONDS
// lengthens the run; a failure prints its seed.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <random>

#include "emulator/ptx/control_flow.h"
#include "emulator/ptx/liveness.h"
#include "tests/emulator/ptx_test_support.h"

namespace tilewright::emulator::ptx {
namespace {

using Random = std::mt19937_64;

size_t pick(Random& random, size_t bound) { return static_cast<size_t>(random() % bound); }

// A stretch of whole tokens or of bytes.
std::string piece(const std::string& text, Random& random) {
  const size_t from = pick(random, text.size());
  const size_t length = 1 + pick(random, random() % 4 == 0 ? 400 : 24);
  return text.substr(from, length);
}

void mutate(std::string& text, const std::string& other, Random& random) {
  static constexpr const char* kPieces[] = {"{",
                                            "}",
                                            "[",
                                            "]",
                                            "(",
                                            ")",
                                            ";",
                                            ",",
                                            ":",
                                            "@",
                                            "!",
                                            "|",
                                            "%",
                                            "0f",
                                            "0x",
                                            "-",
                                            ".v4",
                                            ".reg ",
                                            ".b128",
                                            "_",
                                            "<<",
                                            "99999999999999999999999",
                                            "%r4294967295",
                                            ".align",
                                            "\"",
                                            "/*",
                                            "//",
                                            "generic(",
                                            ".param ",
                                            "call ",
                                            "ret;",
                                            "\n.loc",
                                            "~",
                                            ".func",
                                            ".entry k()",
                                            "WARP_SZ",
                                            "1?2:"};
  const size_t at = pick(random, text.size());
  switch (random() % 8) {
    case 0:
      text[at] = static_cast<char>(random());
      return;
    case 1:
      text.erase(at, 1 + pick(random, 40));
      return;
    case 2:
      text.insert(at, kPieces[pick(random, std::size(kPieces))]);
      return;
    case 3:
      text.insert(at, piece(text, random));
      return;
    case 4:
      text.insert(at, piece(other, random));
      return;
    case 5: {  // swap two tokens' worth of bytes
      const std::string a = piece(text, random);
      text.replace(at, std::min(a.size(), text.size() - at), a);
      return;
    }
    case 6:
      text.resize(at);
      return;
    default: {  // digits
      const size_t digit = text.find_first_of("0123456789", at);
      if (digit != std::string::npos) text[digit] = static_cast<char>('0' + random() % 10);
    }
  }
}

void check(const std::string& text) {
  const Result<Module> module = parse(text);
  if (!module.ok()) {
    EXPECT_EQ(module.error().code, ErrorCode::kParseError);
    EXPECT_FALSE(module.error().message.empty());
    return;
  }
  for (uint32_t i = 0; i < module->functions.size(); ++i) {
    const Function& function = module->functions[i];
    if (!function.has_body) continue;
    build_control_flow(*module, function);
    estimate_registers(*module, i);
    for (const Instruction& instruction : function.instructions) {
      ASSERT_LE(instruction.first_operand + size_t{instruction.num_operands}, function.pool.size());
      ASSERT_LT(instruction.location, function.locations.size());
    }
  }
}

TEST(PtxFuzz, MutatedTexts) {
  const char* const seconds = std::getenv("TILEWRIGHT_FUZZ_SECONDS");
  const std::chrono::duration<double> limit(seconds ? std::atof(seconds) : 3.0);
  const std::vector<std::string> texts = {read_ptx("basics"), read_ptx("hopper"),
                                          read_ptx("ampere")};
  const auto start = std::chrono::steady_clock::now();
  uint64_t seed = seconds ? static_cast<uint64_t>(start.time_since_epoch().count()) : 1;
  size_t runs = 0;
  while (std::chrono::steady_clock::now() - start < limit) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed++);
    std::string text = texts[pick(random, texts.size())];
    const uint64_t mutations = 1 + random() % 6;
    for (uint64_t i = 0; i < mutations && !text.empty(); ++i) {
      mutate(text, texts[pick(random, texts.size())], random);
    }
    check(text);
    ++runs;
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  std::cout << runs << " texts\n";
  EXPECT_GT(runs, 10u);
}

}  // namespace
}  // namespace tilewright::emulator::ptx
