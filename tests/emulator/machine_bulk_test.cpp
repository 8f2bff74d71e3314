// Bulk copies with and without tensor maps: every byte against an element-by-element reference
// written from the ISA's rules, under every schedule; and what a missing wait does.
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "emulator/machine/tensor_map.h"
#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

constexpr uint32_t kTileBytes = 8192;

// A block of 128 threads with a tile of 8 KB at shared address 0x400 and an mbarrier behind it.
// `body` sees %rd1 = in, %rd2 = out, %r1 = tid, %r2 = tile, %r3 = mbarrier, %p1 = first thread.
std::string kernel(std::string_view body) {
  return R"(
.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 map, .param .u32 p0,
                  .param .u32 p1, .param .u32 p2, .param .u32 p3, .param .u32 p4, .param .u32 dst)
{
  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
  .shared .align 1024 .b8 tile[8192];
  .shared .align 8 .b8 bar[8];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u64 %rd3, [map];
  ld.param.u32 %r10, [p0];
  ld.param.u32 %r11, [p1];
  ld.param.u32 %r12, [p2];
  ld.param.u32 %r13, [p3];
  ld.param.u32 %r14, [p4];
  ld.param.u32 %r15, [dst];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  mov.u32 %r3, bar;
  add.u32 %r16, %r2, %r15;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared.b64 [%r3], 1;
)" + std::string(body) +
         "\n  ret;\n}\n";
}

// Every thread goes through its 64 bytes of the tile: %r5 and %rd5 are the addresses in the tile
// and in `global` of the `step` bytes that `body` moves.
std::string walk(std::string_view label, std::string_view global, int step, std::string_view body) {
  const std::string bytes = std::to_string(step) + ";\n";
  return "  shl.b32 %r4, %r1, 6;\n  add.u32 %r5, %r2, %r4;\n  cvt.u64.u32 %rd4, %r4;\n"
         "  add.s64 %rd5, " +
         std::string(global) + ", %rd4;\n  mov.u32 %r6, 0;\n" + std::string(label) + ":\n" +
         std::string(body) + "\n  add.s64 %rd5, %rd5, " + bytes + "  add.u32 %r5, %r5, " + bytes +
         "  add.u32 %r6, %r6, " + bytes + "  setp.lt.u32 %p2, %r6, 64;\n  @%p2 bra " +
         std::string(label) + ";\n";
}

// The tile filled with 0x5a5a5a5a, or with what `in` holds, or copied to `out`.
constexpr std::string_view kPublish = "  fence.proxy.async.shared::cta;\n  bar.sync 0;\n";
std::string clear() {
  return walk("CLEAR", "%rd1", 4, "  st.shared.u32 [%r5], 0x5a5a5a5a;") + std::string(kPublish);
}
std::string fill() {
  return walk("FILL", "%rd1", 4, "  ld.global.u32 %r7, [%rd5];\n  st.shared.u32 [%r5], %r7;") +
         std::string(kPublish);
}
std::string dump() {
  return walk("DUMP", "%rd2", 4, "  ld.shared.u32 %r7, [%r5];\n  st.global.u32 [%rd5], %r7;");
}
constexpr std::string_view kWait = R"(
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p3, [%r3], 0;
  @!%p3 bra WAIT;
)";
// What the first thread does alone.
std::string alone(const std::string& text) { return "  @!%p1 bra DONE;\n  " + text + "\nDONE:\n"; }

struct Inputs {
  std::vector<uint8_t> in;
  std::vector<uint8_t> out = std::vector<uint8_t>(kTileBytes, 0x11);
  TensorMap map{};
  bool map_reads_in = true;  // the map is over `in`, else over `out`
  std::array<int32_t, 5> start{};
  uint32_t dst = 0;
};

struct Ran {
  LaunchOutcome outcome;
  std::vector<uint8_t> out;
};

