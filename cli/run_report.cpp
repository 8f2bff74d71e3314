#include "cli/run_report.h"

#include "cli/console.h"
#include "core/check.h"
#include "core/text.h"

namespace tilewright::cli {
namespace {

Json comparison_json(const reference::Comparison& comparison) {
  return Json::object({{"ok", comparison.ok},
                       {"comparable", comparison.comparable},
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

void add_check(Table& table, std::string name, const reference::Comparison& comparison) {
  if (!comparison.comparable) {
    table.row({std::move(name), coloured("NOT CHECKED: " + comparison.detail, Colour::kRed)});
    return;
  }
  const std::string verdict = comparison.ok
                                  ? coloured("ok", Colour::kGreen)
                                  : coloured("FAILED: " + comparison.detail, Colour::kRed);
  table.row({std::move(name),
             fmt::format("max error {:.3g}, bound {:.3g}; worst element at {:.3g} of its bound; {}",
                         comparison.max_error, comparison.max_error_limit, comparison.worst_ratio,
                         verdict)});
  if (comparison.capped_elements > 0) {
    table.row({"note", fmt::format("the bound proves nothing at {} {}: numbers are too large "
                                   "for fp32",
                                   comparison.capped_elements,
                                   comparison.capped_elements == 1 ? "element" : "elements")});
  }
}

}  // namespace

Json run_json(const RunFlags& flags, const RunOutcome& outcome) {
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
  Json not_finite = Json::object();
  for (const NotFinite& each : outcome.not_finite) {
    not_finite.set(std::string(each.name), each.count);
  }
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
                            {"notes", std::move(notes)},
                            {"not_finite", std::move(not_finite)}});
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

std::string run_text(const RunFlags& flags, const RunOutcome& outcome) {
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

}  // namespace tilewright::cli
