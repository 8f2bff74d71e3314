#include "io_model/memory_size.h"

#include <gtest/gtest.h>

#include <string>

#include "io_model/picture.h"

namespace tilewright::io_model {
namespace {

TEST(MemorySize, Units) {
  EXPECT_EQ(*parse_memory_words("48KiB", 2), 24576);
  EXPECT_EQ(*parse_memory_words("1MiB", 1), 1 << 20);
  EXPECT_EQ(*parse_memory_words("2GiB", 4), 1 << 29);
  EXPECT_EQ(*parse_memory_words("101B", 2), 50);
  EXPECT_EQ(*parse_memory_words("512words", 2), 512);
}

TEST(MemorySize, NamedErrors) {
  const auto expect = [](const char* text, ErrorCode code, const std::string& part) {
    const auto words = parse_memory_words(text, 2);
    ASSERT_FALSE(words.ok()) << text;
    EXPECT_EQ(words.error().code, code) << text;
    EXPECT_NE(words.error().message.find(part), std::string::npos) << words.error().message;
  };
  expect("48KB", ErrorCode::kParseError, "unknown unit 'KB'");
  expect("48", ErrorCode::kParseError, "unknown unit ''");
  expect("KiB", ErrorCode::kParseError, "is not a memory size");
  expect("-1KiB", ErrorCode::kParseError, "is not a memory size");
  expect("99999999999GiB", ErrorCode::kOverflow, "64 bits");
  expect("1B", ErrorCode::kInvalidArgument, "less than one word");
  expect("99999999999999999999B", ErrorCode::kParseError, "64 bits");
}

TEST(MemorySize, Sweeps) {
  const auto sweep = parse_memory_range("8KiB..1MiB", 2);
  ASSERT_TRUE(sweep.ok());
  EXPECT_EQ(sweep->from_words, 4096);
  EXPECT_EQ(sweep->to_words, 1 << 19);
  EXPECT_TRUE(sweep->is_sweep());
  EXPECT_FALSE(parse_memory_range("8KiB", 2)->is_sweep());
  EXPECT_EQ(parse_memory_range("8KiB..8KiB", 2).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(parse_memory_range("8KiB..", 2).error().code, ErrorCode::kParseError);
}

TEST(Picture, PlacesPointsOnLogarithmicAxes) {
  Picture picture{
      .title = "a < b",
      .x_label = "x",
      .y_label = "y",
      .curves = {{"line", "#123456", {{4, 100}, {16, 1000}, {64, 10000}}, false, false}},
      .marked_x = 16,
      .marked_label = "here"};
  const std::string svg = draw_svg(picture);
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  // From corner to corner through the middle: 90..670 across, 540..50 up.
  EXPECT_NE(svg.find("90.0,540.0 380.0,295.0 670.0,50.0"), std::string::npos) << svg;
  EXPECT_NE(svg.find("x1='380.0' y1='540.0' x2='380.0' y2='50.0'"), std::string::npos);
  picture.curves.clear();
  EXPECT_NE(draw_svg(picture).find("</svg>"), std::string::npos);
}

}  // namespace
}  // namespace tilewright::io_model
