// emulator_speed: how long the emulator takes for two kernels, against the same arithmetic by
// OpenBLAS in the same run on the same threads. Forward attention on mma.sync (2 heads, 2048 x
// 2048, d 128, fp16) and a TMA + wgmma GEMM of as many FLOPs, schedule eager, for every observer
// level and both matrix numerics. Prints medians, ratios and the limits set for them.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "bench/cpu_baseline.h"
#include "core/check.h"
#include "core/half.h"
#include "core/json.h"
#include "core/text.h"
#include "emulator/driver/symbols.h"
#include "tests/hopper_kernels/compile.h"
#include "tests/hopper_kernels/device.h"
#include "tests/hopper_kernels/gemm_config.h"
#include "tilewright/session.h"

namespace {

using namespace tilewright;
using bench::CpuBaseline;

constexpr int64_t kHeads = 2, kLength = 2048, kHeadDim = 128;
// 2·m·n·k = kHeads · 4 · kLength² · kHeadDim
constexpr int kGemmM = 1024, kGemmN = 1024, kGemmK = 2048;
static_assert(int64_t{2} * kGemmM * kGemmN * kGemmK == kHeads * 4 * kLength * kLength * kHeadDim);

struct Arguments {
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  int repeats = 5;
  std::string only;  // levels whose name contains this, to profile one
  bool json = false;
};

struct Level {
  const char* name;
  TwEmulatorObservers observers;
  TwEmulatorMatrixNumerics numerics;
};
constexpr Level kLevels[] = {
    {"fast, off", TW_EMULATOR_OBSERVERS_OFF, TW_EMULATOR_MATRIX_FAST},
    {"fast, memory", TW_EMULATOR_OBSERVERS_MEMORY, TW_EMULATOR_MATRIX_FAST},
    {"fast, full", TW_EMULATOR_OBSERVERS_FULL, TW_EMULATOR_MATRIX_FAST},
    {"hardware, off", TW_EMULATOR_OBSERVERS_OFF, TW_EMULATOR_MATRIX_HARDWARE},
};

struct Row {
  std::string kernel, level;
  double seconds = 0;
  double ratio = 0;  // to `against`
  const char* against = "";
  double limit = 0;  // of the ratio; 0 = none
};

template <class Function>
Function extension(std::string_view name) {
  return reinterpret_cast<Function>(emulator::emulated_driver_symbol(name));
}

void set_level(const Level& level, int threads) {
  extension<TwEmulatorSetScheduleFn>("twEmulatorSetSchedule")(TW_EMULATOR_SCHEDULE_EAGER, 0);
  extension<TwEmulatorSetObserversFn>("twEmulatorSetObservers")(level.observers);
  extension<TwEmulatorSetMatrixNumericsFn>("twEmulatorSetMatrixNumerics")(level.numerics);
  extension<TwEmulatorSetHostThreadsFn>("twEmulatorSetHostThreads")(threads);
  extension<TwEmulatorSetInstructionLimitFn>("twEmulatorSetInstructionLimit")(0);
}

// Median seconds of `repeats` runs after one to warm up.
Result<double> median_seconds(int repeats, const std::function<Status()>& run) {
  TW_TRY(run());
  std::vector<double> seconds;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    TW_TRY(run());
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// Uniform fp16 values in [-1, 1].
std::vector<float> random_halves(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = half_to_float(float_to_half(uniform(random)));
  return values;
}

std::vector<std::byte> half_bytes(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * 2);
  from_float(Dtype::kFloat16, values, bytes.data());
  return bytes;
}

// A kernel that gives another answer than the baseline has no speed.
Status expect_close(std::string_view what, const std::vector<float>& actual,
                    const std::vector<float>& expected, float tolerance) {
  for (size_t i = 0; i < actual.size(); ++i) {
    if (std::abs(actual[i] - expected[i]) <= tolerance) continue;
    return make_error(ErrorCode::kInternal, "{}: element {} is {}, the baseline has {}", what, i,
                      actual[i], expected[i]);
  }
  return {};
}

Result<std::vector<Row>> measure_levels(const std::string& kernel, const Arguments& arguments,
                                        double baseline, double limit,
                                        const std::function<Status(const Level&)>& run) {
  std::vector<Row> rows;
  double off = 0;
  for (const Level& level : kLevels) {
    if (std::string_view(level.name).find(arguments.only) == std::string_view::npos) continue;
    TW_ASSIGN(const double seconds, median_seconds(arguments.repeats, [&] { return run(level); }));
    if (rows.empty()) off = seconds;  // "fast, off", unless --only leaves it out
    const bool watched = level.observers != TW_EMULATOR_OBSERVERS_OFF;
    const double level_limit = level.observers == TW_EMULATOR_OBSERVERS_MEMORY ? 2
                               : level.observers == TW_EMULATOR_OBSERVERS_FULL ? 10
                               : level.numerics == TW_EMULATOR_MATRIX_FAST     ? limit
                                                                               : 0;
    rows.push_back({.kernel = kernel,
                    .level = level.name,
                    .seconds = seconds,
                    .ratio = seconds / (watched ? off : baseline),
                    .against = watched ? "fast, off" : "baseline",
                    .limit = level_limit});
  }
  return rows;
}

Result<std::vector<Row>> measure_forward(const Arguments& arguments, const CpuBaseline& cpu) {
  constexpr int64_t kElements = kHeads * kLength * kHeadDim;
  const std::vector<float> q = random_halves(kElements, 1), k = random_halves(kElements, 2),
                           v = random_halves(kElements, 3);
  std::vector<float> expected(q.size());
  TW_ASSIGN(const double baseline, median_seconds(arguments.repeats, [&] {
              cpu.attention(kHeads, kLength, kHeadDim, q, k, v, expected);
              return Status();
            }));

  TW_ASSIGN(const auto session, Session::open({.device = "emulated:a100"}));
  TW_ASSIGN(const Problem problem,
            Problem::parse(fmt::format("hq{} hkv{} qk{} v{} fp16 layout=bhsd", kHeads, kHeads,
                                       kHeadDim, kHeadDim)));
  TW_ASSIGN(const Kernel kernel, session->prepare(problem));
  TW_ASSIGN(const LaunchPlan plan,
            kernel.plan({.batch = 1, .seqlen_q = kLength, .seqlen_k = kLength}));
  const auto device_tensor = [&](const std::vector<float>& values) -> Result<Tensor> {
    TW_ASSIGN(void* data, session->allocate(kElements * 2));
    TW_TRY(session->copy_in(data, half_bytes(values).data(), kElements * 2));
    return Tensor{.data = data,
                  .dtype = Dtype::kFloat16,
                  .rank = 4,
                  .shape = {1, kHeads, kLength, kHeadDim},
                  .strides = {kElements, kLength * kHeadDim, kHeadDim, 1}};
  };
  LaunchTensors tensors;
  TW_ASSIGN(tensors.q, device_tensor(q));
  TW_ASSIGN(tensors.k, device_tensor(k));
  TW_ASSIGN(tensors.v, device_tensor(v));
  TW_ASSIGN(tensors.out, device_tensor(v));

  TW_ASSIGN(std::vector<Row> rows, measure_levels("forward, mma.sync", arguments, baseline, 12,
                                                  [&](const Level& level) -> Status {
                                                    set_level(level, arguments.threads);
                                                    TW_TRY(kernel.launch(nullptr, plan, tensors));
                                                    return session->synchronize();
                                                  }));
  std::vector<std::byte> bytes(kElements * 2);
  TW_TRY(session->copy_out(bytes.data(), tensors.out.data, kElements * 2));
  std::vector<float> out(q.size());
  to_float(Dtype::kFloat16, bytes.data(), out);
  TW_TRY(expect_close("forward", out, expected, 2e-3f));
  rows.insert(rows.begin(), {.kernel = "forward, mma.sync",
                             .level = "baseline",
                             .seconds = baseline,
                             .ratio = 1,
                             .against = "baseline"});
  return rows;
}

Result<std::vector<Row>> measure_gemm(const Arguments& arguments, const CpuBaseline& cpu) {
  namespace hopper = hopper_kernels;
  const std::vector<float> a = random_halves(int64_t{kGemmM} * kGemmK, 4),
                           b = random_halves(int64_t{kGemmN} * kGemmK, 5);
  std::vector<float> expected(static_cast<size_t>(kGemmM) * kGemmN);
  TW_ASSIGN(const double baseline, median_seconds(arguments.repeats, [&] {
              cpu.multiply(kGemmM, kGemmN, kGemmK, a, b, expected);
              return Status();
            }));

  constexpr hopper::GemmConfig kConfig = {.tile_n = 128, .stages = 4, .consumers = 2};
  TW_ASSIGN(
      const CompiledCode code,
      hopper::compile_kernel(
          "tests/hopper_kernels/gemm.cuh", "tw_gemm",
          "#include \"tests/hopper_kernels/gemm.cuh\"\n"
          "using namespace tilewright::hopper_kernels;\n"
          "consteval GemmConfig config() {\n"
          "  return {.tile_n = 128, .stages = 4, .consumers = 2};\n"
          "}\n"
          "extern \"C\" __global__ void __launch_bounds__(config().num_threads(), 1)\n"
          "tw_gemm(const __grid_constant__ GemmParams params) { gemm<config()>(params); }\n"));
  hopper::Device device({});
  const CUdeviceptr out =
      device.upload(std::vector<std::byte>(expected.size() * sizeof(float), std::byte{0xff}));
  const auto map = [&](const std::vector<float>& values, int rows, int box_rows) {
    return device.tensor_map({.address = device.upload(half_bytes(values)),
                              .extents = {kGemmK, static_cast<uint64_t>(rows)},
                              .strides = {uint64_t{kGemmK} * 2},
                              .box = {64, static_cast<uint32_t>(box_rows)}});
  };
  hopper::GemmParams params{};
  params.a = map(a, kGemmM, kConfig.tile_m());
  params.b = map(b, kGemmN, kConfig.tile_n);
  params.out = reinterpret_cast<float*>(out);
  params.m = kGemmM;
  params.n = kGemmN;
  params.k = kGemmK;
  params.out_pitch = kGemmN;
  params.num_splits = 1;
  const hopper::LaunchShape launch = {
      .grid_x = 132,
      .block = static_cast<unsigned>(kConfig.num_threads()),
      .shared_bytes = static_cast<unsigned>(kConfig.shared_bytes())};
  const CUfunction function = device.load(code.ptx, "tw_gemm", launch.shared_bytes);
  if (function == nullptr) return make_error(ErrorCode::kDeviceFault, "the GEMM does not load");
  TW_ASSIGN(std::vector<Row> rows,
            measure_levels("GEMM, TMA + wgmma", arguments, baseline, 4,
                           [&](const Level& level) -> Status {
                             set_level(level, arguments.threads);
                             const hopper::Outcome outcome = device.run(function, launch, &params);
                             if (outcome.verdict == hopper::Verdict::kRight) return {};
                             return make_error(ErrorCode::kDeviceFault, "{}", outcome.detail);
                           }));
  const std::vector<std::byte> bytes = device.download(out);
  std::vector<float> actual(expected.size());
  std::memcpy(actual.data(), bytes.data(), bytes.size());
  TW_TRY(expect_close("GEMM", actual, expected, 1e-3f));
  rows.insert(rows.begin(), {.kernel = "GEMM, TMA + wgmma",
                             .level = "baseline",
                             .seconds = baseline,
                             .ratio = 1,
                             .against = "baseline"});
  return rows;
}

void print_text(const Arguments& arguments, const CpuBaseline& cpu, const std::vector<Row>& rows) {
  fmt::print("{} threads, median of {} runs, host time; baseline: {}\n", arguments.threads,
             arguments.repeats, cpu.name());
  fmt::print("{:20}{:16}{:>12}{:>9}  {}\n", "kernel", "level", "time", "ratio", "to, limit");
  for (const Row& row : rows) {
    const std::string limit =
        row.limit == 0
            ? ""
            : fmt::format(", at most {}: {}", row.limit, row.ratio <= row.limit ? "met" : "MISSED");
    fmt::print("{:20}{:16}{:>12}{:>9.2f}  {}{}\n", row.kernel, row.level, seconds_text(row.seconds),
               row.ratio, row.against, limit);
  }
}

void print_json(const Arguments& arguments, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    Json line = Json::object({{"benchmark", "emulator_speed"},
                              {"kernel", row.kernel},
                              {"level", row.level},
                              {"threads", arguments.threads},
                              {"n", arguments.repeats},
                              {"median_host_seconds", row.seconds},
                              {"ratio", row.ratio},
                              {"against", row.against}});
    if (row.limit != 0) line.set("limit", row.limit);
    fmt::print("{}\n", line.dump());
  }
}

