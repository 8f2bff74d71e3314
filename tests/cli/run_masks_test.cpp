// `run` with masks by tile lists: the schedule it reports and the data it reads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "core/npy.h"
#include "tests/cli/process.h"
#include "tests/core/scratch_folder.h"

namespace tilewright::testing {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

template <class T>
void save(const std::string& path, NpyType type, std::vector<int64_t> shape,
          const std::vector<T>& values) {
  NpyArray array{type, std::move(shape), {}};
  array.data.resize(values.size() * sizeof(T));
  std::memcpy(array.data.data(), values.data(), array.data.size());
  ASSERT_TRUE(write_npy(path, array).ok());
}

Finished run(const std::string& problem, Words more = {}) {
  Words words = {"run", "--check", "--device", "emulated:a100", "--problem", problem};
  words.insert(words.end(), more.begin(), more.end());
  return run_tilewright(words);
}

TEST(RunMasks, ReportsTheSchedule) {
  const Finished text = run("hq2 q256 qk64 fp16 bigbird=block:64,random:1");
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("schedule"));
  EXPECT_THAT(text.out, HasSubstr("of 32 tiles of 64x64"));
  const Finished json = run("q128 qk64 fp16 causal+prefix=64", {"--json"});
  EXPECT_EQ(json.code, 0) << json.err;
  // 128 x 64 tiles: the first is seen by all but its upper triangle outside the prefix, i.e. whole.
  EXPECT_THAT(json.out, HasSubstr("\"full_tiles\": 1"));
  EXPECT_THAT(json.out, HasSubstr("\"partial_tiles\": 1"));
  EXPECT_THAT(json.out, HasSubstr("\"visible_pairs\": 10272"));
}

TEST(RunMasks, ReadsBlocksAndDocuments) {
  const ScratchFolder folder;
  const std::string blocks = folder.path() + "/blocks.npy", ids = folder.path() + "/ids.npy";
  // Two of 3 x 2 blocks of 64.
  save<uint8_t>(blocks, NpyType::kUint8, {3, 2}, {1, 0, 0, 0, 0, 9});
  const Finished of_blocks = run("q130 k128 qk64 fp16 blocks=64", {"--blocks", blocks, "--json"});
  EXPECT_EQ(of_blocks.code, 0) << of_blocks.err;
  EXPECT_THAT(of_blocks.out, HasSubstr("\"visible_pairs\": 4224"));  // 64 · 64 + 2 · 64
  EXPECT_THAT(of_blocks.out, HasSubstr("--blocks"));                 // in the reproducer

  save<int32_t>(ids, NpyType::kInt32, {1, 6}, {5, 5, 5, 5, -1, -1});
  const Finished of_ids = run("q6 qk8 fp16 documents", {"--documents", ids, "--json"});
  EXPECT_EQ(of_ids.code, 0) << of_ids.err;
  EXPECT_THAT(of_ids.out, HasSubstr("\"visible_pairs\": 20"));
}

// NumPy's default types: int64 for integers, bool for flags.
TEST(RunMasks, TakesTheTypesThatNumpyMakes) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/data.npy";
  save<int64_t>(path, NpyType::kInt64, {1, 4}, {1, 1, 2, -2});
  Finished finished = run("q4 qk64 fp16 documents", {"--documents", path});
  EXPECT_EQ(finished.code, 0) << finished.err;
  save<uint8_t>(path, NpyType::kBool, {2, 2}, {1, 0, 0, 1});
  finished = run("q128 qk64 fp16 blocks=64", {"--blocks", path});
  EXPECT_EQ(finished.code, 0) << finished.err;
}

TEST(RunMasks, RefusesDataThatDoNotFit) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/data.npy";
  const auto message = [](const Finished& finished) {
    EXPECT_EQ(finished.code, 2) << finished.out;
    return finished.err;
  };
  save<uint8_t>(path, NpyType::kUint8, {2, 2}, {1, 0, 0, 1});
  EXPECT_THAT(message(run("q130 k128 qk64 fp16 blocks=64", {"--blocks", path})),
              HasSubstr("shape: [2, 2] is not [3, 2]"));
  EXPECT_THAT(message(run("q128 qk64 fp16 causal", {"--blocks", path})),
              HasSubstr("has no mask blocks"));
  EXPECT_THAT(message(run("q128 qk64 fp16 documents", {"--documents", path})),
              HasSubstr("descr: uint8 is given, documents needs int32 or int64"));
  save<int64_t>(path, NpyType::kInt64, {1, 2}, {1, int64_t{1} << 31});
  EXPECT_THAT(message(run("q2 qk64 fp16 documents", {"--documents", path})),
              HasSubstr("2147483648 at element 1 does not fit in int32"));
  save<int32_t>(path, NpyType::kInt32, {1, 2}, {1, INT32_MIN});
  EXPECT_THAT(message(run("q2 qk64 fp16 documents", {"--documents", path})),
              HasSubstr("-2147483648 at element 1 is kept for queries before the first key"));
  save<int64_t>(path, NpyType::kInt64, {1, 2}, {1, 1});
  EXPECT_THAT(message(run("q2 qk64 fp16 blocks=64", {"--blocks", path})),
              HasSubstr("descr: int64 is given, blocks needs uint8 or bool"));
  EXPECT_THAT(message(run("q128 qk64 fp16 documents", {"--documents", path + "x"})),
              HasSubstr("data.npyx"));
}

}  // namespace
}  // namespace tilewright::testing
