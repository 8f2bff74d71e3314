#include "core/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <vector>

namespace tilewright {
namespace {

TEST(ParallelFor, CallsEachIndexOnce) {
  for (const int jobs : {0, 1, 2, 7}) {
    for (const int64_t count : {0, 1, 6, 1000}) {
      std::vector<std::atomic<int>> calls(static_cast<size_t>(count));
      std::atomic<int> most{-1};
      parallel_for(count, jobs, [&](int64_t index, int worker) {
        ++calls[static_cast<size_t>(index)];
        if (worker > most) most = worker;
      });
      for (const auto& each : calls) EXPECT_EQ(each, 1);
      if (jobs > 0) {
        EXPECT_LT(most, jobs);
      }
    }
  }
}

TEST(ParallelFor, WorkersDoNotShareANumber) {
  std::vector<std::atomic<int>> busy(4);
  std::atomic<int> collisions{0};
  parallel_for(2000, 4, [&](int64_t, int worker) {
    auto& flag = busy[static_cast<size_t>(worker)];
    if (flag.fetch_add(1) != 0) ++collisions;
    flag.fetch_sub(1);
  });
  EXPECT_EQ(collisions, 0);
}

TEST(AvailableCpus, IsPositive) { EXPECT_GE(available_cpus(), 1); }

}  // namespace
}  // namespace tilewright
