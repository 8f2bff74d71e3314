// What `tilewright io` reports: the examples, devices in both readings, what does not fit,
// and FlashAttention's published traffic.
#include "io_model/report.h"

#include <gtest/gtest.h>

#include "tests/io_model/support.h"

namespace tilewright::io_model {
namespace {

using enum Algorithm;

double mebibytes(const Entry& entry) {
  return static_cast<double>(entry.traffic->total().value()) * 2 / (1 << 20);
}

TEST(Report, SmallCacheWinsAt512) {
  const auto report =
      analyse(Task::kBackward, Case::dense(4096, 512), 48 * 512, {}, MachineMode::kNone);
  ASSERT_TRUE(report.ok());
  ASSERT_NE(report->winner, nullptr);
  ASSERT_NE(report->runner_up, nullptr);
  EXPECT_EQ(report->winner->algorithm, kSmallCacheBackward);
  EXPECT_NEAR(mebibytes(*report->winner), 1196, 0.5);
  EXPECT_EQ(report->runner_up->algorithm, kTwoPassBackward);
  EXPECT_NEAR(mebibytes(*report->runner_up), 5218, 0.5);
  EXPECT_NEAR(report->margin(), 4.4, 0.05);
  // small-cache-kept moves less, but is given P.
  for (const Entry& entry : report->entries) {
    if (entry.algorithm == kSmallCacheKeptBackward) {
      EXPECT_LT(mebibytes(entry), mebibytes(*report->winner));
    }
  }
}

TEST(Report, FlashWinsAt128) {
  const auto report =
      analyse(Task::kBackward, Case::dense(4096, 128), 227 * 512, {}, MachineMode::kLoops);
  ASSERT_TRUE(report.ok());
  ASSERT_NE(report->winner, nullptr);
  EXPECT_EQ(info(report->winner->algorithm).family, "flash");
  for (const Entry& entry : report->entries) {
    if (!entry.traffic) continue;
    ASSERT_TRUE(entry.by_loops.has_value());
    EXPECT_EQ(*entry.by_loops, *entry.traffic) << info(entry.algorithm).name;
  }
}

struct Readings {
  double shared, both;  // flash words / small-cache words; 0: flash does not fit
};

Readings flash_over_small_cache(std::string_view profile_name, int64_t head_dim) {
  const Result<DeviceProfile> profile = find_profile(profile_name);
  EXPECT_TRUE(profile.ok());
  Case c = Case::dense(4096, head_dim);
  c.accumulator_words = device_accumulator_words(2);
  double ratios[2] = {0, 0};
  int at = 0;
  for (const FastMemory& memory : fast_memories(profile->arch)) {
    const auto report =
        analyse(Task::kBackward, c, memory.bytes / 2, kDeviceGranularity, MachineMode::kNone);
    EXPECT_TRUE(report.ok());
    const Entry* flash = report->winner;
    const Entry* small_cache = report->runner_up;
    if (info(flash->algorithm).family != "flash") std::swap(flash, small_cache);
    ratios[at++] = flash == nullptr ? 0 : mebibytes(*flash) / mebibytes(*small_cache);
  }
  return {ratios[0], ratios[1]};
}

TEST(Report, TheTwoReadingsOfADevice) {
  const Readings rtx4090 = flash_over_small_cache("rtx4090", 256);
  EXPECT_NEAR(rtx4090.shared, 2.3, 0.05);     // small-cache moves 2.3x fewer
  EXPECT_NEAR(1 / rtx4090.both, 1.34, 0.01);  // and 1.34x more
  const Readings h100 = flash_over_small_cache("h100", 256);
  EXPECT_NEAR(h100.shared, 1, 0.06);  // near a tie
  EXPECT_NEAR(1 / h100.both, 1.7, 0.05);
  const Readings h100_wide = flash_over_small_cache("h100", 1024);
  EXPECT_EQ(h100_wide.shared, 0);  // flash does not fit
  EXPECT_NEAR(h100_wide.both, 3.1, 0.05);
  const Readings h100_512 = flash_over_small_cache("h100", 512);
  EXPECT_GT(h100_512.shared, 3);
  EXPECT_GT(h100_512.both, 1.3);
}

TEST(Report, TooSmallAMemorySaysWhatIsNeeded) {
  const Case c = Case::dense(64, 12);
  const auto refused = best_tiles(kOnePassBackward, c, 87);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kOutOfMemory);
  EXPECT_EQ(refused.error().message, "one-pass needs 88 words of fast memory, 87 are given");
  const std::string reasons = refused.error().to_string();
  EXPECT_NE(reasons.find("two-pass runs: it needs 76 words"), std::string::npos) << reasons;
  EXPECT_NE(reasons.find("small-cache runs: it needs 5 words"), std::string::npos) << reasons;
  EXPECT_EQ(reasons.find("flash1-backward runs"), std::string::npos) << reasons;
  // Far below anything, nothing remains.
  const auto nothing = best_tiles(kOnePassBackward, c, 2);
  ASSERT_FALSE(nothing.ok());
  EXPECT_NE(nothing.error().to_string().find("no algorithm"), std::string::npos);
}

TEST(Report, BadTilesAndTasksAreNamed) {
  const Case c = Case::dense(16, 4);
  EXPECT_EQ(closed_form(kTwoPassBackward, c, {{1, 1, 1}}).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(closed_form(kFlash2Forward, c, {{0, 1, 1}}).error().code, ErrorCode::kInvalidArgument);
  const Case uneven{{16, 8, 4, 4}, VisiblePairs::dense(16, 8)};
  EXPECT_EQ(best_count(kSmallCacheWeights, uneven, 1000).error().code,
            ErrorCode::kUnsupportedProblem);
  EXPECT_FALSE(find_algorithm("flush").ok());
  EXPECT_EQ(*find_algorithm("two-pass"), kTwoPassBackward);
}

// FlashAttention's 40.3 GB of HBM traffic for standard attention, forward and backward.
TEST(PublishedTraffic, StandardAttentionPassByPass) {
  const Shape shape = Case::dense(1024, 64).shape;
  const double heads = 16 * 64;  // heads x batch
  const auto sum = [&](bool masked, bool dropout) {
    double bytes = 0;
    for (const StandardPass& pass : standard_passes(shape, 2, masked, dropout)) {
      bytes += pass.bytes_per_head;
    }
    return bytes * heads;
  };
  const double n2 = 1024.0 * 1024, nd = 1024.0 * 64;
  EXPECT_DOUBLE_EQ(sum(false, false), (11 * n2 + 12 * nd) * 2 * heads);
  EXPECT_DOUBLE_EQ(sum(true, true), (18 * n2 + 12 * nd) * 2 * heads);
  EXPECT_NEAR(sum(false, false) / 1e9, 25.2, 0.05);
  EXPECT_NEAR(sum(true, true) / 1e9, 40.3, 0.05);
  // The passes without mask and dropout are the standard-ideal algorithms.
  const Case c = Case::dense(1024, 64);
  const auto forward = best_count(kStandardIdealForward, c, 1 << 20);
  const auto backward = best_count(kStandardIdealBackward, c, 1 << 20);
  ASSERT_TRUE(forward.ok() && backward.ok());
  EXPECT_DOUBLE_EQ(static_cast<double>((forward->total() + backward->total()).value()) * 2 * heads,
                   sum(false, false));
}

}  // namespace
}  // namespace tilewright::io_model
