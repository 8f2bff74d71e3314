// The text form of configs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "core/any_config.h"

namespace tilewright {
namespace {

using attention::ForwardSm80Config;
using testing::HasSubstr;

TEST(ConfigText, LeavesDefaultsOut) {
  EXPECT_EQ(to_string(AnyConfig(ForwardSm80Config{})), "forward_sm80");
  EXPECT_EQ(to_string(AnyConfig(ForwardSm80Config{
                .dtype = attention::Dtype::kBFloat16, .row_range = true, .stages = 2})),
            "forward_sm80 dtype=bf16 row_range=true stages=2");
}

TEST(ConfigText, RoundTrips) {
  std::mt19937 random(20);
  for (int trial = 0; trial < 500; ++trial) {
    ForwardSm80Config config;
    ForwardSm80Config::for_each_field(config, [&](const char*, auto& field) {
      using Field = std::remove_reference_t<decltype(field)>;
      if (random() % 2 == 0) return;
      if constexpr (std::is_same_v<Field, int>) {
        field = static_cast<int>(random());
      } else {
        field = static_cast<Field>(random() % 2);
      }
    });
    const auto parsed = parse_config(to_string(AnyConfig(config)));
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_EQ(*parsed, AnyConfig(config));
  }
}

TEST(ConfigText, RefusesWhatIsNoConfig) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "'' is not a kernel family"},
      {"forward_sm70", "'forward_sm70' is not a kernel family"},
      {"forward_sm80 tile_m", "'tile_m': expected field=value"},
      {"forward_sm80 tile_k=3", "has no field 'tile_k'"},
      {"forward_sm80 tile_m=3x", "tile_m=3x"},
      {"forward_sm80 tile_m=99999999999", "does not fit in 32 bits"},
      {"forward_sm80 strided=1", "neither true nor false"},
      {"forward_sm80 dtype=fp32", "'fp32' is not the input type"},
      {"forward_sm80  stages=2", "expected field=value"},
  };
  for (const auto& [text, message] : cases) {
    const auto parsed = parse_config(text);
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kParseError);
    EXPECT_THAT(parsed.error().message, HasSubstr(message));
  }
}

}  // namespace
}  // namespace tilewright
