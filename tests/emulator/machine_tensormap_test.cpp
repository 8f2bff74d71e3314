// Tensor maps edited by kernels: every field of tensormap.replace, in shared and in global memory,
// against a map that the host wrote; and what a missing fence, or a value no map has, is reported
// as.
#include <gtest/gtest.h>

#include "emulator/machine/tensor_map.h"
#include "tests/emulator/machine_support.h"

namespace tilewright::emulator::test {
namespace {

constexpr uint32_t kTileBytes = 2048;

// A warp copies the map to `image` in shared memory, edits it, publishes it at `scratch` in global
// memory and loads a tile through it. %rd1 out, %rd2 map, %rd3 scratch, %rd4 new address.
std::string kernel(std::string_view edit, std::string_view publish, std::string_view acquire,
                   std::string_view dims = "2d", std::string_view coordinates = "{%r10, %r11}") {
  return R"(
.visible .entry k(.param .u64 out, .param .u64 map, .param .u64 scratch, .param .u64 data)
{
  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>;
  .shared .align 1024 .b8 tile[2048];
  .shared .align 128 .b8 image[128];
  .shared .align 8 .b8 bar[8];
  ld.param.u64 %rd1, [out];
  ld.param.u64 %rd2, [map];
  ld.param.u64 %rd3, [scratch];
  ld.param.u64 %rd4, [data];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, tile;
  mov.u32 %r3, bar;
  mov.u32 %r4, image;
  mov.u32 %r10, 5;
  mov.u32 %r11, 3;
  setp.eq.u32 %p1, %r1, 0;
  mul.wide.u32 %rd5, %r1, 4;
  add.s64 %rd6, %rd2, %rd5;
  ld.global.u32 %r5, [%rd6];
  shl.b32 %r6, %r1, 2;
  add.u32 %r7, %r4, %r6;
  st.shared.u32 [%r7], %r5;
  @%p1 mbarrier.init.shared.b64 [%r3], 1;
  bar.warp.sync 0xffffffff;
  @!%p1 bra EDITED;
)" + std::string(edit) +
         "\nEDITED:\n  bar.warp.sync 0xffffffff;\n" + std::string(publish) + "\n" +
         std::string(acquire) + R"(
  bar.warp.sync 0xffffffff;
  @!%p1 bra ISSUED;
  mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 2048;
  cp.async.bulk.tensor.)" +
         std::string(dims) +
         R"(.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd3, )" +
         std::string(coordinates) + R"(], [%r3];
ISSUED:
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
  add.s64 %rd7, %rd1, %rd5;
  add.u32 %r12, %r2, %r6;
  mov.u32 %r13, 0;
DUMP:
  ld.shared.u32 %r14, [%r12];
  st.global.u32 [%rd7], %r14;
  add.s64 %rd7, %rd7, 128;
  add.u32 %r12, %r12, 128;
  add.u32 %r13, %r13, 1;
  setp.lt.u32 %p3, %r13, 16;
  @%p3 bra DUMP;
  ret;
}
)";
}

// The map that the host hands over, and the one that the kernel makes of it: no field is equal.
TensorMap original() {
  TensorMap map;
  map.data_type = 0;  // U8
  map.rank = 1;
  map.box_dim[0] = 64;
  map.global_dim_minus_one[0] = 99;
  return map;
}
TensorMap wanted(uint64_t address) {
  TensorMap map;
  map.global_address = address;
  map.data_type = 9;  // BF16
  map.rank = 2;
  map.swizzle = 3;
  map.fill = 1;
  map.box_dim[0] = 64;
  map.box_dim[1] = 32;
  map.element_stride[1] = 2;
  map.global_stride[0] = 160;
  map.global_dim_minus_one[0] = 66;
  map.global_dim_minus_one[1] = 22;
  return map;
}

std::string replace(std::string_view space, std::string_view address, std::string_view what) {
  // what: "field.type operands"
  const size_t at = what.find(' ');
  const std::string_view field = what.substr(0, at);
  const size_t dot = field.find('.');
  return "  tensormap.replace.tile." + std::string(field.substr(0, dot)) + std::string(space) +
         ".b1024" + std::string(field.substr(dot)) + " [" + std::string(address) + "], " +
         std::string(what.substr(at + 1)) + ";\n";
}

