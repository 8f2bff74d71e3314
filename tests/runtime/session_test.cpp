// The public API on an emulated device: devices, planning, launching, contexts, graphs, threads.
#include "tilewright/session.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "emulator/driver/symbols.h"
#include "runtime/device.h"
#include "runtime/session_access.h"
#include "tests/runtime/runtime_test_support.h"

namespace tilewright::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kProblem = "hq2 hkv1 qk32 v16 fp16";

// Device memory for one scope.
class DeviceBuffer {
 public:
  DeviceBuffer(Session& session, const std::vector<uint16_t>& values)
      : session_(session), bytes_(static_cast<int64_t>(values.size() * sizeof(uint16_t))) {
    Result<void*> memory = session_.allocate(bytes_);
    TW_CHECK(memory.ok(), "{}", memory.error().to_string());
    data_ = *memory;
    const Status copied = session_.copy_in(data_, values.data(), bytes_);
    TW_CHECK(copied.ok(), "{}", copied.error().to_string());
  }
  ~DeviceBuffer() { EXPECT_TRUE(session_.release(data_).ok()); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* data() const { return data_; }
  std::vector<uint16_t> read() const {
    std::vector<uint16_t> values(static_cast<size_t>(bytes_) / sizeof(uint16_t));
    EXPECT_TRUE(session_.copy_out(values.data(), data_, bytes_).ok());
    return values;
  }

 private:
  Session& session_;
  int64_t bytes_;
  void* data_ = nullptr;
};

// [1, rows, heads, dim], contiguous.
Tensor matrix(const DeviceBuffer& buffer, int64_t rows, int64_t heads, int64_t dim) {
  return {.data = buffer.data(),
          .dtype = Dtype::kFloat16,
          .rank = 4,
          .shape = {1, rows, heads, dim},
          .strides = {rows * heads * dim, heads * dim, dim, 1}};
}

std::vector<uint16_t> filled(int64_t count, uint16_t value) {
  return std::vector<uint16_t>(static_cast<size_t>(count), value);
}

constexpr uint16_t kOne = 0x3c00, kTwo = 0x4000, kNan = 0x7e00;  // of fp16

// One launch of kProblem: seqlen_q 3, seqlen_k 5; all values of V are `value`, so every output is.
struct Launch {
  Launch(Session& session, uint16_t value)
      : q(session, filled(3 * 2 * 32, kOne)),
        k(session, filled(5 * 1 * 32, kOne)),
        v(session, filled(5 * 1 * 16, value)),
        out(session, filled(3 * 2 * 16, kNan)),
        lse(session, filled(2 * 2 * 3, kNan)) {
    tensors.q = matrix(q, 3, 2, 32);
    tensors.k = matrix(k, 5, 1, 32);
    tensors.v = matrix(v, 5, 1, 16);
    tensors.out = matrix(out, 3, 2, 16);
    tensors.lse = {.data = lse.data(),
                   .dtype = Dtype::kFloat32,
                   .rank = 3,
                   .shape = {1, 2, 3},
                   .strides = {6, 3, 1}};
  }
  DeviceBuffer q, k, v, out, lse;
  LaunchTensors tensors;
};
constexpr Shape kShape{.batch = 1, .seqlen_q = 3, .seqlen_k = 5};

class SessionTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    session_ = open();
    kernel_ = std::make_unique<Kernel>(*session_->prepare(*Problem::parse(kProblem)));
    plan_ = std::make_unique<LaunchPlan>(*kernel_->plan(kShape));
  }
  static void TearDownTestSuite() {
    plan_.reset();
    kernel_.reset();
    session_.reset();
    folder_.reset();
  }
  static Options options() { return {.device = "emulated:a100", .cache_dir = *folder_ / "cache"}; }
  static std::unique_ptr<Session> open() { return *Session::open(options()); }

  // The message of a launch that must be refused.
  static std::string refusal(const LaunchTensors& tensors, const LaunchPlan& plan = *plan_) {
    const Status status = kernel_->launch(nullptr, plan, tensors);
    EXPECT_FALSE(status.ok());
    if (status.ok()) return {};
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    return status.error().to_string();
  }

  static std::unique_ptr<TemporaryFolder> folder_;
  static std::unique_ptr<Session> session_;
  static std::unique_ptr<Kernel> kernel_;
  static std::unique_ptr<LaunchPlan> plan_;
};
std::unique_ptr<TemporaryFolder> SessionTest::folder_;
std::unique_ptr<Session> SessionTest::session_;
std::unique_ptr<Kernel> SessionTest::kernel_;
std::unique_ptr<LaunchPlan> SessionTest::plan_;

