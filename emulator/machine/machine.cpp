// run_launch: blocks over host threads, or, where blocks may wait for one another, all resident
// blocks in model order on one thread; run_overlapped: two launches side by side.
#include "emulator/machine/machine.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "core/check.h"
#include "emulator/machine/grid.h"

namespace tilewright::emulator {
namespace {

// Turns that a dependent grid takes, at most, before its primary takes one.
constexpr int kEarlyTurns = 256;

// Runs the blocks of one cluster to the end.
void run_unit(Unit& unit, Board& board) {
  while (true) {
    const UnitState state = step_unit(unit, board);
    if (state == UnitState::kFinished || state == UnitState::kFaulted) return;
    if (state == UnitState::kRunning || unblock_cluster(unit.cluster)) continue;
    return report_deadlock(unit, board);
  }
}

void run_independent(Launch& launch, Worker& worker, std::atomic<uint64_t>& next, uint64_t count,
                     Board& board) {
  Unit unit;
  unit.blocks = std::vector<Block>(cluster_size(launch));
  while (true) {
    const uint64_t index = next.fetch_add(1);
    if (index >= count) return;
    start_unit(unit, launch, index, worker);
    if (board.is_moot(unit.blocks[0].linear)) return;
    run_unit(unit, board);
  }
}

void run_communicating(Launch& launch, Worker& worker, Board& board) {
  Grid grid(launch, worker, board);
  while (!grid.is_finished()) {
    if (grid.step()) continue;
    if (board.has_fault()) return;
    if (!grid.unblock()) return grid.report_deadlock();
  }
}

Counters collect(const KernelCode& kernel, const std::vector<Worker>& workers) {
  Counters counters;
  for (size_t b = 0; b < kernel.blocks.size(); ++b) {
    uint64_t entered = 0;
    uint64_t lanes = 0;
    for (const Worker& worker : workers) {
      entered += worker.block_counts[2 * b];
      lanes += worker.block_counts[2 * b + 1];
    }
    if (entered == 0) continue;
    const CodeBlock& block = kernel.blocks[b];
    const ptx::Function& function = *kernel.functions[kernel.block_function[b]].source;
    for (uint32_t i = block.first_source; i < block.first_source + block.count; ++i) {
      OpcodeCount& count =
          counters.opcodes[std::string(to_string(function.instructions[i].opcode))];
      count.warp_level += entered;
      count.thread_level += lanes;
    }
    counters.warp_instructions += entered * block.count;
  }
  for (const Worker& worker : workers) counters.blocks += worker.blocks;
  return counters;
}

// A launch, its parameters in block `number` of the device's.
struct Prepared {
  Launch launch;
  TensorMapEdits map_edits;
  Board board;

  Prepared(const LaunchRequest& request, const Arch& arch, DeviceMemory& memory, int number) {
    const KernelCode& kernel =
        *request.module->program().kernels[static_cast<size_t>(request.kernel)];
    launch.request = &request;
    launch.kernel = &kernel;
    launch.arch = arch;
    launch.memory = &memory;
    launch.shared_base = arch.compute_capability() >= 90 ? 0x400 : 0;
    launch.shared_bytes = kernel.attributes.static_shared_bytes + request.dynamic_shared_bytes;
    launch.schedule = request.settings.schedule;
    launch.numerics = {request.settings.numerics, arch.compute_capability()};
    launch.map_edits = &map_edits;
    launch.parameters = memory.parameter_block(number) + kernel.attributes.parameter_base;
    const Status copied =
        memory.copy_in(launch.parameters, request.parameters.data(), request.parameters.size());
    TW_CHECK(copied.ok(), "{} bytes of parameters", request.parameters.size());
    launch.parameter_bytes = request.parameters.data();
    if (request.settings.observers == ObserverLevel::kOff) memory.stop_tracking();
    launch.allocations = memory.snapshot();
  }

