// The sweep of `tilewright io`: a table over sizes of fast memory, slopes, and the picture.
#include <algorithm>
#include <cmath>

#include "cli/console.h"
#include "cli/io_report.h"
#include "core/check.h"
#include "core/files.h"
#include "io_model/picture.h"
#include "io_model/run.h"

namespace tilewright::cli {

using namespace io_model;

namespace {

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

}  // namespace

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

}  // namespace tilewright::cli