TEST_F(SessionTest, OpensEveryProfile) {
  for (const DeviceProfile& profile : device_profiles()) {
    const auto session = Session::open({.device = "emulated:" + std::string(profile.name)});
    ASSERT_TRUE(session.ok()) << session.error().to_string();
    const DeviceInfo device = (*session)->device();
    EXPECT_THAT(device.name,
                AllOf(HasSubstr(std::string(profile.marketing)), EndsWith(" (emulated)")));
    EXPECT_TRUE(device.simulated);
    EXPECT_EQ(device.target, profile.arch.target());
    EXPECT_EQ(device.num_sms, profile.arch.num_sms);
    EXPECT_EQ(device.memory_bytes, profile.memory_bytes);
    // Planning for a profile and for its opened device must agree.
    const Arch& arch = SessionAccess::device(**session).arch();
    EXPECT_EQ(arch.shared_bytes_per_block, profile.arch.shared_bytes_per_block);
    EXPECT_EQ(arch.shared_bytes_per_sm, profile.arch.shared_bytes_per_sm);
    EXPECT_EQ(arch.max_warps_per_sm, profile.arch.max_warps_per_sm);
    EXPECT_EQ(arch.max_blocks_per_sm, profile.arch.max_blocks_per_sm);
    EXPECT_EQ(arch.l2_bytes, profile.arch.l2_bytes);
  }
}

