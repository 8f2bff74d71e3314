// A kernel with a problem to run it on and the answer to compare with: what the tests run and what
// the mutants are made of. The PTX is given to the run, so that a mutant takes the same way.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/compile.h"
#include "tilewright/emulator.h"
#include "tilewright/result.h"

namespace tilewright::hopper_kernels {

struct Schedule {
  TwEmulatorSchedule kind = TW_EMULATOR_SCHEDULE_EAGER;
  uint64_t seed = 0;
};
// "eager", "lazy", "random:7".
std::string to_string(const Schedule& schedule);
Result<Schedule> parse_schedule(std::string_view text);

enum class Verdict {
  kRight,
  kWrong,     // ran to its end; some element is off, or bytes outside the output changed
  kReported,  // the emulator stopped it with a report
  kDeadlock,  // a report too: nobody can go on
  kEndless,   // stopped by the limit of instructions
  kRefused,   // did not load or launch
};
std::string_view to_string(Verdict verdict);

struct Outcome {
  Verdict verdict = Verdict::kRight;
  std::string detail = {};  // the report, or the first element that is off
};

// How far the ring's next slot is: its barrier of the same kind, and its tiles.
struct SlotLayout {
  int barrier_stride = 0;
  int slot_bytes = 0;
};

class Subject {
 public:
  virtual ~Subject() = default;
  virtual std::string name() const = 0;
  virtual SlotLayout layout() const = 0;
  // By NVRTC for sm_90a. kCompilerUnavailable where there is none.
  virtual Result<CompiledCode> compile() const = 0;
  // On an emulated H100 of its own, observers `full`.
  virtual Outcome run(const std::string& ptx, const Schedule& schedule) const = 0;
};

// Every subject, sorted by name. The reference answers are computed at the first run.
std::vector<std::unique_ptr<Subject>> all_subjects();

}  // namespace tilewright::hopper_kernels
