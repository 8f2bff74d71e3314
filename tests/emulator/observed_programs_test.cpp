// Runs the table of observed programs under every schedule.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/emulator/machine_support.h"
#include "tests/emulator/observed_programs.h"

namespace tilewright::emulator::test {

std::string observed_text(const ObservedProgram& program, std::string_view body) {
  return std::string(program.declarations) + R"(
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 freed)
{
  .reg .pred %p<8>; .reg .b32 %r<64>; .reg .b64 %rd<32>; .reg .f32 %f<64>; .reg .b16 %rs<8>;
  .shared .align 1024 .b8 tile[8192];
  .shared .align 8 .b8 bar[64];
  .local .align 8 .b8 depot[64];
  ld.param.u64 %rd1, [a];
  ld.param.u64 %rd2, [b];
  ld.param.u64 %rd3, [freed];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  mov.u32 %r3, bar;
  shl.b32 %r4, %r1, 2;
  xor.b32 %r5, %r4, 128;
  xor.b32 %r6, %r4, 4;
  add.u32 %r4, %r4, %r2;
  add.u32 %r5, %r5, %r2;
  add.u32 %r6, %r6, %r2;
  setp.eq.u32 %p1, %r1, 0;
  setp.lt.u32 %p2, %r1, 32;
  mul.wide.u32 %rd6, %r1, 4;
  add.s64 %rd4, %rd1, %rd6;
  add.s64 %rd5, %rd2, %rd6;
)" + std::string(body) +
         "  ret;\n}\n";
}

std::vector<ObservedProgram> observed_programs() {
  std::vector<ObservedProgram> all;
  for (auto* part : {memory_programs, control_programs, async_programs, race_programs,
                     proxy_programs, wgmma_programs}) {
    for (ObservedProgram& program : part()) all.push_back(std::move(program));
  }
  return all;
}

void PrintTo(const ObservedProgram& program, std::ostream* stream) { *stream << program.name; }

namespace {

LaunchOutcome run(const ObservedProgram& program, const std::string& text,
                  LaunchSettings settings) {
  Machine machine("sm_90a");
  if (machine.load(text) == nullptr) return {};
  const DeviceAddress a = machine.upload(std::vector<float>(1024, 1.0f));
  const DeviceAddress b = machine.allocate(4096);
  const DeviceAddress freed = machine.upload(std::vector<float>(64, 1.0f));
  EXPECT_TRUE(machine.memory().release(freed).ok());
  Arguments arguments;
  arguments.add(a).add(b).add(freed);
  settings.instruction_limit = 100'000;
  return machine.run("k", {program.cluster}, {program.threads}, arguments, settings, 0,
                     {program.cluster});
}

std::vector<uint32_t> marked_lines(const std::string& text, std::string_view mark) {
  std::vector<uint32_t> lines;
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
    lines.push_back(4 + static_cast<uint32_t>(std::count(
                            text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n')));
  }
  return lines;
}

class Observed : public testing::TestWithParam<ObservedProgram> {};

TEST_P(Observed, ReportedAtItsLine) {
  const ObservedProgram& program = GetParam();
  const std::string text = observed_text(program, program.faulty);
  std::vector<uint32_t> lines = marked_lines(text, "//!");
  const bool has_parties = lines.size() > 1;
  for (const uint32_t line : marked_lines(text, "//?")) lines.push_back(line);
  ASSERT_FALSE(lines.empty());
  under_every_schedule([&](LaunchSettings settings) {
    for (const ObserverLevel level : {ObserverLevel::kMemory, ObserverLevel::kFull}) {
      if (level < program.least) continue;
      settings.observers = level;
      const LaunchOutcome outcome = run(program, text, settings);
      ASSERT_TRUE(outcome.fault) << "schedule " << static_cast<int>(settings.schedule) << " seed "
                                 << settings.seed << " level " << static_cast<int>(level);
      EXPECT_EQ(to_string(outcome.fault->kind), to_string(program.kind)) << describe(outcome);
      EXPECT_TRUE(std::count(lines.begin(), lines.end(), outcome.fault->ptx_line) != 0)
          << describe(outcome);
      EXPECT_EQ(outcome.fault->kernel, "k");
      EXPECT_NE(describe(outcome).find(program.says), std::string::npos) << describe(outcome);
      if (!has_parties) continue;
      const bool names_other = std::any_of(lines.begin(), lines.end(), [&](uint32_t line) {
        return outcome.fault->other_party.find("line " + std::to_string(line)) != std::string::npos;
      });
      EXPECT_TRUE(names_other) << describe(outcome);
      EXPECT_NE(outcome.fault->other_party.find("thread ("), std::string::npos)
          << describe(outcome);
    }
  });
}

TEST_P(Observed, ItsTwinIsSilent) {
  const ObservedProgram& program = GetParam();
  ASSERT_NE(program.twin, program.faulty);
  const std::string text = observed_text(program, program.twin);
  under_every_schedule([&](LaunchSettings settings) {
    for (const ObserverLevel level : {ObserverLevel::kMemory, ObserverLevel::kFull}) {
      settings.observers = level;
      const LaunchOutcome outcome = run(program, text, settings);
      ASSERT_FALSE(outcome.fault) << describe(outcome) << "\nschedule "
                                  << static_cast<int>(settings.schedule) << " seed "
                                  << settings.seed << " level " << static_cast<int>(level);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, Observed, testing::ValuesIn(observed_programs()),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(ObservedKinds, EachHasThreeProgramsAndTwins) {
  std::map<FaultKind, int> count;
  for (const ObservedProgram& program : observed_programs()) ++count[program.kind];
  for (int kind = 0; kind < static_cast<int>(FaultKind::kCount); ++kind) {
    EXPECT_GE(count[static_cast<FaultKind>(kind)], 3) << to_string(static_cast<FaultKind>(kind));
  }
}

}  // namespace
}  // namespace tilewright::emulator::test