constexpr std::string_view kEdits[] = {
    "global_address.b64 %rd4", "rank.b32 1",           "box_dim.b32 1, 32",
    "global_dim.b32 0, 67",    "global_dim.b32 1, 23", "global_stride.b64 0, 160",
    "element_stride.b32 1, 2", "elemtype.b32 10",      "swizzle_mode.b32 3",
    "fill_mode.b32 1",         "box_dim.b32 0, 64",    "interleave_layout.b32 0"};

std::string all_edits(std::string_view space, std::string_view address, size_t without = 99) {
  std::string text = "  mov.u64 %rd10, 160;\n";
  for (size_t n = 0; n < std::size(kEdits); ++n) {
    if (n != without) text += replace(space, address, kEdits[n]);
  }
  return text;
}

constexpr std::string_view kCopy =
    "  tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned "
    "[%rd3], [%r4], 128;";
constexpr std::string_view kAcquire = "  fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;";
constexpr std::string_view kRelease = "  fence.proxy.tensormap::generic.release.gpu;";

struct Ran {
  LaunchOutcome outcome;
  std::vector<uint8_t> tile;
  std::vector<TensorMap> map;  // at scratch
  uint64_t data = 0;
};

// `at_scratch`: what lies at scratch before the launch.
Ran run(const std::string& text, const LaunchSettings& settings, const TensorMap* at_scratch) {
  Machine machine("sm_90a");
  Ran ran;
  if (machine.load(text) == nullptr) return ran;
  std::vector<uint8_t> bytes(8192);
  for (size_t n = 0; n < bytes.size(); ++n) bytes[n] = static_cast<uint8_t>(n * 7 + n / 251);
  ran.data = machine.upload(bytes);
  const DeviceAddress out = machine.upload(std::vector<uint8_t>(kTileBytes, 0x11));
  const DeviceAddress map = machine.upload(std::vector<TensorMap>{original()});
  TensorMap before = at_scratch != nullptr ? *at_scratch : TensorMap{.magic = 1};
  if (at_scratch != nullptr && before.rank == 2) before.global_address = ran.data;
  const DeviceAddress scratch = machine.upload(std::vector<TensorMap>{before});
  Arguments arguments;
  arguments.add(out).add(map).add(scratch).add(ran.data);
  ran.outcome = machine.run("k", {1}, {32}, arguments, settings);
  ran.tile = machine.download<uint8_t>(out, kTileBytes);
  ran.map = machine.download<TensorMap>(scratch, 1);
  return ran;
}

bool same_bytes(const TensorMap& a, const TensorMap& b) {
  return std::memcmp(static_cast<const void*>(&a), static_cast<const void*>(&b), sizeof a) == 0;
}

TEST(TensorMapEdit, EveryFieldIsReplaced) {
  const TensorMap by_host = wanted(0);
  const TensorMap first = original();
  under_every_schedule([&](LaunchSettings settings) {
    settings.observers = ObserverLevel::kFull;
    const Ran expected = run(kernel("", "", ""), settings, &by_host);
    ASSERT_FALSE(expected.outcome.fault) << describe(expected.outcome);
    const Ran shared =
        run(kernel(all_edits(".shared::cta", "%r4"), kCopy, kAcquire), settings, &first);
    ASSERT_FALSE(shared.outcome.fault) << describe(shared.outcome);
    EXPECT_TRUE(same_bytes(shared.map[0], wanted(shared.data)));
    EXPECT_EQ(shared.tile, expected.tile);
    // In place, in global memory, and through generic addresses of both.
    for (const std::string_view space : {".global", ""}) {
      const Ran in_place =
          run(kernel(all_edits(space, "%rd3"), kRelease, kAcquire), settings, &first);
      ASSERT_FALSE(in_place.outcome.fault) << describe(in_place.outcome);
      EXPECT_TRUE(same_bytes(in_place.map[0], wanted(in_place.data)));
      EXPECT_EQ(in_place.tile, expected.tile);
    }
    const std::string generic =
        "  cvt.u64.u32 %rd11, %r4;\n  cvta.shared.u64 %rd12, %rd11;\n" + all_edits("", "%rd12");
    const Ran in_window = run(kernel(generic, kCopy, kAcquire), settings, &first);
    ASSERT_FALSE(in_window.outcome.fault) << describe(in_window.outcome);
    EXPECT_EQ(in_window.tile, expected.tile);
  });
}