TEST_F(SessionTest, BadDeviceNamesAreErrors) {
  const auto error_of = [](const char* name) { return Session::open({.device = name}).error(); };
  EXPECT_EQ(error_of("gpu").code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error_of("gpu").message, HasSubstr("cuda:N or emulated:PROFILE"));
  EXPECT_EQ(error_of("cuda:").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of("cuda:-1").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of("cuda:1x").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(error_of("emulated:z80").code, ErrorCode::kNotFound);
  EXPECT_THAT(error_of("emulated:z80").message, AllOf(HasSubstr("z80"), HasSubstr("h100")));
  EXPECT_EQ(error_of("cuda:99").code, ErrorCode::kNoDevice);
}

TEST_F(SessionTest, PreparesFromMemoryDiskAndCompiler) {
  EXPECT_EQ(kernel_->origin(), BinaryOrigin::kCompiled);
  EXPECT_GT(kernel_->compile_seconds(), 0);
  const int64_t hits = session_->cache_counters().memory_hits;
  EXPECT_EQ(session_->prepare(*Problem::parse(kProblem))->entries()[0].function,
            kernel_->entries()[0].function);
  EXPECT_EQ(session_->cache_counters().memory_hits, hits + 1);
  EXPECT_EQ(session_->cache_counters().compiled, 1);

  const std::unique_ptr<Session> second = open();
  const Kernel again = *second->prepare(*Problem::parse(kProblem));
  EXPECT_EQ(again.origin(), BinaryOrigin::kDisk);
  EXPECT_EQ(again.ptx(), kernel_->ptx());
  EXPECT_EQ(second->cache_counters().compiled, 0);
  EXPECT_FALSE(SessionAccess::compiler_loaded(*second));
  EXPECT_TRUE(SessionAccess::compiler_loaded(*session_));
}

TEST_F(SessionTest, LengthsDoNotMakeAnotherKernel) {
  const Kernel other = *session_->prepare(*Problem::parse("b7 hq2 hkv1 q9 k9 qk32 v16 fp16"));
  if (other.config_text() == kernel_->config_text()) {
    EXPECT_EQ(other.entries()[0].function, kernel_->entries()[0].function);
    EXPECT_EQ(session_->cache_counters().compiled, 1);
  }
}

TEST_F(SessionTest, ImpossibleProblemsListTheirReasons) {
  const auto kernel = session_->prepare(*Problem::parse("hq3 hkv2 qk32 v16 fp16"));
  ASSERT_FALSE(kernel.ok());
  EXPECT_THAT(kernel.error().to_string(), HasSubstr("3"));
  const auto headless = session_->prepare(Problem{});
  ASSERT_FALSE(headless.ok());
  EXPECT_EQ(headless.error().code, ErrorCode::kUnsupportedProblem);
  EXPECT_FALSE(headless.error().reasons.empty());
}

TEST_F(SessionTest, RawAccess) {
  EXPECT_THAT(std::string(kernel_->ptx()), HasSubstr(".entry " + kernel_->entries()[0].name));
  ASSERT_GT(kernel_->cubin().size(), 4u);
  EXPECT_EQ(std::memcmp(kernel_->cubin().data(),
                        "\x7f"
                        "ELF",
                        4),
            0);
  EXPECT_THAT(std::string(kernel_->source()), HasSubstr(kernel_->entries()[0].name));
  EXPECT_NE(kernel_->entries()[0].function, nullptr);
  EXPECT_GT(kernel_->entries()[0].resources.registers, 0);
  EXPECT_EQ(kernel_->entries()[0].resources.spill_load_bytes, 0);
  const Launch launch(*session_, kOne);
  const auto params = kernel_->pack_params(*plan_, launch.tensors);
  ASSERT_TRUE(params.ok());
  const void* q = nullptr;
  std::memcpy(&q, params->data(), sizeof q);
  EXPECT_EQ(q, launch.tensors.q.data);
}

TEST_F(SessionTest, LaunchComputes) {
  const Launch launch(*session_, kTwo);
  ASSERT_TRUE(kernel_->launch(nullptr, *plan_, launch.tensors).ok());
  ASSERT_TRUE(session_->synchronize().ok());
  EXPECT_THAT(launch.out.read(), Each(kTwo));
  std::vector<float> lse(6);
  ASSERT_TRUE(session_->copy_out(lse.data(), launch.tensors.lse.data, 24).ok());
  // Five equal scores of 32 / sqrt(32).
  EXPECT_THAT(lse, Each(::testing::FloatNear(std::sqrt(32.0f) + std::log(5.0f), 1e-4f)));
}

TEST_F(SessionTest, KernelOutlivesItsSession) {
  std::unique_ptr<Session> other = open();
  const Kernel kernel = *other->prepare(*Problem::parse(kProblem));
  other.reset();
  const Launch launch(*session_, kTwo);
  ASSERT_TRUE(kernel.launch(nullptr, *kernel.plan(kShape), launch.tensors).ok());
  ASSERT_TRUE(session_->synchronize().ok());
  EXPECT_THAT(launch.out.read(), Each(kTwo));
}

TEST_F(SessionTest, NoKeysGiveZeroAndMinusInfinity) {
  const Launch launch(*session_, kOne);
  LaunchTensors tensors = launch.tensors;
  tensors.k = {.dtype = Dtype::kFloat16, .rank = 4, .shape = {1, 0, 1, 32}};  // no address
  tensors.v = {.dtype = Dtype::kFloat16, .rank = 4, .shape = {1, 0, 1, 16}};
  const auto plan = kernel_->plan({.batch = 1, .seqlen_q = 3, .seqlen_k = 0});
  ASSERT_TRUE(plan.ok()) << plan.error().to_string();
  const Status launched = kernel_->launch(nullptr, *plan, tensors);
  ASSERT_TRUE(launched.ok()) << launched.error().to_string();
  ASSERT_TRUE(session_->synchronize().ok());
  EXPECT_THAT(launch.out.read(), Each(0));
  std::vector<float> lse(6);
  ASSERT_TRUE(session_->copy_out(lse.data(), tensors.lse.data, 24).ok());
  EXPECT_THAT(lse, Each(-std::numeric_limits<float>::infinity()));
}

TEST_F(SessionTest, OtherZeroSizesDoNothing) {
  for (const Shape& shape : {Shape{.batch = 0, .seqlen_q = 3, .seqlen_k = 5},
                             Shape{.batch = 1, .seqlen_q = 0, .seqlen_k = 5}}) {
    const auto plan = kernel_->plan(shape);
    ASSERT_TRUE(plan.ok()) << plan.error().to_string();
    EXPECT_TRUE(plan->empty());
    const auto tensor = [&](int64_t rows, int64_t heads, int64_t dim) {
      return Tensor{.dtype = Dtype::kFloat16, .rank = 4, .shape = {shape.batch, rows, heads, dim}};
    };
    // K and V of batch 1 have elements, and so need an address.
    const Launch given(*session_, kOne);
    LaunchTensors tensors = {.q = tensor(shape.seqlen_q, 2, 32),
                             .k = tensor(shape.seqlen_k, 1, 32),
                             .v = tensor(shape.seqlen_k, 1, 16),
                             .out = tensor(shape.seqlen_q, 2, 16)};
    if (shape.batch == 1) {
      tensors.k = given.tensors.k;
      tensors.v = given.tensors.v;
    }
    const Status launched = kernel_->launch(nullptr, *plan, tensors);
    EXPECT_TRUE(launched.ok()) << launched.error().to_string();
  }
}

TEST_F(SessionTest, PlanSaysWhatIsWrongWithTheShape) {
  const auto error_of = [](const Shape& shape) { return kernel_->plan(shape).error(); };
  EXPECT_THAT(error_of({}).reasons,
              AllOf(Contains(HasSubstr("batch")), Contains(HasSubstr("seqlen_q")),
                    Contains(HasSubstr("seqlen_k"))));
  EXPECT_THAT(error_of({.batch = -3, .seqlen_q = 3, .seqlen_k = 5}).message,
              HasSubstr("batch is -3"));
  EXPECT_THAT(error_of({.batch = 1, .seqlen_q = 3, .seqlen_k = 5, .num_heads_q = 4}).message,
              AllOf(HasSubstr("num_heads_q is 4"), HasSubstr("fixes 2")));
  EXPECT_EQ(error_of({}).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(plan_->shape.num_heads_q, 2);
  EXPECT_EQ(plan_->shape.num_heads_kv, 1);
  ASSERT_EQ(plan_->tensors.size(), 5u);
  EXPECT_EQ(plan_->tensors[0].name, "q");
  EXPECT_THAT(plan_->tensors[0].shape, ::testing::ElementsAre(1, 3, 2, 32));
  EXPECT_TRUE(plan_->tensors[4].optional);
}

TEST_F(SessionTest, BadTensorsAreNamedAndNothingRuns) {
  const Launch launch(*session_, kOne);
  LaunchTensors bad = launch.tensors;
  bad.k.data = nullptr;
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("tensor k"), HasSubstr("null")));
  bad = launch.tensors;
  bad.q.data = static_cast<char*>(bad.q.data) + 2;
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("tensor q"), HasSubstr("0x"), HasSubstr("16 bytes")));
  bad = launch.tensors;
  bad.v.dtype = Dtype::kBFloat16;
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("tensor v"), HasSubstr("bf16"), HasSubstr("fp16")));
  bad = launch.tensors;
  bad.out.shape[1] = 4;
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("tensor out"), HasSubstr("[1, 4, 2, 16]"),
                                  HasSubstr("[1, 3, 2, 16]")));
  bad = launch.tensors;
  bad.q.rank = 3;
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("tensor q"), HasSubstr("rank 3")));
  bad = launch.tensors;
  bad.q.strides[1] = 65;
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("tensor q"), HasSubstr("65"), HasSubstr("strided")));
  bad = launch.tensors;
  bad.v.strides[3] = 2;
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("tensor v"), HasSubstr("stride 2")));
  bad = launch.tensors;
  bad.out.strides[1] = 0;
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("tensor out"), HasSubstr("overlap")));
  bad = launch.tensors;
  bad.lse.strides[1] = 4;
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("tensor lse"), HasSubstr("4")));
  bad = launch.tensors;
  bad.lse.dtype = Dtype::kFloat16;
  bad.k.rank = 2;
  EXPECT_THAT(refusal(bad), AllOf(HasSubstr("tensor lse"), HasSubstr("tensor k")));
  // A plan of another shape.
  EXPECT_THAT(refusal(launch.tensors, *kernel_->plan({.batch = 1, .seqlen_q = 4, .seqlen_k = 5})),
              HasSubstr("tensor q"));
  ASSERT_TRUE(session_->synchronize().ok());
  EXPECT_THAT(launch.out.read(), Each(kNan));
}

