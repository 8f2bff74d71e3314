#include "cli/io_report.h"

#include <algorithm>
#include <cmath>

#include "cli/console.h"
#include "core/check.h"
#include "core/text.h"

namespace tilewright::cli {

using namespace io_model;

double words_of(const Traffic& traffic) { return static_cast<double>(traffic.total().value()); }

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

namespace {

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

Json traffic_json(const Traffic& traffic) {
  return Json::object({{"reads", traffic.reads.value()},
                       {"writes", traffic.writes.value()},
                       {"total", traffic.total().value()},
                       {"peak", traffic.peak.value()}});
}

}  // namespace

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
  const auto pairs = asked.head.pairs.count().value();
  return fmt::format("{}, one head, {} visible {}\n", asked.problem.to_string(), pairs,
                     pairs == 1 ? "pair" : "pairs");
}

}  // namespace tilewright::cli
