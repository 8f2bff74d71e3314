// `run` on files of packed, paged and linear problems: results that agree with dense runs of the
// same sequences, and what is said of lengths, pages and states that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "core/half.h"
#include "core/npy.h"
#include "tests/cli/process.h"
#include "tests/core/scratch_folder.h"

namespace tilewright::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;
using Extents = std::vector<int64_t>;

constexpr int64_t kHeadsQ = 2, kHeadsKv = 1, kDim = 64;

class ServingFiles : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / (name + ".npy"); }

  void save_integers(const std::string& name, const Extents& shape,
                     const std::vector<int32_t>& values) {
    NpyArray array{NpyType::kInt32, shape, {}};
    array.data.resize(values.size() * sizeof(int32_t));
    std::memcpy(array.data.data(), values.data(), array.data.size());
    ASSERT_TRUE(write_npy(path(name), array).ok());
  }

  // Halves; rows from `nan_from` on are NaN.
  void save_halves(const std::string& name, const Extents& shape, double step,
                   int64_t nan_from = INT64_MAX) {
    int64_t count = 1;
    for (const int64_t extent : shape) count *= extent;
    std::vector<float> values(static_cast<size_t>(count));
    const int64_t row = count / std::max<int64_t>(1, shape.at(0));
    for (int64_t i = 0; i < count; ++i) {
      values[static_cast<size_t>(i)] =
          i / row >= nan_from ? std::nanf("")
                              : static_cast<float>(std::sin(step * static_cast<double>(i + 1)));
    }
    save_floats(name, NpyType::kFloat16, Dtype::kFloat16, shape, values);
  }

  void save_floats(const std::string& name, NpyType type, Dtype dtype, const Extents& shape,
                   const std::vector<float>& values) {
    NpyArray array{type, shape, {}};
    array.data.resize(values.size() * static_cast<size_t>(size_in_bytes(type)));
    from_float(dtype, values, array.data.data());
    ASSERT_TRUE(write_npy(path(name), array).ok());
  }

  std::vector<float> load(const std::string& name, const Extents& shape) {
    const Result<NpyArray> array = read_npy(path(name));
    EXPECT_TRUE(array.ok()) << name;
    if (!array.ok()) return {};
    EXPECT_EQ(array->shape, shape) << name;
    std::vector<float> values(static_cast<size_t>(array->num_elements()));
    const Dtype dtype = array->type == NpyType::kFloat32 ? Dtype::kFloat32 : Dtype::kFloat16;
    to_float(dtype, array->data.data(), values);
    return values;
  }

  // With the files of these flags: {"q", "cu-seqlens-q"} become --q q.npy --cu-seqlens-q ….
  Finished run(const std::string& problem, const Words& files, const Words& more = {}) {
    Words words = {"run",           "--problem",   problem,          "--device",
                   "emulated:a100", "--cache-dir", folder_ / "cache"};
    for (const std::string& name : files) {
      words.push_back("--" + name);
      words.push_back(path(name));
    }
    words.insert(words.end(), more.begin(), more.end());
    return run_tilewright(words);
  }

  void expect_refused(const std::string& problem, const Words& files, const std::string& message) {
    const Finished finished = run(problem, files);
    EXPECT_EQ(finished.code, 2) << message << finished.out << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(message));
    EXPECT_EQ(finished.out, "");
  }

  // Sequences of 3, 0 and 5 queries, 4, 2 and 7 keys; one row more of each belongs to none.
  void save_packed() {
    save_halves("q", {9, kHeadsQ, kDim}, 0.37, 8);
    save_halves("k", {14, kHeadsKv, kDim}, 0.73, 13);
    save_halves("v", {14, kHeadsKv, kDim}, 0.91, 13);
    save_integers("cu-seqlens-q", {4}, {0, 3, 3, 8});
    save_integers("cu-seqlens-k", {4}, {0, 4, 6, 13});
  }
  // Two sequences of one query: 5 and 9 keys in pages of 4, out of 6 pages.
  void save_paged() {
    save_halves("q", {2, 1, kHeadsQ, kDim}, 0.37);
    save_halves("k", {6, 4, kHeadsKv, kDim}, 0.73, 5);  // page 5 is NaN
    save_halves("v", {6, 4, kHeadsKv, kDim}, 0.91, 5);
    save_integers("block-table", {2, 3}, {4, 0, 99, 2, 3, 1});
    save_integers("seqused-k", {2}, {5, 9});
  }
  const Words packed_ = {"q", "k", "v", "cu-seqlens-q", "cu-seqlens-k"};
  const Words paged_ = {"q", "k", "v", "block-table", "seqused-k"};

  const ScratchFolder folder_;
};

