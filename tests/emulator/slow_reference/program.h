// Random straight-line programs over the scalar, load and store tuples, with guards and forward
// branches, and their slow execution.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/emulator/slow_reference/assembly.h"
#include "tests/emulator/slow_reference/values.h"

namespace tilewright::emulator::slow {

constexpr int kBank = 8;      // registers of each width
constexpr int kScratch = 32;  // bytes of local and of shared memory per thread

// One thread's registers and memory.
struct ThreadState {
  std::array<uint64_t, kBank> narrow{};  // %h
  std::array<uint64_t, kBank> word{};    // %r
  std::array<uint64_t, kBank> wide{};    // %d
  std::array<uint64_t, kBank> flag{};    // %p
  std::array<uint8_t, kScratch> local{};
  std::array<uint8_t, kScratch> shared{};
  bool operator==(const ThreadState&) const = default;
  uint64_t& at(int bits, int number);
};
ThreadState random_thread(Random& random);

struct OperandUse {
  int bits = 32;
  int number = 0;  // register of its bank
  bool constant = false;
  bool negated = false;
  uint64_t value = 0;  // of a constant
  ptx::Type type = ptx::Type::kNone;
};

struct Step {
  enum class Kind : uint8_t { kScalar, kLoad, kStore } kind = Kind::kScalar;
  const Tuple* tuple = nullptr;
  std::vector<OperandUse> destinations, sources;
  int guard = -1;  // predicate
  bool guard_negated = false;
  bool shared = false;  // memory
  int offset = 0;
  bool reads_carry = false;
  bool writes_carry = false;
  std::array<int, 2> carry_sources{};  // %r whose sum sets CC.CF before
  int carry_destination = 0;           // %r that takes CC.CF after
  int skip_to = -1;  // branch around the steps before this one, if predicate `skip_if`
  int skip_if = 0;

  std::string text() const;
  void execute(ThreadState& state) const;
};

struct RandomProgram {
  std::vector<Step> steps;
  static RandomProgram make(Random& random, int length);
  // The first `length` steps.
  std::string text(size_t length) const;
  void execute(ThreadState& state, size_t length) const;
};

}  // namespace tilewright::emulator::slow
