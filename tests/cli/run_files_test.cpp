// `run` on .npy files: results against a plain computation of this test's own, and what is said of
// files that do not fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "core/files.h"
#include "core/half.h"
#include "core/npy.h"
#include "core/text.h"
#include "tests/cli/process.h"
#include "tests/core/scratch_folder.h"

namespace tilewright::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;
using Extents = std::vector<int64_t>;

// Values of about one, the same everywhere.
std::vector<float> wavy(int64_t count, double step) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(std::sin(step * static_cast<double>(i + 1)) * 1.5);
  }
  return values;
}

int64_t product(const Extents& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return count;
}

std::vector<float> rounded(Dtype dtype, std::vector<float> values) {
  std::vector<std::byte> bytes(values.size() * static_cast<size_t>(size_in_bytes(dtype)));
  from_float(dtype, values, bytes.data());
  to_float(dtype, bytes.data(), values);
  return values;
}

void save(const std::string& path, NpyType type, Dtype dtype, const Extents& shape,
          const std::vector<float>& values) {
  NpyArray array{type, shape, {}};
  array.data.resize(static_cast<size_t>(product(shape) * size_in_bytes(type)));
  from_float(dtype, values, array.data.data());
  ASSERT_TRUE(write_npy(path, array).ok());
}

struct Sizes {
  int64_t batch = 2, rows_q = 5, rows_k = 7, heads_q = 4, heads_kv = 2, dim_qk = 64, dim_v = 64;
};

// softmax(Q K^T / sqrt(d)) V, bshd.
std::vector<double> attention(const Sizes& s, const std::vector<float>& q,
                              const std::vector<float>& k, const std::vector<float>& v) {
  std::vector<double> out(static_cast<size_t>(s.batch * s.rows_q * s.heads_q * s.dim_v));
  const auto at = [](int64_t b, int64_t row, int64_t head, int64_t rows, int64_t heads,
                     int64_t dim) {
    return static_cast<size_t>(((b * rows + row) * heads + head) * dim);
  };
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t i = 0; i < s.rows_q; ++i) {
      for (int64_t h = 0; h < s.heads_q; ++h) {
        const int64_t kv = h / (s.heads_q / s.heads_kv);
        const float* query = &q[at(b, i, h, s.rows_q, s.heads_q, s.dim_qk)];
        double* result = &out[at(b, i, h, s.rows_q, s.heads_q, s.dim_v)];
        double sum = 0;
        for (int64_t j = 0; j < s.rows_k; ++j) {
          const float* key = &k[at(b, j, kv, s.rows_k, s.heads_kv, s.dim_qk)];
          double score = 0;
          for (int64_t c = 0; c < s.dim_qk; ++c) score += double{query[c]} * double{key[c]};
          const double weight = std::exp(score / std::sqrt(static_cast<double>(s.dim_qk)));
          const float* value = &v[at(b, j, kv, s.rows_k, s.heads_kv, s.dim_v)];
          for (int64_t c = 0; c < s.dim_v; ++c) result[c] += weight * double{value[c]};
          sum += weight;
        }
        for (int64_t c = 0; c < s.dim_v; ++c) result[c] /= sum;
      }
    }
  }
  return out;
}

class RunFiles : public ::testing::Test {
 protected:
  // Saves Q, K, V as `type`, whose bits `carried` says how to read.
  void save_all(NpyType type, Dtype carried) {
    save(folder_ / "q.npy", type, carried, q_shape(), q_);
    save(folder_ / "k.npy", type, carried, k_shape(), k_);
    save(folder_ / "v.npy", type, carried, v_shape(), v_);
  }
  Extents q_shape() const { return {s_.batch, s_.rows_q, s_.heads_q, s_.dim_qk}; }
  Extents k_shape() const { return {s_.batch, s_.rows_k, s_.heads_kv, s_.dim_qk}; }
  Extents v_shape() const { return {s_.batch, s_.rows_k, s_.heads_kv, s_.dim_v}; }

