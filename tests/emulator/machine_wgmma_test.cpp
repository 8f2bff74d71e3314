// wgmma in execution: products of every input type, accumulator, operand source and major, in a
// kernel and in a function that it calls, against a plain sum
// over the matrices, under every schedule; and mutants that lack a wait, touch registers in flight,
// or overwrite an operand too early.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

// ---- the ISA's layouts, written out for the test ----

struct Operand {
  int rows;
  bool mn_major;
  int swizzle;  // 0, 32, 64, 128
  uint32_t start;
};

// Shared address of element (row, k), k within `depth` columns of `bytes` each. K-major: rows of
// `swizzle` bytes in groups of 8 (without a swizzle: 8 × 16-byte matrices, k first). MN-major,
// 128B: rows of 64 elements along row, 8 k rows in 1024 bytes, further 64 rows behind all k.
uint32_t place(const Operand& o, int row, int k, int bytes, int depth) {
  const auto r = static_cast<uint32_t>(row);
  const auto c = static_cast<uint32_t>(k * bytes);
  uint32_t address = o.start;
  if (o.mn_major) {
    address +=
        (r / 64) * static_cast<uint32_t>(depth) * 128 + static_cast<uint32_t>(k) * 128 + r % 64 * 2;
  } else if (o.swizzle == 0) {
    address +=
        (r / 8) * static_cast<uint32_t>(depth * bytes) * 8 + (c / 16) * 128 + (r % 8) * 16 + c % 16;
  } else {
    address += r * static_cast<uint32_t>(o.swizzle) + c;
  }
  const uint32_t mask = o.swizzle == 128 ? 7 : o.swizzle == 64 ? 3 : o.swizzle == 32 ? 1 : 0;
  return address ^ ((address >> 7 & mask) << 4);
}

uint64_t descriptor(const Operand& o, int bytes, int depth) {
  uint64_t leading = 0;
  uint64_t stride = 0;
  if (o.mn_major) {
    leading = static_cast<uint64_t>(depth) * 128;
    stride = 1024;
  } else if (o.swizzle == 0) {
    leading = 128;
    stride = static_cast<uint64_t>(depth * bytes) * 8;
  } else {
    stride = static_cast<uint64_t>(o.swizzle) * 8;
  }
  const uint64_t layout = o.swizzle == 128 ? 1 : o.swizzle == 64 ? 2 : o.swizzle == 32 ? 3 : 0;
  return uint64_t{(o.start & 0x3ffff) >> 4} | leading >> 4 << 16 | stride >> 4 << 32 | layout << 62;
}

struct InputType {
  const char* name;
  int bytes;
};

// Small integers, exact in every type.
uint32_t encode(const InputType& type, int value) {
  const std::string name = type.name;
  if (name == "s8" || name == "u8") return static_cast<uint32_t>(value) & 0xff;
  const auto v = static_cast<float>(value);
  uint32_t bits;
  std::memcpy(&bits, &v, 4);
  if (value == 0) return 0;
  const uint32_t sign = bits >> 31;
  const int exponent = static_cast<int>(bits >> 23 & 0xff) - 127;
  const uint32_t fraction = bits & 0x7fffff;
  const auto pack = [&](int bias, int fraction_bits, int width) {
    return sign << (width - 1) | static_cast<uint32_t>(exponent + bias) << fraction_bits |
           fraction >> (23 - fraction_bits);
  };
  if (name == "f16") return pack(15, 10, 16);
  if (name == "bf16") return bits >> 16;
  if (name == "tf32") return bits;
  if (name == "e4m3") return pack(7, 3, 8);
  return pack(15, 2, 8);  // e5m2
}

constexpr int kN = 24;
constexpr uint32_t kSharedBytes = 24576;

struct Case {
  InputType type;
  int swizzle = 128;
  bool a_in_registers = false;
  bool a_mn = false, b_mn = false;
  int negate_a = 1, negate_b = 1;
  bool scale_d = false;  // of the first product
  const char* d = "f32";
  bool in_function = false;
};

