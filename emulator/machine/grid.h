// A launch in execution: its blocks cluster by cluster, and what they report, print and count.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "emulator/machine/cluster.h"
#include "emulator/machine/machine.h"

namespace tilewright::emulator {

// What comes out of blocks. Faults: the one reported is that of the first block, whatever thread
// found one first.
class Board {
 public:
  void post(uint64_t block, FaultReport report);
  // What a block printed, kept to be handed out in block order.
  void keep_text(Block& block);
  void print(const LaunchSettings& settings) const;
  // Blocks above the first faulty one need not run.
  bool is_moot(uint64_t block) const { return block > first_.load(); }
  bool has_fault() const { return first_.load() != UINT64_MAX; }
  std::optional<FaultReport> take() { return std::move(report_); }

 private:
  std::mutex mutex_;
  std::atomic<uint64_t> first_{UINT64_MAX};
  std::optional<FaultReport> report_;
  std::map<uint64_t, std::string> texts_;
};

// What one host thread counts.
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
enum class UnitState : uint8_t { kRunning, kBlocked, kFinished, kFaulted };

uint64_t cluster_size(const Launch& launch);
void start_unit(Unit& unit, Launch& launch, uint64_t index, Worker& worker);
// One turn of every block.
UnitState step_unit(Unit& unit, Board& board);
void report_deadlock(Unit& unit, Board& board);

// All clusters that fit the device at once take turns on one host thread, in order; a finished one
// makes room for the next.
class Grid {
 public:
  Grid(Launch& launch, Worker& worker, Board& board);
  // A turn of every resident cluster; new ones start while fewer than `most` are resident. False:
  // none could go on, or a fault.
  bool step(uint64_t most = UINT64_MAX);
  // Waits time out. False: nothing can go on any more.
  bool unblock();
  void report_deadlock();
  bool is_finished() const { return finished_ == total_; }
  uint64_t resident() const { return next_ - finished_; }
  uint64_t capacity() const { return capacity_; }

  // Every block has executed griddepcontrol.launch_dependents or has ended.
  bool launches_dependents() const;
  // The grid that griddepcontrol.wait waits for has ended.
  void release_waiting();

 private:
  Launch& launch_;
  Worker& worker_;
  Board& board_;
  uint64_t total_;
  uint64_t capacity_;
  std::vector<Unit> units_;
  uint64_t next_ = 0;
  uint64_t finished_ = 0;
  uint64_t instructions_ = 0;
};

}  // namespace tilewright::emulator