// Each edit counts: without it the map is another one (the last two state what already holds).
TEST(TensorMapEdit, NoEditIsIdle) {
  const TensorMap first = original();
  for (size_t n = 0; n + 2 < std::size(kEdits); ++n) {
    const Ran ran = run(kernel(all_edits(".shared::cta", "%r4", n), kCopy, kAcquire), {}, &first);
    EXPECT_FALSE(same_bytes(ran.map[0], wanted(ran.data))) << kEdits[n];
  }
}

TEST(TensorMapEdit, MissingFencesAreReported) {
  const TensorMap first = original();
  const struct {
    std::string_view space, address, publish, acquire, says;
  } cases[] = {
      {".shared::cta", "%r4", kCopy, "", "acquire"},
      {".global", "%rd3", kRelease, "", "acquire"},
      {".global", "%rd3", "", kAcquire, "release"},
      {".global", "%rd3", "", "", "release"},
      {".global", "%rd3", kRelease, "  fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;",
       "acquire"},  // of another map
  };
  for (const auto& c : cases) {
    const Ran ran = run(kernel(all_edits(c.space, c.address), c.publish, c.acquire), {}, &first);
    ASSERT_TRUE(ran.outcome.fault) << c.publish << c.acquire;
    EXPECT_EQ(ran.outcome.fault->kind, FaultKind::kAsynchronous) << describe(ran.outcome);
    EXPECT_NE(ran.outcome.fault->message.find(c.says), std::string::npos) << describe(ran.outcome);
  }
  // An acquire that came before the release acquires nothing.
  const std::string early = std::string(kAcquire) + "\n" + std::string(kRelease);
  EXPECT_TRUE(run(kernel(all_edits(".global", "%rd3"), early, ""), {}, &first).outcome.fault);
}

TEST(TensorMapEdit, BadValuesAreReported) {
  const TensorMap first = original();
  const auto message = [&](std::string_view edit, std::string_view address = "%r4",
                           std::string_view space = ".shared::cta") {
    const Ran ran = run(kernel("  mov.u64 %rd10, 8;\n  mov.u64 %rd11, 0x10000000000;\n"
                               "  add.s64 %rd12, %rd4, 8;\n  mov.u32 %r20, 5;\n" +
                                   replace(space, address, edit),
                               "  ret;", ""),
                        {}, &first);
    return ran.outcome.fault ? ran.outcome.fault->message : std::string("none");
  };
  EXPECT_EQ(message("box_dim.b32 0, 256"), "none");
  EXPECT_EQ(message("box_dim.b32 0, 257"), "box dimension 257 of a tensor map");
  EXPECT_EQ(message("box_dim.b32 4, 0"), "box dimension 0 of a tensor map");
  EXPECT_EQ(message("global_dim.b32 1, 0"), "dimension 0 of a tensor map");
  EXPECT_EQ(message("element_stride.b32 1, 9"), "element stride 9 of a tensor map");
  EXPECT_EQ(message("global_stride.b64 1, %rd10"), "stride 8 of a tensor map");
  EXPECT_EQ(message("global_stride.b64 1, %rd11"), "stride 1099511627776 of a tensor map");
  EXPECT_EQ(message("rank.b32 %r20"), "rank code 5 of a tensor map");
  EXPECT_NE(message("global_address.b64 %rd12").find("address"), std::string::npos);
  EXPECT_NE(message("rank.b32 1", "%rd4", ".global").find("no tensor map"), std::string::npos);
  EXPECT_NE(message("rank.b32 1", "%r4+32").find("multiple of 64"), std::string::npos);
  // Codes and ordinals are constants: refused at load.
  Machine machine("sm_90a");
  for (const char* bad : {"elemtype.b32 13", "swizzle_mode.b32 4", "box_dim.b32 5, 1",
                          "global_stride.b64 4, %rd10", "fill_mode.b32 2"}) {
    EXPECT_FALSE(
        machine.try_load(kernel(replace(".shared::cta", "%r4", bad), kCopy, kAcquire)).ok())
        << bad;
  }
}

}  // namespace
}  // namespace tilewright::emulator::test
