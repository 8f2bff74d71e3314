#include "core/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

namespace tilewright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseInt, TakesWholeNumbersOnly) {
  EXPECT_EQ(*parse_int("0"), 0);
  EXPECT_EQ(*parse_int("-17"), -17);
  EXPECT_EQ(*parse_int("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text : {"", "-", "+1", " 1", "1 ", "1x", "0x10", "1.0", "1e3", "nan"}) {
    EXPECT_FALSE(parse_int(text).ok()) << text;
  }
  EXPECT_THAT(parse_int("9223372036854775808").error().message, HasSubstr("64 bits"));
  EXPECT_THAT(parse_int("12x").error().message, HasSubstr("'12x' is not an integer"));
  EXPECT_EQ(parse_int("").error().code, ErrorCode::kParseError);
}

TEST(ParseUint, RefusesNegatives) {
  EXPECT_EQ(*parse_uint("18446744073709551615"), std::numeric_limits<uint64_t>::max());
  EXPECT_FALSE(parse_uint("-1").ok());
  EXPECT_FALSE(parse_uint("18446744073709551616").ok());
}

TEST(ParseDouble, TakesFiniteNumbersOnly) {
  EXPECT_EQ(*parse_double("0.1"), 0.1);
  EXPECT_EQ(*parse_double("-1e-3"), -1e-3);
  for (const char* text : {"", "nan", "inf", "-inf", "1e999", "0.1x", "1,5", " 1", "."}) {
    EXPECT_FALSE(parse_double(text).ok()) << text;
  }
}

TEST(NumberText, ReadsBackExactly) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 400) - 250);
    const std::string text = number_text(value);
    EXPECT_EQ(*parse_double(text), value) << text;
    EXPECT_EQ(text.find('+'), std::string::npos) << text;
  }
  EXPECT_EQ(number_text(50), "50");
  EXPECT_EQ(number_text(0.1), "0.1");
}

TEST(Split, KeepsEmptyPieces) {
  EXPECT_THAT(split("a,,b", ','), ElementsAre("a", "", "b"));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_EQ(trim(" \t a b\n"), "a b");
  EXPECT_EQ(trim(" "), "");
}

TEST(PointAt, PutsTheCaretUnderTheOffset) {
  EXPECT_EQ(point_at("wrong", "ab cde f", 3, 3), "wrong\n  ab cde f\n     ^^^");
  EXPECT_EQ(point_at("end", "ab", 2), "end\n  ab\n    ^");
  EXPECT_EQ(point_at("far", "ab", 99, 5), "far\n  ab\n    ^");
  EXPECT_EQ(point_at("line", "one\ntwo\nthree", 5, 9), "line\n  two\n   ^^");
  EXPECT_EQ(point_at("empty", "", 0, 0), "empty\n  \n  ^");
  EXPECT_EQ(point_at("tab", "a\tb", 2), "tab\n  a?b\n    ^");
}

TEST(PointAt, CutsLongLinesAroundTheCaret) {
  std::string text(5000, 'x');
  text[3000] = '!';
  const std::string shown = point_at("long", text, 3000);
  EXPECT_LT(shown.size(), 300u);
  const auto lines = split(shown, '\n');
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[1].find('!'), lines[2].find('^'));
}

// The words as a shell passes them to a program.
std::string through_shell(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return "popen failed";
  std::string output;
  std::array<char, 4096> buffer;
  size_t got = 0;
  while ((got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0) {
    output.append(buffer.data(), got);
  }
  ::pclose(pipe);
  return output;
}

TEST(ShellQuote, SurvivesTheShell) {
  std::vector<std::string> words = {"plain",
                                    "",
                                    "two words",
                                    "it's",
                                    "\"double\"",
                                    "$HOME",
                                    "`id`",
                                    "a\\b",
                                    "*",
                                    "~",
                                    "a;b",
                                    "!x",
                                    "line\nfeed",
                                    "{a,b}",
                                    "\\",
                                    "'",
                                    "(q)",
                                    "<>|&#",
                                    "mask='q >= k'",
                                    "score='it\\'s'",
                                    "\xc3\xa9"};
  std::mt19937 random(7);
  for (int i = 0; i < 150; ++i) {
    std::string word;
    const size_t length = random() % 12;
    for (size_t j = 0; j < length; ++j) word += static_cast<char>(1 + random() % 126);
    words.push_back(word);
  }
  std::vector<std::string> command = {"printf", "%s\\001"};
  command.insert(command.end(), words.begin(), words.end());
  std::string expected;
  for (const std::string& word : words) expected += word + '\001';
  EXPECT_EQ(through_shell(shell_command(command)), expected);
}

TEST(ShellQuote, LeavesPlainWordsAlone) {
  EXPECT_EQ(shell_quote("--problem"), "--problem");
  EXPECT_EQ(shell_quote("b2 hq6"), "\"b2 hq6\"");
  EXPECT_EQ(shell_quote("a'b"), "\"a'b\"");
}

TEST(Units, AreShort) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(int64_t{80} << 30), "80.0 GiB");
  EXPECT_EQ(bytes_text((int64_t{1} << 20) - 1), "1.0 MiB");
  EXPECT_EQ(seconds_text(0), "0 s");
  EXPECT_EQ(seconds_text(8.5e-7), "850 ns");
  EXPECT_EQ(seconds_text(1.23e-5), "12.3 us");
  EXPECT_EQ(seconds_text(0.00451), "4.51 ms");
  EXPECT_EQ(seconds_text(0.99999), "1.00 s");
  EXPECT_EQ(seconds_text(120), "120 s");
}

TEST(NearestName, FindsMisspellings) {
  const std::vector<std::string_view> known = {"causal", "window", "chunk"};
  EXPECT_EQ(nearest_name("casual", known), "causal");
  EXPECT_EQ(nearest_name("windows", known), "window");
  EXPECT_EQ(nearest_name("zebra", known), "");
  EXPECT_EQ(nearest_name("", known), "");
}

}  // namespace
}  // namespace tilewright
