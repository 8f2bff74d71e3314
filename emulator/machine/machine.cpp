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
#include "emulator/machine/block.h"

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

void start_block(Block& block, Launch& launch, uint64_t linear, Worker& worker) {
  if (launch.request->settings.observers != ObserverLevel::kOff) {
    block.observer = make_memory_observer(launch, launch.shared_bytes);
  }
  block.start(launch, linear, worker.block_counts.data());
  ++worker.blocks;
}

// Runs one block, or the blocks of one cluster, to the end.
void run_group(std::vector<Block>& group, Board& board) {
  while (true) {
    bool progress = false;
    bool all_finished = true;
    for (Block& block : group) {
      if (block.is_finished()) continue;
      progress |= block.step();
      if (block.fault) {
        board.post(block.linear, std::move(*block.fault));
        return;
      }
      all_finished &= block.is_finished();
    }
    if (all_finished) return;
    if (progress) continue;
    for (Block& block : group) {
      if (block.is_finished()) continue;
      block.report_deadlock();
      board.post(block.linear, std::move(*block.fault));
      return;
    }
  }
}

void run_independent(Launch& launch, Worker& worker, std::atomic<uint64_t>& next, uint64_t count,
                     Board& board) {
  std::vector<Block> group(cluster_size(launch));
  while (true) {
    const uint64_t index = next.fetch_add(1);
    if (index >= count) return;
    for (uint32_t rank = 0; rank < group.size(); ++rank) {
      group[rank].cluster_rank = rank;
      start_block(group[rank], launch, block_of_cluster(launch, index, rank), worker);
    }
    if (board.is_moot(group[0].linear)) return;
    run_group(group, board);
    for (Block& block : group) board.keep_text(block);
  }
}

// All blocks that fit the device at once take turns; a finished one makes room for the next.
void run_communicating(Launch& launch, Worker& worker, Board& board) {
  const LaunchRequest& request = *launch.request;
  const int per_sm = std::max(
      1, blocks_per_sm(launch.kernel->attributes, launch.arch,
                       static_cast<uint32_t>(request.block.count()), request.dynamic_shared_bytes));
  const uint64_t total = request.grid.count();
  const uint64_t resident = std::min<uint64_t>(
      total, static_cast<uint64_t>(per_sm) * static_cast<uint64_t>(launch.arch.num_sms));
  std::vector<Block> blocks(resident);
  uint64_t next = 0;
  uint64_t finished = 0;
  uint64_t instructions = 0;
  const uint64_t limit = request.settings.instruction_limit;
  std::vector<bool> idle(resident, true);
  while (finished < total) {
    bool progress = false;
    for (size_t i = 0; i < resident; ++i) {
      Block& block = blocks[i];
      if (idle[i]) {
        if (next == total) continue;
        start_block(block, launch, next++, worker);
        idle[i] = false;
      }
      const uint64_t before = block.instructions;
      if (limit != 0) block.instruction_limit = before + (limit - std::min(limit, instructions));
      progress |= block.step();
      instructions += block.instructions - before;
      if (block.fault) {
        board.keep_text(block);
        return board.post(block.linear, std::move(*block.fault));
      }
      if (block.is_finished()) {
        board.keep_text(block);
        idle[i] = true;
        ++finished;
        progress = true;
      }
    }
    if (!progress) {
      for (size_t i = 0; i < resident; ++i) {
        if (idle[i]) continue;
        blocks[i].report_deadlock();
        return board.post(blocks[i].linear, std::move(*blocks[i].fault));
      }
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
  launch.request = &request;
  launch.kernel = &kernel;
  launch.arch = arch;
  launch.memory = &memory;
  launch.shared_base = arch.compute_capability() >= 90 ? 0x400 : 0;
  launch.shared_bytes = kernel.attributes.static_shared_bytes + request.dynamic_shared_bytes;
  launch.schedule = request.settings.schedule;
  launch.numerics = {request.settings.numerics, arch.compute_capability()};

  launch.parameters = memory.parameter_block();
  const Status copied =
      memory.copy_in(launch.parameters, request.parameters.data(), request.parameters.size());
  TW_CHECK(copied.ok(), "{} bytes of parameters", request.parameters.size());
  launch.parameter_bytes = request.parameters.data();
  if (request.settings.observers == ObserverLevel::kOff) memory.stop_tracking();
  launch.allocations = memory.snapshot();

  Board board;
  std::vector<Worker> workers;
  const uint64_t clusters = request.grid.count() / cluster_size(launch);
  if (kernel.attributes.communicates && cluster_size(launch) == 1) {
    workers.emplace_back(kernel);
    run_communicating(launch, workers[0], board);
  } else {
    const uint64_t wanted = kernel.attributes.communicates
                                ? 1
                                : static_cast<uint64_t>(std::max(1, request.settings.host_threads));
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