Ran run(const std::string& text, const Inputs& inputs, const LaunchSettings& settings) {
  Machine machine("sm_90a");
  Ran ran;
  if (machine.load(text) == nullptr) return ran;
  const DeviceAddress in = machine.upload(inputs.in);
  const DeviceAddress out = machine.upload(inputs.out);
  TensorMap map = inputs.map;
  map.global_address = inputs.map_reads_in ? in : out;
  const DeviceAddress map_at = machine.upload(std::vector<TensorMap>{map});
  Arguments arguments;
  arguments.add(in).add(out).add(map_at);
  for (const int32_t value : inputs.start) arguments.add(value);
  arguments.add(inputs.dst);
  ran.outcome = machine.run("k", {1}, {128}, arguments, settings);
  ran.out = machine.download<uint8_t>(out, inputs.out.size());
  return ran;
}

std::vector<uint8_t> random_bytes(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint8_t> bytes(count);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// ---- without a map ----

// The first thread expects `bytes` bytes and executes `issue`; then the tile is dumped.
std::string loading(uint32_t bytes, std::string_view issue, std::string_view wait) {
  return kernel(clear() +
                alone("mbarrier.arrive.expect_tx.shared.b64 _, [%r3], " + std::to_string(bytes) +
                      ";\n" + std::string(issue)) +
                std::string(wait) + dump());
}

std::string load_kernel(uint32_t expected, bool waits) {
  return loading(expected, R"(
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+64], [%rd1+32], 4096, [%r3];
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+4160], [%rd1], 16, [%r3];
)",
                 waits ? kWait : "");
}

TEST(BulkCopy, LoadsWhatTheBarrierThenShows) {
  Inputs inputs{.in = random_bytes(8192, 1)};
  std::vector<uint8_t> expected(kTileBytes, 0x5a);
  std::copy_n(inputs.in.begin() + 32, 4096, expected.begin() + 64);
  std::copy_n(inputs.in.begin(), 16, expected.begin() + 4160);
  under_every_schedule([&](LaunchSettings settings) {
    const Ran ran = run(load_kernel(4112, true), inputs, settings);
    ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
    EXPECT_EQ(ran.out, expected);
    settings.observers = ObserverLevel::kOff;
    // No wait: what is read is not what was copied, or the block ends under the copy.
    const Ran unwaited = run(load_kernel(4112, false), inputs, settings);
    if (settings.schedule != Schedule::kEager) {
      EXPECT_TRUE(unwaited.outcome.fault || unwaited.out != expected);
    }
    // An expectation that is 16 bytes short or long: the phase never completes, or too early.
    EXPECT_TRUE(run(load_kernel(4128, true), inputs, settings).outcome.fault);
    const Ran short_by_one = run(load_kernel(4096, true), inputs, settings);
    if (settings.schedule == Schedule::kLazy) {
      EXPECT_TRUE(short_by_one.outcome.fault || short_by_one.out != expected);
    }
  });
}

// A loop around test_wait, which never suspends, sees the bytes too.
TEST(BulkCopy, LandsForAPollingLoop) {
  Inputs inputs{.in = random_bytes(8192, 9)};
  std::string text = load_kernel(4112, true);
  text.replace(text.find("mbarrier.try_wait"), 17, "mbarrier.test_wait");
  under_every_schedule([&](LaunchSettings settings) {
    settings.instruction_limit = 200'000;
    const Ran ran = run(text, inputs, settings);
    ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
    EXPECT_EQ(ran.out[64], inputs.in[32]);
    EXPECT_EQ(ran.out[4160], inputs.in[0]);
  });
}

std::string store_kernel(std::string_view wait, std::string_view operation) {
  return kernel(fill() + alone(std::string(operation) +
                               " [%rd2+16], [%r2+32], 4096;\n  cp.async.bulk.commit_group;\n" +
                               std::string(wait) + "\n  st.shared.u32 [%r2+32], 0x77777777;"));
}

