// tilewright io: how many words attention must move between fast and slow memory, how many each
// algorithm does move, and which wins. The mathematics: docs/io-complexity.md.
#include <algorithm>
#include <cmath>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "cli/io_report.h"
#include "cli/output_files.h"
#include "core/arch.h"
#include "core/check.h"
#include "core/text.h"

namespace tilewright::cli {

using namespace io_model;

namespace {

// --- Reading the command line ---

Result<Task> task_of(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return Task::kForward;
    case Pass::kBackward:
      return Task::kBackward;
    default:
      return make_error(ErrorCode::kUnsupportedProblem,
                        "I/O is counted for the passes forward, backward and standard, not {}",
                        to_string(pass));
  }
}

// One head: what `run` would fill in, and no tensors whose traffic is not modelled.
Result<Problem> read_problem(const std::string& text) {
  if (text.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--problem is missing, as in --problem \"backward q4096 qk128 fp16\"");
  }
  TW_ASSIGN(Problem problem, Problem::parse(text));
  if (!problem.seqlen_k) problem.seqlen_k = problem.seqlen_q;
  if (!problem.head_dim_v) problem.head_dim_v = problem.head_dim_qk;
  if (!problem.dtype) problem.dtype = Dtype::kFloat16;
  TW_TRY(validate(problem));
  if (problem.bias || problem.varlen) {
    return make_error(ErrorCode::kUnsupportedProblem, "I/O is not counted for '{}'",
                      problem.bias ? "bias" : "varlen");
  }
  return problem;
}

Result<Asked> read_asked(const IoFlags& flags) {
  Asked asked;
  TW_ASSIGN(asked.problem, read_problem(flags.problem));
  TW_ASSIGN(asked.head, Case::from_problem(asked.problem));
  asked.element_bytes = size_in_bytes(*asked.problem.dtype);
  if (asked.problem.pass != Pass::kStandard) {
    TW_ASSIGN(asked.task, task_of(asked.problem.pass));
  }
  for (const std::string_view name : split(flags.algorithm, ',')) {
    if (flags.algorithm.empty()) break;
    TW_ASSIGN(const Algorithm algorithm, find_algorithm(name));
    if (!asked.only.empty() && info(algorithm).task != asked.task) {
      return make_error(ErrorCode::kInvalidArgument, "--algorithm mixes tasks: {}",
                        flags.algorithm);
    }
    // The gradients of X and Y have no pass of their own in a problem's text.
    if (info(algorithm).task == Task::kWeights) asked.task = Task::kWeights;
    if (info(algorithm).task != asked.task) {
      return make_error(ErrorCode::kInvalidArgument, "{} is no algorithm of the pass {}", name,
                        to_string(asked.problem.pass));
    }
    asked.only.push_back(algorithm);
  }
  asked.granularity = {flags.granularity, flags.granularity, flags.granularity};
  asked.machine = flags.machine ? MachineMode::kLoops : MachineMode::kNone;
  if (flags.fp32_accumulators) {
    asked.head.accumulator_words = device_accumulator_words(asked.element_bytes);
  }
  return asked;
}

Result<Json> print_one(const IoFlags& flags, const Asked& asked, int64_t fast_words) {
  TW_ASSIGN(const Report report, report_at(asked, fast_words));
  if (!flags.json) {
    print_text(heading(asked) + "fast memory " + memory_text(asked, fast_words) + "\n" +
               report_text(asked, report));
  }
  return report_json(asked, report);
}

// --- A device: both readings of its fast memory ---