// The rows [first, first + count) of a packed array, as a batch of one.
void cut(const std::string& from, const std::string& to, int64_t first, int64_t count) {
  const Result<NpyArray> whole = read_npy(from);
  ASSERT_TRUE(whole.ok());
  const Extents& shape = whole->shape;
  const auto row = static_cast<ptrdiff_t>(shape[1] * shape[2] * size_in_bytes(whole->type));
  NpyArray part{whole->type, {1, count, shape[1], shape[2]}, {}};
  part.data.assign(whole->data.begin() + first * row, whole->data.begin() + (first + count) * row);
  ASSERT_TRUE(write_npy(to, part).ok());
}

TEST_F(ServingFiles, PackedSequencesAgreeWithDenseRuns) {
  save_packed();
  const Finished finished =
      run("varlen causal", packed_, {"--out", path("o"), "--lse", path("lse"), "--check"});
  ASSERT_EQ(finished.code, 0) << finished.err << finished.out;
  EXPECT_THAT(finished.out,
              AllOf(HasSubstr("b3 hq2 hkv1 q5 k7 qk64 v64 fp16"),
                    HasSubstr("check out of sequence 2"), HasSubstr("--cu-seqlens-k")));
  const std::vector<float> out = load("o", {9, kHeadsQ, kDim});
  const std::vector<float> lse = load("lse", {kHeadsQ, 9});
  for (const auto& [first, count, keys_from, keys] :
       {std::array<int64_t, 4>{0, 3, 0, 4}, std::array<int64_t, 4>{3, 5, 6, 7}}) {
    cut(path("q"), path("dense_q"), first, count);
    cut(path("k"), path("dense_k"), keys_from, keys);
    cut(path("v"), path("dense_v"), keys_from, keys);
    const Finished dense =
        run("causal", {},
            {"--q", path("dense_q"), "--k", path("dense_k"), "--v", path("dense_v"), "--out",
             path("dense_o"), "--lse", path("dense_lse")});
    ASSERT_EQ(dense.code, 0) << dense.err;
    const std::vector<float> wanted = load("dense_o", {1, count, kHeadsQ, kDim});
    for (size_t i = 0; i < wanted.size(); ++i) {
      ASSERT_NEAR(out[static_cast<size_t>(first * kHeadsQ * kDim) + i], wanted[i], 2e-3) << i;
    }
    const std::vector<float> wanted_lse = load("dense_lse", {1, kHeadsQ, count});
    for (int64_t head = 0; head < kHeadsQ; ++head) {
      for (int64_t row = 0; row < count; ++row) {
        ASSERT_NEAR(lse[static_cast<size_t>(head * 9 + first + row)],
                    wanted_lse[static_cast<size_t>(head * count + row)], 1e-4);
      }
    }
  }
  // The row of no sequence.
  for (size_t i = 8 * kHeadsQ * kDim; i < out.size(); ++i) ASSERT_EQ(out[i], 0.0F);
  EXPECT_EQ(lse[8], 0.0F);
  EXPECT_EQ(lse[17], 0.0F);
}