  Finished run(const Words& more) {
    Words words = {"run",
                   "--q",
                   folder_ / "q.npy",
                   "--k",
                   folder_ / "k.npy",
                   "--v",
                   folder_ / "v.npy",
                   "--device",
                   "emulated:a100",
                   "--cache-dir",
                   folder_ / "cache"};
    words.insert(words.end(), more.begin(), more.end());
    return run_tilewright(words);
  }

  // The output file against the plain computation on inputs rounded to `dtype`.
  void expect_output(Dtype dtype, NpyType type, double tolerance) {
    const Result<NpyArray> out = read_npy(folder_ / "o.npy");
    ASSERT_TRUE(out.ok()) << out.error().message;
    EXPECT_EQ(out->type, type);
    EXPECT_EQ(out->shape, (Extents{s_.batch, s_.rows_q, s_.heads_q, s_.dim_v}));
    std::vector<float> values(static_cast<size_t>(out->num_elements()));
    to_float(dtype, out->data.data(), values);
    const std::vector<double> expected =
        attention(s_, rounded(dtype, q_), rounded(dtype, k_), rounded(dtype, v_));
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(double{values[i]}, expected[i], tolerance) << i;
    }
  }

  const ScratchFolder folder_;
  const Sizes s_;
  const std::vector<float> q_ = wavy(s_.batch * s_.rows_q * s_.heads_q * s_.dim_qk, 0.37);
  const std::vector<float> k_ = wavy(s_.batch * s_.rows_k * s_.heads_kv * s_.dim_qk, 0.73);
  const std::vector<float> v_ = wavy(s_.batch * s_.rows_k * s_.heads_kv * s_.dim_v, 0.91);
};

// Two roundings of values up to 1.5, generously: 4 eps.
constexpr double kFloat16Tolerance = 4 * 0x1p-11 * 1.5;
constexpr double kBFloat16Tolerance = 4 * 0x1p-8 * 1.5;

TEST_F(RunFiles, Float16WithoutAProblem) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  const Finished finished =
      run({"--out", folder_ / "o.npy", "--lse", folder_ / "lse.npy", "--check"});
  ASSERT_EQ(finished.code, 0) << finished.err << finished.out;
  expect_output(Dtype::kFloat16, NpyType::kFloat16, kFloat16Tolerance);
  const Result<NpyArray> lse = read_npy(folder_ / "lse.npy");
  ASSERT_TRUE(lse.ok());
  EXPECT_EQ(lse->type, NpyType::kFloat32);
  EXPECT_EQ(lse->shape, (Extents{s_.batch, s_.heads_q, s_.rows_q}));
}