Result<Json> print_device(const IoFlags& flags, Asked asked, std::string_view name) {
  TW_ASSIGN(const DeviceProfile profile, find_profile(name));
  asked.granularity = kDeviceGranularity;
  asked.head.accumulator_words = device_accumulator_words(asked.element_bytes);
  if (!flags.json) {
    print_text(heading(asked) + fmt::format("{} ({}): tiles of 16 rows, fp32 accumulators of {} "
                                            "words\n",
                                            profile.name, profile.marketing,
                                            asked.head.accumulator_words));
  }
  Json readings = Json::array();
  std::vector<std::string> winners;
  for (const FastMemory& memory : fast_memories(profile.arch)) {
    const int64_t words = memory.bytes / asked.element_bytes;
    TW_ASSIGN(const Report report, report_at(asked, words));
    Json json = report_json(asked, report);
    json.set("reading", memory.reading);
    readings.push(std::move(json));
    winners.emplace_back(report.winner == nullptr ? "none" : info(report.winner->algorithm).family);
    if (!flags.json) {
      print_text(fmt::format("\n{}: {}\n", memory.reading, memory_text(asked, words)) +
                 report_text(asked, report));
    }
  }
  const bool agree = winners.front() == winners.back();
  if (!flags.json) {
    print_text(agree ? fmt::format("\nthe two readings agree: {}\n", winners.front())
                     : fmt::format("\nthe two readings disagree: {} by shared memory alone, {} "
                                   "with registers\n",
                                   winners.front(), winners.back()));
  }
  return Json::object({{"device", profile.name}, {"agree", agree}, {"readings", readings}});
}

// --- Without a memory: the passes of materialised attention, and the profiles ---

Result<Json> print_standard(const IoFlags& flags, const Asked& asked) {
  const Problem& problem = asked.problem;
  const bool masked = !problem.masks.empty(), dropout = problem.dropout > 0;
  const double heads = static_cast<double>(problem.batch.value_or(1)) *
                       static_cast<double>(problem.num_heads_q.value_or(1));
  Table table;
  Json list = Json::array();
  double sum = 0;
  for (const StandardPass& pass :
       standard_passes(asked.head.shape, asked.element_bytes, masked, dropout)) {
    const double bytes = heads * pass.bytes_per_head;
    sum += bytes;
    table.row({pass.backward ? "backward" : "forward", fmt::format("{:8.3f} GB", bytes / 1e9),
               pass.name});
    list.push(Json::object({{"pass", pass.name}, {"backward", pass.backward}, {"bytes", bytes}}));
  }
  table.row({"sum", fmt::format("{:8.3f} GB", sum / 1e9), fmt::format("{:.0f} heads", heads)});
  if (!flags.json) {
    print_text(fmt::format("{}: materialised attention, forward and backward, each operand once a "
                           "pass\n",
                           problem.to_string()) +
               table.text());
  }
  return Json::object({{"passes", std::move(list)}, {"bytes", sum}});
}

Json print_profiles(const IoFlags& flags) {
  constexpr int64_t kHeadDims[] = {64, 128, 256, 512, 1024};
  constexpr int64_t kElementBytes = 2;
  Table table;
  std::vector<std::string> head = {"profile", "fast memory", "", "16-bit words", "sqrt(M)"};
  for (const int64_t head_dim : kHeadDims) head.push_back(fmt::format("d {}", head_dim));
  table.row(head);
  Json list = Json::array();
  for (const DeviceProfile& profile : device_profiles()) {
    for (const FastMemory& memory : fast_memories(profile.arch)) {
      const int64_t words = memory.bytes / kElementBytes;
      const double m = static_cast<double>(words);
      std::vector<std::string> cells = {std::string(profile.name), std::string(memory.reading),
                                        bytes_text(memory.bytes), std::to_string(words),
                                        fmt::format("{:.0f}", std::sqrt(m))};
      Json ratios = Json::array();
      for (const int64_t head_dim : kHeadDims) {
        const double ratio = m / static_cast<double>(head_dim * head_dim);
        cells.push_back(fmt::format("{:.2f}", ratio));
        ratios.push(Json::object({{"head_dim", head_dim}, {"m_over_d2", ratio}}));
      }
      table.row(std::move(cells));
      list.push(Json::object({{"device", profile.name},
                              {"reading", memory.reading},
                              {"bytes", memory.bytes},
                              {"words", words},
                              {"m_over_d2", std::move(ratios)}}));
    }
  }
  if (!flags.json) {
    print_text(
        "M / d^2: below about 1.1 to 1.7 small-cache moves fewer words in the backward, "
        "below about 0.7 in the forward\n" +
        table.text());
  }
  return Json::object({{"profiles", std::move(list)}});
}

