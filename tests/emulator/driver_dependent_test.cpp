// cuLaunchKernelEx: clusters, and programmatic dependent launches, which may overlap the kernel
// before them in their stream under the schedules lazy and random.
#include <algorithm>

#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

constexpr const char* kProgram = R"(
.version 8.0
.target sm_90
.address_size 64
// Word 0: the primary's; word 1: word 0 as seen before the wait; word 2: behind it.
.visible .entry primary(.param .u64 out)
{
  .reg .b64 %rd1;
  ld.param.u64 %rd1, [out];
  griddepcontrol.launch_dependents;
  st.global.u32 [%rd1], 5;
  ret;
}
.visible .entry broken(.param .u64 out)
{
  griddepcontrol.launch_dependents;
  trap;
}
.visible .entry dependent(.param .u64 out)
{
  .reg .b64 %rd1; .reg .b32 %r<3>;
  ld.param.u64 %rd1, [out];
  ld.global.u32 %r1, [%rd1];
  st.global.u32 [%rd1+4], %r1;
  griddepcontrol.wait;
  ld.global.u32 %r2, [%rd1];
  st.global.u32 [%rd1+8], %r2;
  ret;
}
// Each block stores what its neighbour in the cluster wrote to its shared memory.
.visible .entry neighbours(.param .u64 out)
{
  .reg .b64 %rd<4>; .reg .b32 %r<10>;
  .shared .align 4 .b8 word[4];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %cluster_ctarank;
  mov.u32 %r2, %cluster_nctarank;
  mov.u32 %r3, %ctaid.x;
  mov.u32 %r4, word;
  add.u32 %r5, %r3, 100;
  st.shared.u32 [%r4], %r5;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  add.u32 %r6, %r1, 1;
  rem.u32 %r6, %r6, %r2;
  mapa.shared::cluster.u32 %r7, %r4, %r6;
  ld.shared::cluster.u32 %r8, [%r7];
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r8;
  barrier.cluster.arrive.aligned;
  barrier.cluster.wait.aligned;
  ret;
}
.visible .entry pairs() .reqnctapercluster 2, 1, 1 { ret; }
.visible .entry clusters_only() .explicitcluster { ret; }
)";

class DriverDependent : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    module_ = load(kProgram);
    out_ = allocate(64);
    EXPECT_EQ(TW_CU(cuStreamCreate)(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  }
  void TearDown() override {
    set_schedule(TW_EMULATOR_SCHEDULE_EAGER, 0);
    DriverTest::TearDown();
  }

  static void set_schedule(int kind, uint64_t seed) {
    TW_EXT(twEmulatorSetSchedule, TwEmulatorSetScheduleFn)(kind, seed);
  }
  CUresult run(const char* name, CUstream stream, std::vector<CUlaunchAttribute> attributes,
               unsigned grid = 1) {
    CUlaunchConfig config{};
    config.gridDimX = grid;
    config.gridDimY = config.gridDimZ = 1;
    config.blockDimX = 32;
    config.blockDimY = config.blockDimZ = 1;
    config.hStream = stream;
    config.attrs = attributes.data();
    config.numAttrs = static_cast<unsigned>(attributes.size());
    void* values[] = {&out_};
    return TW_CU(cuLaunchKernelEx)(&config, function(module_, name), values, nullptr);
  }
  static CUlaunchAttribute overlapping(int allowed = 1) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attribute.value.programmaticStreamSerializationAllowed = allowed;
    return attribute;
  }
  static CUlaunchAttribute clusters(unsigned size) {
    CUlaunchAttribute attribute{};
    attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attribute.value.clusterDim = {size, 1, 1};
    return attribute;
  }
  void clear() { ASSERT_EQ(TW_CU(cuMemsetD32_v2)(out_, 0, 16), CUDA_SUCCESS) << last_report(); }
  std::vector<unsigned> words() {
    std::vector<unsigned> values(16);
    EXPECT_EQ(TW_CU(cuMemcpyDtoH_v2)(values.data(), out_, 64), CUDA_SUCCESS) << last_report();
    return values;
  }

  CUmodule module_ = nullptr;
  CUdeviceptr out_ = 0;
  CUstream stream_ = nullptr;
};

