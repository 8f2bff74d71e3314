// run_launch: blocks over host threads, or, where blocks may wait for one another, all resident
// blocks in model order on one thread.
#include "emulator/machine/machine.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "core/check.h"
#include "emulator/machine/cluster.h"

namespace tilewright::emulator {
namespace {

// What comes out of blocks. Faults: the one reported is that of the first block, whatever thread
// found one first.
class Board {
 public:
  void post(uint64_t block, FaultReport report) {
    const std::lock_guard lock(mutex_);
    if (block < first_.load()) {
      first_ = block;
      report_ = std::move(report);
    }
  }
  // What a block printed, kept to be handed out in block order.
  void keep_text(Block& block) {
    if (block.printed.empty()) return;
    const std::lock_guard lock(mutex_);
    texts_[block.linear] = std::move(block.printed);
  }
  void print(const LaunchSettings& settings) const {
    if (!settings.print) return;
    for (const auto& [block, text] : texts_) settings.print(text);
  }
  // Blocks above the first faulty one need not run.
  bool is_moot(uint64_t block) const { return block > first_.load(); }
  std::optional<FaultReport> take() { return std::move(report_); }

 private:
  std::mutex mutex_;
  std::atomic<uint64_t> first_{UINT64_MAX};
  std::optional<FaultReport> report_;
  std::map<uint64_t, std::string> texts_;
};

uint64_t cluster_size(const Launch& launch) { return launch.request->cluster.count(); }

// The grid's index of member `rank` of cluster `cluster`.
uint64_t block_of_cluster(const Launch& launch, uint64_t cluster, uint32_t rank) {
  const Dim3& size = launch.request->cluster;
  const Dim3& grid = launch.request->grid;
  const uint64_t wide = grid.x / size.x;
  const uint64_t high = grid.y / size.y;
  const uint64_t x = cluster % wide * size.x + rank % size.x;
  const uint64_t y = cluster / wide % high * size.y + rank / size.x % size.y;
  const uint64_t z = cluster / wide / high * size.z + rank / size.x / size.y;
  return x + grid.x * (y + grid.y * z);
}

struct Worker {
  std::vector<uint64_t> block_counts;
  uint64_t blocks = 0;
  explicit Worker(const KernelCode& kernel) : block_counts(2 * kernel.blocks.size()) {}
};

// The blocks of one cluster, which run together; without clusters one block.
struct Unit {
  Cluster cluster;
  std::vector<Block> blocks;
  bool is_idle = true;
};

void start_unit(Unit& unit, Launch& launch, uint64_t index, Worker& worker) {
  unit.is_idle = false;
  unit.cluster.blocks.clear();
  for (Block& block : unit.blocks) unit.cluster.blocks.push_back(&block);
  for (uint32_t rank = 0; rank < unit.blocks.size(); ++rank) {
    Block& block = unit.blocks[rank];
    block.cluster = &unit.cluster;
    block.cluster_rank = rank;
    if (launch.request->settings.observers != ObserverLevel::kOff) {
      block.observer = make_memory_observer(launch, launch.shared_bytes);
    }
    block.start(launch, block_of_cluster(launch, index, rank), worker.block_counts.data());
    ++worker.blocks;
  }
  start_cluster(unit.cluster, unit.blocks[0].random.next());
}

enum class UnitState : uint8_t { kRunning, kBlocked, kFinished, kFaulted };

UnitState fail(Unit& unit, Board& board) {
  for (Block& block : unit.blocks) {
    board.keep_text(block);
    if (block.fault) board.post(block.linear, std::move(*block.fault));
  }
  return UnitState::kFaulted;
}

bool has_fault(const Unit& unit) {
  return std::any_of(unit.blocks.begin(), unit.blocks.end(),
                     [](const Block& block) { return block.fault.has_value(); });
}

// One turn of every block.
UnitState step_unit(Unit& unit, Board& board) {
  bool progress = false;
  bool all_finished = true;
  for (Block& block : unit.blocks) {
    if (block.is_finished()) continue;
    progress |= block.step();
    if (has_fault(unit)) return fail(unit, board);
    if (!block.is_finished()) {
      all_finished = false;
    } else if (!finish_block(block)) {
      return fail(unit, board);
    }
  }
  if (!all_finished) return progress ? UnitState::kRunning : UnitState::kBlocked;
  for (Block& block : unit.blocks) board.keep_text(block);
  unit.is_idle = true;
  return UnitState::kFinished;
}

void report_deadlock(Unit& unit, Board& board) {
  for (Block& block : unit.blocks) {
    if (block.is_finished()) continue;
    block.report_deadlock();
    fail(unit, board);
    return;
  }
}

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

// All clusters that fit the device at once take turns; a finished one makes room for the next.
void run_communicating(Launch& launch, Worker& worker, Board& board) {
  const LaunchRequest& request = *launch.request;
  const int per_sm = std::max(
      1, blocks_per_sm(launch.kernel->attributes, launch.arch,
                       static_cast<uint32_t>(request.block.count()), request.dynamic_shared_bytes));
  const uint64_t size = cluster_size(launch);
  const uint64_t total = request.grid.count() / size;
  const uint64_t fit = static_cast<uint64_t>(per_sm) * static_cast<uint64_t>(launch.arch.num_sms);
  std::vector<Unit> units(std::min<uint64_t>(total, std::max<uint64_t>(fit / size, 1)));
  for (Unit& unit : units) unit.blocks = std::vector<Block>(size);
  uint64_t next = 0;
  uint64_t finished = 0;
  uint64_t instructions = 0;
  const uint64_t limit = request.settings.instruction_limit;
  while (finished < total) {
    bool progress = false;
    for (Unit& unit : units) {
      if (unit.is_idle) {
        if (next == total) continue;
        start_unit(unit, launch, next++, worker);
      }
      uint64_t before = 0;
      for (Block& block : unit.blocks) {
        before += block.instructions;
        if (limit != 0) {
          block.instruction_limit = block.instructions + (limit - std::min(limit, instructions));
        }
      }
      const UnitState state = step_unit(unit, board);
      if (state == UnitState::kFaulted) return;
      for (const Block& block : unit.blocks) instructions += block.instructions;
      instructions -= before;
      finished += state == UnitState::kFinished ? 1 : 0;
      progress |= state != UnitState::kBlocked;
    }
    if (progress) continue;
    for (Unit& unit : units) progress |= !unit.is_idle && unblock_cluster(unit.cluster);
    if (progress) continue;
    for (Unit& unit : units) {
      if (!unit.is_idle) return report_deadlock(unit, board);
    }
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

}  // namespace

LaunchOutcome run_launch(const LaunchRequest& request, const Arch& arch, DeviceMemory& memory) {
  const KernelCode& kernel =
      *request.module->program().kernels[static_cast<size_t>(request.kernel)];
  LaunchOutcome outcome;
  Launch launch;
  TensorMapEdits map_edits;
  launch.map_edits = &map_edits;
  launch.request = &request;
  launch.kernel = &kernel;
  launch.arch = arch;
  launch.memory = &memory;
  launch.shared_base = arch.compute_capability() >= 90 ? 0x400 : 0;
  launch.shared_bytes = kernel.attributes.static_shared_bytes + request.dynamic_shared_bytes;
  launch.schedule = request.settings.schedule;
  launch.numerics = {request.settings.numerics, arch.compute_capability()};

  launch.parameters = memory.parameter_block() + kernel.attributes.parameter_base;
  const Status copied =
      memory.copy_in(launch.parameters, request.parameters.data(), request.parameters.size());
  TW_CHECK(copied.ok(), "{} bytes of parameters", request.parameters.size());
  launch.parameter_bytes = request.parameters.data();
  if (request.settings.observers == ObserverLevel::kOff) memory.stop_tracking();
  launch.allocations = memory.snapshot();

  Board board;
  std::vector<Worker> workers;
  const uint64_t clusters = request.grid.count() / cluster_size(launch);
  if (kernel.attributes.communicates) {
    workers.emplace_back(kernel);
    run_communicating(launch, workers[0], board);
  } else {
    const auto wanted = static_cast<uint64_t>(std::max(1, request.settings.host_threads));
    const auto threads = static_cast<size_t>(std::min(wanted, clusters));
    launch.parallel = threads > 1;
    for (size_t i = 0; i < threads; ++i) workers.emplace_back(kernel);
    std::atomic<uint64_t> next{0};
    std::vector<std::thread> pool;
    for (size_t i = 1; i < threads; ++i) {
      pool.emplace_back([&, i] { run_independent(launch, workers[i], next, clusters, board); });
    }
    run_independent(launch, workers[0], next, clusters, board);
    for (std::thread& thread : pool) thread.join();
  }
  outcome.counters = collect(kernel, workers);
  board.print(request.settings);
  outcome.fault = board.take();
  return outcome;
}

}  // namespace tilewright::emulator