// PyTorch gives dims of extent 1 any stride it likes.
TEST_F(SessionTest, StridesOfExtentOneAreNotLookedAt) {
  const Launch launch(*session_, kTwo);
  LaunchTensors tensors = launch.tensors;
  tensors.k.strides[2] = 7;  // one head
  tensors.v.strides[2] = 1;
  tensors.q.strides[0] = 3;  // one batch
  tensors.out.strides[0] = 0;
  tensors.lse.strides[0] = 1;
  ASSERT_TRUE(kernel_->launch(nullptr, *plan_, tensors).ok());
  ASSERT_TRUE(session_->synchronize().ok());
  EXPECT_THAT(launch.out.read(), Each(kTwo));
}

TEST_F(SessionTest, LseMayBeLeftOut) {
  const Launch launch(*session_, kTwo);
  LaunchTensors tensors = launch.tensors;
  tensors.lse = {};
  ASSERT_TRUE(kernel_->launch(nullptr, *plan_, tensors).ok());
  ASSERT_TRUE(session_->synchronize().ok());
  EXPECT_THAT(launch.out.read(), Each(kTwo));
}

TEST_F(SessionTest, CallersContextIsLeftAsFound) {
  const Device& device = SessionAccess::device(*session_);
  const DriverTable& driver = device.driver();
  const auto current = [&] {
    CUcontext context = nullptr;
    EXPECT_EQ(driver.ctx_get_current(&context), CUDA_SUCCESS);
    return context;
  };
  const auto use_everything = [] {
    const Launch launch(*session_, kTwo);
    EXPECT_TRUE(kernel_->launch(nullptr, *plan_, launch.tensors).ok());
    EXPECT_TRUE(session_->synchronize().ok());
    EXPECT_TRUE(open()->prepare(*Problem::parse("hq1 qk16 v16 fp16")).ok());
    EXPECT_FALSE(kernel_->launch(nullptr, *plan_, {}).ok());
  };
  ASSERT_EQ(current(), nullptr);
  use_everything();
  EXPECT_EQ(current(), nullptr);
  const auto other = *Session::open({.device = "emulated:rtx4090"});
  CUcontext mine = SessionAccess::device(*other).context();
  ASSERT_EQ(driver.ctx_push_current(mine), CUDA_SUCCESS);
  use_everything();
  EXPECT_EQ(current(), mine);
  driver.ctx_pop_current(&mine);
}