std::string registers(const char* prefix, int count) {
  std::string list = "{";
  for (int i = 0; i < count; ++i) {
    list += (i == 0 ? "%" : ", %") + std::string(prefix) + std::to_string(i);
  }
  return list + "}";
}

// Accumulator registers per thread, and what they start as: 100 in every element.
int accumulators(const Case& c) { return std::string(c.d) == "f16" ? kN / 4 : kN / 2; }
uint32_t hundred(const Case& c) {
  return std::string(c.d) == "f16" ? 0x56405640 : std::string(c.d) == "s32" ? 100 : 0x42c80000;
}

int depth_of(const Case& c) { return 32 / c.type.bytes; }
constexpr int kSteps = 2;  // products in the chain, each over its own k range

Operand operand_a(const Case& c, int step) {
  const uint32_t base = 0x400 + static_cast<uint32_t>(step) * 8192;
  return {64, c.a_mn, c.a_mn ? 128 : c.swizzle, base};
}
Operand operand_b(const Case& c, int step) {
  const uint32_t base = 0x400 + 2 * 8192 + static_cast<uint32_t>(step) * 4096;
  return {kN, c.b_mn, c.b_mn ? 128 : c.swizzle, base};
}

constexpr std::string_view kRegisters =
    "  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .b32 %a<8>;\n";

// Thread %r1 multiplies: A registers come from %rd3, accumulators go to %rd2.
std::string multiply(const Case& c, std::string_view fence, std::string_view after_issue,
                     std::string_view wait) {
  const std::string k = std::to_string(depth_of(c));
  const int registers_d = accumulators(c);
  const bool is_integer = std::string(c.d) == "s32";
  std::string text = "  mul.wide.u32 %rd6, %r1, 32;\n  add.s64 %rd7, %rd3, %rd6;\n";
  for (int i = 0; i < 8; ++i) {
    text += "  ld.global.u32 %a" + std::to_string(i) + ", [%rd7+" + std::to_string(4 * i) + "];\n";
  }
  for (int i = 0; i < registers_d; ++i) {
    text += "  mov.b32 %d" + std::to_string(i) + ", " + std::to_string(hundred(c)) + ";\n";
  }
  text += fence;
  for (int step = 0; step < kSteps; ++step) {
    const auto number = [&](const Operand& o) {
      return std::to_string(descriptor(o, c.type.bytes, depth_of(c)));
    };
    std::string a;
    if (c.a_in_registers) {
      a = "{";
      for (int i = 0; i < 4; ++i) a += (i == 0 ? "%a" : ", %a") + std::to_string(4 * step + i);
      a += "}";
    } else {
      text += "  mov.u64 %rd8, " + number(operand_a(c, step)) + ";\n";
      a = "%rd8";
    }
    text += "  mov.u64 %rd9, " + number(operand_b(c, step)) + ";\n";
    text += "  wgmma.mma_async.sync.aligned.m64n" + std::to_string(kN) + "k" + k + "." + c.d + "." +
            c.type.name + "." + c.type.name + " " + registers("d", registers_d) + ", " + a +
            ", %rd9, " + (step > 0 || c.scale_d ? "1" : "0");
    if (!is_integer) {
      text += ", " + std::to_string(c.negate_a) + ", " + std::to_string(c.negate_b);
    }
    if (c.type.bytes == 2) {
      if (!c.a_in_registers) text += c.a_mn ? ", 1" : ", 0";
      text += c.b_mn ? ", 1" : ", 0";
    }
    text += ";\n";
  }
  text += "  wgmma.commit_group.sync.aligned;\n";
  text += after_issue;
  text += wait;
  text += "  mul.wide.u32 %rd10, %r1, " + std::to_string(4 * registers_d) +
          ";\n  add.s64 %rd11, %rd2, %rd10;\n";
  for (int i = 0; i < registers_d; ++i) {
    text += "  st.global.b32 [%rd11+" + std::to_string(4 * i) + "], %d" + std::to_string(i) + ";\n";
  }
  return text;
}