// Flags that would have no effect are refused: their author expects one.
Status refuse_idle_flags(const IoFlags& flags, std::string_view with) {
  const std::pair<std::string_view, bool> given[] = {
      {"--problem", flags.devices && !flags.problem.empty()},
      {"--fast-memory", !flags.fast_memory.empty()},
      {"--device", !flags.device.empty()},
      {"--algorithm", !flags.algorithm.empty()},
      {"--machine", flags.machine},
      {"--granularity", flags.granularity != IoFlags().granularity},
      {"--fp32-accumulators", flags.fp32_accumulators},
      {"--svg", !flags.svg.empty()}};
  for (const auto& [name, is_given] : given) {
    if (is_given) {
      return make_error(ErrorCode::kInvalidArgument, "{} has no meaning with {}", name, with);
    }
  }
  return {};
}

Result<Json> answer(const IoFlags& flags) {
  if (flags.devices) {
    TW_TRY(refuse_idle_flags(flags, "--devices"));
    return print_profiles(flags);
  }
  TW_ASSIGN(const Asked asked, read_asked(flags));
  if (asked.problem.pass == Pass::kStandard) {
    TW_TRY(refuse_idle_flags(flags, "the pass standard"));
    return print_standard(flags, asked);
  }
  constexpr std::string_view kEmulated = "emulated:";
  if (!flags.device.empty()) {
    const std::string_view device = flags.device;
    if (!flags.fast_memory.empty() || device.substr(0, kEmulated.size()) != kEmulated) {
      return make_error(ErrorCode::kInvalidArgument,
                        "--device takes emulated:PROFILE, and no --fast-memory beside it");
    }
    return print_device(flags, asked, device.substr(kEmulated.size()));
  }
  if (flags.fast_memory.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "--fast-memory is missing: a size (100KiB), a sweep (8KiB..1MiB) or a "
                      "profile (h100)");
  }
  if (find_profile(flags.fast_memory).ok()) return print_device(flags, asked, flags.fast_memory);
  TW_ASSIGN(const MemoryRange range, parse_memory_range(flags.fast_memory, asked.element_bytes));
  if (range.is_sweep()) {
    TW_TRY(check_outputs({{"--svg", flags.svg}}, {}));
    return print_sweep(flags, asked, range);
  }
  if (!flags.svg.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "--svg draws a sweep, as in 8KiB..1MiB");
  }
  return print_one(flags, asked, range.from_words);
}

}  // namespace

int run_io(Words words) {
  IoFlags flags;
  ArgumentParser parser("io",
                        "Words that attention must move between fast and slow memory, and words "
                        "that algorithms move.");
  parser.text("problem", "TEXT", "one head of it is counted; `standard` lists passes instead",
              flags.problem);
  parser.text("fast-memory", "SIZE", "100KiB, 4096words, a sweep 8KiB..1MiB, or a profile (h100)",
              flags.fast_memory);
  parser.text("device", "NAME", "emulated:PROFILE, its fast memory in both readings", flags.device);
  parser.text("algorithm", "NAMES",
              "only these, comma between; large-cache-dx, small-cache-dx and "
              "small-cache-dx-dy are the gradients of weights",
              flags.algorithm);
  parser.flag("machine", "count by running the loops too, and compare", flags.machine);
  parser.integer("granularity", "ROWS", "tile sides and slabs in steps of this", 1, 1024,
                 flags.granularity);
  parser.flag("fp32-accumulators", "accumulators weigh 4 bytes in fast memory",
              flags.fp32_accumulators);
  parser.flag("devices", "each profile's fast memory against d^2", flags.devices);
  parser.text("svg", "FILE", "draw the sweep: lines, machine counts, bounds", flags.svg);
  parser.flag("json", "print one JSON object", flags.json);
  parser.example("tilewright io --problem \"backward q4096 qk512 fp16\" --fast-memory 48KiB");
  parser.example("tilewright io --problem \"backward q4096 qk256\" --device emulated:rtx4090");
  if (const auto code = parser.parse_or_finish(words)) return *code;
  const Result<Json> result = answer(flags);
  if (!result) {
    const int code = report_error("io", result.error(), flags.json);
    // The fast memory that an algorithm lacks is a number on the command line.
    return result.error().code == ErrorCode::kOutOfMemory ? kBadUsage : code;
  }
  if (flags.json) print_json(*result);
  return kSuccess;
}

}  // namespace tilewright::cli
