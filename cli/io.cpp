// tilewright io: how many words attention must move between fast and slow memory, how many each
// algorithm does move, and which wins. The mathematics: docs/io-complexity.md.
#include <algorithm>
#include <cmath>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/console.h"
#include "core/arch.h"
#include "core/check.h"
#include "core/files.h"
#include "core/text.h"
#include "io_model/memory_size.h"
#include "io_model/picture.h"
#include "io_model/report.h"
#include "io_model/run.h"

namespace tilewright::cli {
namespace {

using namespace io_model;

struct IoFlags {
  std::string problem, fast_memory, device, algorithm, svg;
  int64_t granularity = 1;
  bool fp32_accumulators = false, machine = false, devices = false, json = false;
};

// What every output needs of the command line.
struct Asked {
  Problem problem;
  Case head;  // one head
  Task task = Task::kForward;
  std::vector<Algorithm> only;
  Granularity granularity;
  MachineMode machine = MachineMode::kNone;
  int64_t element_bytes = 2;

  double bytes(double words) const { return words * static_cast<double>(element_bytes); }
  double head_dim() const {
    return static_cast<double>(std::max(head.shape.head_dim_qk, head.shape.head_dim_v));
  }
};

double words_of(const Traffic& traffic) { return static_cast<double>(traffic.total().value()); }

// "1196 MiB", "28.0 MiB"
std::string mebibytes(double bytes) {
  const double mib = bytes / (1 << 20);
  if (mib < 1) return bytes_text(std::llround(bytes));
  return mib >= 99.95 ? fmt::format("{:.0f} MiB", mib) : fmt::format("{:.1f} MiB", mib);
}

std::string memory_text(const Asked& asked, int64_t words) {
  const double per_square = static_cast<double>(words) / (asked.head_dim() * asked.head_dim());
  return fmt::format("{} = {} words, M = {:.2f} d^2", bytes_text(words * asked.element_bytes),
                     words, per_square);
}

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

// --- One memory ---

// rows x cols of every stage that has a tile.
std::string tiles_text(const Asked& asked, const Entry& entry) {
  const std::vector<Stage> all = stages(entry.algorithm, asked.head);
  std::string text;
  for (size_t at = 0; at < all.size(); ++at) {
    if (all[at].freedom == Freedom::kNone || all[at].freedom == Freedom::kDepth) continue;
    text +=
        fmt::format("{}{}x{}", text.empty() ? "" : " ", entry.tiles[at].rows, entry.tiles[at].cols);
  }
  return text.empty() ? "none" : text;
}

// "flash (two-pass)", "small-cache"
std::string family_text(const AlgorithmInfo& row) {
  return row.family == row.name ? std::string(row.name)
                                : fmt::format("{} ({})", row.family, row.name);
}

std::string entries_text(const Asked& asked, const Report& report, bool given_p) {
  Table table;
  const LowerBound& bound = given_p ? report.bound_given_p : report.bound;
  std::vector<std::string> head = {
      "", "traffic", "words", "/ conservative", "/ conjectured", "extra memory"};
  if (asked.machine == MachineMode::kLoops) head.push_back("machine");
  head.push_back("tiles");
  table.row(head);
  bool any = false;
  for (const Entry& entry : report.entries) {
    const AlgorithmInfo& row = info(entry.algorithm);
    if (row.given_probabilities != given_p) continue;
    any = true;
    if (!entry.traffic) {
      table.row({"  " + std::string(row.name), "does not fit: " + entry.refusal});
      continue;
    }
    const double words = words_of(*entry.traffic);
    std::vector<std::string> cells = {
        "  " + std::string(row.name),
        mebibytes(asked.bytes(words)),
        fmt::format("{:.0f}", words),
        fmt::format("{:.2f}", words / bound.conservative()),
        fmt::format("{:.2f}", words / bound.conjectured()),
        mebibytes(asked.bytes(
            static_cast<double>(extra_slow_words(entry.algorithm, asked.head.shape).value())))};
    if (asked.machine == MachineMode::kLoops) {
      cells.push_back(*entry.by_loops == *entry.traffic ? "equal" : "DIFFERS");
    }
    cells.push_back(tiles_text(asked, entry));
    table.row(std::move(cells));
  }
  return any ? table.text() : "";
}

std::string bound_text(const Asked& asked, const LowerBound& bound) {
  Table table;
  const auto row = [&](double words, Standing standing, std::string_view label) {
    table.row({label == "conservative" ? "bound" : "", mebibytes(asked.bytes(words)),
               fmt::format("{} ({})", label, bound.name_of(standing))});
  };
  row(bound.conservative(), Standing::kPublished, "conservative");
  row(bound.derived(), Standing::kDerived, "derived, not peer-reviewed");
  if (bound.conjectured() > bound.derived()) {
    row(bound.conjectured(), Standing::kConjectured, "conjectured");
  }
  return table.text();
}

std::string winner_text(const Asked& asked, const Report& report) {
  if (report.winner == nullptr) return "winner: none runs in this memory\n";
  std::string text =
      fmt::format("winner: {}, {} a head", family_text(info(report.winner->algorithm)),
                  mebibytes(asked.bytes(words_of(*report.winner->traffic))));
  if (report.runner_up != nullptr) {
    text += fmt::format(", {:.2f}x fewer than {}, {}", report.margin(),
                        family_text(info(report.runner_up->algorithm)),
                        mebibytes(asked.bytes(words_of(*report.runner_up->traffic))));
  }
  return text + "\n";
}

std::string range_warning(const Asked& asked, int64_t words) {
  const double m = static_cast<double>(words);
  const double longest =
      static_cast<double>(std::max(asked.head.shape.seqlen_q, asked.head.shape.seqlen_k));
  if (m < asked.head_dim()) return "note: M is below d, outside the range of the theorems\n";
  if (m > longest * asked.head_dim()) {
    return "note: M is above n d, where only the compulsory traffic remains\n";
  }
  return "";
}

std::string report_text(const Asked& asked, const Report& report) {
  std::string text = bound_text(asked, report.bound) + entries_text(asked, report, false);
  const std::string given = entries_text(asked, report, true);
  if (!given.empty()) text += "given P as an input (not comparable, never the winner)\n" + given;
  text += winner_text(asked, report);
  if (asked.task == Task::kBackward && asked.head.pairs.is_dense()) {
    text += fmt::format("theorem 1.1, asymptotic, every constant 1: {:.3g} words\n",
                        theorem_1_1(static_cast<double>(asked.head.shape.seqlen_k),
                                    asked.head_dim(), static_cast<double>(report.fast_words)));
  }
  return text + range_warning(asked, report.fast_words);
}

Json traffic_json(const Traffic& traffic) {
  return Json::object({{"reads", traffic.reads.value()},
                       {"writes", traffic.writes.value()},
                       {"total", traffic.total().value()},
                       {"peak", traffic.peak.value()}});
}

Json report_json(const Asked& asked, const Report& report) {
  Json entries = Json::array(), lines = Json::array();
  for (const BoundLine& line : report.bound.lines) {
    lines.push(Json::object({{"name", line.name},
                             {"standing", io_model::to_string(line.standing)},
                             {"words", line.words}}));
  }
  for (const Entry& entry : report.entries) {
    const AlgorithmInfo& row = info(entry.algorithm);
    Json tiles = Json::array();
    for (const Block& block : entry.tiles) {
      tiles.push(
          Json::object({{"rows", block.rows}, {"cols", block.cols}, {"depth", block.depth}}));
    }
    Json object = Json::object({{"algorithm", row.name},
                                {"family", row.family},
                                {"given_probabilities", row.given_probabilities},
                                {"matmul_flops", matmul_flops(entry.algorithm, asked.head)},
                                {"tiles", std::move(tiles)}});
    object.set("words", entry.traffic ? traffic_json(*entry.traffic) : Json());
    if (entry.traffic) object.set("bytes", entry.traffic->total().value() * asked.element_bytes);
    if (entry.by_loops) object.set("machine_words", traffic_json(*entry.by_loops));
    if (!entry.refusal.empty()) object.set("refusal", entry.refusal);
    entries.push(std::move(object));
  }
  const auto name = [](const Entry* entry) {
    return entry == nullptr ? Json() : Json(info(entry->algorithm).name);
  };
  return Json::object({{"fast_words", report.fast_words},
                       {"fast_bytes", report.fast_words * asked.element_bytes},
                       {"bound_words", Json::object({{"conservative", report.bound.conservative()},
                                                     {"derived", report.bound.derived()},
                                                     {"conjectured", report.bound.conjectured()},
                                                     {"lines", std::move(lines)}})},
                       {"algorithms", std::move(entries)},
                       {"winner", name(report.winner)},
                       {"runner_up", name(report.runner_up)},
                       {"margin", report.margin()}});
}

Result<Report> report_at(const Asked& asked, int64_t fast_words) {
  TW_ASSIGN(Report report, analyse(asked.task, asked.head, fast_words, asked.granularity,
                                   asked.machine, asked.only));
  if (!asked.only.empty() && report.winner == nullptr) {
    for (const Entry& entry : report.entries) {
      // The full error: what it needs and what else runs.
      if (!entry.traffic) {
        return best_tiles(entry.algorithm, asked.head, fast_words, asked.granularity).error();
      }
    }
  }
  return report;
}

std::string heading(const Asked& asked) {
  return fmt::format("{}, one head, {} visible pairs\n", asked.problem.to_string(),
                     asked.head.pairs.count().value());
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

// --- A sweep: table, slopes and picture ---

std::vector<int64_t> sweep_sizes(const MemoryRange& range) {
  constexpr double kStepsPerOctave = 4;
  std::vector<int64_t> sizes;
  const double from = static_cast<double>(range.from_words);
  for (int step = 0;; ++step) {
    const auto size = static_cast<int64_t>(std::llround(from * std::exp2(step / kStepsPerOctave)));
    if (size > range.to_words) return sizes;
    if (sizes.empty() || size > sizes.back()) sizes.push_back(size);
  }
}

constexpr std::string_view kColours[] = {"#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd",
                                         "#8c564b", "#e377c2", "#7f7f7f"};

// Closed forms as lines, counts by the machine's loops as points, bounds dashed.
Result<Picture> make_picture(const Asked& asked, const std::vector<int64_t>& sizes) {
  Picture picture{.title = asked.problem.to_string() + ", one head",
                  .x_label = "fast memory M, words",
                  .y_label = "words moved",
                  .curves = {},
                  .marked_x = asked.head_dim() * asked.head_dim(),
                  .marked_label = "M = d\u00b2"};
  PictureCurve conservative{"bound, conservative", "#d62728", {}, true, false};
  PictureCurve conjectured{asked.task == Task::kBackward ? "bound, conjectured" : "bound, derived",
                           "#000000",
                           {},
                           true,
                           false};
  for (const int64_t size : sizes) {
    const double m = static_cast<double>(size);
    const LowerBound bound = lower_bound(asked.task, false, asked.head, size);
    conservative.points.push_back({m, bound.conservative()});
    conjectured.points.push_back({m, bound.conjectured()});
  }
  size_t colour = 0;
  for (const AlgorithmInfo& row : algorithms()) {
    if (row.task != asked.task || row.given_probabilities) continue;
    if (asked.only.empty() && row.family == "standard") continue;
    if (!asked.only.empty() &&
        std::count(asked.only.begin(), asked.only.end(), row.algorithm) == 0) {
      continue;
    }
    const std::string shade(kColours[colour++ % std::size(kColours)]);
    PictureCurve line{std::string(row.name), shade, {}, false, false};
    PictureCurve points{std::string(row.name) + ", machine", shade, {}, false, true};
    for (size_t at = 0; at < sizes.size(); ++at) {
      const double m = static_cast<double>(sizes[at]);
      const Result<Tiles> tiles =
          best_tiles(row.algorithm, asked.head, sizes[at], asked.granularity);
      if (!tiles) continue;
      TW_ASSIGN(const Traffic traffic, closed_form(row.algorithm, asked.head, *tiles));
      line.points.push_back({m, words_of(traffic)});
      if (asked.machine == MachineMode::kNone || at % 4 != 0) continue;
      TW_ASSIGN(const Traffic counted,
                count_by_loops(row.algorithm, asked.head, sizes[at], *tiles));
      points.points.push_back({m, words_of(counted)});
    }
    picture.curves.push_back(std::move(line));
    picture.curves.push_back(std::move(points));
  }
  picture.curves.push_back(std::move(conservative));
  picture.curves.push_back(std::move(conjectured));
  return picture;
}

struct RegimeSlope {
  std::string_view what;
  Algorithm algorithm;
  double expected;
  int64_t from, to;
};

// Flash above d^2, small-cache below, as far as the sweep goes.
std::vector<RegimeSlope> regimes(const Asked& asked, const MemoryRange& range) {
  const auto square = static_cast<int64_t>(asked.head_dim() * asked.head_dim());
  const bool forward = asked.task == Task::kForward;
  return {{"flash above d^2", forward ? Algorithm::kFlash2Forward : Algorithm::kTwoPassBackward, -1,
           std::max(range.from_words, square), std::min(range.to_words, 16 * square)},
          {"small-cache below d^2",
           forward ? Algorithm::kSquareForward : Algorithm::kSmallCacheBackward, -0.5,
           std::max(range.from_words, square / 256), std::min(range.to_words, square)}};
}

Result<Json> print_sweep(const IoFlags& flags, const Asked& asked, const MemoryRange& range) {
  const Progress progress("counting");
  const std::vector<int64_t> sizes = sweep_sizes(range);
  Asked by_formula = asked;  // the machine counts only the picture's points
  by_formula.machine = MachineMode::kNone;
  Table table;
  table.row({"M words", "M / d^2", "winner", "traffic", "runner-up moves", "/ conservative",
             "/ conjectured"});
  Json reports = Json::array();
  for (const int64_t size : sizes) {
    TW_ASSIGN(const Report report, report_at(by_formula, size));
    reports.push(report_json(asked, report));
    const double m = static_cast<double>(size);
    std::vector<std::string> cells = {
        std::to_string(size), fmt::format("{:.3f}", m / asked.head_dim() / asked.head_dim())};
    if (report.winner != nullptr) {
      const double words = words_of(*report.winner->traffic);
      cells.insert(cells.end(),
                   {std::string(info(report.winner->algorithm).name), mebibytes(asked.bytes(words)),
                    fmt::format("{:.2f}x", report.margin()),
                    fmt::format("{:.2f}", words / report.bound.conservative()),
                    fmt::format("{:.2f}", words / report.bound.conjectured())});
    } else {
      cells.emplace_back("none runs");
    }
    table.row(std::move(cells));
  }
  if (!flags.json) print_text(heading(asked) + table.text());
  Json slopes = Json::array();
  for (const RegimeSlope& regime : regimes(asked, range)) {
    if (asked.task == Task::kWeights || regime.from >= regime.to) continue;
    const Result<Slope> fit = slope(regime.algorithm, asked.head, regime.from, regime.to);
    if (!fit) continue;
    slopes.push(Json::object({{"what", regime.what},
                              {"algorithm", info(regime.algorithm).name},
                              {"streamed", fit->streamed},
                              {"total", fit->total},
                              {"expected", regime.expected}}));
    if (flags.json) continue;
    print_text(
        fmt::format("slope of {} ({}), M from {} to {}: {:.3f} of what depends on M, {:.3f} "
                    "of the whole; theory {:g}\n",
                    regime.what, info(regime.algorithm).name, regime.from, regime.to, fit->streamed,
                    fit->total, regime.expected));
  }
  if (!flags.svg.empty()) {
    TW_ASSIGN(const Picture picture, make_picture(asked, sizes));
    TW_TRY(write_file_atomically(flags.svg, draw_svg(picture)));
    if (!flags.json) print_text(fmt::format("picture: {}\n", flags.svg));
  }
  return Json::object({{"reports", std::move(reports)}, {"slopes", std::move(slopes)}});
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

Result<Json> answer(const IoFlags& flags) {
  if (flags.devices) return print_profiles(flags);
  TW_ASSIGN(const Asked asked, read_asked(flags));
  if (asked.problem.pass == Pass::kStandard) return print_standard(flags, asked);
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
  if (range.is_sweep()) return print_sweep(flags, asked, range);
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
  if (!result) return report_error("io", result.error(), flags.json);
  if (flags.json) print_json(*result);
  return kSuccess;
}

}  // namespace tilewright::cli