// 128 threads copy `image` to shared memory, multiply, and store the accumulators. `late`: what the
// kernel executes after the call of a function that multiplies.
std::string kernel(const Case& c, std::string_view fence, std::string_view after_issue,
                   std::string_view wait, std::string_view late = "") {
  const std::string body = multiply(c, fence, after_issue, wait);
  const std::string registers_d =
      std::string("  .reg .") + (std::string(c.d) == "f32" ? "f32" : "b32") + " %d<12>;\n";
  const std::string head = R"(
.visible .entry k(.param .u64 image, .param .u64 out, .param .u64 areg)
{
)" + std::string(kRegisters) +
                           registers_d + R"(
  .shared .align 1024 .b8 tile[24576];
  ld.param.u64 %rd1, [image];
  ld.param.u64 %rd2, [out];
  ld.param.u64 %rd3, [areg];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  shl.b32 %r3, %r1, 2;
  cvt.u64.u32 %rd4, %r3;
  add.s64 %rd5, %rd1, %rd4;
  add.u32 %r4, %r2, %r3;
  mov.u32 %r5, 0;
FILL:
  ld.global.u32 %r6, [%rd5];
  st.shared.u32 [%r4], %r6;
  add.s64 %rd5, %rd5, 512;
  add.u32 %r4, %r4, 512;
  add.u32 %r5, %r5, 1;
  setp.lt.u32 %p1, %r5, 48;
  @%p1 bra FILL;
  fence.proxy.async.shared::cta;
  bar.sync 0;
)";
  if (!c.in_function) return head + body + "  ret;\n}\n";
  return ".func product(.param .b64 to, .param .b64 from)\n{\n" + std::string(kRegisters) +
         registers_d +
         "  ld.param.b64 %rd2, [to];\n  ld.param.b64 %rd3, [from];\n  mov.u32 %r1, %tid.x;\n" +
         body + "  ret;\n}\n" + head + R"(
  {
    .param .b64 to; .param .b64 from;
    st.param.b64 [to], %rd2;
    st.param.b64 [from], %rd3;
    call.uni product, (to, from);
  }
)" + std::string(late) +
         "  ret;\n}\n";
}

struct Data {
  std::vector<uint8_t> image = std::vector<uint8_t>(kSharedBytes, 0);
  std::vector<uint32_t> a_registers = std::vector<uint32_t>(128 * 8, 0);
  std::vector<uint32_t> expected{};  // bits of the accumulators, thread by thread
};