TEST_F(RunFiles, Float32IsRounded) {
  save_all(NpyType::kFloat32, Dtype::kFloat32);
  const Finished finished = run({"--out", folder_ / "o.npy"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("rounded from float32 to fp16"));
  expect_output(Dtype::kFloat16, NpyType::kFloat16, kFloat16Tolerance);
}

TEST_F(RunFiles, Bf16ComesAsUint16) {
  save_all(NpyType::kUint16, Dtype::kBFloat16);
  const Finished refused = run({"--out", folder_ / "o.npy"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("q.npy: descr: uint16"), HasSubstr("--problem")));
  const Finished finished = run({"--out", folder_ / "o.npy", "--problem", "bf16"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  expect_output(Dtype::kBFloat16, NpyType::kUint16, kBFloat16Tolerance);
}

TEST_F(RunFiles, LayoutSaysTheOrder) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  ASSERT_EQ(run({"--out", folder_ / "o.npy"}).code, 0);
  const Result<NpyArray> bshd = read_npy(folder_ / "o.npy");
  // With one row each, bshd and bhsd hold the same bytes under different shapes.
  const Extents one_row_q = {s_.batch * s_.rows_q, s_.heads_q, 1, s_.dim_qk};
  save(folder_ / "q.npy", NpyType::kFloat16, Dtype::kFloat16, one_row_q, q_);
  const Extents k_heads_first = {s_.batch * s_.rows_q, s_.heads_kv, 7, s_.dim_qk};
  const auto some = wavy(product(k_heads_first), 0.5);
  save(folder_ / "k.npy", NpyType::kFloat16, Dtype::kFloat16, k_heads_first, some);
  save(folder_ / "v.npy", NpyType::kFloat16, Dtype::kFloat16, k_heads_first, some);
  const Finished finished =
      run({"--problem", "layout=bhsd", "--out", folder_ / "o.npy", "--check"});
  ASSERT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(read_npy(folder_ / "o.npy")->shape,
            (Extents{s_.batch * s_.rows_q, s_.heads_q, 1, s_.dim_v}));
}

// Against central differences of sum(dO ∘ O), by this test's own attention.
TEST_F(RunFiles, BackwardReadsDoutAndWritesGradients) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  const std::vector<float> dout =
      rounded(Dtype::kFloat16, wavy(s_.batch * s_.rows_q * s_.heads_q * s_.dim_v, 0.59));
  save(folder_ / "dout.npy", NpyType::kFloat16, Dtype::kFloat16,
       {s_.batch, s_.rows_q, s_.heads_q, s_.dim_v}, dout);
  const Words words = {"--problem", "backward fp16",    "--dout", folder_ / "dout.npy",
                       "--dq",      folder_ / "dq.npy", "--dk",   folder_ / "dk.npy",
                       "--dv",      folder_ / "dv.npy", "--check"};
  const Finished finished = run(words);
  ASSERT_EQ(finished.code, 0) << finished.err << finished.out;
  EXPECT_THAT(finished.out, AllOf(HasSubstr("check dq"), HasSubstr("--dout")));

  struct Input {
    const char* file;
    Extents shape;
    std::vector<float> values;
  };
  std::array<Input, 3> inputs = {{{"dq.npy", q_shape(), rounded(Dtype::kFloat16, q_)},
                                  {"dk.npy", k_shape(), rounded(Dtype::kFloat16, k_)},
                                  {"dv.npy", v_shape(), rounded(Dtype::kFloat16, v_)}}};
  const auto loss = [&] {
    const std::vector<double> out =
        attention(s_, inputs[0].values, inputs[1].values, inputs[2].values);
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i) sum += double{dout[i]} * out[i];
    return sum;
  };
  for (Input& input : inputs) {
    const Result<NpyArray> gradient = read_npy(folder_ / input.file);
    ASSERT_TRUE(gradient.ok()) << gradient.error().message;
    ASSERT_EQ(gradient->shape, input.shape) << input.file;
    std::vector<float> values(static_cast<size_t>(gradient->num_elements()));
    to_float(Dtype::kFloat16, gradient->data.data(), values);
    for (size_t i = 0; i < values.size(); i += 97) {
      constexpr float kStep = 1.0F / 64;
      const float middle = input.values[i];
      input.values[i] = middle + kStep;
      const double above = loss();
      input.values[i] = middle - kStep;
      const double below = loss();
      input.values[i] = middle;
      ASSERT_NEAR(double{values[i]}, (above - below) / (2 * double{kStep}), 5e-3)
          << input.file << " at " << i;
    }
  }
}

