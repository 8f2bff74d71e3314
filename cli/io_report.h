// What `tilewright io` was asked, and how its reports read as text and JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/json.h"
#include "io_model/memory_size.h"
#include "io_model/report.h"
#include "tilewright/problem.h"
#include "tilewright/result.h"

namespace tilewright::cli {

struct IoFlags {
  std::string problem, fast_memory, device, algorithm, svg;
  int64_t granularity = 1;
  bool fp32_accumulators = false, machine = false, devices = false, json = false;
};

// What every output needs of the command line.
struct Asked {
  Problem problem;
  io_model::Case head;  // one head
  io_model::Task task = io_model::Task::kForward;
  std::vector<io_model::Algorithm> only;
  io_model::Granularity granularity;
  io_model::MachineMode machine = io_model::MachineMode::kNone;
  int64_t element_bytes = 2;

  double bytes(double words) const { return words * static_cast<double>(element_bytes); }
  double head_dim() const {
    return static_cast<double>(std::max(head.shape.head_dim_qk, head.shape.head_dim_v));
  }
};

double words_of(const io_model::Traffic& traffic);
// "1196 MiB", "28.0 MiB"
std::string mebibytes(double bytes);
// "48.0 KiB = 24576 words, M = 0.09 d^2"
std::string memory_text(const Asked& asked, int64_t words);
// "backward q4096 …, one head, 16777216 visible pairs"
std::string heading(const Asked& asked);

// Counts, bounds and winner at one size of fast memory. An error if --algorithm names only what
// does not fit.
Result<io_model::Report> report_at(const Asked& asked, int64_t fast_words);
std::string report_text(const Asked& asked, const io_model::Report& report);
Json report_json(const Asked& asked, const io_model::Report& report);

// A table over sizes, the slopes of both regimes, and with --svg the picture.
Result<Json> print_sweep(const IoFlags& flags, const Asked& asked,
                         const io_model::MemoryRange& range);

}  // namespace tilewright::cli