Data make_data(const Case& c) {
  Data data;
  std::mt19937 random(11);
  const int depth = depth_of(c);
  std::vector<int> sums(64 * kN, c.scale_d ? 100 : 0);
  for (int step = 0; step < kSteps; ++step) {
    std::vector<int> a(static_cast<size_t>(64 * depth));
    std::vector<int> b(static_cast<size_t>(kN * depth));
    const auto fill = [&](std::vector<int>& values, const Operand& o) {
      for (int row = 0; row < o.rows; ++row) {
        for (int k = 0; k < depth; ++k) {
          const bool is_unsigned = std::string(c.type.name) == "u8";
          const int value = static_cast<int>(random() % 7) - (is_unsigned ? 0 : 3);
          values[static_cast<size_t>(row * depth + k)] = value;
          const uint32_t bits = encode(c.type, value);
          if (&values == &a && c.a_in_registers) continue;
          const uint32_t at = place(o, row, k, c.type.bytes, depth) - 0x400;
          std::memcpy(&data.image[at], &bits, static_cast<size_t>(c.type.bytes));
        }
      }
    };
    fill(a, operand_a(c, step));
    fill(b, operand_b(c, step));
    for (int t = 0; t < 128 && c.a_in_registers; ++t) {
      const int per_register = 4 / c.type.bytes;
      for (int r = 0; r < 4; ++r) {
        uint32_t word = 0;
        for (int e = 0; e < per_register; ++e) {
          const int row = 16 * (t / 32) + t % 32 / 4 + 8 * (r & 1);
          const int k = (t % 4) * per_register + e + 4 * per_register * (r >> 1);
          word |= encode(c.type, a[static_cast<size_t>(row * depth + k)]) << (8 * c.type.bytes * e);
        }
        data.a_registers[static_cast<size_t>(t * 8 + 4 * step + r)] = word;
      }
    }
    for (int m = 0; m < 64; ++m) {
      for (int n = 0; n < kN; ++n) {
        for (int k = 0; k < depth; ++k) {
          sums[static_cast<size_t>(m * kN + n)] += c.negate_a * c.negate_b *
                                                   a[static_cast<size_t>(m * depth + k)] *
                                                   b[static_cast<size_t>(n * depth + k)];
        }
      }
    }
  }
  for (int t = 0; t < 128; ++t) {
    std::vector<int> mine;
    for (int i = 0; i < kN / 2; ++i) {
      const int row = 16 * (t / 32) + t % 32 / 4 + 8 * (i >> 1 & 1);
      const int column = 8 * (i >> 2) + 2 * (t % 4) + (i & 1);
      mine.push_back(sums[static_cast<size_t>(row * kN + column)]);
    }
    const std::string d = c.d;
    for (size_t i = 0; i < mine.size(); i += d == "f16" ? 2 : 1) {
      if (d == "f16") {
        const InputType half{"f16", 2};
        data.expected.push_back(encode(half, mine[i]) | encode(half, mine[i + 1]) << 16);
      } else if (d == "s32") {
        data.expected.push_back(static_cast<uint32_t>(mine[i]));
      } else {
        data.expected.push_back(std::bit_cast<uint32_t>(static_cast<float>(mine[i])));
      }
    }
  }
  return data;
}

struct Ran {
  LaunchOutcome outcome;
  std::vector<uint32_t> values;
};

Ran run(const std::string& text, const Data& data, const LaunchSettings& settings,
        uint32_t threads = 128) {
  Machine machine("sm_90a");
  Ran ran;
  if (machine.load(text) == nullptr) return ran;
  const DeviceAddress image = machine.upload(data.image);
  const DeviceAddress out = machine.allocate(128 * 48);
  const DeviceAddress a = machine.upload(data.a_registers);
  Arguments arguments;
  arguments.add(image).add(out).add(a);
  ran.outcome = machine.run("k", {1}, {threads}, arguments, settings);
  ran.values = machine.download<uint32_t>(out, data.expected.size());
  return ran;
}

constexpr std::string_view kFence = "  wgmma.fence.sync.aligned;\n";
constexpr std::string_view kWait = "  wgmma.wait_group.sync.aligned 0;\n";

std::vector<Case> cases() {
  const InputType f16{"f16", 2}, bf16{"bf16", 2}, tf32{"tf32", 4}, e4m3{"e4m3", 1}, e5m2{"e5m2", 1};
  std::vector<Case> all;
  for (const InputType& type : {f16, bf16, tf32, e4m3, e5m2}) {
    for (const int swizzle : {0, 32, 64, 128}) {
      for (const bool in_registers : {false, true}) {
        all.push_back({.type = type, .swizzle = swizzle, .a_in_registers = in_registers});
      }
    }
  }
  for (const InputType& type : {f16, bf16}) {
    all.push_back({.type = type, .a_mn = true});
    all.push_back({.type = type, .b_mn = true, .negate_a = -1});
    all.push_back({.type = type, .a_in_registers = true, .b_mn = true, .negate_b = -1});
    all.push_back({.type = type, .a_mn = true, .b_mn = true, .scale_d = true});
  }
  // Accumulators in f16 and s32, and products in a called function.
  const InputType s8{"s8", 1}, u8{"u8", 1};
  for (const bool in_registers : {false, true}) {
    for (const InputType& type : {f16, e4m3, e5m2}) {
      all.push_back({.type = type, .a_in_registers = in_registers, .d = "f16"});
      all.push_back({.type = type, .a_in_registers = in_registers, .scale_d = true, .d = "f16"});
    }
    for (const InputType& type : {s8, u8}) {
      for (const int swizzle : {0, 32, 64, 128}) {
        all.push_back(
            {.type = type, .swizzle = swizzle, .a_in_registers = in_registers, .d = "s32"});
      }
      all.push_back({.type = type, .a_in_registers = in_registers, .scale_d = true, .d = "s32"});
    }
    all.push_back({.type = bf16, .a_in_registers = in_registers, .in_function = true});
    all.push_back({.type = s8, .a_in_registers = in_registers, .d = "s32", .in_function = true});
  }
  return all;
}