Result<Arguments> parse_arguments(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--json") {
      arguments.json = true;
      continue;
    }
    if (name != "--threads" && name != "--repeats" && name != "--only") {
      return make_error(ErrorCode::kInvalidArgument,
                        "unknown option {}: there are --threads, --repeats, --only, --json", name);
    }
    if (i + 1 == argc) return make_error(ErrorCode::kInvalidArgument, "{} needs a value", name);
    if (name == "--only") {
      arguments.only = argv[++i];
      continue;
    }
    TW_ASSIGN(const int64_t value, parse_int(argv[++i]));
    if (value < 1 || value > 1000) {
      return make_error(ErrorCode::kInvalidArgument, "{} takes 1 to 1000, not {}", name, value);
    }
    (name == "--threads" ? arguments.threads : arguments.repeats) = static_cast<int>(value);
  }
  return arguments;
}

// 0: every limit met, 1: one missed or a failure, 2: bad usage.
Result<bool> run(const Arguments& arguments) {
  TW_ASSIGN(const std::unique_ptr<CpuBaseline> cpu, CpuBaseline::open(arguments.threads));
  TW_ASSIGN(std::vector<Row> rows, measure_forward(arguments, *cpu));
  TW_ASSIGN(const std::vector<Row> gemm, measure_gemm(arguments, *cpu));
  rows.insert(rows.end(), gemm.begin(), gemm.end());
  arguments.json ? print_json(arguments, rows) : print_text(arguments, *cpu, rows);
  return std::all_of(rows.begin(), rows.end(),
                     [](const Row& row) { return row.limit == 0 || row.ratio <= row.limit; });
}

}  // namespace

int main(int argc, char** argv) {
  const Result<Arguments> arguments = parse_arguments(argc, argv);
  if (!arguments.ok()) {
    fmt::print(stderr, "emulator_speed: {}\n", arguments.error().to_string());
    return 2;
  }
  const Result<bool> met = run(*arguments);
  if (!met.ok()) {
    fmt::print(stderr, "emulator_speed: {}\n", met.error().to_string());
    return 1;
  }
  return *met ? 0 : 1;
}