TEST_F(ServingFiles, PagedKeysAreChecked) {
  save_paged();
  const Finished finished = run("paged=4", paged_, {"--out", path("o"), "--check"});
  ASSERT_EQ(finished.code, 0) << finished.err << finished.out;
  EXPECT_THAT(finished.out, HasSubstr("k12 qk64"));  // three pages
  const std::vector<float> of_pages = load("o", {2, 1, kHeadsQ, kDim});

  // The same sequences packed, their keys in order.
  const Result<NpyArray> k = read_npy(path("k")), v = read_npy(path("v"));
  const auto row = static_cast<ptrdiff_t>(kHeadsKv * kDim * 2);
  const auto packed = [&](const NpyArray& pages) {
    NpyArray rows{pages.type, {14, kHeadsKv, kDim}, {}};
    for (const int64_t from : {16, 17, 18, 19, 0, 8, 9, 10, 11, 12, 13, 14, 15, 4}) {
      rows.data.insert(rows.data.end(), pages.data.begin() + from * row,
                       pages.data.begin() + (from + 1) * row);
    }
    return rows;
  };
  ASSERT_TRUE(write_npy(path("k"), packed(*k)).ok());
  ASSERT_TRUE(write_npy(path("v"), packed(*v)).ok());
  save_halves("q", {2, kHeadsQ, kDim}, 0.37);
  save_integers("cu-seqlens-q", {3}, {0, 1, 2});
  save_integers("cu-seqlens-k", {3}, {0, 5, 14});
  const Finished of_rows = run("varlen", packed_, {"--out", path("o")});
  ASSERT_EQ(of_rows.code, 0) << of_rows.err;
  const std::vector<float> wanted = load("o", {2, kHeadsQ, kDim});
  for (size_t i = 0; i < wanted.size(); ++i) ASSERT_NEAR(of_pages[i], wanted[i], 2e-3) << i;
}

TEST_F(ServingFiles, PackedQueriesOfPagedKeysInParts) {
  save_paged();
  save_halves("q", {4, kHeadsQ, kDim}, 0.37);
  save_integers("cu-seqlens-q", {3}, {0, 3, 4});
  const Finished finished =
      run("varlen paged=4 splits=2 causal",
          {"q", "k", "v", "block-table", "seqused-k", "cu-seqlens-q"}, {"--check"});
  EXPECT_EQ(finished.code, 0) << finished.err << finished.out;
}

TEST_F(ServingFiles, RowsAreOfNoSequenceWhereAllAreEmpty) {
  save_packed();
  save_integers("cu-seqlens-q", {4}, {0, 0, 0, 0});
  const Finished finished = run("varlen", packed_, {"--out", path("o"), "--check"});
  ASSERT_EQ(finished.code, 0) << finished.err << finished.out;
  for (const float value : load("o", {9, kHeadsQ, kDim})) ASSERT_EQ(value, 0.0F);
}

// Blocks of each batch and head: the check follows them.
TEST_F(ServingFiles, BlocksOfBatchesAndHeadsAreChecked) {
  save_packed();
  NpyArray blocks{NpyType::kUint8, {3, kHeadsQ, 1, 2}, {}};
  for (int64_t i = 0; i < 3 * kHeadsQ * 2; ++i) {
    blocks.data.push_back(static_cast<std::byte>(i * i % 7 % 2));
  }
  ASSERT_TRUE(write_npy(path("blocks"), blocks).ok());
  Words files = packed_;
  files.push_back("blocks");
  const Finished finished = run("varlen blocks=8 k16 q8", files, {"--check"});
  EXPECT_EQ(finished.code, 0) << finished.err << finished.out;
}

