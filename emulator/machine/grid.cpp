#include "emulator/machine/grid.h"

#include <algorithm>

#include "core/check.h"

namespace tilewright::emulator {
namespace {

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

}  // namespace

void Board::post(uint64_t block, FaultReport report) {
  const std::lock_guard lock(mutex_);
  if (block < first_.load()) {
    first_ = block;
    report_ = std::move(report);
  }
}

void Board::keep_text(Block& block) {
  if (block.printed.empty()) return;
  const std::lock_guard lock(mutex_);
  texts_[block.linear] = std::move(block.printed);
}

void Board::print(const LaunchSettings& settings) const {
  if (!settings.print) return;
  for (const auto& [block, text] : texts_) settings.print(text);
}

uint64_t cluster_size(const Launch& launch) { return launch.request->cluster.count(); }

void start_unit(Unit& unit, Launch& launch, uint64_t index, Worker& worker) {
  unit.is_idle = false;
  const ObserverLevel level = launch.request->settings.observers;
  std::shared_ptr<ClusterWatch> watch;
  if (level == ObserverLevel::kFull) watch = make_cluster_watch(launch);
  unit.cluster.blocks.clear();
  for (Block& block : unit.blocks) unit.cluster.blocks.push_back(&block);
  for (uint32_t rank = 0; rank < unit.blocks.size(); ++rank) {
    Block& block = unit.blocks[rank];
    block.cluster = &unit.cluster;
    block.cluster_rank = rank;
    if (level == ObserverLevel::kFull) {
      block.observer = make_full_observer(launch, block, watch);
    } else if (level == ObserverLevel::kMemory) {
      block.observer = make_memory_observer(launch, block);
    }
    block.start(launch, block_of_cluster(launch, index, rank), worker.block_counts.data());
    ++worker.blocks;
  }
  start_cluster(unit.cluster, unit.blocks[0].random.next());
}

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

Grid::Grid(Launch& launch, Worker& worker, Board& board)
    : launch_(launch), worker_(worker), board_(board) {
  const LaunchRequest& request = *launch.request;
  const int per_sm = std::max(
      1, blocks_per_sm(launch.kernel->attributes, launch.arch,
                       static_cast<uint32_t>(request.block.count()), request.dynamic_shared_bytes));
  const uint64_t size = cluster_size(launch);
  total_ = request.grid.count() / size;
  const uint64_t fit = static_cast<uint64_t>(per_sm) * static_cast<uint64_t>(launch.arch.num_sms);
  capacity_ = std::max<uint64_t>(fit / size, 1);
  units_ = std::vector<Unit>(std::min<uint64_t>(total_, capacity_));
  for (Unit& unit : units_) unit.blocks = std::vector<Block>(size);
}

bool Grid::step(uint64_t most) {
  const uint64_t limit = launch_.request->settings.instruction_limit;
  bool progress = false;
  for (Unit& unit : units_) {
    if (unit.is_idle) {
      if (next_ == total_ || resident() >= most) continue;
      start_unit(unit, launch_, next_++, worker_);
    }
    uint64_t before = 0;
    for (Block& block : unit.blocks) {
      before += block.instructions;
      if (limit != 0) {
        block.instruction_limit = block.instructions + (limit - std::min(limit, instructions_));
      }
    }
    const UnitState state = step_unit(unit, board_);
    if (state == UnitState::kFaulted) return false;
    for (const Block& block : unit.blocks) instructions_ += block.instructions;
    instructions_ -= before;
    finished_ += state == UnitState::kFinished ? 1 : 0;
    progress |= state != UnitState::kBlocked;
  }
  return progress;
}

bool Grid::unblock() {
  bool progress = false;
  for (Unit& unit : units_) progress |= !unit.is_idle && unblock_cluster(unit.cluster);
  return progress;
}

void Grid::report_deadlock() {
  for (Unit& unit : units_) {
    if (!unit.is_idle) return emulator::report_deadlock(unit, board_);
  }
}

bool Grid::launches_dependents() const {
  if (next_ != total_) return false;
  return std::all_of(units_.begin(), units_.end(), [](const Unit& unit) {
    return unit.is_idle || std::all_of(unit.blocks.begin(), unit.blocks.end(), [](const Block& b) {
             return b.launches_dependents || b.is_finished();
           });
  });
}

void Grid::release_waiting() {
  launch_.waits_for_primary = false;
  for (Unit& unit : units_) {
    for (Block& block : unit.blocks) {
      for (Warp& warp : block.warps) {
        for (LaneGroup& group : warp.parked) {
          if (group.state == GroupState::kAtGrid) group.state = GroupState::kReady;
        }
      }
    }
    ++unit.cluster.events;
  }
}

}  // namespace tilewright::emulator
