// What `tilewright io` says of one problem and one fast memory: every algorithm's count with its
// best tiles, the bounds, and which algorithm wins by how much.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/arch.h"
#include "io_model/bounds.h"
#include "io_model/closed_form.h"

namespace tilewright::io_model {

// How a count was checked on the machine, if at all.
enum class MachineMode { kNone, kLoops };

struct Entry {
  Algorithm algorithm;
  Tiles tiles;
  std::optional<Traffic> traffic;   // absent: it does not run, `refusal` says why
  std::optional<Traffic> by_loops;  // the same, counted by the machine's loops
  std::string refusal;
};

struct Report {
  int64_t fast_words = 0;
  LowerBound bound;                  // of algorithms that compute P
  LowerBound bound_given_p;          // of those that are given it; empty where there are none
  std::vector<Entry> entries;        // in the order of algorithms()
  const Entry* winner = nullptr;     // fewest words among those that compute P; null: none runs
  const Entry* runner_up = nullptr;  // the best of the other families

  // How many times as much the runner-up moves; 0 without one.
  double margin() const;

  Report() = default;
  Report(Report&&) = default;
  Report& operator=(Report&&) = default;
  Report(const Report&) = delete;  // winner and runner_up point into entries
  Report& operator=(const Report&) = delete;
};

// All algorithms of `task`, or only those named in `only`. Fails only if a size overflows or the
// task does not take this case; an algorithm that does not fit is an entry with a refusal.
Result<Report> analyse(Task task, const Case& problem_case, int64_t fast_words,
                       const Granularity& granularity, MachineMode machine,
                       const std::vector<Algorithm>& only = {});

// A GPU's fast memory in one of two readings: one block's shared memory alone, or with the register
// file that holds a flash kernel's accumulators.
struct FastMemory {
  std::string_view reading;  // "shared memory", "shared memory + registers"
  int64_t bytes = 0;
};
std::vector<FastMemory> fast_memories(const Arch& arch);
// The tiles of a GPU's kernels: sides and slabs of 16 rows.
constexpr Granularity kDeviceGranularity{.tile_step = 16, .streamed = 16, .depth = 16};
// fp32 accumulators beside elements of this many bytes.
constexpr int64_t device_accumulator_words(int64_t element_bytes) {
  return element_bytes < 4 ? 4 / element_bytes : 1;
}

// A least-squares fit of log(words) against log(M), for showing which power of M a count follows.
struct Slope {
  double total = 0;     // of the count itself
  double streamed = 0;  // of the count without the terms that no tile changes
  int points = 0;
};
// Best counts at 17 sizes of M between `from` and `to`; fewer where the algorithm does not run.
// kUnsupportedProblem for other algorithms than flash2, square-tile, one-pass, two-pass and
// small-cache.
Result<Slope> slope(Algorithm algorithm, const Case& problem_case, int64_t from, int64_t to);

// One pass over slow memory of materialised attention.
struct StandardPass {
  std::string name;
  bool backward = false;
  double bytes_per_head = 0;
};
// The passes of FlashAttention's algorithms 0 and 3 (each operand touched once per pass), with a
// masking pass, and dropout passes with a one-byte mask, where asked for.
std::vector<StandardPass> standard_passes(const Shape& shape, int64_t element_bytes, bool masked,
                                          bool dropout);

}  // namespace tilewright::io_model
