#include "tests/hopper_kernels/gemm_subject.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "core/half.h"
#include "tests/hopper_kernels/compile.h"
#include "tests/hopper_kernels/device.h"

namespace tilewright::hopper_kernels {
namespace {

constexpr uint64_t kDataSeed = 20261130;

size_t at(int row, int column, int pitch) {
  return static_cast<size_t>(row) * static_cast<size_t>(pitch) + static_cast<size_t>(column);
}

// Rows of a matrix, `pitch` elements apart; NaN in between.
struct Matrix {
  int rows = 0, columns = 0, pitch = 0;
  std::vector<float> values;

  Matrix(int row_count, int column_count, int row_pitch, std::mt19937_64& random, Dtype dtype)
      : rows(row_count), columns(column_count), pitch(row_pitch) {
    values.resize(at(rows, 0, pitch), std::numeric_limits<float>::quiet_NaN());
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        float value = uniform(random);
        if (dtype == Dtype::kFloat16) value = half_to_float(float_to_half(value));
        if (dtype == Dtype::kBFloat16) value = bfloat16_to_float(float_to_bfloat16(value));
        values[at(row, column, pitch)] = value;
      }
    }
  }
  float operator()(int row, int column) const { return values[at(row, column, pitch)]; }
};

std::vector<std::byte> bytes_of(const Matrix& matrix, Dtype dtype) {
  std::vector<std::byte> bytes(matrix.values.size() * (dtype == Dtype::kFloat32 ? 4 : 2));
  if (dtype == Dtype::kFloat32) {
    std::memcpy(bytes.data(), matrix.values.data(), bytes.size());
  } else {
    from_float(dtype, matrix.values, bytes.data());
  }
  return bytes;
}

std::vector<float> floats_of(const std::vector<std::byte>& bytes, Dtype dtype) {
  std::vector<float> values(bytes.size() / (dtype == Dtype::kFloat32 ? 4 : 2));
  if (dtype == Dtype::kFloat32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    to_float(dtype, bytes.data(), values);
  }
  return values;
}

int round_up(int value, int multiple) { return (value + multiple - 1) / multiple * multiple; }

class GemmSubject final : public Subject {
 public:
  GemmSubject(std::string name, const GemmConfig& config, const GemmProblem& problem)
      : name_(std::move(name)),
        config_(config),
        problem_(problem),
        input_(config.bfloat16 ? Dtype::kBFloat16 : Dtype::kFloat16),
        output_(config.epilogue == Epilogue::kReduceHalf ? input_ : Dtype::kFloat32),
        random_(kDataSeed),
        a_(problem.m, problem.k, round_up(problem.k, 8), random_, input_),
        b_(problem.n, problem.k, round_up(problem.k, 8) + 8, random_, input_),
        c_(problem.m, problem.n, round_up(problem.n, 8), random_, output_) {}

  std::string name() const override { return name_; }
  SlotLayout layout() const override { return {8, config_.stage_bytes()}; }

  Result<CompiledCode> compile() const override {
    constexpr std::string_view kEpilogues[] = {"kStore", "kReduceFull", "kReduceHalf"};
    const std::string text = fmt::format(
        "#include \"tests/hopper_kernels/gemm.cuh\"\n"
        "using namespace tilewright::hopper_kernels;\n"
        "consteval GemmConfig config() {{\n"
        "  return {{.bfloat16 = {}, .tile_n = {}, .stages = {}, .consumers = {}, .cluster = {},\n"
        "          .epilogue = Epilogue::{}}};\n"
        "}}\n"
        "extern \"C\" __global__ void __launch_bounds__(config().num_threads(), 1)\n"
        "tw_gemm(const __grid_constant__ GemmParams params) {{ gemm<config()>(params); }}\n",
        config_.bfloat16, config_.tile_n, config_.stages, config_.consumers, config_.cluster,
        kEpilogues[static_cast<int>(config_.epilogue)]);
    return compile_kernel("tests/hopper_kernels/gemm.cuh", "tw_gemm", text);
  }

