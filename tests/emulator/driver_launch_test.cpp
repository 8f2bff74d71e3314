// Launches: what is refused before anything runs, what runs, and what a fault leaves behind.
#include <array>

#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

TEST_F(DriverTest, VectorAddAddsVectors) {
  const CUfunction add = function(load(), "vector_add");
  std::vector<float> a(1000), b(1000), expected(1000);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    b[i] = 0.5f * static_cast<float>(i) + 1;
    expected[i] = a[i] + b[i];
  }
  CUdeviceptr da = upload(a), db = upload(b), dc = allocate(4000);
  unsigned n = 1000;
  ASSERT_EQ(launch(add, {&da, &db, &dc, &n}, nullptr, 8, 128), CUDA_SUCCESS) << last_report();
  ASSERT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(download(dc, 1000), expected);

  size_t count = 0;
  ASSERT_EQ(TW_EXT(twEmulatorGetCounters, TwEmulatorGetCountersFn)(nullptr, 0, &count),
            CUDA_SUCCESS);
  std::vector<TwEmulatorCounter> counters(count);
  ASSERT_EQ(TW_EXT(twEmulatorGetCounters, TwEmulatorGetCountersFn)(counters.data(), count, &count),
            CUDA_SUCCESS);
  bool seen = false;
  for (const TwEmulatorCounter& counter : counters) {
    seen |= std::string_view(counter.name).starts_with("mad") && counter.count >= 32;
  }
  EXPECT_TRUE(seen);
}

TEST_F(DriverTest, PackedParametersWorkLikePointers) {
  const CUfunction add = function(load(), "vector_add");
  struct {
    CUdeviceptr a, b, c;
    unsigned n;
  } packed = {upload({1, 2}), upload({10, 20}), allocate(8), 2};
  size_t size = sizeof(packed);  // four bytes of padding
  std::array<void*, 5> extra = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed,
                                CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  const auto run = [&] {
    return TW_CU(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra.data());
  };
  ASSERT_EQ(run(), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(download(packed.c, 2), (std::vector<float>{11, 22}));
  size = 20;
  EXPECT_EQ(run(), CUDA_ERROR_INVALID_VALUE);
  size = 400;
  EXPECT_EQ(run(), CUDA_ERROR_INVALID_VALUE);
  size = sizeof(packed);
  void* values[] = {&packed.a, &packed.b, &packed.c, &packed.n};
  EXPECT_EQ(TW_CU(cuLaunchKernel)(add, 1, 1, 1, 32, 1, 1, 0, nullptr, values, extra.data()),
            CUDA_ERROR_INVALID_VALUE);
}

struct ShapeRow {
  const char* name;
  const char* kernel;
  std::array<unsigned, 3> grid, block;
  unsigned shared;
  CUresult expected;
};

class DriverLaunchShape : public DriverTest, public testing::WithParamInterface<ShapeRow> {};

TEST_P(DriverLaunchShape, IsJudged) {
  const ShapeRow& row = GetParam();
  const CUfunction f = function(load(), row.kernel);
  EXPECT_EQ(
      TW_CU(cuLaunchKernel)(f, row.grid[0], row.grid[1], row.grid[2], row.block[0], row.block[1],
                            row.block[2], row.shared, nullptr, nullptr, nullptr),
      row.expected)
      << last_report();
  EXPECT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_SUCCESS);
}