TEST_F(DriverDependent, OverlapsItsPrimaryWhereItMay) {
  const auto seen_before_wait = [&](std::vector<CUlaunchAttribute> attributes) {
    clear();
    EXPECT_EQ(run("primary", stream_, {}), CUDA_SUCCESS);
    EXPECT_EQ(run("dependent", stream_, attributes), CUDA_SUCCESS) << last_report();
    const std::vector<unsigned> values = words();
    EXPECT_EQ(values[0], 5u);
    EXPECT_EQ(values[2], 5u);
    return values[1];
  };
  EXPECT_EQ(seen_before_wait({overlapping()}), 5u);  // eager
  set_schedule(TW_EMULATOR_SCHEDULE_LAZY, 0);
  EXPECT_EQ(seen_before_wait({overlapping()}), 0u);
  EXPECT_EQ(seen_before_wait({overlapping(0)}), 5u);
  EXPECT_EQ(seen_before_wait({}), 5u);
  std::vector<unsigned> drawn;
  for (uint64_t seed = 0; seed < 16; ++seed) {
    set_schedule(TW_EMULATOR_SCHEDULE_RANDOM, seed);
    drawn.push_back(seen_before_wait({overlapping()}));
    EXPECT_EQ(drawn.back(), seen_before_wait({overlapping()})) << "seed " << seed;
  }
  EXPECT_NE(std::count(drawn.begin(), drawn.end(), 0u), 0);
  EXPECT_NE(std::count(drawn.begin(), drawn.end(), 5u), 0);
}

// What comes between, or on another stream, ends the primary first.
TEST_F(DriverDependent, OnlyFollowsInItsStream) {
  set_schedule(TW_EMULATOR_SCHEDULE_LAZY, 0);
  clear();
  ASSERT_EQ(run("primary", stream_, {}), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuMemsetD32Async)(out_ + 32, 1, 1, stream_), CUDA_SUCCESS);
  ASSERT_EQ(run("dependent", stream_, {overlapping()}), CUDA_SUCCESS);
  EXPECT_EQ(words()[1], 5u);
  clear();
  ASSERT_EQ(run("primary", stream_, {}), CUDA_SUCCESS);
  ASSERT_EQ(run("dependent", nullptr, {overlapping()}), CUDA_SUCCESS);
  EXPECT_EQ(words()[1], 5u);
  // A primary with no dependent has run by the time anybody can look.
  clear();
  ASSERT_EQ(run("primary", stream_, {}), CUDA_SUCCESS);
  EXPECT_EQ(words()[0], 5u);
  // Captured, and launched as a graph.
  clear();
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  ASSERT_EQ(TW_CU(cuStreamBeginCapture_v2)(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
            CUDA_SUCCESS);
  ASSERT_EQ(run("primary", stream_, {}), CUDA_SUCCESS);
  ASSERT_EQ(run("dependent", stream_, {overlapping()}), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuStreamEndCapture)(stream_, &graph), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuGraphInstantiateWithFlags)(&exec, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuGraphLaunch)(exec, stream_), CUDA_SUCCESS);
  EXPECT_EQ(words()[1], 0u);
  EXPECT_EQ(words()[2], 5u);
  ASSERT_EQ(TW_CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
}

TEST_F(DriverDependent, FaultsOfAHeldKernelShow) {
  set_schedule(TW_EMULATOR_SCHEDULE_LAZY, 0);
  ASSERT_EQ(run("broken", stream_, {}), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuStreamSynchronize)(stream_), CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_NE(last_report().find("broken"), std::string::npos) << last_report();
  TW_CU(cuDevicePrimaryCtxReset_v2)(device_);
  // A context that goes takes its held kernel along, and the module with it.
  CUcontext other = nullptr;
  ASSERT_EQ(TW_CU(cuCtxCreate_v2)(&other, 0, device_), CUDA_SUCCESS);
  module_ = load(kProgram);
  out_ = allocate(64);
  ASSERT_EQ(run("primary", nullptr, {}), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuCtxDestroy_v2)(other), CUDA_SUCCESS);
}

TEST_F(DriverDependent, ClustersReachTheirNeighbours) {
  for (const int kind :
       {TW_EMULATOR_SCHEDULE_EAGER, TW_EMULATOR_SCHEDULE_LAZY, TW_EMULATOR_SCHEDULE_RANDOM}) {
    set_schedule(kind, 3);
    for (const unsigned size : {1u, 2u, 4u}) {
      clear();
      ASSERT_EQ(run("neighbours", stream_, {clusters(size)}, 8), CUDA_SUCCESS) << last_report();
      ASSERT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_SUCCESS) << last_report();
      const std::vector<unsigned> values = words();
      for (unsigned block = 0; block < 8; ++block) {
        EXPECT_EQ(values[block], 100 + block / size * size + (block + 1) % size);
      }
    }
  }
  EXPECT_EQ(run("neighbours", stream_, {clusters(3)}, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_NE(last_report().find("no multiple of cluster"), std::string::npos) << last_report();
  // Compiled in: no attribute is needed, and another one is refused.
  EXPECT_EQ(run("pairs", stream_, {}, 8), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(run("pairs", stream_, {clusters(2)}, 8), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(run("pairs", stream_, {clusters(4)}, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(run("pairs", stream_, {}, 7), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(run("clusters_only", stream_, {}, 8), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(run("clusters_only", stream_, {clusters(2)}, 8), CUDA_SUCCESS) << last_report();
}

}  // namespace
}  // namespace tilewright::emulator