TEST(BulkCopy, StoresReadTheirSourceUntilTheWait) {
  Inputs inputs{.in = random_bytes(8192, 2)};
  std::vector<uint8_t> expected = inputs.out;
  std::copy_n(inputs.in.begin() + 32, 4096, expected.begin() + 16);
  constexpr std::string_view kStore = "cp.async.bulk.global.shared::cta.bulk_group";
  under_every_schedule([&](LaunchSettings settings) {
    for (const std::string_view wait :
         {"cp.async.bulk.wait_group 0;", "cp.async.bulk.wait_group.read 0;"}) {
      const Ran ran = run(store_kernel(wait, kStore), inputs, settings);
      ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
      EXPECT_EQ(ran.out, expected);
    }
    settings.observers = ObserverLevel::kMemory;
    for (const std::string_view wait : {"", "cp.async.bulk.wait_group.read 1;"}) {
      const Ran ran = run(store_kernel(wait, kStore), inputs, settings);
      ASSERT_TRUE(ran.outcome.fault);
      EXPECT_EQ(ran.outcome.fault->kind, FaultKind::kAsynchronous) << describe(ran.outcome);
      EXPECT_EQ(ran.outcome.fault->ptx_line, line_of(store_kernel(wait, kStore), kStore));
    }
  });
  // The wait comes after the overwriting: lazy reads the new word.
  const std::string late =
      kernel(fill() + alone(std::string(kStore) + R"( [%rd2+16], [%r2+32], 4096;
  cp.async.bulk.commit_group;
  st.shared.u32 [%r2+32], 0x77777777;
  cp.async.bulk.wait_group 0;)"));
  EXPECT_EQ(run(late, inputs, {}).out, expected);
  LaunchSettings lazy;
  lazy.schedule = Schedule::kLazy;
  EXPECT_NE(run(late, inputs, lazy).out, expected);
}

template <class T>
T element(const std::vector<uint8_t>& bytes, size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

TEST(BulkCopy, Reduces) {
  Inputs inputs{.in = random_bytes(8192, 3), .out = random_bytes(8192, 4)};
  // Numbers, not NaNs, for the float case.
  for (size_t at = 0; at < 8192; at += 4) {
    const float a = static_cast<float>(at) * 0.37f;
    const float b = 1000.0f - static_cast<float>(at);
    std::memcpy(&inputs.in[at], &a, 4);
    std::memcpy(&inputs.out[at], &b, 4);
  }
  const auto reduce = [&](std::string_view operation, const LaunchSettings& settings) {
    const Ran ran = run(store_kernel("cp.async.bulk.wait_group 0;", operation), inputs, settings);
    EXPECT_FALSE(ran.outcome.fault) << describe(ran.outcome);
    return ran.out;
  };
  under_every_schedule([&](const LaunchSettings& settings) {
    const auto sums =
        reduce("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32", settings);
    const auto maxima =
        reduce("cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32", settings);
    const auto bits =
        reduce("cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b64", settings);
    for (size_t at = 0; at < 8192; at += 4) {
      const bool inside = at >= 16 && at < 16 + 4096;
      const size_t from = at + 16;
      const float old = element<float>(inputs.out, at);
      ASSERT_EQ(element<float>(sums, at), inside ? old + element<float>(inputs.in, from) : old);
      const auto old_int = element<int32_t>(inputs.out, at);
      ASSERT_EQ(element<int32_t>(maxima, at),
                inside ? std::max(old_int, element<int32_t>(inputs.in, from)) : old_int);
      const auto old_bits = element<uint32_t>(inputs.out, at);
      ASSERT_EQ(element<uint32_t>(bits, at),
                inside ? old_bits ^ element<uint32_t>(inputs.in, from) : old_bits);
    }
  });
}

// ---- with a map ----

std::string coordinates(int dims) {
  static constexpr const char* kLists[] = {"{%r10}", "{%r10, %r11}", "{%r10, %r11, %r12}",
                                           "{%r10, %r11, %r12, %r13}",
                                           "{%r10, %r11, %r12, %r13, %r14}"};
  return kLists[dims - 1];
}

// Calls visit(byte of the box, its shared offset, its offset in global memory or -1) in packed
// order.
template <class Visit>
void for_each_byte(const Inputs& inputs, int bytes, const Visit& visit) {
  const TensorMap& map = inputs.map;
  static constexpr uint32_t kMasks[] = {0, 1, 3, 7};
  std::array<int, 5> extent{1, 1, 1, 1, 1};
  int count = 1;
  for (int i = 0; i < map.rank; ++i) {
    extent[static_cast<size_t>(i)] =
        (map.box_dim[i] + map.element_stride[i] - 1) / map.element_stride[i];
    count *= extent[static_cast<size_t>(i)];
  }
  for (int n = 0; n < count; ++n) {
    int rest = n;
    int64_t global = 0;
    bool inside = true;
    for (int i = 0; i < map.rank; ++i) {
      const int x = rest % extent[static_cast<size_t>(i)];
      rest /= extent[static_cast<size_t>(i)];
      const int64_t at = inputs.start[static_cast<size_t>(i)] + x * map.element_stride[i];
      inside &= at >= 0 && at < static_cast<int64_t>(map.global_dim(i));
      global += at * (i == 0 ? bytes : static_cast<int64_t>(map.global_stride[i - 1]));
    }
    for (int b = 0; b < bytes; ++b) {
      const uint32_t address = 0x400u + inputs.dst + static_cast<uint32_t>(n * bytes + b);
      const uint32_t placed = address ^ (((address >> 7) & kMasks[map.swizzle]) << 4);
      visit(b, placed - 0x400u, inside ? global + b : -1);
    }
  }
}

TensorMap make_map(int type, std::vector<uint32_t> dims, std::vector<uint16_t> box, int swizzle) {
  TensorMap map{};
  map.data_type = static_cast<uint8_t>(type);
  map.rank = static_cast<uint8_t>(dims.size());
  map.swizzle = static_cast<uint8_t>(swizzle);
  uint64_t stride = static_cast<uint64_t>(tensor_map_element_bytes(type));
  for (size_t i = 0; i < dims.size(); ++i) {
    map.global_dim_minus_one[i] = dims[i] - 1;
    map.box_dim[i] = box[i];
    stride = (stride * dims[i] + 15) / 16 * 16 + 16;
    if (i + 1 < dims.size()) map.global_stride[i] = stride;
  }
  return map;
}

struct MapCase {
  TensorMap map;
  std::array<int32_t, 5> start;
  uint32_t dst = 0;
};

std::vector<MapCase> map_cases() {
  constexpr int kF16 = 6, kF32 = 7, kU8 = 0;
  std::vector<MapCase> cases = {
      {make_map(kF16, {1000}, {128}, 0), {5}, 128},
      {make_map(kF16, {100}, {64}, 3), {70}},
      {make_map(kF16, {70, 40}, {64, 16}, 3), {-9, 30}},
      {make_map(kF16, {70, 40}, {32, 16}, 2), {50, -3}, 384},
      {make_map(kU8, {60, 40}, {32, 16}, 1), {8, 10}, 640},
      {make_map(kF32, {33, 9, 7}, {8, 4, 4}, 1), {30, 7, 5}},
      {make_map(kF16, {64, 5, 4, 3}, {64, 4, 2, 2}, 3), {0, 3, -1, 2}},
      {make_map(kF32, {12, 4, 3, 3, 2}, {16, 3, 2, 2, 2}, 2), {3, -1, 2, 1, 1}},
      {make_map(kF16, {64, 40}, {64, 16}, 3), {0, 200}},  // wholly outside
  };
  MapCase strided{make_map(kF16, {64, 60}, {64, 15}, 3), {0, 50}};
  strided.map.element_stride[1] = 4;
  cases.push_back(strided);
  MapCase nan = cases[2];
  nan.map.fill = 1;
  cases.push_back(nan);
  return cases;
}

uint32_t box_bytes(const Inputs& inputs, int bytes) {
  uint32_t count = 0;
  for_each_byte(inputs, bytes, [&](int, uint32_t, int64_t) { ++count; });
  return count;
}

TEST(TensorCopy, LoadsEveryElementToItsPlace) {
  for (const MapCase& c : map_cases()) {
    Inputs inputs{.in = random_bytes(65536, 5), .map = c.map, .start = c.start, .dst = c.dst};
    const int bytes = tensor_map_element_bytes(c.map.data_type);
    std::vector<uint8_t> expected(kTileBytes, 0x5a);
    for_each_byte(inputs, bytes, [&](int b, uint32_t shared, int64_t global) {
      const uint8_t fill = c.map.fill == 0 ? 0 : b + 1 == bytes ? 0x7f : 0xff;
      expected[shared] = global < 0 ? fill : inputs.in[static_cast<size_t>(global)];
    });
    const auto text = [&](std::string_view wait) {
      return loading(box_bytes(inputs, bytes),
                     "  cp.async.bulk.tensor." + std::to_string(c.map.rank) +
                         "d.shared::cluster.global.mbarrier::complete_tx::bytes [%r16], [%rd3, " +
                         coordinates(c.map.rank) + "], [%r3];",
                     wait);
    };
    under_every_schedule([&](const LaunchSettings& settings) {
      const Ran ran = run(text(kWait), inputs, settings);
      ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
      ASSERT_EQ(ran.out, expected) << int{c.map.rank} << " swizzle " << int{c.map.swizzle};
      if (settings.schedule != Schedule::kLazy) return;
      const Ran unwaited = run(text(""), inputs, settings);
      EXPECT_TRUE(unwaited.outcome.fault || unwaited.out != expected);
    });
  }
}

// Stores the tile, or reduces by an `op` such as "add.", and waits for it.
std::string tensor_store(std::string_view name, std::string_view op, int rank) {
  return std::string(name) + std::to_string(rank) + "d.global.shared::cta." + std::string(op) +
         "bulk_group [%rd3, " + coordinates(rank) +
         "], [%r16];\n  cp.async.bulk.commit_group;\n  cp.async.bulk.wait_group 0;";
}

TEST(TensorCopy, StoresAndReducesWhatIsInside) {
  for (const MapCase& c : map_cases()) {
    Inputs inputs{.in = random_bytes(kTileBytes, 6),
                  .out = random_bytes(65536, 7),
                  .map = c.map,
                  .map_reads_in = false,
                  .start = c.start,
                  .dst = c.dst};
    for (int32_t& at : inputs.start) at = std::max(at, 0);
    const int bytes = tensor_map_element_bytes(c.map.data_type);
    const auto text = [&](std::string_view name, std::string_view op) {
      return kernel(fill() + alone(tensor_store(name, op, c.map.rank)));
    };
    std::vector<uint8_t> stored = inputs.out;
    for_each_byte(inputs, bytes, [&](int, uint32_t shared, int64_t global) {
      if (global >= 0) stored[static_cast<size_t>(global)] = inputs.in[shared];
    });
    under_every_schedule([&](const LaunchSettings& settings) {
      const Ran ran = run(text("cp.async.bulk.tensor.", ""), inputs, settings);
      ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
      ASSERT_EQ(ran.out, stored) << int{c.map.rank};
    });
    if (c.map.data_type != 7) continue;
    for (size_t at = 0; at + 4 <= inputs.out.size(); at += 4) {
      const float value = static_cast<float>(at % 999) - 400.5f;
      std::memcpy(&inputs.out[at], &value, 4);
      if (at < inputs.in.size()) std::memcpy(&inputs.in[at], &value, 4);
    }
    std::vector<uint8_t> sums = inputs.out;
    for_each_byte(inputs, bytes, [&](int b, uint32_t shared, int64_t global) {
      if (global < 0 || b != 0) return;
      const float sum = element<float>(inputs.out, static_cast<size_t>(global)) +
                        element<float>(inputs.in, shared);
      std::memcpy(&sums[static_cast<size_t>(global)], &sum, 4);
    });
    under_every_schedule([&](const LaunchSettings& settings) {
      const Ran ran = run(text("cp.reduce.async.bulk.tensor.", "add."), inputs, settings);
      ASSERT_FALSE(ran.outcome.fault) << describe(ran.outcome);
      ASSERT_EQ(ran.out, sums) << int{c.map.rank};
    });
  }
}

// Only bytes of `in` that are not zero are written: the rest of the tile stays unwritten.
std::string fill_nonzero() {
  return walk("FILL", "%rd1", 1,
              "  ld.global.u8 %r7, [%rd5];\n  setp.ne.u32 %p2, %r7, 0;\n"
              "  @%p2 st.shared.u8 [%r5], %r7;") +
         std::string(kPublish);
}

TEST(TensorCopy, StoresReadNothingOfTheBoxOutsideOfTheTensor) {
  int cut = 0;
  for (const MapCase& c : map_cases()) {
    Inputs inputs{.in = std::vector<uint8_t>(kTileBytes),
                  .out = random_bytes(65536, 9),
                  .map = c.map,
                  .map_reads_in = false,
                  .start = c.start,
                  .dst = c.dst};
    for (int32_t& at : inputs.start) at = std::max(at, 0);
    std::vector<uint8_t> stored = inputs.out;
    std::vector<uint32_t> inside;
    const int bytes = tensor_map_element_bytes(c.map.data_type);
    for_each_byte(inputs, bytes, [&](int, uint32_t shared, int64_t global) {
      if (global < 0) return;
      inside.push_back(shared);
      inputs.in[shared] = static_cast<uint8_t>(1 + inside.size() % 255);
      stored[static_cast<size_t>(global)] = inputs.in[shared];
    });
    cut += inside.size() < box_bytes(inputs, bytes);
    const std::string text =
        kernel(fill_nonzero() + alone(tensor_store("cp.async.bulk.tensor.", "", c.map.rank)));
    LaunchSettings settings;
    settings.observers = ObserverLevel::kMemory;
    const Ran ran = run(text, inputs, settings);
    ASSERT_FALSE(ran.outcome.fault) << int{c.map.rank} << describe(ran.outcome);
    ASSERT_EQ(ran.out, stored) << int{c.map.rank};
    // The first and the last byte inside are read.
    if (inside.empty()) continue;
    for (const uint32_t missing : {inside.front(), inside.back()}) {
      Inputs holed = inputs;
      holed.in[missing] = 0;
      const Ran unwritten = run(text, holed, settings);
      ASSERT_TRUE(unwritten.outcome.fault) << int{c.map.rank} << " " << missing;
      EXPECT_EQ(unwritten.outcome.fault->kind, FaultKind::kUninitialisedRead);
    }
  }
  EXPECT_GE(cut, 5);
}

TEST(TensorCopy, BadRequestsAreReported) {
  Inputs good{
      .in = random_bytes(65536, 8), .map = make_map(6, {70, 40}, {64, 16}, 3), .start = {0, 0}};
  const auto report = [&](Inputs inputs, std::string_view dims = "2d") {
    const std::string list = coordinates(dims[0] - '0');
    const std::string text =
        kernel("  bar.sync 0;\n" +
               alone("mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 2048;\n"
                     "  cp.async.bulk.tensor." +
                     std::string(dims) +
                     ".shared::cluster.global.mbarrier::complete_tx::bytes [%r16], [%rd3, " + list +
                     "], [%r3];") +
               std::string(kWait));
    const Ran ran = run(text, inputs, {});
    return ran.outcome.fault ? ran.outcome.fault->message : std::string();
  };
  EXPECT_EQ(report(good), "");
  const auto changed = [&](auto&& change) {
    Inputs inputs = good;
    change(inputs);
    return report(inputs);
  };
  EXPECT_NE(report(good, "3d").find("rank 2"), std::string::npos);
  EXPECT_NE(changed([](Inputs& i) { i.map.magic = 5; }).find("no tensor map"), std::string::npos);
  EXPECT_NE(changed([](Inputs& i) { i.dst = 64; }).find("multiple of 128"), std::string::npos);
  EXPECT_NE(changed([](Inputs& i) { i.dst = 8064; }).find("the block has"), std::string::npos);
  EXPECT_NE(changed([](Inputs& i) { i.map.box_dim[0] = 32; }).find("pitch"), std::string::npos);
  EXPECT_NE(changed([](Inputs& i) { i.map.interleave = 1; }).find("interleave"), std::string::npos);
  EXPECT_NE(changed([](Inputs& i) { i.map.global_stride[0] = 1 << 20; }).find("global bytes"),
            std::string::npos);
}

}  // namespace
}  // namespace tilewright::emulator::test