  Outcome run(const std::string& ptx, const Schedule& schedule) const override {
    Device device(schedule);
    const bool reduces = config_.epilogue != Epilogue::kStore;
    Matrix before = c_;
    if (!reduces) {
      for (float& each : before.values) each = std::numeric_limits<float>::quiet_NaN();
    }
    const CUdeviceptr out = device.upload(bytes_of(before, output_));
    GemmParams params{};
    params.a = map(device, a_, input_, device.upload(bytes_of(a_, input_)), config_.tile_m());
    params.b = map(device, b_, input_, device.upload(bytes_of(b_, input_)),
                   config_.tile_n / config_.cluster);
    if (reduces) params.c = map(device, c_, output_, out, 64);
    params.out = reinterpret_cast<float*>(out);
    params.m = problem_.m;
    params.n = problem_.n;
    params.k = problem_.k;
    params.out_pitch = c_.pitch;
    params.num_splits = problem_.num_splits;
    const Outcome outcome =
        device.launch(ptx, "tw_gemm",
                      {.grid_x = problem_.blocks,
                       .block = static_cast<unsigned>(config_.num_threads()),
                       .cluster = static_cast<unsigned>(config_.cluster),
                       .shared_bytes = static_cast<unsigned>(config_.shared_bytes())},
                      &params);
    if (outcome.verdict != Verdict::kRight) return outcome;
    const std::string changed = device.check_unchanged(std::span(&out, 1));
    if (!changed.empty()) return {Verdict::kWrong, changed};
    return compare(floats_of(device.download(out), output_), reduces);
  }

 private:
  // A box is 128 bytes wide.
  static TensorMap map(Device& device, const Matrix& matrix, Dtype dtype, CUdeviceptr address,
                       int box_rows) {
    const int bytes = dtype == Dtype::kFloat32 ? 4 : 2;
    return device.tensor_map(
        {.type = dtype == Dtype::kFloat32    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32
                 : dtype == Dtype::kBFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                             : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
         .address = address,
         .extents = {static_cast<uint64_t>(matrix.columns), static_cast<uint64_t>(matrix.rows)},
         .strides = {static_cast<uint64_t>(matrix.pitch * bytes)},
         .box = {static_cast<uint32_t>(128 / bytes), static_cast<uint32_t>(box_rows)}});
  }

  // The sum of a k16 step and of a reduction is truncated to at least 23 bits of the sum of
  // magnitudes; each 16-bit rounding adds half an ulp of its value.
  Outcome compare(const std::vector<float>& out, bool reduces) const {
    const double half_ulp = output_ == Dtype::kFloat32    ? 0
                            : output_ == Dtype::kBFloat16 ? std::ldexp(1, -9)
                                                          : std::ldexp(1, -12);
    for (int row = 0; row < c_.rows; ++row) {
      for (int column = 0; column < c_.pitch; ++column) {
        const double got = out[at(row, column, c_.pitch)];
        if (column >= c_.columns) {  // between rows: as before
          if (!std::isnan(got)) return off(row, column, got, std::nan(""), 0);
          continue;
        }
        double sum = reduces ? c_(row, column) : 0;
        double magnitude = std::fabs(sum);
        for (int k = 0; k < problem_.k; ++k) {
          const double product = static_cast<double>(a_(row, k)) * b_(column, k);
          sum += product;
          magnitude += std::fabs(product);
        }
        const int steps = problem_.k / 16 + 2 + problem_.num_splits;
        const double bound =
            magnitude * (steps * std::ldexp(1, -22) + 2 * problem_.num_splits * half_ulp);
        if (!(std::fabs(got - sum) <= bound)) return off(row, column, got, sum, bound);
      }
    }
    return {};
  }

  static Outcome off(int row, int column, double got, double expected, double bound) {
    return {Verdict::kWrong, fmt::format("c[{}][{}] is {}, not {} (bound {:.3g})", row, column, got,
                                         expected, bound)};
  }

  std::string name_;
  GemmConfig config_;
  GemmProblem problem_;
  Dtype input_, output_;
  std::mt19937_64 random_;
  Matrix a_, b_, c_;
};

}  // namespace

std::unique_ptr<Subject> make_gemm(std::string name, const GemmConfig& config,
                                   const GemmProblem& problem) {
  return std::make_unique<GemmSubject>(std::move(name), config, problem);
}

}  // namespace tilewright::hopper_kernels
