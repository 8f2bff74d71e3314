// Random programs: every register and every byte of memory at the end as the slow execution has
// them. TILEWRIGHT_FUZZ_SECONDS lengthens the run from a seed of the clock's; TILEWRIGHT_FUZZ_SEED
// replays one program. A failure prints its seed and the first step after which the two differ.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/program.h"
#include "tests/emulator/slow_reference/scalar.h"

namespace tilewright::emulator::slow {
namespace {

constexpr int kThreads = 64;
constexpr int kWords = 4 * kBank + 2 * kScratch / 8;  // of a thread's state in memory

std::string transfer(bool load) {
  std::string all;
  const auto word = [&](int bits, int n, int index) {
    const std::string reg = register_name(bits, n);
    if (bits == 1) {
      return load ? fmt::format("ld.global.u32 %r9, [%state+{}];\nsetp.ne.u32 {}, %r9, 0;\n",
                                8 * index, reg)
                  : fmt::format("selp.u32 %r9, 1, 0, {};\nst.global.u32 [%state+{}], %r9;\n", reg,
                                8 * index);
    }
    return load ? fmt::format("ld.global.b{} {}, [%state+{}];\n", bits, reg, 8 * index)
                : fmt::format("st.global.b{} [%state+{}], {};\n", bits, 8 * index, reg);
  };
  int index = 0;
  for (const int bits : {16, 32, 64, 1}) {
    for (int n = 0; n < kBank; ++n) all += word(bits, n, index++);
  }
  for (const char* space : {"local", "shared"}) {
    for (int at = 0; at < kScratch; at += 8) {
      all += load ? fmt::format("ld.global.b64 %d9, [%state+{}];\nst.{}.b64 [%{}+{}], %d9;\n",
                                8 * index, space, space, at)
                  : fmt::format("ld.{}.b64 %d9, [%{}+{}];\nst.global.b64 [%state+{}], %d9;\n",
                                space, space, at, 8 * index);
      ++index;
    }
  }
  return all;
}

std::vector<uint64_t> to_words(const ThreadState& state) {
  std::vector<uint64_t> words;
  for (const auto* bank : {&state.narrow, &state.word, &state.wide, &state.flag}) {
    words.insert(words.end(), bank->begin(), bank->end());
  }
  for (const auto* memory : {&state.local, &state.shared}) {
    for (size_t at = 0; at < memory->size(); at += 8) {
      uint64_t word = 0;
      for (size_t i = 0; i < 8; ++i) word |= uint64_t{(*memory)[at + i]} << (8 * i);
      words.push_back(word);
    }
  }
  return words;
}

// Empty, or the first difference after `length` steps.
std::string difference_after(const RandomProgram& program, size_t length,
                             const std::vector<ThreadState>& initial) {
  test::Machine machine("sm_90a");
  const std::string text =
      ".visible .entry k(.param .u64 state)\n{\n" + register_declarations(10) +
      ".reg .b32 %shared;\n.reg .b64 %state, %local;\n.local .align 16 .b8 frame[32];\n"
      ".shared .align 16 .b8 window[2048];\nld.param.u64 %state, [state];\nmov.u32 %r0, %tid.x;\n" +
      fmt::format("mul.wide.u32 %d0, %r0, {};\n", kWords * 8) +
      "add.u64 %state, %state, %d0;\nmov.u64 %local, frame;\nmov.u32 %shared, window;\n"
      "shl.b32 %r0, %r0, 5;\nadd.u32 %shared, %shared, %r0;\n" +
      transfer(true) + program.text(length) + transfer(false) + "ret;\n}\n";
  auto loaded = machine.try_load(text);
  if (!loaded.ok()) return "does not load: " + loaded.error().to_string();
  if (machine.load(text) == nullptr) return "does not load";
  std::vector<uint64_t> words;
  for (const ThreadState& state : initial) {
    const auto own = to_words(state);
    words.insert(words.end(), own.begin(), own.end());
  }
  const DeviceAddress at = machine.upload(words);
  const LaunchOutcome outcome = machine.run("k", {1}, {kThreads}, test::Arguments().add(at));
  if (outcome.fault) return test::describe(outcome);
  const auto actual = machine.download<uint64_t>(at, words.size());
  for (size_t thread = 0; thread < initial.size(); ++thread) {
    ThreadState state = initial[thread];
    program.execute(state, length);
    const auto expected = to_words(state);
    for (size_t i = 0; i < expected.size(); ++i) {
      const uint64_t got = actual[thread * kWords + i];
      if (got == expected[i]) continue;
      static constexpr const char* kBanks[] = {"%h", "%r", "%d", "%p", "memory "};
      return fmt::format("thread {} {}{}: {:#x}, expected {:#x}", thread,
                         kBanks[std::min<size_t>(i / kBank, 4)], i % kBank, got, expected[i]);
    }
  }
  return "";
}

void check_seed(uint64_t seed) {
  Random random(seed);
  const RandomProgram program = RandomProgram::make(random, 20 + static_cast<int>(random() % 60));
  std::vector<ThreadState> initial;
  for (int i = 0; i < kThreads; ++i) initial.push_back(random_thread(random));
  const size_t length = program.steps.size();
  const std::string whole = difference_after(program, length, initial);
  if (whole.empty()) return;
  size_t first = 1;
  std::string found;
  while (first < length && (found = difference_after(program, first, initial)).empty()) ++first;
  ADD_FAILURE() << "TILEWRIGHT_FUZZ_SEED=" << seed << ": after step " << first << " of " << length
                << "\n"
                << program.steps[first - 1].text() << (found.empty() ? whole : found);
}

TEST(SlowReferenceFuzz, RandomPrograms) {
  if (const char* const seed = std::getenv("TILEWRIGHT_FUZZ_SEED")) {
    check_seed(std::strtoull(seed, nullptr, 0));
    return;
  }
  const char* const seconds = std::getenv("TILEWRIGHT_FUZZ_SECONDS");
  const std::chrono::duration<double> limit(seconds != nullptr ? std::atof(seconds) : 0);
  const auto start = std::chrono::steady_clock::now();
  uint64_t seed = seconds != nullptr ? static_cast<uint64_t>(start.time_since_epoch().count()) : 1;
  std::cout << "first seed " << seed << "\n";
  uint64_t count = 0;
  while (seconds != nullptr ? std::chrono::steady_clock::now() - start < limit : count < 300) {
    check_seed(seed++);
    ++count;
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  std::cout << count << " programs\n";
}

}  // namespace
}  // namespace tilewright::emulator::slow