constexpr CUresult kOk = CUDA_SUCCESS;
constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;
constexpr ShapeRow kShapes[] = {
    {"One", "nothing", {1, 1, 1}, {1, 1, 1}, 0, kOk},
    {"MostThreads", "nothing", {1, 1, 1}, {32, 32, 1}, 0, kOk},
    {"DeepBlock", "nothing", {1, 1, 1}, {1, 1, 64}, 0, kOk},
    {"BlockTooDeep", "nothing", {1, 1, 1}, {1, 1, 65}, 0, kInvalid},
    {"BlockTooWide", "nothing", {1, 1, 1}, {1025, 1, 1}, 0, kInvalid},
    {"TooManyThreads", "nothing", {1, 1, 1}, {33, 32, 1}, 0, kInvalid},
    {"ProductOverflows", "nothing", {1, 1, 1}, {1024, 1024, 64}, 0, kInvalid},
    {"ZeroGrid", "nothing", {0, 1, 1}, {1, 1, 1}, 0, kInvalid},
    {"ZeroBlock", "nothing", {1, 1, 1}, {1, 0, 1}, 0, kInvalid},
    {"GridTooTall", "nothing", {1, 65536, 1}, {1, 1, 1}, 0, kInvalid},
    {"GridTooDeep", "nothing", {1, 1, 65536}, {1, 1, 1}, 0, kInvalid},
    {"GridTooWide", "nothing", {0x80000000u, 1, 1}, {1, 1, 1}, 0, kInvalid},
    {"DefaultShared", "nothing", {1, 1, 1}, {1, 1, 1}, 49152, kOk},
    {"SharedWithoutOptIn", "nothing", {1, 1, 1}, {1, 1, 1}, 49153, kInvalid},
    {"WithinBounds", "bounded", {1, 1, 1}, {128, 1, 1}, 0, kOk},
    {"BeyondBounds", "bounded", {1, 1, 1}, {129, 1, 1}, 0, kInvalid},
    {"Required", "exact", {1, 1, 1}, {64, 2, 1}, 0, kOk},
    {"NotRequired", "exact", {1, 1, 1}, {128, 1, 1}, 0, kInvalid},
    {"NoParameters", "store", {1, 1, 1}, {1, 1, 1}, 0, kInvalid},
};
INSTANTIATE_TEST_SUITE_P(Rows, DriverLaunchShape, testing::ValuesIn(kShapes),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_F(DriverTest, SharedMemoryNeedsTheOptInAndEndsAtTheProfile) {
  const CUfunction nothing = function(load(), "nothing");
  const auto set = [&](int bytes) {
    return TW_CU(cuFuncSetAttribute)(nothing, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                     bytes);
  };
  EXPECT_EQ(set(232448), CUDA_SUCCESS);
  EXPECT_EQ(launch(nothing, {}, nullptr, 1, 32, 232448), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(set(232449), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(set(-1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(set(1024), CUDA_SUCCESS);
  EXPECT_EQ(launch(nothing, {}, nullptr, 1, 32, 1025), CUDA_ERROR_INVALID_VALUE);
}

// A parameter is as aligned at its generic address as its declaration says, whatever precedes it.
TEST_F(DriverTest, ParametersAreAlignedAtTheirAddresses) {
  for (const char* target : {"sm_80", "sm_90a"}) {
    const std::string ptx = std::string(".version 8.0\n.target ") + target + R"(
.address_size 64
.visible .entry places(.param .u32 first, .param .align 64 .b8 line[64],
                       .param .align 128 .b8 map[128], .param .u64 out)
{
  .reg .b32 %r1;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd0, [out];
  mov.b64 %rd1, line;
  cvta.param.u64 %rd1, %rd1;
  st.global.u64 [%rd0], %rd1;
  mov.b64 %rd2, map;
  cvta.param.u64 %rd2, %rd2;
  st.global.u64 [%rd0+8], %rd2;
  ld.u32 %r1, [%rd2+124];
  st.global.u32 [%rd0+16], %r1;
  ret;
}
)";
    const CUfunction places = function(load(ptx.c_str()), "places");
    unsigned first = 1;
    std::array<unsigned, 16> line{};
    std::array<unsigned, 32> map{};
    map[31] = 77;
    CUdeviceptr out = allocate(24);
    ASSERT_EQ(launch(places, {&first, line.data(), map.data(), &out}), CUDA_SUCCESS)
        << last_report();
    ASSERT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_SUCCESS) << last_report();
    std::array<uint64_t, 3> seen{};
    ASSERT_EQ(TW_CU(cuMemcpyDtoH_v2)(seen.data(), out, 20), CUDA_SUCCESS);
    EXPECT_EQ(seen[0] % 64, 0u) << target;
    EXPECT_EQ(seen[1] % 128, 0u) << target;
    EXPECT_EQ(seen[2], 77u) << target;
  }
}

// Static bytes count towards the 48 KB that need no opt-in; any opt-in may pass that sum.
TEST_F(DriverTest, StaticSharedMemoryCountsTowardsTheDefault) {
  const CUfunction half = function(load(R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry half()
{
  .shared .align 4 .b8 table[32784];
  ret;
}
)"),
                                   "half");
  int allowed = 0;
  ASSERT_EQ(
      TW_CU(cuFuncGetAttribute)(&allowed, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, half),
      CUDA_SUCCESS);
  EXPECT_EQ(allowed, 49152 - 32784);
  EXPECT_EQ(launch(half, {}, nullptr, 1, 32, 16368), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(launch(half, {}, nullptr, 1, 32, 16369), CUDA_ERROR_INVALID_VALUE);
  const auto set = [&](int bytes) {
    return TW_CU(cuFuncSetAttribute)(half, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes);
  };
  ASSERT_EQ(set(32768), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(launch(half, {}, nullptr, 1, 32, 32768), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(launch(half, {}, nullptr, 1, 32, 32769), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(set(232448 - 32784 + 1), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverTest, RegistersLimitTheBlock) {
  const CUfunction nothing = function(load(), "nothing");
  const TwEmulatorResources resources = {sizeof(resources), 255, 0, -1, -1, -1};
  ASSERT_EQ(TW_EXT(twEmulatorSetResources, TwEmulatorSetResourcesFn)(nothing, &resources),
            CUDA_SUCCESS);
  int threads = 0, registers = 0;
  ASSERT_EQ(TW_CU(cuFuncGetAttribute)(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, nothing),
            CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuFuncGetAttribute)(&registers, CU_FUNC_ATTRIBUTE_NUM_REGS, nothing),
            CUDA_SUCCESS);
  EXPECT_EQ(threads, 256);
  EXPECT_EQ(registers, 255);
  EXPECT_EQ(launch(nothing, {}, nullptr, 1, 512), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_EQ(launch(nothing, {}, nullptr, 1, 256), CUDA_SUCCESS);
}

CUresult launch_cluster(CUfunction f, unsigned grid, unsigned cluster) {
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  attribute.value.clusterDim = {cluster, 1, 1};
  CUlaunchConfig config{};
  config.gridDimX = grid;
  config.gridDimY = config.gridDimZ = 1;
  config.blockDimX = 32;
  config.blockDimY = config.blockDimZ = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  return TW_CU(cuLaunchKernelEx)(&config, f, nullptr, nullptr);
}

TEST_F(DriverTest, ClustersDivideTheGridAndHaveASize) {
  const CUfunction nothing = function(load(), "nothing");
  EXPECT_EQ(launch_cluster(nothing, 8, 8), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(launch_cluster(nothing, 9, 2), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch_cluster(nothing, 8, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch_cluster(nothing, 16, 16), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  ASSERT_EQ(
      TW_CU(cuFuncSetAttribute)(nothing, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1),
      CUDA_SUCCESS);
  EXPECT_EQ(launch_cluster(nothing, 16, 16), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(launch_cluster(nothing, 32, 32), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  CUlaunchConfig config{};
  config.numAttrs = 1;
  EXPECT_EQ(TW_CU(cuLaunchKernelEx)(&config, nothing, nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  CUcontext ampere = nullptr;
  ASSERT_EQ(TW_CU(cuCtxCreate_v2)(&ampere, 0, device_named("A100")), CUDA_SUCCESS);
  EXPECT_EQ(launch_cluster(function(load(), "nothing"), 8, 2), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(launch(nothing, {}), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(TW_CU(cuCtxDestroy_v2)(ampere), CUDA_SUCCESS);
}

TEST_F(DriverTest, CooperativeGridsMustBeResident) {
  const CUfunction nothing = function(load(), "nothing");
  int blocks = 0;
  ASSERT_EQ(TW_CU(cuOccupancyMaxActiveBlocksPerMultiprocessor)(&blocks, nothing, 1024, 0),
            CUDA_SUCCESS);
  const auto grid = static_cast<unsigned>(blocks) * 132;
  const auto run = [&](unsigned count) {
    return TW_CU(cuLaunchCooperativeKernel)(nothing, count, 1, 1, 1024, 1, 1, 0, nullptr, nullptr);
  };
  EXPECT_EQ(run(grid), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(run(grid + 1), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
}

struct FaultRow {
  const char* name;
  const char* kernel;
  bool has_parameters;
  CUdeviceptr offset;  // from the end of a 64-byte allocation
  CUresult expected;
};

class DriverFault : public DriverTest, public testing::WithParamInterface<FaultRow> {};

TEST_P(DriverFault, SticksUntilTheContextGoes) {
  const FaultRow& row = GetParam();
  TW_EXT(twEmulatorSetInstructionLimit, TwEmulatorSetInstructionLimitFn)(100000);
  const CUfunction f = function(load(), row.kernel);
  CUdeviceptr to = allocate(64) + 64 + row.offset;
  unsigned value = 1;
  std::vector<void*> values;
  if (row.has_parameters) values = {&to, &value};
  EXPECT_EQ(launch(f, values), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuCtxSynchronize)(), row.expected) << last_report();
  EXPECT_NE(last_report().find(row.kernel), std::string::npos) << last_report();
  // Every call of the context answers the fault now.
  CUdeviceptr more = 0;
  CUstream stream = nullptr;
  EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&more, 4), row.expected);
  EXPECT_EQ(TW_CU(cuStreamCreate)(&stream, 0), row.expected);
  EXPECT_EQ(launch(f, values), row.expected);
  // Another context of the same device is well, and a reset heals this one.
  CUcontext other = nullptr;
  ASSERT_EQ(TW_CU(cuCtxCreate_v2)(&other, 0, device_), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuCtxDestroy_v2)(other), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuDevicePrimaryCtxReset_v2)(device_), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_SUCCESS);
}

constexpr FaultRow kFaults[] = {
    {"OutOfBounds", "store", true, 0, CUDA_ERROR_ILLEGAL_ADDRESS},
    {"Misaligned", "store", true, static_cast<CUdeviceptr>(-2), CUDA_ERROR_MISALIGNED_ADDRESS},
    {"Trap", "stop", false, 0, CUDA_ERROR_LAUNCH_FAILED},
    {"Endless", "endless", false, 0, CUDA_ERROR_LAUNCH_TIMEOUT},
};
INSTANTIATE_TEST_SUITE_P(Rows, DriverFault, testing::ValuesIn(kFaults),
                         [](const auto& row) { return std::string(row.param.name); });

TEST_F(DriverTest, FreedMemoryIsAnIllegalAddress) {
  const CUfunction store = function(load(), "store");
  CUdeviceptr to = allocate(64);
  unsigned value = 1;
  ASSERT_EQ(TW_CU(cuMemFree_v2)(to), CUDA_SUCCESS);
  ASSERT_EQ(launch(store, {&to, &value}), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuCtxSynchronize)(), CUDA_ERROR_ILLEGAL_ADDRESS);
  TW_CU(cuDevicePrimaryCtxReset_v2)(device_);
}

TEST_F(DriverTest, ElapsedTimeIsNotInvented) {
  CUevent start = nullptr, end = nullptr;
  ASSERT_EQ(TW_CU(cuEventCreate)(&start, 0), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuEventCreate)(&end, 0), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuEventRecord)(start, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuEventRecord)(end, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuEventSynchronize)(end), CUDA_SUCCESS);
  float milliseconds = -1;
  EXPECT_EQ(TW_CU(cuEventElapsedTime)(&milliseconds, start, end), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(milliseconds, -1);
  EXPECT_NE(last_report().find("simulated time"), std::string::npos);
}

}  // namespace
}  // namespace tilewright::emulator
