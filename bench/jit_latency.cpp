// jit_latency: what it costs to get a kernel. Cold (compiled by NVRTC, which is loaded first, in a
// process of its own), from the disk (in a process of its own, NVRTC not loaded), and from the
// session's memory. Prints minimum, median and maximum of each; the work measured is
// Session::prepare alone.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/check.h"
#include "core/json.h"
#include "core/text.h"
#include "runtime/session_access.h"
#include "tilewright/session.h"

namespace {

using namespace tilewright;

constexpr double kColdTarget = 0.35, kDiskTarget = 5e-3, kMemoryTarget = 1e-6;  // seconds, median

struct Arguments {
  std::string problem = "hq32 hkv8 qk128 v128 bf16 causal";
  std::string device = "emulated:a100";
  int64_t repeats = 10;
  bool json = false;
};

struct Measurement {
  std::string_view name;
  double target = 0;
  std::vector<double> seconds;  // sorted

  double median() const { return seconds[seconds.size() / 2]; }
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Opens a session, prepares once and says how long the prepare took.
Result<double> prepare_once(const Arguments& arguments, const std::string& cache_dir,
                            BinaryOrigin expected) {
  TW_ASSIGN(const Problem problem, Problem::parse(arguments.problem));
  TW_ASSIGN(const auto session,
            Session::open({.device = arguments.device, .cache_dir = cache_dir}));
  const auto start = std::chrono::steady_clock::now();
  TW_ASSIGN(const Kernel kernel, session->prepare(problem));
  const double seconds = seconds_since(start);
  if (kernel.origin() != expected ||
      SessionAccess::compiler_loaded(*session) != (expected == BinaryOrigin::kCompiled)) {
    return make_error(ErrorCode::kInternal, "the kernel came from somewhere else than meant");
  }
  return seconds;
}

// The same in a child process, so that nothing is loaded or warm but the file system.
Result<double> prepare_in_child(const Arguments& arguments, const std::string& cache_dir,
                                BinaryOrigin expected) {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return make_error(ErrorCode::kIoError, "no pipe");
  const pid_t child = fork();
  if (child == 0) {
    const Result<double> seconds = prepare_once(arguments, cache_dir, expected);
    if (!seconds.ok()) fmt::print(stderr, "{}\n", seconds.error().to_string());
    const double value = seconds.ok() ? *seconds : -1;
    _exit(write(ends[1], &value, sizeof value) == sizeof value ? 0 : 1);
  }
  close(ends[1]);
  double value = -1;
  const ssize_t got = read(ends[0], &value, sizeof value);
  close(ends[0]);
  waitpid(child, nullptr, 0);
  if (got != sizeof value || value < 0) return make_error(ErrorCode::kInternal, "a run failed");
  return value;
}

// Batches of calls, since one is shorter than the clock's step.
Result<Measurement> measure_memory(const Arguments& arguments) {
  constexpr int kBatch = 1000;
  TW_ASSIGN(const Problem problem, Problem::parse(arguments.problem));
  TW_ASSIGN(const auto session, Session::open({.device = arguments.device}));
  TW_TRY(session->prepare(problem));
  Measurement measurement{"memory hit", kMemoryTarget, {}};
  for (int64_t i = 0; i < 10 * arguments.repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    for (int call = 0; call < kBatch; ++call) TW_TRY(session->prepare(problem));
    measurement.seconds.push_back(seconds_since(start) / kBatch);
  }
  return measurement;
}

Result<std::vector<Measurement>> measure(const Arguments& arguments, const std::string& folder) {
  Measurement cold{"cold", kColdTarget, {}}, disk{"disk hit", kDiskTarget, {}};
  for (int64_t i = 0; i < arguments.repeats; ++i) {
    const std::string cache_dir = fmt::format("{}/{}", folder, i);
    TW_ASSIGN(const double compiled,
              prepare_in_child(arguments, cache_dir, BinaryOrigin::kCompiled));
    TW_ASSIGN(const double read, prepare_in_child(arguments, cache_dir, BinaryOrigin::kDisk));
    cold.seconds.push_back(compiled);
    disk.seconds.push_back(read);
  }
  TW_ASSIGN(Measurement memory, measure_memory(arguments));
  std::vector<Measurement> all = {std::move(cold), std::move(disk), std::move(memory)};
  for (Measurement& each : all) std::sort(each.seconds.begin(), each.seconds.end());
  return all;
}

void print_text(const Arguments& arguments, const std::vector<Measurement>& all) {
  fmt::print("{} on {}\n{:12}{:>12}{:>12}{:>12}{:>8}{:>12}\n", arguments.problem, arguments.device,
             "prepare", "minimum", "median", "maximum", "n", "target");
  for (const Measurement& each : all) {
    fmt::print("{:12}{:>12}{:>12}{:>12}{:>8}{:>12}\n", each.name,
               seconds_text(each.seconds.front()), seconds_text(each.median()),
               seconds_text(each.seconds.back()), each.seconds.size(), seconds_text(each.target));
  }
}

void print_json(const Arguments& arguments, const std::vector<Measurement>& all) {
  for (const Measurement& each : all) {
    const Json line = Json::object({{"benchmark", "jit_latency"},
                                    {"problem", arguments.problem},
                                    {"device", arguments.device},
                                    {"case", each.name},
                                    {"minimum_seconds", each.seconds.front()},
                                    {"median_seconds", each.median()},
                                    {"maximum_seconds", each.seconds.back()},
                                    {"n", std::ssize(each.seconds)},
                                    {"target_seconds", each.target}});
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
    if (i + 1 == argc) return make_error(ErrorCode::kInvalidArgument, "{} needs a value", name);
    const std::string value = argv[++i];
    if (name == "--problem") {
      arguments.problem = value;
    } else if (name == "--device") {
      arguments.device = value;
    } else if (name == "--repeats") {
      TW_ASSIGN(arguments.repeats, parse_int(value));
      if (arguments.repeats < 1 || arguments.repeats > 1000) {
        return make_error(ErrorCode::kInvalidArgument, "--repeats takes 1 to 1000, not {}", value);
      }
    } else {
      return make_error(ErrorCode::kInvalidArgument,
                        "unknown option {}: there are --problem, --device, --repeats, --json",
                        name);
    }
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const Result<Arguments> arguments = parse_arguments(argc, argv);
  if (!arguments.ok()) {
    fmt::print(stderr, "jit_latency: {}\n", arguments.error().to_string());
    return 2;
  }
  std::string folder = (std::filesystem::temp_directory_path() / "jit-latency-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    fmt::print(stderr, "jit_latency: cannot make {}\n", folder);
    return 1;
  }
  const Result<std::vector<Measurement>> all = measure(*arguments, folder);
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  if (!all.ok()) {
    fmt::print(stderr, "jit_latency: {}\n", all.error().to_string());
    return 1;
  }
  arguments->json ? print_json(*arguments, *all) : print_text(*arguments, *all);
  return 0;
}
