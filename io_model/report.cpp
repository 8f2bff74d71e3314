#include "io_model/report.h"

#include <algorithm>
#include <cmath>

#include "core/check.h"
#include "io_model/run.h"

namespace tilewright::io_model {
namespace {

Result<Entry> make_entry(Algorithm algorithm, const Case& problem_case, int64_t fast_words,
                         const Granularity& granularity, MachineMode machine) {
  Entry entry{.algorithm = algorithm, .tiles = {}, .traffic = {}, .by_loops = {}, .refusal = {}};
  const Result<Tiles> tiles = best_tiles(algorithm, problem_case, fast_words, granularity);
  if (!tiles) {
    if (tiles.error().code != ErrorCode::kOutOfMemory) return tiles.error();
    entry.refusal = tiles.error().message;
    return entry;
  }
  entry.tiles = *tiles;
  TW_ASSIGN(entry.traffic, closed_form(algorithm, problem_case, entry.tiles));
  if (machine == MachineMode::kLoops) {
    TW_ASSIGN(entry.by_loops, count_by_loops(algorithm, problem_case, fast_words, entry.tiles));
  }
  return entry;
}

const Entry* best_of(const std::vector<Entry>& entries, std::string_view not_family) {
  const Entry* best = nullptr;
  for (const Entry& entry : entries) {
    const AlgorithmInfo& row = info(entry.algorithm);
    if (!entry.traffic || row.given_probabilities || row.family == not_family) continue;
    if (best == nullptr || entry.traffic->total() < best->traffic->total()) best = &entry;
  }
  return best;
}

double total_words(const Traffic& traffic) { return static_cast<double>(traffic.total().value()); }

// The slope of least squares of log y against log x.
double log_slope(const std::vector<double>& x, const std::vector<double>& y) {
  const double count = static_cast<double>(x.size());
  double sum_x = 0, sum_y = 0, sum_xx = 0, sum_xy = 0;
  for (size_t at = 0; at < x.size(); ++at) {
    const double log_x = std::log(x[at]), log_y = std::log(y[at]);
    sum_x += log_x;
    sum_y += log_y;
    sum_xx += log_x * log_x;
    sum_xy += log_x * log_y;
  }
  return (count * sum_xy - sum_x * sum_y) / (count * sum_xx - sum_x * sum_x);
}

// The terms of a count that no tile changes; 0 if they are not listed here.
Count fixed_words(Algorithm algorithm, const Case& problem_case) {
  const Shape& s = problem_case.shape;
  const Count pairs = problem_case.pairs.count(), n = s.seqlen_q;
  const Count inputs = s.q() + s.k() + s.v(), row_dots = Count(2) * s.out() + n;
  switch (algorithm) {
    case Algorithm::kFlash2Forward:
      return s.q() + s.out() + n;
    case Algorithm::kSquareForward:
      return pairs + s.out() + Count(2) * n;
    case Algorithm::kOnePassBackward:
      return row_dots + Count(2) * (s.k() + s.v());
    case Algorithm::kTwoPassBackward:
      return row_dots + Count(2) * (inputs + n) + s.out();
    case Algorithm::kSmallCacheBackward:
      return row_dots + Count(3) * pairs + Count(2) * n + inputs;
    default:
      return 0;
  }
}

}  // namespace

double Report::margin() const {
  if (winner == nullptr || runner_up == nullptr) return 0;
  return total_words(*runner_up->traffic) / total_words(*winner->traffic);
}

Result<Report> analyse(Task task, const Case& problem_case, int64_t fast_words,
                       const Granularity& granularity, MachineMode machine,
                       const std::vector<Algorithm>& only) {
  Report report;
  report.fast_words = fast_words;
  report.bound = lower_bound(task, false, problem_case, fast_words);
  if (task == Task::kBackward) {
    report.bound_given_p = lower_bound(task, true, problem_case, fast_words);
  }
  for (const AlgorithmInfo& row : algorithms()) {
    if (row.task != task) continue;
    if (!only.empty() && std::count(only.begin(), only.end(), row.algorithm) == 0) continue;
    TW_ASSIGN(Entry entry,
              make_entry(row.algorithm, problem_case, fast_words, granularity, machine));
    report.entries.push_back(std::move(entry));
  }
  report.winner = best_of(report.entries, "");
  if (report.winner != nullptr) {
    report.runner_up = best_of(report.entries, info(report.winner->algorithm).family);
  }
  return report;
}

std::vector<FastMemory> fast_memories(const Arch& arch) {
  constexpr int64_t kRegisterBytes = 4;
  return {{"shared memory", arch.shared_bytes_per_block},
          {"shared memory + registers",
           arch.shared_bytes_per_block + arch.registers_per_sm * kRegisterBytes}};
}

Result<Slope> slope(Algorithm algorithm, const Case& problem_case, int64_t from, int64_t to) {
  constexpr int kSteps = 16;
  const Count fixed = fixed_words(algorithm, problem_case);
  if (fixed == Count(0)) {
    return make_error(ErrorCode::kUnsupportedProblem, "no slope is fitted for {}",
                      info(algorithm).name);
  }
  std::vector<double> sizes, totals, streamed;
  for (int step = 0; step <= kSteps; ++step) {
    const double ratio = static_cast<double>(to) / static_cast<double>(from);
    const double size = static_cast<double>(from) * std::pow(ratio, step / double{kSteps});
    const Result<Traffic> traffic = best_count(algorithm, problem_case, static_cast<int64_t>(size));
    if (!traffic) continue;
    sizes.push_back(size);
    totals.push_back(total_words(*traffic));
    streamed.push_back(total_words(*traffic) - static_cast<double>(fixed.value()));
  }
  if (sizes.size() < 3) {
    return make_error(ErrorCode::kNotFound, "{} runs at fewer than three sizes between {} and {}",
                      info(algorithm).name, from, to);
  }
  return Slope{log_slope(sizes, totals), log_slope(sizes, streamed),
               static_cast<int>(sizes.size())};
}

std::vector<StandardPass> standard_passes(const Shape& shape, int64_t element_bytes, bool masked,
                                          bool dropout) {
  const double scores = static_cast<double>(shape.scores().value());
  const double q = static_cast<double>(shape.q().value());
  const double k = static_cast<double>(shape.k().value());
  const double v = static_cast<double>(shape.v().value());
  const double out = static_cast<double>(shape.out().value());
  const double width = static_cast<double>(element_bytes);
  std::vector<StandardPass> passes;
  const auto add = [&](std::string name, bool backward, double words, double mask_bytes = 0) {
    passes.push_back({std::move(name), backward, words * width + mask_bytes});
  };
  add("S = Q K^T: read Q, K, write S", false, q + k + scores);
  if (masked) add("mask: read S, write S", false, 2 * scores);
  add("P = softmax(S): read S, write P", false, 2 * scores);
  if (dropout) {
    add("dropout: read P, write P, 1-byte keep mask written", false, 2 * scores, scores);
  }
  add("O = P V: read P, V, write O", false, scores + v + out);
  add("dV = P^T dO: read P, dO, write dV", true, scores + out + v);
  add("dP = dO V^T: read dO, V, write dP", true, out + v + scores);
  if (dropout) {
    add("dropout: read dP, write dP, 1-byte keep mask read", true, 2 * scores, scores);
  }
  add("dS = P * (dP - D): read P, dP, write dS", true, 3 * scores);
  add("dQ = dS K: read dS, K, write dQ", true, scores + k + q);
  add("dK = dS^T Q: read dS, Q, write dK", true, scores + q + k);
  return passes;
}

}  // namespace tilewright::io_model
