// Hostile programs through the driver: each ends in an error code that a driver gives and in a
// readable report, at loading, at the launch or at the next synchronisation; never in a crash, a
// hang or a host without memory.
#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

std::string program(std::string_view body, std::string_view declarations = "",
                    std::string_view directives = "", std::string_view before = "") {
  return ".version 8.0\n.target sm_90a\n.address_size 64\n" + std::string(before) +
         "\n.visible .entry k(.param .u64 a) " + std::string(directives) +
         "\n{\n  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %rd<16>; .reg .f32 %f<8>;\n" +
         std::string(declarations) + "\n  ld.param.u64 %rd1, [a];\n" + std::string(body) +
         "\n  ret;\n}\n";
}

std::string repeated(std::string_view text, int count) {
  std::string all;
  for (int n = 0; n < count; ++n) all += text;
  return all;
}

// `count` functions, each calling the next `calls` times.
std::string chain(int count, int calls) {
  std::string text;
  for (int n = count - 1; n >= 0; --n) {
    text += ".func f" + std::to_string(n) + "()\n{\n";
    if (n + 1 < count) text += repeated("  call f" + std::to_string(n + 1) + ";\n", calls);
    text += "  ret;\n}\n";
  }
  return text;
}

// Functions that call both of the next pair: the number of chains doubles at each level.
std::string lattice(int levels) {
  std::string text;
  for (int n = levels - 1; n >= 0; --n) {
    for (const char* side : {"a", "b"}) {
      text += std::string(".func ") + side + std::to_string(n) + "()\n{\n";
      for (const char* next : {"a", "b"}) {
        if (n + 1 < levels) text += std::string("  call ") + next + std::to_string(n + 1) + ";\n";
      }
      text += "  ret;\n}\n";
    }
  }
  return text;
}

enum class At { kLoad, kLaunch, kSync, kNever };
struct Row {
  const char* name;
  std::string text;
  At at;
  CUresult expected;
  const char* says;
  unsigned threads = 32;
  unsigned grid = 1;
};

void PrintTo(const Row& row, std::ostream* stream) { *stream << row.name; }

class DriverHostile : public DriverTest, public testing::WithParamInterface<Row> {};

TEST_P(DriverHostile, EndsInAnErrorAndAReport) {
  const Row& row = GetParam();
  TW_EXT(twEmulatorSetInstructionLimit, TwEmulatorSetInstructionLimitFn)(1'000'000);
  for (const int schedule :
       {TW_EMULATOR_SCHEDULE_EAGER, TW_EMULATOR_SCHEDULE_LAZY, TW_EMULATOR_SCHEDULE_RANDOM}) {
    TW_EXT(twEmulatorSetSchedule, TwEmulatorSetScheduleFn)(schedule, 5);
    TW_EXT(twEmulatorClearLastReport, TwEmulatorClearLastReportFn)();
    const auto judge = [&](At at, CUresult result) {
      EXPECT_EQ(result, row.at == at ? row.expected : CUDA_SUCCESS) << last_report();
      if (row.at == at) {
        EXPECT_NE(last_report().find(row.says), std::string::npos) << last_report();
      }
    };
    CUmodule module = nullptr;
    const CUresult loaded = TW_CU(cuModuleLoadData)(&module, row.text.c_str());
    judge(At::kLoad, loaded);
    if (loaded != CUDA_SUCCESS) break;
    CUfunction f = function(module, "k");
    CUdeviceptr a = allocate(4096);
    ASSERT_EQ(TW_CU(cuMemsetD32_v2)(a, 0, 1024), CUDA_SUCCESS);
    const CUresult launched = launch(f, {&a}, nullptr, row.grid, row.threads);
    judge(At::kLaunch, launched);
    if (launched == CUDA_SUCCESS) judge(At::kSync, TW_CU(cuCtxSynchronize)());
    ASSERT_EQ(TW_CU(cuDevicePrimaryCtxReset_v2)(device_), CUDA_SUCCESS);
  }
  TW_EXT(twEmulatorSetSchedule, TwEmulatorSetScheduleFn)(TW_EMULATOR_SCHEDULE_EAGER, 0);
}

constexpr CUresult kPtx = CUDA_ERROR_INVALID_PTX;
constexpr CUresult kTimeout = CUDA_ERROR_LAUNCH_TIMEOUT;
constexpr CUresult kAddress = CUDA_ERROR_ILLEGAL_ADDRESS;
constexpr CUresult kFailed = CUDA_ERROR_LAUNCH_FAILED;

