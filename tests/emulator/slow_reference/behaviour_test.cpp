// Instructions without a value: hints leave every register and byte alone, fences carry a message
// from one warp to another; and the special registers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "emulator/machine/tensor_map.h"
#include "tests/emulator/machine_support.h"
#include "tests/emulator/slow_reference/assembly.h"

namespace tilewright::emulator::slow {
namespace {

using ptx::Opcode;
using ptx::StateSpace;

std::string hint_text(const Tuple& t) {
  std::string dims;
  for (int i = 0; i < t.modifiers.tensor_dims; ++i) dims += i > 0 ? ", 0" : "0";
  switch (t.opcode()) {
    case Opcode::kApplypriority:
      return t.mnemonic + " [%memory], 128;\n";
    case Opcode::kDiscard:  // what it names is undefined from then on: a buffer of its own
      return t.mnemonic + " [%lost], 128;\n";
    case Opcode::kCreatepolicyCvt:
      return t.mnemonic + " %d9, %d8;\n";
    case Opcode::kCreatepolicyFractional:
      return t.mnemonic + " %d9, 0f3f000000;\n";
    case Opcode::kCreatepolicyRange:
      return t.mnemonic + " %d9, [%memory], 64, 128;\n";
    case Opcode::kPrefetch:
      if (t.has(ptx::Flag::kTensormap)) {
        return t.mnemonic + (t.modifiers.space == StateSpace::kParam   ? " [map];\n"
                             : t.modifiers.space == StateSpace::kConst ? " [constant];\n"
                                                                       : " [%map];\n");
      }
      return t.mnemonic +
             (t.modifiers.space == StateSpace::kLocal ? " [%frame];\n" : " [%memory];\n");
    case Opcode::kPrefetchu:
      return t.mnemonic + " [%memory];\n";
    case Opcode::kCpAsyncBulkPrefetch:
      return t.mnemonic + " [%memory], 64;\n";
    case Opcode::kCpAsyncBulkPrefetchTensor:
      return t.mnemonic + " [%map, {" + dims + "}];\n";
    case Opcode::kNanosleep:
      return t.mnemonic + " 100;\n";
    case Opcode::kPmevent:
      return t.mnemonic + " 1;\n";
    default:
      return t.mnemonic + ";\n";
  }
}

TensorMap map_of(int dims, DeviceAddress address) {
  TensorMap map;
  map.global_address = address;
  map.data_type = 2;
  map.rank = static_cast<uint8_t>(dims);
  map.box_dim[0] = 4;
  map.global_dim_minus_one[0] = 7;
  for (int i = 0; i + 1 < dims; ++i) map.global_stride[i] = 32;
  return map;
}

TEST(SlowReference, HintsChangeNothing) {
  int count = 0;
  for (const Tuple& t : tuples_of(Group::kBehaviour)) {
    if (behaviour_test_of(t) != "SlowReference.HintsChangeNothing") continue;
    test::Machine machine("sm_90a");
    ASSERT_NE(
        machine.load(".const .align 128 .b8 constant[128];\n"
                     ".visible .entry k(.param .u64 memory, .param .u64 lost, .param .u64 out, "
                     ".param .u64 map_at, .param .align 128 .b8 map[128])\n{\n" +
                     register_declarations(10) +
                     ".reg .b64 %memory, %lost, %out, %map, %frame;\n.local .align 8 .b8 "
                     "local[64];\nld.param.u64 %memory, [memory];\nld.param.u64 %lost, "
                     "[lost];\nld.param.u64 %out, [out];\nld.param.u64 %map, [map_at];\n"
                     "mov.u64 %frame, local;\nst.local.u64 [local], %out;\nmov.u32 %r1, 11;\n"
                     "mov.u64 %d8, 12;\nmov.u16 %h1, 13;\nsetp.eq.u32 %p1, %r1, 11;\n" +
                     hint_text(t) +
                     "ld.local.u64 %d1, [local];\nsub.u64 %d1, %d1, %out;\n"
                     "selp.u32 %r2, 14, 0, %p1;\nst.global.u32 [%out], %r1;\n"
                     "st.global.u32 [%out+4], %r2;\nst.global.u64 [%out+8], %d8;\n"
                     "st.global.u16 [%out+16], %h1;\nst.global.u64 [%out+24], %d1;\nret;\n}\n"),
        nullptr);
    std::vector<uint8_t> bytes(256);
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 7);
    const DeviceAddress memory = machine.upload(bytes);
    const DeviceAddress lost = machine.upload(bytes);
    const DeviceAddress out = machine.upload(std::vector<uint64_t>(4));
    const TensorMap map = map_of(std::max<int>(1, t.modifiers.tensor_dims), memory);
    const DeviceAddress map_at = machine.upload(std::vector<TensorMap>{map});
    // Alignment counts from the parameter bank's start, 0x210.
    struct Parameter {
      std::array<std::byte, 0x70 - 32> before{};
      TensorMap map;
    };
    const LaunchOutcome outcome = machine.run(
        "k", {1}, {1},
        test::Arguments().add(memory).add(lost).add(out).add(map_at).add(Parameter{{}, map}));
    ASSERT_FALSE(outcome.fault) << t.mnemonic << test::describe(outcome);
    EXPECT_EQ(machine.download<uint8_t>(memory, bytes.size()), bytes) << t.mnemonic;
    const std::vector<uint64_t> expected = {11 | uint64_t{14} << 32, 12, 13, 0};
    EXPECT_EQ(machine.download<uint64_t>(out, 4), expected) << t.mnemonic;
    ++count;
  }
  EXPECT_GT(count, 60);
}

// Warp 0 writes, fences and raises a flag; warp 1, which the machine may run first, waits for the
// flag, fences and reads.
TEST(SlowReference, FencesPassMessages) {
  int count = 0;
  for (const Tuple& t : tuples_of(Group::kBehaviour)) {
    if (behaviour_test_of(t) != "SlowReference.FencesPassMessages") continue;
    for (const bool writer_first : {false, true}) {
      test::Machine machine("sm_90a");
      const std::string operands = t.form->operands.empty() ? ";\n" : " [%d0], 128;\n";
      ASSERT_NE(
          machine.load(".visible .entry k(.param .u64 data)\n{\n" + register_declarations(10) +
                       ".shared .align 4 .b8 flag[4];\nld.param.u64 %d0, [data];\n"
                       "mov.u32 %r0, %tid.x;\nsetp.eq.u32 %p0, %r0, 0;\n"
                       "@%p0 st.shared.u32 [flag], 0;\nbar.sync 0;\n" +
                       fmt::format("shr.u32 %r1, %r0, 5;\nsetp.eq.u32 %p1, %r1, {};\n",
                                   writer_first ? 0 : 1) +
                       "@%p1 bra WRITE;\nSPIN:\nld.volatile.shared.u32 %r2, [flag];\n"
                       "setp.eq.u32 %p2, %r2, 0;\n@%p2 bra SPIN;\n" +
                       t.mnemonic + operands +
                       "ld.global.u32 %r3, [%d0];\nst.global.u32 [%d0+4], %r3;\nret;\nWRITE:\n"
                       "st.global.u32 [%d0], 1234;\n" +
                       t.mnemonic + operands + "st.volatile.shared.u32 [flag], 1;\nret;\n}\n"),
          nullptr);
      const DeviceAddress data = machine.upload(std::vector<uint32_t>(64));
      LaunchSettings settings;
      settings.instruction_limit = 100'000;
      const LaunchOutcome outcome =
          machine.run("k", {1}, {64}, test::Arguments().add(data), settings);
      ASSERT_FALSE(outcome.fault) << t.mnemonic << test::describe(outcome);
      EXPECT_EQ(machine.download<uint32_t>(data, 2)[1], 1234u) << t.mnemonic;
      ++count;
    }
  }
  EXPECT_GT(count, 40);
}

// ---- special registers ----

struct Place {
  Dim3 thread, threads, block, blocks, cluster;
  uint32_t linear_thread() const {
    return thread.x + threads.x * (thread.y + threads.y * thread.z);
  }
};

// Components x, y, z of what depends on the place alone.
std::map<std::string, Dim3> known_registers(const Place& p) {
  const Dim3 inside{p.block.x % p.cluster.x, p.block.y % p.cluster.y, p.block.z % p.cluster.z};
  const uint32_t lane = p.linear_thread() % 32;
  const uint32_t bit = 1u << lane;
  return {
      {"%tid", p.thread},
      {"%ntid", p.threads},
      {"%ctaid", p.block},
      {"%nctaid", p.blocks},
      {"%laneid", {lane}},
      {"%warpid", {p.linear_thread() / 32}},
      {"%lanemask_eq", {bit}},
      {"%lanemask_lt", {bit - 1}},
      {"%lanemask_le", {bit | (bit - 1)}},
      {"%lanemask_gt", {~(bit | (bit - 1))}},
      {"%lanemask_ge", {~(bit - 1)}},
      {"%cluster_ctaid", inside},
      {"%cluster_nctaid", p.cluster},
      {"%cluster_ctarank", {inside.x + p.cluster.x * (inside.y + p.cluster.y * inside.z)}},
      {"%cluster_nctarank", {static_cast<uint32_t>(p.cluster.count())}},
      {"%clusterid", {p.block.x / p.cluster.x, p.block.y / p.cluster.y, p.block.z / p.cluster.z}},
      {"%nclusterid",
       {p.blocks.x / p.cluster.x, p.blocks.y / p.cluster.y, p.blocks.z / p.cluster.z}}};
}

TEST(SlowReference, SpecialRegisters) {
  const Dim3 threads{5, 3, 3};
  const Dim3 blocks{4, 3, 2};
  const Dim3 cluster{2, 1, 2};
  std::vector<std::pair<std::string, char>> names;
  for (const auto& [name, value] : known_registers({{}, threads, {}, blocks, cluster})) {
    int components = 1;
    for (int i = 0; i < static_cast<int>(ptx::SpecialRegister::kCount); ++i) {
      const auto special = static_cast<ptx::SpecialRegister>(i);
      if (ptx::to_string(special) == name) components = ptx::special_register_components(special);
    }
    for (int i = 0; i < components; ++i) names.emplace_back(name, components == 1 ? ' ' : "xyz"[i]);
  }
  std::string body =
      ".visible .entry k(.param .u64 out)\n{\n" + register_declarations(10) +
      "ld.param.u64 %d0, [out];\nmov.u32 %r0, %ctaid.z;\nmov.u32 %r1, %ctaid.y;\n"
      "mad.lo.u32 %r0, %r0, 3, %r1;\nmov.u32 %r1, %ctaid.x;\n"
      "mad.lo.u32 %r0, %r0, 4, %r1;\nmov.u32 %r1, %tid.z;\n"
      "mad.lo.u32 %r0, %r0, 3, %r1;\nmov.u32 %r1, %tid.y;\n"
      "mad.lo.u32 %r0, %r0, 3, %r1;\nmov.u32 %r1, %tid.x;\n"
      "mad.lo.u32 %r0, %r0, 5, %r1;\n" +
      fmt::format("mul.wide.u32 %d1, %r0, {};\nadd.u64 %d0, %d0, %d1;\n", 4 * names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string component = names[i].second == ' ' ? "" : std::string(".") + names[i].second;
    body += fmt::format("mov.u32 %r1, {}{};\nst.global.u32 [%d0+{}], %r1;\n", names[i].first,
                        component, 4 * i);
  }
  test::Machine machine("sm_90a");
  ASSERT_NE(machine.load(body + "ret;\n}\n"), nullptr);
  const size_t total = threads.count() * blocks.count();
  const DeviceAddress out = machine.upload(std::vector<uint32_t>(total * names.size()));
  const LaunchOutcome outcome =
      machine.run("k", blocks, threads, test::Arguments().add(out), {}, 0, cluster);
  ASSERT_FALSE(outcome.fault) << test::describe(outcome);
  const auto results = machine.download<uint32_t>(out, total * names.size());
  for (uint32_t n = 0; n < total; ++n) {
    const uint32_t thread = n % 45;
    const uint32_t block = n / 45;
    const Place place{{thread % 5, thread / 5 % 3, thread / 15},
                      threads,
                      {block % 4, block / 4 % 3, block / 12},
                      blocks,
                      cluster};
    const auto known = known_registers(place);
    for (size_t i = 0; i < names.size(); ++i) {
      const Dim3& value = known.at(names[i].first);
      const uint32_t expected = names[i].second == 'y'   ? value.y
                                : names[i].second == 'z' ? value.z
                                                         : value.x;
      ASSERT_EQ(results[n * names.size() + i], expected)
          << names[i].first << "." << names[i].second << " thread " << thread << " block " << block;
    }
  }
}

// A test named for a tuple without a value is there, in this program or another of this folder.
TEST(SlowReference, NamedBehaviourTestsExist) {
  std::string sources;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TW_EMULATOR_TESTS)) {
    if (entry.path().extension() != ".cpp") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    sources += text.str();
  }
  for (const Tuple& t : tuples_of(Group::kBehaviour)) {
    const std::string name = behaviour_test_of(t);
    const size_t dot = name.find('.');
    const std::string test = "TEST(" + name.substr(0, dot) + ", " + name.substr(dot + 1) + ")";
    EXPECT_NE(sources.find(test), std::string::npos) << t.mnemonic << ": " << name;
  }
}

}  // namespace
}  // namespace tilewright::emulator::slow