bool differs(const Ran& ran, const Data& data) {
  return ran.outcome.fault.has_value() || ran.values != data.expected;
}

TEST(Wgmma, EveryOperandFormIsRightUnderEverySchedule) {
  for (const Case& c : cases()) {
    const Data data = make_data(c);
    const std::string text = kernel(c, kFence, "", kWait);
    under_every_schedule([&](LaunchSettings settings) {
      for (const Numerics numerics : {Numerics::kFast, Numerics::kHardware}) {
        settings.numerics = numerics;
        settings.observers = ObserverLevel::kFull;
        const Ran ran = run(text, data, settings);
        ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
        ASSERT_EQ(ran.values, data.expected)
            << c.type.name << " swizzle " << c.swizzle << " registers " << c.a_in_registers
            << " mn " << c.a_mn << c.b_mn << " schedule " << static_cast<int>(settings.schedule);
      }
    });
  }
}

// Every mutant changes the result, or is reported, under some schedule; the twin never is.
TEST(Wgmma, MutantsShow) {
  const Case in_registers{.type = {"f16", 2}, .a_in_registers = true};
  const Case in_shared{.type = {"f16", 2}};
  const struct {
    const char* name;
    Case c;
    std::string fence, after_issue, wait;
  } mutants[] = {
      {"no fence", in_shared, "", "", std::string(kWait)},
      {"no wait", in_shared, std::string(kFence), "", ""},
      {"wait for too little", in_shared, std::string(kFence), "",
       "  wgmma.wait_group.sync.aligned 1;\n"},
      {"A written in flight", in_registers, std::string(kFence), "  mov.b32 %a1, 0;\n",
       std::string(kWait)},
      {"accumulator written in flight", in_shared, std::string(kFence),
       "  mov.f32 %d3, 0f3F800000;\n", std::string(kWait)},
      {"accumulator read in flight", in_shared, std::string(kFence),
       "  add.f32 %d3, %d3, 0f00000000;\n", std::string(kWait)},
      {"operand overwritten in flight", in_shared, std::string(kFence),
       "  add.u32 %r7, %r2, %r3;\n  st.shared.u32 [%r7], 0;\n", std::string(kWait)},
  };
  for (const auto& mutant : mutants) {
    const Data data = make_data(mutant.c);
    bool shown = false;
    under_every_schedule([&](const LaunchSettings& settings) {
      shown |= differs(
          run(kernel(mutant.c, mutant.fence, mutant.after_issue, mutant.wait), data, settings),
          data);
      const Ran twin = run(kernel(mutant.c, kFence, "", kWait), data, settings);
      EXPECT_FALSE(differs(twin, data)) << describe(twin.outcome);
    });
    EXPECT_TRUE(shown) << mutant.name;
  }
}