TEST_F(ServingFiles, LengthsThatDoNotFitAreNamed) {
  save_packed();
  const auto refused = [&](const std::string& message) {
    expect_refused("varlen causal", packed_, message);
  };
  save_integers("cu-seqlens-q", {4}, {0, 3, 2, 8});
  refused("cu_seqlens_q[2] = 2 is less than 3 before it");
  save_integers("cu-seqlens-q", {4}, {0, 3, 3, 10});
  refused("cu_seqlens_q ends at 10, the tensor has 9 rows");
  save_integers("cu-seqlens-q", {4}, {1, 3, 3, 8});
  refused("cu_seqlens_q does not begin with 0");
  save_integers("cu-seqlens-q", {5}, {0, 3, 3, 3, 8});
  refused("cu-seqlens-k.npy: shape: [4] is given, cu_seqlens_k needs [5]");
  save_integers("cu-seqlens-q", {0}, {});
  refused("cu-seqlens-q.npy: shape: [0] is given, cu_seqlens_q needs [1]");
  save_integers("cu-seqlens-q", {2, 2}, {0, 3, 3, 8});
  refused("cu-seqlens-q.npy: shape: [2, 2] is given, cu_seqlens_q needs 1 extents: [batch + 1]");
  save_halves("cu-seqlens-q", {4}, 1);
  refused("cu-seqlens-q.npy: descr: float16 is given, cu_seqlens_q needs int32");
  save_packed();
  expect_refused("varlen q4", packed_, "cu_seqlens_q[3] = 8 makes a sequence of 5 rows");
  expect_refused("varlen", {"q", "k", "v", "cu-seqlens-q"}, "--cu-seqlens-k is missing");
  expect_refused("causal", packed_, "--cu-seqlens-q: read by problems with varlen only");
  save_integers("cu-seqlens-k", {4}, {0, 4, 6, 15});
  refused("cu_seqlens_k ends at 15, the tensor has 14 rows");
  const Finished backward = run("backward varlen", {"q", "k", "v"});
  EXPECT_EQ(backward.code, 3);
  EXPECT_THAT(backward.err, HasSubstr("the pass backward takes no varlen"));
}

TEST_F(ServingFiles, PagesThatDoNotFitAreNamed) {
  save_paged();
  const auto refused = [&](const std::string& message) {
    expect_refused("paged=4", paged_, message);
  };
  save_integers("block-table", {2, 3}, {4, 6, 99, 2, 3, 1});
  refused("block_table[0, 1] = 6, the cache has 6 pages");
  save_integers("block-table", {2, 3}, {4, -1, 99, 2, 3, 1});
  refused("block_table[0, 1] = -1");
  save_integers("block-table", {1, 3}, {4, 0, 1});
  refused("block-table.npy: shape: [1, 3] is given, block_table needs [2, 3]");
  save_paged();
  save_integers("seqused-k", {2}, {5, 13});
  refused("seqused_k[1] = 13 keys, a row of block_table holds 0 to 12");
  save_integers("seqused-k", {2}, {5, 11});
  expect_refused("paged=4 k10", paged_, "seqused_k[1] = 11 keys, a sequence has at most 10");
  save_integers("seqused-k", {2}, {5, -2});
  refused("seqused_k[1] = -2");
  save_paged();
  expect_refused("paged=8", paged_, "k.npy: shape: [6, 4, 1, 64] is given, k needs [6, 8, 1, 64]");
  expect_refused("paged=4 k20", paged_, "block_table needs [2, 5]");
  expect_refused("paged=4", {"q", "k", "v", "block-table"}, "--seqused-k is missing");
}

// Two halves with the state carried over equal one whole.
TEST_F(ServingFiles, LinearStatesAreCarried) {
  for (const auto& [half, seed] : {std::pair("a", 0.31), std::pair("b", 0.57)}) {
    for (const char* name : {"q", "k", "v"}) {
      save_halves(name + std::string(half), {1, 3, 2, kDim}, seed * (name[0] - 'a'));
    }
  }
  for (const char* name : {"q", "k", "v"}) {
    const Result<NpyArray> first = read_npy(path(name + std::string("a")));
    NpyArray whole = *first;
    const NpyArray second = *read_npy(path(name + std::string("b")));
    whole.shape[1] = 6;
    whole.data.insert(whole.data.end(), second.data.begin(), second.data.end());
    ASSERT_TRUE(write_npy(path(name), whole).ok());
  }
  const std::string problem = "linear-forward causal";
  const Finished all = run(problem, {"q", "k", "v"}, {"--check", "--out", path("o")});
  ASSERT_EQ(all.code, 0) << all.err << all.out;
  const Finished first =
      run(problem, {},
          {"--q", path("qa"), "--k", path("ka"), "--v", path("va"), "--state-out", path("state"),
           "--normalizer-out", path("normalizer"), "--check"});
  ASSERT_EQ(first.code, 0) << first.err << first.out;
  const Finished second = run(
      problem, {"state", "normalizer"},
      {"--q", path("qb"), "--k", path("kb"), "--v", path("vb"), "--out", path("ob"), "--check"});
  ASSERT_EQ(second.code, 0) << second.err << second.out;
  const std::vector<float> whole = load("o", {1, 6, 2, kDim});
  const std::vector<float> part = load("ob", {1, 3, 2, kDim});
  for (size_t i = 0; i < part.size(); ++i) {
    ASSERT_NEAR(part[i], whole[3 * 2 * kDim + i], 4e-3) << i;
  }
}