TEST_F(RunFiles, FilesOfAnotherPassAreRefused) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  const std::pair<Words, const char*> cases[] = {
      {{"--dq", folder_ / "dq.npy"}, "--dq: the pass forward does not compute it"},
      {{"--dout", folder_ / "q.npy"}, "--dout: read by the pass backward only"},
      {{"--problem", "backward fp16"}, "--dout is missing"},
      {{"--problem", "backward fp16", "--dout", folder_ / "q.npy", "--out", folder_ / "o.npy"},
       "--out: the pass backward does not compute it"},
      {{"--problem", "backward fp16", "--dout", folder_ / "k.npy"},
       "k.npy: shape: [2, 7, 2, 64] is given, dout needs [2, 5, 4, 64]"},
  };
  for (const auto& [words, message] : cases) {
    const Finished finished = run(words);
    EXPECT_EQ(finished.code, 2) << message << finished.out;
    EXPECT_THAT(finished.err, HasSubstr(message));
  }
}

TEST_F(RunFiles, ErrorsNameFileAndField) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  const auto fails = [&](const Words& more, const std::string& message) {
    const Finished finished = run(more);
    EXPECT_EQ(finished.code, 2) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(message));
  };
  fails({"--problem", "bf16"}, "q.npy: descr: float16 is not a type for bf16");
  fails({"--problem", "q6"}, "q.npy: shape: [2, 5, 4, 64] is given, q needs [2, 6, 4, 64]");
  fails({"--problem", "layout=bhsd hkv3"},
        "k.npy: shape: [2, 7, 2, 64] is given, k needs [2, 3, 2, 64]");
  fails({"--problem", "hq5"}, "q.npy: shape: [2, 5, 4, 64] is given, q needs [2, 5, 5, 64]");

  save(folder_ / "k.npy", NpyType::kFloat16, Dtype::kFloat16, {2, 7, 3, 64},
       wavy(2 * 7 * 3 * 64, 1));
  fails({}, "v.npy: shape: [2, 7, 2, 64] is given, v needs [2, 7, 3, 64]");
  save(folder_ / "v.npy", NpyType::kFloat16, Dtype::kFloat16, {2, 7, 3, 64},
       wavy(2 * 7 * 3 * 64, 1));
  fails({}, "hq4 is not a multiple of hkv3");
  save(folder_ / "k.npy", NpyType::kFloat16, Dtype::kFloat16, {14, 2, 64}, k_);
  fails({},
        "k.npy: shape: [14, 2, 64] is given, k needs 4 extents: [batch, seqlen_k, num_heads_kv, "
        "head_dim_qk]");
  save(folder_ / "k.npy", NpyType::kInt32, Dtype::kFloat32, k_shape(), k_);
  fails({}, "k.npy: descr: int32 is not a type for fp16");
  std::vector<float> huge = k_;
  huge[9] = 1e6f;
  save(folder_ / "k.npy", NpyType::kFloat32, Dtype::kFloat32, k_shape(), huge);
  save(folder_ / "v.npy", NpyType::kFloat16, Dtype::kFloat16, v_shape(), v_);
  fails({}, "k.npy: data: 1000000 at element 9 is beyond fp16");
  ASSERT_TRUE(write_file_atomically(folder_ / "k.npy", "not an array").ok());
  fails({}, "k.npy: magic: this is not a .npy file");
  ASSERT_TRUE(remove_file(folder_ / "k.npy").ok());
  fails({}, "k.npy': No such file");
}

TEST_F(RunFiles, AnUnwritableOutputFails) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  const Finished finished = run({"--out", folder_ / "q.npy/o.npy"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, HasSubstr("q.npy/o.npy"));
}

