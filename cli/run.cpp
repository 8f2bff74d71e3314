#include <chrono>

#include "autotune/sequences.h"
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/console.h"
#include "cli/emulator_counters.h"
#include "cli/mask_input.h"
#include "cli/output_files.h"
#include "cli/run_input.h"
#include "cli/run_output.h"
#include "core/check.h"
#include "core/text.h"

namespace tilewright::cli {
namespace {

struct RunFlags {
  CommonFlags common;
  std::string problem;
  InputFiles files;
  OutputFiles outputs;
  uint64_t seed = 0;
  int64_t repeat = 1;
  bool check = false, counters = false;
};

struct RunOutcome {
  RunInput input;
  DeviceInfo device;
  std::optional<Kernel> kernel;
  CacheCounters cache;
  TrialOutputs outputs;
  double host_seconds = 0;
  std::optional<Verdict> verdict;
  std::vector<std::pair<std::string, uint64_t>> counters;
  std::string reproducer;

  bool passed() const { return !verdict || verdict->ok(); }
};

// The command that repeats this run; the problem with every dim, and the device, spelt out.
std::string reproducer_of(const RunFlags& flags, const RunInput& input, const Options& options,
                          const DeviceInfo& device) {
  std::vector<std::string> words = {"tilewright", "run", "--check", "--problem",
                                    input.problem.to_string()};
  const auto add = [&](std::string name, const std::string& value) {
    if (value.empty()) return;
    words.push_back(std::move(name));
    words.push_back(value);
  };
  for (const FileFlag& file : flags.files.flags()) add(std::string(file.flag), file.path);
  if (!flags.files.any()) add("--seed", fmt::to_string(flags.seed));
  if (flags.repeat != 1) add("--repeat", fmt::to_string(flags.repeat));
  // With no device named, a simulated one is emulated:h100; on another machine it may be a GPU.
  const bool default_emulated = options.device.empty() && device.simulated;
  add("--device", default_emulated ? "emulated:h100" : options.device);
  add("--templates", options.templates_dir);
  return shell_command(words);
}

Result<RunInput> read_input(const RunFlags& flags) {
  Problem problem;
  if (!flags.problem.empty() || !flags.files.any()) {
    TW_ASSIGN(problem, parse_problem_flag(flags.problem));
  }
  if (flags.files.any()) return input_from_files(std::move(problem), flags.files);
  return input_from_problem(std::move(problem));
}

Result<RunOutcome> execute(const RunFlags& flags) {
  const Options options = make_options(flags.common);
  TW_TRY(check_outputs(flags.outputs.flags(), flags.files.flags()));
  RunOutcome outcome;
  Progress progress("reading the input");
  TW_ASSIGN(outcome.input, read_input(flags));
  RunInput& input = outcome.input;
  TW_TRY(check_pass(input.problem.pass, flags.outputs));
  TW_TRY(
      check_host_memory(input.problem.pass, stored_sizes(input.problem, input.sizes), flags.check));
  if (lengths_vary(input.problem) && (flags.files.any() || flags.outputs.any())) {
    return make_error(ErrorCode::kUnsupportedProblem,
                      "files of {} problems are not built yet: run makes random sequences",
                      input.problem.varlen ? "varlen" : "paged");
  }

  progress.set_label("preparing the kernel");
  TW_ASSIGN(const std::unique_ptr<Session> session, Session::open(options));
  outcome.device = session->device();
  outcome.reproducer = reproducer_of(flags, input, options, outcome.device);
  TW_ASSIGN(outcome.kernel, session->prepare(input.problem));
  outcome.cache = session->cache_counters();

  if (!flags.files.any()) {
    input.tensors = random_inputs(input.problem, input.sizes, flags.seed);
  }
  TW_TRY(read_mask_data(flags.files, input));
  TW_TRY(complete_inputs(input.problem, input.sizes, input.tensors));
  const bool count = flags.counters && outcome.device.simulated;
  if (count) TW_TRY(reset_emulator_counters());
  progress.set_label("running on " + outcome.device.name);
  const auto start = std::chrono::steady_clock::now();
  TW_ASSIGN(outcome.outputs, run_trial(*session, *outcome.kernel, input.sizes, input.tensors,
                                       {.repeat = static_cast<int>(flags.repeat)}));
  outcome.host_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (count) {
    TW_ASSIGN(outcome.counters, emulator_counters());
  }
  TW_TRY(write_outputs(flags.outputs, input.problem, input.sizes, outcome.outputs));

  if (flags.check) {
    progress.set_label("computing the fp64 reference");
    TW_ASSIGN(outcome.verdict, verify(input.problem, input.sizes, input.tensors, outcome.outputs));
  }
  return outcome;
}

Json comparison_json(const reference::Comparison& comparison) {
  return Json::object({{"ok", comparison.ok},
                       {"error", comparison.max_error},
                       {"bound", comparison.max_error_limit},
                       {"worst_element", Json::object({{"index", comparison.worst_index},
                                                       {"ratio", comparison.worst_ratio},
                                                       {"bound", comparison.bound_there}})},
                       {"plain_error", comparison.plain_max_error},
                       {"mean_error", comparison.mean_error},
                       {"capped_elements", comparison.capped_elements},
                       {"detail", comparison.detail}});
}

// What is computed of the grid of tiles, and what it holds.
std::string schedule_text(const Schedule& schedule) {
  const ScheduleLayout& layout = schedule.layout;
  const int64_t lists = layout.num_batches * layout.num_heads;
  return fmt::format(
      "{} of {} tiles of {}x{} ({} full, {} partial, {} patterns), {} visible "
      "pairs{}, {}",
      schedule.live_tiles(), schedule.grid_tiles, layout.tile_m, layout.tile_n, schedule.full_tiles,
      schedule.partial_tiles, schedule.num_patterns, schedule.visible_pairs,
      lists == 1 ? "" : fmt::format(" in {} lists", lists), bytes_text(layout.num_bytes));
}

Json schedule_json(const Schedule& schedule) {
  const ScheduleLayout& layout = schedule.layout;
  return Json::object({{"tile_m", layout.tile_m},
                       {"tile_n", layout.tile_n},
                       {"lists", layout.num_batches * layout.num_heads},
                       {"grid_tiles", schedule.grid_tiles},
                       {"full_tiles", schedule.full_tiles},
                       {"partial_tiles", schedule.partial_tiles},
                       {"patterns", schedule.num_patterns},
                       {"visible_pairs", schedule.visible_pairs},
                       {"bytes", layout.num_bytes}});
}

Json as_json(const RunFlags& flags, const RunOutcome& outcome) {
  const LaunchPlan& plan = outcome.outputs.plan;
  const auto dims = [](const Dim3& dim) {
    return Json::array().push(dim.x).push(dim.y).push(dim.z);
  };
  Json entries = Json::array();
  for (const KernelEntry& entry : outcome.kernel->entries()) {
    Json object = resources_json(entry.resources);
    object.set("name", entry.name);
    entries.push(std::move(object));
  }
  Json steps = Json::array();
  for (const LaunchStep& step : plan.steps) {
    steps.push(Json::object({{"entry", step.entry},
                             {"grid", dims(step.grid)},
                             {"block", dims(step.block)},
                             {"cluster", dims(step.cluster)},
                             {"shared_bytes", step.shared_bytes}}));
  }
  Json notes = Json::array();
  for (const std::string& note : outcome.input.notes) notes.push(note);
  Json json = Json::object({{"problem", outcome.input.problem.to_string()},
                            {"device", Json::object({{"name", outcome.device.name},
                                                     {"target", outcome.device.target},
                                                     {"simulated", outcome.device.simulated}})},
                            {"config", outcome.kernel->config_text()},
                            {"provenance", outcome.kernel->provenance()},
                            {"origin", origin_name(outcome.kernel->origin())},
                            {"compiles", outcome.cache.compiled},
                            {"compile_seconds", outcome.kernel->compile_seconds()},
                            {"entries", std::move(entries)},
                            {"steps", std::move(steps)},
                            {"workspace_bytes", plan.workspace_bytes},
                            {"runs", flags.repeat},
                            {"host_seconds", outcome.host_seconds},
                            {"notes", std::move(notes)}});
  if (outcome.outputs.schedule) json.set("schedule", schedule_json(*outcome.outputs.schedule));
  for (const FileFlag& file : flags.outputs.flags()) {
    if (!file.path.empty()) json.set(std::string(file.flag.substr(2)), file.path);
  }
  if (outcome.verdict) {
    Json check = Json::object({{"ok", outcome.verdict->ok()}});
    for (const auto& [name, comparison] : outcome.verdict->outputs) {
      check.set(name, comparison_json(comparison));
    }
    json.set("check", std::move(check));
  }
  if (flags.counters) {
    Json counters = Json::object();
    for (const auto& [name, value] : outcome.counters) counters.set(name, value);
    json.set("counters", std::move(counters));
  }
  json.set("reproducer", outcome.reproducer);
  return json;
}

void add_check(Table& table, std::string name, const reference::Comparison& comparison) {
  const std::string verdict = comparison.ok
                                  ? coloured("ok", Colour::kGreen)
                                  : coloured("FAILED: " + comparison.detail, Colour::kRed);
  table.row({std::move(name),
             fmt::format("max error {:.3g}, bound {:.3g}; worst element at {:.3g} of its bound; {}",
                         comparison.max_error, comparison.max_error_limit, comparison.worst_ratio,
                         verdict)});
  if (comparison.capped_elements > 0) {
    table.row({"note", fmt::format("the bound proves nothing at {} {}: scores are too large for "
                                   "fp32",
                                   comparison.capped_elements,
                                   comparison.capped_elements == 1 ? "element" : "elements")});
  }
}

std::string as_text(const RunFlags& flags, const RunOutcome& outcome) {
  const Kernel& kernel = *outcome.kernel;
  const LaunchPlan& plan = outcome.outputs.plan;
  Table table;
  for (const std::string& note : outcome.input.notes) table.row({"note", note});
  table.row({"device", fmt::format("{}, {}", outcome.device.name, outcome.device.target)});
  table.row({"problem", outcome.input.problem.to_string()});
  table.row({"config", fmt::format("{} ({})", kernel.config_text(), kernel.provenance())});
  const std::string origin = kernel.origin() == BinaryOrigin::kCompiled
                                 ? "compiled in " + seconds_text(kernel.compile_seconds())
                                 : "from the cache";
  table.row({"kernel", fmt::format("{}, {} {}", origin, outcome.cache.compiled,
                                   outcome.cache.compiled == 1 ? "compile" : "compiles")});
  for (const LaunchStep& step : plan.steps) {
    table.row({"launch",
               fmt::format("{} on grid {}x{}x{}, {} threads, {} shared", step.entry, step.grid.x,
                           step.grid.y, step.grid.z, step.block.x * step.block.y * step.block.z,
                           bytes_text(step.shared_bytes))});
  }
  if (outcome.outputs.schedule) {
    table.row({"schedule", schedule_text(*outcome.outputs.schedule)});
  }
  if (plan.empty()) {
    table.row({"run", "nothing to compute"});
  } else {
    table.row(
        {"run",
         fmt::format(
             "{}{} of host time{}",
             flags.repeat > 1 ? fmt::format("{} bit-equal runs, ", flags.repeat) : std::string(),
             seconds_text(outcome.host_seconds), outcome.device.simulated ? " (emulation)" : "")});
  }
  for (const auto& [name, count] : outcome.counters) {
    table.row({"executed", fmt::format("{:>14}  {}", count, name)});
  }
  if (flags.counters && !outcome.device.simulated) {
    table.row({"executed", "only an emulated device counts instructions"});
  }
  if (outcome.verdict) {
    for (const auto& [name, comparison] : outcome.verdict->outputs) {
      add_check(table, "check " + name, comparison);
    }
  }
  for (const FileFlag& file : flags.outputs.flags()) {
    if (!file.path.empty()) table.row({"wrote", file.path});
  }
  table.row({"again", outcome.reproducer});
  return table.text();
}

void add_flags(ArgumentParser& parser, RunFlags& flags) {
  parser.text("problem", "TEXT", "what to compute; may be left out with --q, --k and --v",
              flags.problem);
  parser.flag("check", "compare with the fp64 reference", flags.check);
  parser.unsigned_integer("seed", "N", "of the random tensors (default 0)", flags.seed);
  parser.integer("repeat", "N", "runs, which must agree to the bit (default 1)", 1, 1000000,
                 flags.repeat);
  parser.flag("counters", "print the instructions an emulated device executed", flags.counters);
  add_device_flag(parser, flags.common);
  add_json_flag(parser, flags.common);
  parser.group("Files (.npy; float16, float32 to be rounded, uint16 for bf16, uint8 for fp8)");
  parser.text("q", "FILE", "queries [batch, seqlen, heads, dim], or as --problem's layout says",
              flags.files.q);
  parser.text("k", "FILE", "keys", flags.files.k);
  parser.text("v", "FILE", "values", flags.files.v);
  parser.text("dout", "FILE", "gradient of the output, for the pass backward", flags.files.dout);
  parser.text("blocks", "FILE",
              "of blocks=b: uint8 [q / b, k / b], or with batch and heads (else random)",
              flags.files.blocks);
  parser.text("documents", "FILE",
              "of documents: int32 [batch, seqlen_k], an id for each key (else random)",
              flags.files.documents);
  parser.text("out", "FILE", "write the output here", flags.outputs.out);
  parser.text("lse", "FILE", "write the log-sum-exp here, [batch, heads, seqlen] float32",
              flags.outputs.lse);
  parser.text("dq", "FILE", "write the gradient of the queries here", flags.outputs.dq);
  parser.text("dk", "FILE", "write the gradient of the keys here", flags.outputs.dk);
  parser.text("dv", "FILE", "write the gradient of the values here", flags.outputs.dv);
  add_runtime_flags(parser, flags.common);
  parser.example("tilewright run --check --problem \"b2 hq6 hkv2 q129 k257 qk80 v48 bf16 causal\"");
  parser.example("tilewright run --q q.npy --k k.npy --v v.npy --out o.npy");
}

}  // namespace

int run_run(Words words) {
  RunFlags flags;
  ArgumentParser parser("run",
                        "Computes attention of .npy files or seeded random tensors on a GPU, real "
                        "or emulated.");
  add_flags(parser, flags);
  if (const auto code = parser.parse_or_finish(words)) return *code;

  const Result<RunOutcome> outcome = execute(flags);
  if (!outcome.ok()) return report_error("run", outcome.error(), flags.common.json);
  if (flags.common.json) {
    print_json(as_json(flags, *outcome));
  } else {
    print_text(as_text(flags, *outcome));
  }
  return outcome->passed() ? kSuccess : kFailure;
}

}  // namespace tilewright::cli