// Registers of a product in flight are its own on every way to the wait, also round one that stands
// nearer in the text.
TEST(Wgmma, RegistersStayItsOwnAcrossBranches) {
  const Case c{.type = {"f16", 2}, .a_in_registers = true};
  const Data data = make_data(c);
  std::string around =
      "  setp.eq.u32 %p1, %r5, 48;\n  @%p1 bra SKIP;\n" + std::string(kWait) + "SKIP:\n";
  for (int i = 8; i < 32; ++i) around += "  mov.u32 %r" + std::to_string(i) + ", 0x7fff;\n";
  for (int i = 9; i < 32; ++i) around += "  add.u32 %r8, %r8, %r" + std::to_string(i) + ";\n";
  const std::string text = kernel(c, kFence, around, kWait);
  under_every_schedule([&](const LaunchSettings& settings) {
    const Ran ran = run(text, data, settings);
    EXPECT_FALSE(differs(ran, data)) << describe(ran.outcome);
  });
}

// A function's registers go with it: it may not return while a product still needs them. A caller's
// product may be in flight while a function runs, and the function's wait covers it.
TEST(Wgmma, FunctionsWaitForTheirProducts) {
  const Case c{.type = {"f16", 2}, .in_function = true};
  const Data data = make_data(c);
  under_every_schedule([&](const LaunchSettings& settings) {
    EXPECT_FALSE(differs(run(kernel(c, kFence, "", kWait), data, settings), data));
    const Ran early = run(kernel(c, kFence, "  ret;\n", kWait, kWait), data, settings);
    ASSERT_TRUE(early.outcome.fault);
    EXPECT_NE(early.outcome.fault->message.find("a return while a wgmma"), std::string::npos)
        << describe(early.outcome);
  });
  const Case plain{.type = {"f16", 2}, .a_in_registers = true};
  const Data expected = make_data(plain);
  const std::string call = "  call.uni helper;\n";
  const auto with_helper = [&](std::string_view helper_wait) {
    return ".func helper()\n{\n  .reg .b32 %r<40>;\n  mov.u32 %r1, 7;\n  mov.u32 %r2, 8;\n"
           "  add.u32 %r3, %r1, %r2;\n" +
           std::string(helper_wait) + "  ret;\n}\n" +
           kernel(plain, kFence, call, helper_wait.empty() ? kWait : "");
  };
  under_every_schedule([&](const LaunchSettings& settings) {
    for (const std::string_view helper_wait : {std::string_view(), kWait}) {
      const Ran ran = run(with_helper(helper_wait), expected, settings);
      EXPECT_FALSE(differs(ran, expected)) << describe(ran.outcome);
    }
  });
}

TEST(Wgmma, BadRequestsAreReported) {
  const Case c{.type = {"f16", 2}};
  const Data data = make_data(c);
  const Ran half = run(kernel(c, kFence, "", kWait), data, {}, 64);
  ASSERT_TRUE(half.outcome.fault);
  EXPECT_EQ(half.outcome.fault->kind, FaultKind::kDivergent) << describe(half.outcome);
  // A descriptor beyond the block's memory.
  std::string text = kernel(c, kFence, "", kWait);
  const std::string number = std::to_string(descriptor(operand_b(c, 1), 2, 16));
  const size_t at = text.find(number);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, number.size(), std::to_string(descriptor({kN, false, 128, 0x6400}, 2, 16)));
  const Ran beyond = run(text, data, {});
  ASSERT_TRUE(beyond.outcome.fault);
  EXPECT_NE(beyond.outcome.fault->message.find("names shared address"), std::string::npos)
      << describe(beyond.outcome);
  // One warp of the four takes another path.
  std::string split = kernel(
      c, std::string("  setp.lt.u32 %p2, %r1, 96;\n  @!%p2 bra SKIP;\n") + std::string(kFence),
      "SKIP:\n", kWait);
  const Ran missing = run(split, data, {});
  ASSERT_TRUE(missing.outcome.fault);
  EXPECT_EQ(missing.outcome.fault->kind, FaultKind::kDeadlock) << describe(missing.outcome);
}

}  // namespace
}  // namespace tilewright::emulator::test