TEST_F(ServingFiles, StatesOfAnotherShapeOrTypeAreNamed) {
  for (const char* name : {"q", "k", "v"}) save_halves(name, {1, 1, 2, kDim}, 0.4);
  save_floats("state", NpyType::kFloat32, Dtype::kFloat32, {1, 2, 64, 32},
              std::vector<float>(64 * 64, 0.5F));
  const Words files = {"q", "k", "v", "state"};
  const std::string problem = "linear-step feature=identity";
  expect_refused(problem, files,
                 "state.npy: shape: [1, 2, 64, 32] is given, state needs [1, 2, 64, 64]");
  save_halves("state", {1, 2, 64, 64}, 0.5);
  expect_refused(problem, files, "state.npy: descr: float16 is given, state needs float32");
  expect_refused("linear-step", files, "--normalizer is missing: --state and --normalizer come");
  expect_refused("fp16", files, "--state: read by linear passes only");
  save_floats("state", NpyType::kFloat32, Dtype::kFloat32, {1, 2, 64, 64},
              std::vector<float>(2 * 64 * 64, 0.5F));
  save_floats("normalizer", NpyType::kFloat32, Dtype::kFloat32, {1, 2, 64},
              std::vector<float>(2 * 64, 3.0F));
  const Words whole = {"q", "k", "v", "state", "normalizer"};
  expect_refused("linear-step feature=identity", whole,
                 "--normalizer: read by linear passes with feature=elu1 only");
  const Finished finished = run("linear-step", whole, {"--check"});
  EXPECT_EQ(finished.code, 0) << finished.err << finished.out;
}

// Every pass and every kind of call, on random tensors.
TEST(RunCheck, TakesEveryPass) {
  const ScratchFolder folder;
  for (const char* problem :
       {"b2 hq2 hkv1 q17 k33 qk64 fp16 causal", "standard hq2 hkv1 q17 k33 qk64 bf16",
        "backward hq2 hkv1 q17 k33 qk64 fp16 causal", "linear-forward hq2 hkv1 q17 k33 qk64 bf16",
        "linear-forward q33 qk64 fp16 causal feature=identity", "linear-step hq2 hkv1 q1 qk64 fp16",
        "linear-step q1 qk64 bf16 feature=identity", "b3 hq2 hkv1 q17 k33 qk64 fp16 varlen causal",
        "b3 hq2 hkv1 q3 k70 qk64 fp16 paged=16", "b3 hq2 hkv1 q3 k70 qk64 bf16 varlen paged=16",
        "hq2 hkv1 q3 k200 qk64 fp16 splits=3", "q130 qk64 fp16 longformer=window:64,global:{0}",
        "hq2 q130 qk64 fp16 bigbird=block:32", "q130 qk64 fp16 blocks=32",
        "q130 qk64 fp16 documents causal", "q130 qk64 fp16 chunk=48",
        "q130 qk64 fp16 window=20,20,dilation:2+global=3"}) {
    const Finished finished = run_tilewright({"run", "--check", "--problem", problem, "--device",
                                              "emulated:a100", "--cache-dir", folder / "cache"});
    EXPECT_EQ(finished.code, 0) << problem << "\n" << finished.err << finished.out;
    EXPECT_THAT(finished.out, AllOf(HasSubstr("; ok\n"), Not(HasSubstr("proves nothing"))))
        << problem;
  }
}

}  // namespace
}  // namespace tilewright::testing