TEST_F(SessionTest, PreparesOnAThreadWithoutContext) {
  std::thread thread(
      [] { EXPECT_TRUE(open()->prepare(*Problem::parse("hq1 qk16 v8 fp16")).ok()); });
  thread.join();
}

TEST_F(SessionTest, PrefetchPreparesAllAndReportsEachFailure) {
  const std::unique_ptr<Session> session = open();
  const std::vector<Problem> problems = {*Problem::parse(kProblem),
                                         *Problem::parse("hq1 qk16 v16 fp16"),
                                         *Problem::parse("hq3 hkv2 qk16 fp16")};
  int64_t calls = 0, last = 0;
  const Status status = session->prefetch(problems, 2, [&](int64_t done, int64_t total) {
    ++calls;
    last = done;
    EXPECT_EQ(total, 3);
  });
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(last, 3);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().message, HasSubstr("1 of 3"));
  EXPECT_THAT(status.error().reasons, ::testing::ElementsAre(HasSubstr("hq3 hkv2")));
  const int64_t hits = session->cache_counters().memory_hits;
  EXPECT_TRUE(session->prepare(problems[0]).ok());
  EXPECT_TRUE(session->prepare(problems[1]).ok());
  EXPECT_EQ(session->cache_counters().memory_hits, hits + 2);
}