TEST_F(RunFiles, OutputsThatEndAnInputOrEachOtherAreRefused) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  const std::string before = *read_file(folder_ / "q.npy");
  const auto refused = [&](const Words& more, const std::string& message) {
    const Finished finished = run(more);
    EXPECT_EQ(finished.code, 2) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(message));
  };
  refused({"--out", folder_ / "o.npy", "--lse", folder_ / "./o.npy"}, "--out and --lse are");
  refused({"--out", folder_ / "q.npy"}, "--q and --out are the same file");
  std::filesystem::create_symlink(folder_ / "v.npy", folder_ / "link.npy");
  refused({"--lse", folder_ / "link.npy"}, "--v and --lse are the same file");
  // A link that leads nowhere yet leads to what --out is about to make.
  std::filesystem::create_symlink("o.npy", folder_ / "later.npy");
  refused({"--out", folder_ / "o.npy", "--lse", folder_ / "later.npy"}, "--out and --lse are");
  EXPECT_EQ(*read_file(folder_ / "q.npy"), before);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "o.npy"));
  // Relative names, of which the shorter has no folder to resolve.
  const Finished relative = run_shell("cd " + shell_quote(folder_.path()) +
                                      " && tilewright run --q q.npy --k k.npy --v v.npy --out "
                                      "o.npy --lse ./o.npy --device emulated:a100");
  EXPECT_EQ(relative.code, 2) << relative.err;
  EXPECT_THAT(relative.err, HasSubstr("--out and --lse are the same file"));
}

TEST_F(RunFiles, OnlyRegularFilesAreRead) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  const auto run_with = [&](const std::string& q) {
    return run_tilewright({"run", "--q", q, "--k", folder_ / "k.npy", "--v", folder_ / "v.npy"});
  };
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  for (const std::string& path : {std::string("/dev/zero"), folder_ / "pipe", folder_.path()}) {
    const Finished finished = run_with(path);
    EXPECT_EQ(finished.code, 2) << path;
    EXPECT_THAT(finished.err, HasSubstr("cannot read '" + path + "': it is not a regular file"));
  }
}

// A path that a flag names and that is wrong is bad usage, whatever is wrong with it.
TEST_F(RunFiles, BadPathsExitWithTwo) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  const Words bad[] = {{"--dq", folder_ / "none/dq.npy"},
                       {"--out", folder_ / "none/o.npy"},
                       {"--out", folder_.path()},
                       {"--templates", folder_ / "none"},
                       {"--problem", "blocks=4", "--blocks", folder_ / "none"},
                       {"--problem", "blocks=4", "--blocks", folder_.path()}};
  for (const Words& words : bad) {
    const Finished finished = run(words);
    EXPECT_EQ(finished.code, 2) << shell_command(words) << finished.err;
    EXPECT_EQ(finished.out, "") << shell_command(words);
  }
}

TEST_F(RunFiles, ASeedBesideFilesIsRefused) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  const Finished finished = run({"--seed", "0"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.err, HasSubstr("--seed has no meaning with tensors from files"));
}

// The cache folder stays empty: nothing was compiled for an output that cannot be.
TEST_F(RunFiles, OutputsAreCheckedBeforeTheRun) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  std::filesystem::create_directory(folder_ / "folder");
  for (const char* flag : {"--out", "--lse"}) {
    for (const char* name : {"folder", "none/o.npy"}) {
      const Finished finished = run({flag, folder_ / name});
      EXPECT_EQ(finished.code, 2) << finished.err;
      EXPECT_THAT(finished.err, HasSubstr("cannot write '" + (folder_ / name)));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "cache"));
}

TEST_F(RunFiles, CheckCertifiesNothingOfNan) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  std::vector<float> q = q_;
  q[3] = std::nanf("");
  save(folder_ / "q.npy", NpyType::kFloat16, Dtype::kFloat16, q_shape(), q);
  const Finished finished = run({"--check"});
  EXPECT_EQ(finished.code, 1) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("the reference is not finite at element 0"));
}

TEST_F(RunFiles, CheckSaysWhereItProvesNothing) {
  save_all(NpyType::kFloat16, Dtype::kFloat16);
  const Finished finished = run({"--check", "--problem", "scale=1e8", "--json"});
  const Json json = finished.json();
  EXPECT_GT(*json.find("check")->find("out")->find("capped_elements")->as_int(), 0);
  EXPECT_THAT(run({"--check", "--problem", "scale=1e8"}).out,
              HasSubstr("the bound proves nothing at "));
}

}  // namespace
}  // namespace tilewright::testing
