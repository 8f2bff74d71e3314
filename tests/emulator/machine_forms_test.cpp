// Everything that opcodes.def accepts either loads or is on the list of what is not built yet; and
// running any of it with arbitrary register contents never harms the host.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "emulator/machine/lane_tables.h"
#include "emulator/machine/scalar_kernels.h"
#include "tests/emulator/machine_support.h"
#include "tests/emulator/ptx_form_text.h"

namespace tilewright::emulator::test {
namespace {

// Not built, and rare in code that compilers emit.
bool is_rare(ptx::Opcode opcode, const ptx::Modifiers& modifiers) {
  const std::string_view name = ptx::to_string(opcode);
  if (name == "alloca" || name == "stacksave" || name == "stackrestore") return true;
  return (name == "cvta" || name == "isspacep") && modifiers.type() == ptx::Type::kU32;
}

TEST(Forms, EveryAcceptedFormLoadsAndRuns) {
  Machine machine("sm_90a");
  std::set<std::string> refused;
  int count = 0;
  for (int n = 0; n < ptx::kNumOpcodes; ++n) {
    const auto opcode = static_cast<ptx::Opcode>(n);
    for (const ptx::Form& form : ptx::forms(opcode)) {
      ptx::enumerate(form, [&](const ptx::Modifiers& modifiers, const std::string& mnemonic) {
        for (const bool with_optional : {false, true}) {
          const std::string line = ptx::spell_instruction(form, modifiers, mnemonic, with_optional);
          auto loaded = LoadedModule::load(ptx::wrap_in_module("sm_90a", line),
                                           {.file_name = "form.ptx", .arch = machine.arch()},
                                           machine.memory());
          ++count;
          if (!loaded.ok()) {
            if (is_rare(opcode, modifiers)) continue;
            refused.insert(line + "  -> " + loaded.error().message);
            continue;
          }
          LaunchRequest request;
          request.module = loaded->get();
          request.kernel = 0;
          request.block = {32};
          const std::vector<std::byte> parameters(request.module->kernel(0).parameter_bytes);
          request.parameters = parameters;
          request.settings.instruction_limit = 10'000;
          const Status status = check_launch(request, machine.arch());
          ASSERT_TRUE(status.ok()) << status.error().to_string();
          run_launch(request, machine.arch(), machine.memory());  // a fault is fine, a crash not
        }
      });
    }
  }
  EXPECT_GT(count, 1000);
  int shown = 0;
  for (const std::string& line : refused) {
    if (++shown < 20) ADD_FAILURE() << line;
  }
}

// The vector variants that this host can run.
std::vector<const LaneTable*> vector_tables() {
  std::vector<const LaneTable*> tables = {&lanes_plain::table()};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    tables.push_back(&lanes_avx2::table());
  }
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
    tables.push_back(&lanes_avx512::table());
  }
#endif
  return tables;
}

struct Lanes {
  alignas(64) uint64_t cells[32];
};

// Random bits, with the values that arithmetic finds hard among them.
Lanes random_lanes(std::mt19937_64& random, bool wide) {
  static constexpr uint32_t kHard[] = {0,           0x80000000u, 1,           0x80000001u,
                                       0x007fffffu, 0x00800000u, 0x7f800000u, 0xff800000u,
                                       0x7fc00000u, 0x7f7fffffu, 0x3f800000u, 0xffffffffu,
                                       0x477ff000u, 0x33000000u, 0xc3190000u, 31};
  Lanes lanes;
  for (int lane = 0; lane < 32; ++lane) {
    uint32_t words[2];
    for (uint32_t& word : words) {
      word =
          random() % 3 == 0 ? kHard[random() % std::size(kHard)] : static_cast<uint32_t>(random());
    }
    if (wide) {
      std::memcpy(&lanes.cells[lane], words, 8);
    } else {
      std::memcpy(reinterpret_cast<uint32_t*>(lanes.cells) + lane, words, 4);
    }
  }
  return lanes;
}

// Each vector kernel gives the bits of the lane-by-lane one. (Sources of a wide operation are read
// as narrow lanes, so one random block serves every width.)
TEST(Forms, VectorKernelsEqualScalarOnes) {
  std::mt19937_64 random(7);
  std::set<std::string> compared;
  for (int n = 0; n < ptx::kNumOpcodes; ++n) {
    const auto opcode = static_cast<ptx::Opcode>(n);
    for (const ptx::Form& form : ptx::forms(opcode)) {
      ptx::enumerate(form, [&](const ptx::Modifiers& m, const std::string& mnemonic) {
        KernelChoice scalar = opcode == ptx::Opcode::kCvt ? convert_scalar_kernel(opcode, m)
                                                          : integer_scalar_kernel(opcode, m);
        if (!scalar) scalar = float_scalar_kernel(opcode, m);
        if (!scalar) return;
        for (const LaneTable* table : vector_tables()) {
          const LaneKernel vector = table->kernel(opcode, m);
          if (vector == nullptr || opcode == ptx::Opcode::kLop3) continue;
          compared.insert(mnemonic);
          for (int round = 0; round < 20; ++round) {
            const Lanes a = random_lanes(random, round % 2 == 0);
            const Lanes b = random_lanes(random, round % 2 == 0);
            const Lanes c = random_lanes(random, round % 2 == 0);
            Lanes expected = {};
            Lanes actual = {};
            scalar.kernel(&expected, &a, &b, &c, scalar.options);
            vector(&actual, &a, &b, &c, 0);
            ASSERT_EQ(std::memcmp(&expected, &actual, sizeof expected), 0)
                << mnemonic << " in " << table->name;
          }
        }
      });
    }
  }
  EXPECT_GT(compared.size(), 100u);
}

}  // namespace
}  // namespace tilewright::emulator::test
