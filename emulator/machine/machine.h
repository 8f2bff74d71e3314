// Runs a kernel of a LoadedModule on the emulated device: launch checks, blocks over host threads,
// seeded schedules, faults. A launch either completes or ends in one FaultReport; it never crashes
// or hangs the host. Same seed, same result, whatever the number of host threads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/arch.h"
#include "emulator/instructions/mma.h"
#include "emulator/machine/memory.h"
#include "emulator/machine/program.h"
#include "tilewright/result.h"

namespace tilewright::emulator {

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;
  uint64_t count() const { return uint64_t{x} * y * z; }
  bool operator==(const Dim3&) const = default;
};

// When asynchronous work lands: at once; as late as the program allows; anywhere legal by the seed.
enum class Schedule : uint8_t { kEager, kLazy, kRandom };
// How matrix instructions sum (instructions/mma.h).
using MatrixNumerics = Numerics;
enum class ObserverLevel : uint8_t { kOff, kMemory, kFull };

struct LaunchSettings {
  Schedule schedule = Schedule::kEager;
  uint64_t seed = 0;
  ObserverLevel observers = ObserverLevel::kOff;
  MatrixNumerics numerics = MatrixNumerics::kHardware;
  int host_threads = 1;
  // Warp instructions of one block (of all blocks together, for a kernel whose blocks communicate)
  // after which it is reported as endless; 0 = no limit.
  uint64_t instruction_limit = 0;
  // Where vprintf's text goes, block by block in order, when the launch ends. Null: dropped.
  std::function<void(std::string_view)> print;
};

struct LaunchRequest {
  const LoadedModule* module = nullptr;
  int kernel = -1;
  Dim3 grid;
  Dim3 block;
  Dim3 cluster;
  uint32_t dynamic_shared_bytes = 0;
  std::span<const std::byte> parameters;  // packed block of KernelAttributes::parameter_bytes
  LaunchSettings settings;
};

enum class FaultKind : uint8_t {
  kOutOfBounds,  // no live allocation, or beyond a shared/local/parameter window
  kUseAfterFree,
  kMisaligned,
  kReadOnly,           // a write to .const or parameter memory
  kUninitialisedRead,  // memory or a register never written
  kDivergent,          // an .aligned or .sync instruction reached by the wrong lanes
  kBarrier,            // barrier misuse: bad number, bad thread count, mixed forms
  kDeadlock,
  kInstructionLimit,
  kTrap,
  kAssert,
  kIllegalInstruction,  // bad branch index, call of a non-function, …
  kAsynchronous,        // asynchronous copy misuse
  kMbarrier,
  kRace,        // accesses to shared memory that nothing orders
  kProxy,       // a missing fence.proxy.async
  kRegisters,   // registers of a wgmma touched in flight or without wgmma.fence
  kDescriptor,  // a bad wgmma descriptor or tensor map
  kCount,
};
std::string_view to_string(FaultKind kind);

struct FaultReport {
  FaultKind kind = FaultKind::kTrap;
  std::string message{};  // one sentence: what happened, with the values
  std::string kernel{};
  std::string instruction{};  // its PTX text, where known
  uint32_t ptx_line = 0;
  std::string cuda_file{};  // from .loc, empty without
  uint32_t cuda_line = 0;
  Dim3 block{0, 0, 0};
  Dim3 thread{0, 0, 0};
  uint64_t address = 0;
  std::string other_party{};  // the other thread or instruction, where there is one

  // Several lines for people.
  std::string to_string() const;
};

// Executed instructions by opcode name ("add", "mma", …).
struct OpcodeCount {
  uint64_t warp_level = 0;    // issues of a group of lanes
  uint64_t thread_level = 0;  // the same, times its lanes
};
struct Counters {
  std::map<std::string, OpcodeCount, std::less<>> opcodes;
  uint64_t warp_instructions = 0;
  uint64_t blocks = 0;
};

struct LaunchOutcome {
  std::optional<FaultReport> fault;
  Counters counters;
};

// Blocks of this kernel that one SM of `arch` holds (CUDA C++ Programming Guide, compute
// capabilities); 0 if none fits.
int blocks_per_sm(const KernelAttributes& kernel, const Arch& arch, uint32_t threads_per_block,
                  uint32_t dynamic_shared_bytes);

// kInvalidArgument, with the limit and the value, for a launch that a driver refuses before
// anything runs. An empty grid is refused; the caller decides on max dynamic shared opt-in.
Status check_launch(const LaunchRequest& request, const Arch& arch);

// Runs to the end. Precondition: check_launch passed; `memory` is the module's. Synchronous;
// launches on one DeviceMemory must not overlap.
LaunchOutcome run_launch(const LaunchRequest& request, const Arch& arch, DeviceMemory& memory);

struct OverlappedOutcome {
  LaunchOutcome primary, dependent;
};

// Two launches of which the second, a programmatic dependent of the first, may start once every
// block of the first has executed griddepcontrol.launch_dependents or has ended; its
// griddepcontrol.wait waits for the first to end. Under `eager` the first ends before the second
// starts; under `lazy` the second goes as far as it can before the first goes on; under `random`
// they take turns. A dependent cluster starts only where the first leaves room. One host thread. A
// fault in either ends both.
OverlappedOutcome run_overlapped(const LaunchRequest& primary, const LaunchRequest& dependent,
                                 const Arch& arch, DeviceMemory& memory);

}  // namespace tilewright::emulator