TEST_F(SessionTest, NoCompilerIsOneSentenceAndDoesNotStopOpening) {
  Options broken = options();
  broken.cache_dir.clear();
  broken.nvrtc_path = "/nowhere/libnvrtc.so";
  const auto session = Session::open(broken);
  ASSERT_TRUE(session.ok());
  const auto kernel = (*session)->prepare(*Problem::parse(kProblem));
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().code, ErrorCode::kCompilerUnavailable);
  EXPECT_THAT(kernel.error().to_string(), AllOf(HasSubstr("/nowhere"), Not(HasSubstr("\n"))));
}

TEST_F(SessionTest, ChildOfForkIsToldSo) {
  const int status = in_child([] {
    const auto kernel = session_->prepare(*Problem::parse(kProblem));
    return !kernel.ok() && kernel.error().message.find("fork()") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
}

// A driver function that only tests need.
template <class Signature>
Signature* symbol(const char* name) {
  return reinterpret_cast<Signature*>(emulator::emulated_driver_symbol(name));
}

// A launch captured into a graph runs when the graph does, and again with other pointers.
TEST_F(SessionTest, CapturedLaunchIsReplayedWithOtherPointers) {
  const Device& device = SessionAccess::device(*session_);
  const DriverTable& driver = device.driver();
  const auto begin_capture =
      symbol<CUresult(CUstream, CUstreamCaptureMode)>("cuStreamBeginCapture_v2");
  const auto end_capture = symbol<CUresult(CUstream, CUgraph*)>("cuStreamEndCapture");
  const auto instantiate =
      symbol<CUresult(CUgraphExec*, CUgraph, unsigned long long)>("cuGraphInstantiateWithFlags");
  const auto launch_graph = symbol<CUresult(CUgraphExec, CUstream)>("cuGraphLaunch");
  const auto get_nodes = symbol<CUresult(CUgraph, CUgraphNode*, size_t*)>("cuGraphGetNodes");
  const auto set_params =
      symbol<CUresult(CUgraphExec, CUgraphNode, const CUDA_KERNEL_NODE_PARAMS_v2*)>(
          "cuGraphExecKernelNodeSetParams_v2");
  const auto destroy_executable = symbol<CUresult(CUgraphExec)>("cuGraphExecDestroy");
  const auto destroy_graph = symbol<CUresult(CUgraph)>("cuGraphDestroy");
  const ScopedContext context(driver, device.context());
  CUstream stream = nullptr;
  ASSERT_EQ(driver.stream_create(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  const Launch first(*session_, kOne), second(*session_, kTwo);

  ASSERT_EQ(begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), CUDA_SUCCESS);
  const Status captured = kernel_->launch(stream, *plan_, first.tensors);
  CUgraph graph = nullptr;
  ASSERT_EQ(end_capture(stream, &graph), CUDA_SUCCESS);
  ASSERT_TRUE(captured.ok()) << captured.error().to_string();
  EXPECT_THAT(first.out.read(), Each(kNan));  // nothing ran yet

  CUgraphExec executable = nullptr;
  ASSERT_EQ(instantiate(&executable, graph, 0), CUDA_SUCCESS);
  ASSERT_EQ(launch_graph(executable, stream), CUDA_SUCCESS);
  ASSERT_EQ(driver.stream_synchronize(stream), CUDA_SUCCESS);
  EXPECT_THAT(first.out.read(), Each(kOne));
  EXPECT_THAT(second.out.read(), Each(kNan));

  CUgraphNode node = nullptr;
  size_t nodes = 1;
  ASSERT_EQ(get_nodes(graph, &node, &nodes), CUDA_SUCCESS);
  ASSERT_EQ(nodes, 1u);
  std::vector<std::byte> params = *kernel_->pack_params(*plan_, second.tensors);
  void* pointers[] = {params.data()};
  const LaunchStep& step = plan_->steps.at(0);
  const CUDA_KERNEL_NODE_PARAMS_v2 replacement = {
      .func = kernel_->entries()[0].function,
      .gridDimX = step.grid.x,
      .gridDimY = step.grid.y,
      .gridDimZ = step.grid.z,
      .blockDimX = step.block.x,
      .blockDimY = step.block.y,
      .blockDimZ = step.block.z,
      .sharedMemBytes = step.shared_bytes,
      .kernelParams = pointers,
      .extra = nullptr,
      .kern = nullptr,
      .ctx = nullptr,
  };
  ASSERT_EQ(set_params(executable, node, &replacement), CUDA_SUCCESS);
  ASSERT_EQ(launch_graph(executable, stream), CUDA_SUCCESS);
  ASSERT_EQ(driver.stream_synchronize(stream), CUDA_SUCCESS);
  EXPECT_THAT(second.out.read(), Each(kTwo));

  destroy_executable(executable);
  destroy_graph(graph);
  driver.stream_destroy(stream);
}

// For the thread sanitizer above all: everything that is said to be callable from many threads.
TEST_F(SessionTest, ThreadsPrepareAndLaunchTogether) {
  const std::unique_ptr<Session> session = open();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const auto kernel = session->prepare(
          *Problem::parse(i % 2 == 0 ? kProblem : "hq2 hkv1 qk32 v16 fp16 causal"));
      if (!kernel.ok()) {
        ++wrong;
        return;
      }
      const Launch launch(*session, kTwo);
      const auto plan = kernel->plan(kShape);
      if (!plan.ok() || !kernel->launch(nullptr, *plan, launch.tensors).ok() ||
          !session->synchronize().ok() || launch.out.read() != filled(3 * 2 * 16, kTwo)) {
        ++wrong;
      }
      if (session->cache_counters().compiled > 2) ++wrong;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Options, ReadsTheEnvironmentWhenAsked) {
  for (const char* name : {"TILEWRIGHT_DEVICE", "TILEWRIGHT_NVRTC", "TILEWRIGHT_TEMPLATES",
                           "TILEWRIGHT_LOG", "TILEWRIGHT_CACHE_DIR", "XDG_CACHE_HOME"}) {
    unsetenv(name);
  }
  setenv("HOME", "/home/someone", 1);
  EXPECT_EQ(Options::from_environment().cache_dir, "/home/someone/.cache/tilewright");
  EXPECT_EQ(Options::from_environment().device, "");
  EXPECT_FALSE(Options::from_environment().log);
  setenv("XDG_CACHE_HOME", "relative", 1);
  EXPECT_EQ(Options::from_environment().cache_dir, "/home/someone/.cache/tilewright");
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  EXPECT_EQ(Options::from_environment().cache_dir, "/xdg/tilewright");
  setenv("TILEWRIGHT_CACHE_DIR", "/mine", 1);
  setenv("TILEWRIGHT_DEVICE", "emulated:h200", 1);
  setenv("TILEWRIGHT_NVRTC", "/nvrtc", 1);
  setenv("TILEWRIGHT_TEMPLATES", "/templates", 1);
  setenv("TILEWRIGHT_LOG", "info", 1);
  const Options options = Options::from_environment();
  EXPECT_EQ(options.cache_dir, "/mine");
  EXPECT_EQ(options.device, "emulated:h200");
  EXPECT_EQ(options.nvrtc_path, "/nvrtc");
  EXPECT_EQ(options.templates_dir, "/templates");
  ASSERT_TRUE(options.log);
  ::testing::internal::CaptureStderr();
  options.log(LogLevel::kDebug, "hidden");
  options.log(LogLevel::kWarning, "shown");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "tilewright: shown\n");
}

TEST(Version, IsTheProjects) { EXPECT_STREQ(tilewright_version(), "0.1.0"); }

}  // namespace
}  // namespace tilewright::testing
