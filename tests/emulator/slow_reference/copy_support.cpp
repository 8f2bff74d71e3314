#include "tests/emulator/slow_reference/copy_support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/emulator/slow_reference/assembly.h"

namespace tilewright::emulator::slow {
namespace {

constexpr const char* kMove =
    "mov.u32 %r1, %tid.x;\nshl.b32 %r1, %r1, 4;\n{0}:\nadd.u32 %r2, %tile, %r1;\n"
    "cvt.u64.u32 %d1, %r1;\nadd.u64 %d1, %d1, {1};\n{2}add.u32 %r1, %r1, 512;\n"
    "setp.lt.u32 %p1, %r1, 8192;\n@%p1 bra {0};\n";

std::string module_text(const CopyRequest& request) {
  return ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 global, .param .u64 map, "
         ".param .s32 c0, .param .s32 c1, .param .s32 c2, .param .s32 c3, .param .s32 c4, "
         ".param .u32 tx0, .param .u32 tx1)\n{\n" +
         register_declarations(40) +
         ".reg .pred %first, %waits, %issues;\n.reg .b32 %tile, %bar, %peer_tile, %peer_bar, "
         "%rank;\n"
         ".reg .b32 %other, %tx, %c<5>;\n.reg .b64 %in, %out, %global, %map;\n"
         ".shared .align 1024 .b8 tile[8192];\n.shared .align 8 .b8 bar[8];\n"
         "ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %global, [global];\n"
         "ld.param.u64 %map, [map];\nld.param.s32 %c0, [c0];\nld.param.s32 %c1, [c1];\n"
         "ld.param.s32 %c2, [c2];\nld.param.s32 %c3, [c3];\nld.param.s32 %c4, [c4];\n"
         "mov.u32 %rank, %cluster_ctarank;\nxor.b32 %other, %rank, 1;\n"
         "mov.u32 %tile, tile;\nmov.u32 %bar, bar;\n"
         "mapa.shared::cluster.u32 %peer_tile, %tile, %other;\n"
         "mapa.shared::cluster.u32 %peer_bar, %bar, %other;\n"
         "mul.wide.u32 %d1, %rank, 8192;\nadd.u64 %in, %in, %d1;\nadd.u64 %out, %out, %d1;\n"
         "mov.u32 %r1, %tid.x;\nsetp.eq.u32 %first, %r1, 0;\n"
         "ld.param.u32 %tx, [tx0];\nld.param.u32 %r3, [tx1];\nsetp.ne.u32 %p1, %rank, 0;\n"
         "selp.u32 %tx, %r3, %tx, %p1;\nsetp.ne.u32 %waits, %tx, 0;\n" +
         fmt::format(fmt::runtime(kMove), "FILL", "%in",
                     "ld.global.v2.b64 {%d2, %d3}, [%d1];\nst.shared.v2.b64 [%r2], {%d2, %d3};\n") +
         "@%first mbarrier.init.shared.b64 [%bar], 1;\nfence.mbarrier_init.release.cluster;\n"
         "fence.proxy.async;\nbar.sync 0;\n"
         "@%first mbarrier.arrive.expect_tx.shared.b64 _, [%bar], %tx;\n"
         "barrier.cluster.arrive;\nbarrier.cluster.wait;\n"
         "setp.eq.u32 %issues, %rank, 0;\n" +
         (request.all_threads ? "" : "and.pred %issues, %issues, %first;\n") +
         "@!%issues bra ISSUED;\n" + request.code +
         "ISSUED:\n@!%waits bra WAITED;\n"
         "WAIT:\nmbarrier.try_wait.parity.shared.b64 %p1, [%bar], 0;\n@!%p1 bra WAIT;\n"
         "WAITED:\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n" +
         fmt::format(fmt::runtime(kMove), "DUMP", "%out",
                     "ld.shared.v2.b64 {%d2, %d3}, [%r2];\nst.global.v2.b64 [%d1], {%d2, %d3};\n") +
         "barrier.cluster.arrive;\nbarrier.cluster.wait;\nret;\n}\n";
}

}  // namespace

CopyState random_state(Random& random) {
  CopyState state;
  for (auto* bytes : {&state.tile[0], &state.tile[1], &state.global}) {
    bytes->resize(kTileBytes);
    for (uint8_t& byte : *bytes) byte = static_cast<uint8_t>(random());
  }
  return state;
}

uint64_t read_bytes(const std::vector<uint8_t>& from, size_t at, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) {
    value |= uint64_t{from.at(at + static_cast<size_t>(i))} << (8 * i);
  }
  return value;
}

void write_bytes(std::vector<uint8_t>& to, size_t at, int count, uint64_t value) {
  for (int i = 0; i < count; ++i) {
    to.at(at + static_cast<size_t>(i)) = static_cast<uint8_t>(value >> (8 * i));
  }
}

CopyState run_copy(const CopyRequest& request, const CopyState& before) {
  test::Machine machine("sm_90a");
  if (machine.load(module_text(request)) == nullptr) return before;
  std::vector<uint8_t> tiles = before.tile[0];
  tiles.insert(tiles.end(), before.tile[1].begin(), before.tile[1].end());
  const DeviceAddress in = machine.upload(tiles);
  const DeviceAddress out = machine.upload(std::vector<uint8_t>(tiles.size()));
  const DeviceAddress global = machine.upload(before.global);
  TensorMap map = request.map;
  map.global_address = global;
  const DeviceAddress map_at = machine.upload(std::vector<TensorMap>{map});
  test::Arguments arguments;
  arguments.add(in).add(out).add(global).add(map_at);
  for (const int32_t c : request.coordinates) arguments.add(c);
  arguments.add(request.expected_tx[0]).add(request.expected_tx[1]);
  const LaunchOutcome outcome = machine.run("k", {2}, {32}, arguments, request.settings, 0, {2});
  if (outcome.fault) {
    ADD_FAILURE() << request.code << test::describe(outcome);
    return before;
  }
  const auto dumped = machine.download<uint8_t>(out, tiles.size());
  CopyState after;
  after.tile[0].assign(dumped.begin(), dumped.begin() + kTileBytes);
  after.tile[1].assign(dumped.begin() + kTileBytes, dumped.end());
  after.global = machine.download<uint8_t>(global, kTileBytes);
  return after;
}

std::string difference(const CopyState& actual, const CopyState& expected) {
  const auto first = [](const char* name, const std::vector<uint8_t>& a,
                        const std::vector<uint8_t>& b) {
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] != b[i]) {
        return fmt::format("{} byte {}: {:#x}, expected {:#x}; ", name, i, a[i], b[i]);
      }
    }
    return std::string();
  };
  return first("tile 0", actual.tile[0], expected.tile[0]) +
         first("tile 1", actual.tile[1], expected.tile[1]) +
         first("global", actual.global, expected.global);
}

}  // namespace tilewright::emulator::slow