std::vector<Row> rows() {
  const std::string touch = "  mov.u64 %rd2, l;\n  st.local.u32 [%rd2], 1;\n";
  const std::string barrier = "  .shared .align 8 .b8 b[8]; .shared .align 16 .b8 d[128];\n";
  const std::string addresses = "  mov.u32 %r1, b;\n  mov.u32 %r2, d;\n";
  return {
      {"Harmless", program(""), At::kNever, CUDA_SUCCESS, ""},
      // Texts.
      {"Nothing", "", At::kLoad, CUDA_ERROR_INVALID_IMAGE, ""},
      {"Noise", repeated("\x01\x02\xff", 1000), At::kLoad, kPtx, "expected '.version'"},
      {"Unfinished", ".version 8.0\n.target sm_90a\n.address_size 64\n.entry k( ", At::kLoad, kPtx,
       "expected a parameter"},
      {"DeepBlocks", program(repeated("{", 100'000)), At::kLoad, kPtx, "nested too deeply"},
      {"DeepExpression", program("", "", "", ".global .u32 g = " + repeated("(", 100'000) + "1;"),
       At::kLoad, kPtx, "nested too deeply"},
      {"ManyRegisters", program("", "  .reg .b32 %x<4294967295>;"), At::kLoad, kPtx,
       "too many registers"},
      {"LongVector", program("  mov.b64 %rd2, {%r1" + repeated(",%r1", 100'000) + "};"), At::kLoad,
       kPtx, "too long"},
      {"LongChainOfCalls", program("  call f0;", "", "", chain(3000, 1)), At::kLoad, kPtx,
       "calls in a chain"},
      {"ManyChainsOfCalls", program("", "", "", lattice(60) + "\n"), At::kNever, CUDA_SUCCESS, ""},
      {"ManyChainsOfCallsTaken", program("  call a0;", "", "", lattice(60)), At::kSync, kTimeout,
       "endless loop"},
      // Sizes.
      {"GlobalBeyondTheDevice", program("", "", "", ".global .b8 g[200000000000];"), At::kLoad,
       CUDA_ERROR_OUT_OF_MEMORY, "are free"},
      {"GlobalOverflow", program("", "", "", ".global .b8 g[4294967296][4294967296];"), At::kLoad,
       kPtx, "array size"},
      {"SharedBeyondTheBlock", program("  mov.u32 %r1, s;", "  .shared .b8 s[232449];"), At::kLoad,
       kPtx, "bytes of static shared memory"},
      {"SharedOverflow",
       program("  mov.u32 %r1, s;\n  st.shared.u32 [%r1], 1;", "  .shared .b8 s[4294967296];"),
       At::kLoad, kPtx, "bytes of static shared memory"},
      {"LocalBeyondTheThread", program(touch, "  .local .b8 l[524289];"), At::kLoad, kPtx,
       "bytes of local memory"},
      {"LocalOverflow", program(touch, "  .local .align 16 .b8 l[1099511627776];"), At::kLoad, kPtx,
       "bytes of local memory"},
      {"LocalOfAllBlocks",
       program(touch + "  atom.global.add.u32 %r1, [%rd1], 1;",
               "  .local .align 16 .b8 l[524224];"),
       At::kLaunch, CUDA_ERROR_OUT_OF_MEMORY, "blocks at once", 1024, 500},
      {"ManyThreadsAllowed", program("", "", ".maxntid 4294967295, 4294967295"), At::kNever,
       CUDA_SUCCESS, ""},
      {"ManyBlocksWanted", program("", "", ".maxntid 32 .minnctapersm 134217728"), At::kNever,
       CUDA_SUCCESS, ""},
      {"HugeCluster", program("", "", ".reqnctapercluster 2147483648, 2, 1"), At::kLaunch,
       CUDA_ERROR_INVALID_CLUSTER_SIZE, "beyond 8 blocks"},
      // Loops without an end.
      {"Endless", program("L:\n  bra L;"), At::kSync, kTimeout, "endless loop"},
      {"EndlessBarriers", program("L:\n  bar.sync 0;\n  bra L;", "", "", ""), At::kSync, kTimeout,
       "endless loop", 96},
      {"EndlessAtomics", program("L:\n  atom.global.add.u32 %r1, [%rd1], 1;\n  bra L;"), At::kSync,
       kTimeout, "endless loop", 32, 3},
      {"EndlessSleep", program("L:\n  nanosleep.u32 1000;\n  bra L;"), At::kSync, kTimeout,
       "endless loop"},
      {"EndlessPolling",
       program(addresses + "  mov.u32 %r3, %tid.x;\n  setp.eq.u32 %p1, %r3, 0;\n"
                           "  @%p1 mbarrier.init.shared.b64 [%r1], 1;\nL:\n"
                           "  mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;\n  @!%p2 bra L;",
               barrier),
       At::kSync, kTimeout, "endless loop"},
      {"NobodyArrives",
       program(addresses + "  mov.u32 %r3, %tid.x;\n  setp.eq.u32 %p1, %r3, 0;\n"
                           "  @%p1 mbarrier.init.shared.b64 [%r1], 1;\nL:\n"
                           "  mbarrier.try_wait.parity.shared.b64 %p2, [%r1], 0;\n  @!%p2 bra L;",
               barrier),
       At::kSync, kTimeout, "waits for the mbarrier"},
      {"Recursion", program("  call f;", "", "", ".func f()\n{\n  call f;\n  ret;\n}"), At::kSync,
       kAddress, "stack overflow"},
      {"CopiesWithoutEnd",
       program(addresses + "L:\n  cp.async.ca.shared.global [%r2], [%rd1], 16;\n  bra L;", barrier),
       At::kSync, kFailed, "with no wait"},
      {"BulkStoresWithoutEnd",
       program(addresses + "  st.shared.v4.u32 [%r2], {%r1, %r1, %r1, %r1};\nL:\n"
                           "  cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;\n"
                           "  cp.async.bulk.commit_group;\n  bra L;",
               barrier),
       At::kSync, kFailed, "with no wait", 1},
      // Addresses.
      {"Null", program("  mov.u64 %rd2, 0;\n  st.global.u32 [%rd2], 1;"), At::kSync, kAddress,
       "below every allocation"},
      {"Wrapping",
       program("  mov.u64 %rd2, 0xfffffffffffffff0;\n  st.global.v2.u64 [%rd2], {%rd1, "
               "%rd1};"),
       At::kSync, kAddress, "0xfffffffffffffff0"},
      {"SharedBelow", program("  mov.u32 %r1, -4;\n  st.shared.u32 [%r1], 1;", barrier), At::kSync,
       kAddress, "shared address"},
      {"BulkOfAGigabyte",
       program(addresses + "  mbarrier.init.shared.b64 [%r1], 1;\n  mov.u32 %r3, 0xfffffff0;\n"
                           "  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                           "[%r2], [%rd1], %r3, [%r1];",
               barrier),
       At::kSync, kFailed, "4294967280 bytes", 1},
      {"NoFunction",
       program("  mov.u64 %rd2, 12345;\n  t: .callprototype _ ();\n  call %rd2, (), t;"), At::kSync,
       CUDA_ERROR_ILLEGAL_INSTRUCTION, "no function"},
      {"NoTarget", program("  mov.u32 %r1, -1;\n  t: .branchtargets X;\n  brx.idx %r1, t;\nX:"),
       At::kSync, CUDA_ERROR_ILLEGAL_INSTRUCTION, "branch index"},
      {"NoDescriptor",
       program("  mov.u64 %rd2, -1;\n  mov.f32 %f0, 0f00000000;\n  wgmma.fence.sync.aligned;\n"
               "  wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f0, %f1, %f2, %f3}, %rd2, "
               "%rd2, 0, 1, 1, 0, 0;",
               barrier),
       At::kSync, kFailed, "descriptor", 128},
      {"NoMap",
       program(addresses + "  mbarrier.init.shared.b64 [%r1], 1;\n"
                           "  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::"
                           "complete_tx::bytes [%r2], [%rd1, {%r1, %r1}], [%r1];",
               "  .shared .align 8 .b8 b[8]; .shared .align 128 .b8 d[128];"),
       At::kSync, kFailed, "no tensor map", 1},
  };
}

INSTANTIATE_TEST_SUITE_P(Rows, DriverHostile, testing::ValuesIn(rows()),
                         [](const auto& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace tilewright::emulator