  LaunchOutcome outcome(const std::vector<Worker>& workers) {
    LaunchOutcome result;
    result.counters = collect(*launch.kernel, workers);
    board.print(launch.request->settings);
    result.fault = board.take();
    return result;
  }
};

}  // namespace

LaunchOutcome run_launch(const LaunchRequest& request, const Arch& arch, DeviceMemory& memory) {
  Prepared prepared(request, arch, memory, 0);
  Launch& launch = prepared.launch;
  const KernelCode& kernel = *launch.kernel;
  std::vector<Worker> workers;
  const uint64_t clusters = request.grid.count() / cluster_size(launch);
  if (kernel.attributes.communicates) {
    workers.emplace_back(kernel);
    run_communicating(launch, workers[0], prepared.board);
    return prepared.outcome(workers);
  }
  const auto wanted = static_cast<uint64_t>(std::max(1, request.settings.host_threads));
  const auto threads = static_cast<size_t>(std::min(wanted, clusters));
  launch.parallel = threads > 1;
  for (size_t i = 0; i < threads; ++i) workers.emplace_back(kernel);
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> pool;
  for (size_t i = 1; i < threads; ++i) {
    pool.emplace_back(
        [&, i] { run_independent(launch, workers[i], next, clusters, prepared.board); });
  }
  run_independent(launch, workers[0], next, clusters, prepared.board);
  for (std::thread& thread : pool) thread.join();
  return prepared.outcome(workers);
}

OverlappedOutcome run_overlapped(const LaunchRequest& primary, const LaunchRequest& dependent,
                                 const Arch& arch, DeviceMemory& memory) {
  const LaunchSettings& settings = dependent.settings;
  Random random(settings.seed);
  // Starting early is never promised.
  const bool starts_late = settings.schedule == Schedule::kEager ||
                           (settings.schedule == Schedule::kRandom && random.below(4) == 0);
  if (starts_late) {
    OverlappedOutcome outcome;
    outcome.primary = run_launch(primary, arch, memory);
    if (!outcome.primary.fault) outcome.dependent = run_launch(dependent, arch, memory);
    return outcome;
  }
  Prepared first(primary, arch, memory, 0);
  Prepared second(dependent, arch, memory, 1);
  std::vector<Worker> first_worker(1, Worker(*first.launch.kernel));
  std::vector<Worker> second_worker(1, Worker(*second.launch.kernel));
  second.launch.waits_for_primary = true;
  second.launch.grid_id = 2;
  Grid before(first.launch, first_worker[0], first.board);
  Grid after(second.launch, second_worker[0], second.board);
  const auto has_fault = [&] { return first.board.has_fault() || second.board.has_fault(); };
  // Clusters of the dependent grid that find room beside what is left of the primary.
  const auto room = [&] {
    const uint64_t left = before.capacity() - std::min(before.resident(), before.capacity());
    return after.capacity() * left / before.capacity();
  };
  while (!has_fault() && !(before.is_finished() && after.is_finished())) {
    bool progress = false;
    if (before.launches_dependents() && !after.is_finished()) {
      const bool lazy = settings.schedule == Schedule::kLazy;
      const auto drawn = static_cast<int>(random.below(3));
      const int turns = lazy ? kEarlyTurns : before.is_finished() ? 1 : drawn;
      for (int n = 0; n < turns && !has_fault() && after.step(room()); ++n) progress = true;
    }
    const bool holds_back = settings.schedule == Schedule::kRandom && random.below(2) == 0;
    if (!has_fault() && !before.is_finished() && !(holds_back && progress)) {
      progress |= before.step();
      if (before.is_finished()) {
        after.release_waiting();
        progress = true;
      }
    }
    if (progress || has_fault()) continue;
    progress = before.unblock();
    progress |= after.unblock();
    if (progress) continue;
    if (settings.schedule == Schedule::kRandom && after.step(room())) continue;
    if (has_fault()) break;
    (before.is_finished() ? after : before).report_deadlock();
  }
  return {first.outcome(first_worker), second.outcome(second_worker)};
}

}  // namespace tilewright::emulator
