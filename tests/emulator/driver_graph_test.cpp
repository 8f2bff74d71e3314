// Stream capture and graphs: recorded work is not executed, replays see changed pointers, and a
// capture that was used wrongly says how.
#include "tests/emulator/driver_support.h"

namespace tilewright::emulator {
namespace {

class DriverGraph : public DriverTest {
 protected:
  void SetUp() override {
    DriverTest::SetUp();
    add_ = function(load(), "vector_add");
    ASSERT_EQ(TW_CU(cuStreamCreate)(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(TW_CU(cuStreamCreate)(&other_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    ASSERT_EQ(TW_CU(cuEventCreate)(&event_, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  }
  CUresult begin(CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
    return TW_CU(cuStreamBeginCapture_v2)(stream_, mode);
  }
  CUresult end(CUgraph* graph) { return TW_CU(cuStreamEndCapture)(stream_, graph); }
  CUresult add(CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, CUstream stream) {
    return launch(add_, {&a, &b, &c, &n_}, stream, 1, 32);
  }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_EQ(TW_CU(cuGraphInstantiateWithFlags)(&exec, graph, 0), CUDA_SUCCESS);
    return exec;
  }

  CUfunction add_ = nullptr;
  CUstream stream_ = nullptr, other_ = nullptr;
  CUevent event_ = nullptr;
  unsigned n_ = 4;
};

TEST_F(DriverGraph, CaptureRecordsAndReplayRuns) {
  const CUdeviceptr a = upload({1, 2, 3, 4}), b = upload({10, 20, 30, 40});
  const CUdeviceptr c = upload({0, 0, 0, 0}), copy = upload({0, 0, 0, 0});
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuMemsetD32Async)(c, 0, 4, stream_), CUDA_SUCCESS);
  ASSERT_EQ(add(a, b, c, stream_), CUDA_SUCCESS);
  ASSERT_EQ(add(c, b, c, stream_), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuMemcpyDtoDAsync_v2)(copy, c, 16, stream_), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(end(&graph), CUDA_SUCCESS);
  EXPECT_EQ(download(copy, 4), std::vector<float>(4, 0)) << "a capture must execute nothing";

  size_t count = 0;
  ASSERT_EQ(TW_CU(cuGraphGetNodes)(graph, nullptr, &count), CUDA_SUCCESS);
  ASSERT_EQ(count, 4u);
  std::vector<CUgraphNode> nodes(count);
  ASSERT_EQ(TW_CU(cuGraphGetNodes)(graph, nodes.data(), &count), CUDA_SUCCESS);
  CUgraphNodeType type{};
  ASSERT_EQ(TW_CU(cuGraphNodeGetType)(nodes[1], &type), CUDA_SUCCESS);
  EXPECT_EQ(type, CU_GRAPH_NODE_TYPE_KERNEL);

  const CUgraphExec exec = instantiate(graph);
  ASSERT_EQ(TW_CU(cuGraphDestroy)(graph), CUDA_SUCCESS);
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(TW_CU(cuGraphLaunch)(exec, stream_), CUDA_SUCCESS) << last_report();
    EXPECT_EQ(download(copy, 4), (std::vector<float>{21, 42, 63, 84}));
  }
  EXPECT_EQ(TW_CU(cuGraphExecDestroy)(exec), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuGraphLaunch)(exec, stream_), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverGraph, ReplaysWithChangedPointers) {
  const CUdeviceptr a = upload({1, 2, 3, 4}), b = upload({10, 20, 30, 40});
  CUdeviceptr first = upload({0, 0, 0, 0}), second = upload({0, 0, 0, 0});
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  ASSERT_EQ(add(a, b, first, stream_), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(end(&graph), CUDA_SUCCESS);
  const CUgraphExec exec = instantiate(graph);
  size_t count = 1;
  CUgraphNode node = nullptr;
  ASSERT_EQ(TW_CU(cuGraphGetNodes)(graph, &node, &count), CUDA_SUCCESS);
  CUDA_KERNEL_NODE_PARAMS params{};
  ASSERT_EQ(TW_CU(cuGraphKernelNodeGetParams_v2)(node, &params), CUDA_SUCCESS);
  EXPECT_EQ(params.func, add_);
  EXPECT_EQ(*static_cast<CUdeviceptr*>(params.kernelParams[2]), first);
  CUdeviceptr a_value = a, b_value = b;
  void* values[] = {&a_value, &b_value, &second, &n_};
  params.kernelParams = values;
  ASSERT_EQ(TW_CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &params), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuGraphLaunch)(exec, stream_), CUDA_SUCCESS) << last_report();
  EXPECT_EQ(download(first, 4), std::vector<float>(4, 0));
  EXPECT_EQ(download(second, 4), (std::vector<float>{11, 22, 33, 44}));
  params.blockDimX = 2000;
  EXPECT_EQ(TW_CU(cuGraphExecKernelNodeSetParams_v2)(exec, node, &params),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverGraph, EventsCarryForksAndJoins) {
  const CUdeviceptr a = upload({1, 2, 3, 4}), b = upload({10, 20, 30, 40}), c = allocate(16);
  CUevent back = nullptr;
  ASSERT_EQ(TW_CU(cuEventCreate)(&back, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuEventRecord)(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuStreamWaitEvent)(other_, event_, 0), CUDA_SUCCESS);
  ASSERT_EQ(add(a, b, c, other_), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  EXPECT_EQ(TW_CU(cuStreamEndCapture)(other_, &graph), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  ASSERT_EQ(TW_CU(cuEventRecord)(back, other_), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuStreamWaitEvent)(stream_, back, 0), CUDA_SUCCESS);
  ASSERT_EQ(end(&graph), CUDA_SUCCESS);
  CUstreamCaptureStatus status{};
  ASSERT_EQ(TW_CU(cuStreamIsCapturing)(other_, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_NONE);
  ASSERT_EQ(TW_CU(cuGraphLaunch)(instantiate(graph), stream_), CUDA_SUCCESS);
  EXPECT_EQ(download(c, 4), (std::vector<float>{11, 22, 33, 44}));
}

TEST_F(DriverGraph, UnjoinedForkIsAnError) {
  const CUdeviceptr a = upload({1, 2, 3, 4}), c = allocate(16);
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuEventRecord)(event_, stream_), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuStreamWaitEvent)(other_, event_, 0), CUDA_SUCCESS);
  ASSERT_EQ(add(a, a, c, other_), CUDA_SUCCESS);
  CUgraph graph = reinterpret_cast<CUgraph>(1);
  EXPECT_EQ(end(&graph), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(TW_CU(cuStreamSynchronize)(other_), CUDA_SUCCESS);
}

TEST_F(DriverGraph, WaitingOnACapturingStreamBreaksTheCapture) {
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  EXPECT_EQ(begin(), CUDA_ERROR_ILLEGAL_STATE);
  EXPECT_EQ(TW_CU(cuStreamSynchronize)(stream_), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CUstreamCaptureStatus status{};
  ASSERT_EQ(TW_CU(cuStreamIsCapturing)(stream_, &status), CUDA_SUCCESS);
  EXPECT_EQ(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CUgraph graph = nullptr;
  EXPECT_EQ(end(&graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  EXPECT_EQ(end(&graph), CUDA_ERROR_ILLEGAL_STATE);
}

TEST_F(DriverGraph, UnsafeCallsBreakAGlobalCaptureButNotARelaxedOne) {
  CUdeviceptr address = 0;
  CUgraph graph = nullptr;
  ASSERT_EQ(begin(CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&address, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(end(&graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(begin(CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuMemAlloc_v2)(&address, 16), CUDA_SUCCESS);
  EXPECT_EQ(end(&graph), CUDA_SUCCESS);
}

TEST_F(DriverGraph, TheLegacyStreamBreaksABlockingCapture) {
  CUstream blocking = nullptr;
  ASSERT_EQ(TW_CU(cuStreamCreate)(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuStreamBeginCapture_v2)(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  ASSERT_EQ(TW_CU(cuStreamBeginCapture_v2)(blocking, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
  EXPECT_EQ(launch(function(load(), "nothing"), {}), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CUgraph graph = nullptr;
  EXPECT_EQ(TW_CU(cuStreamEndCapture)(blocking, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  // The per-thread default stream can be captured.
  ASSERT_EQ(TW_CU(cuStreamBeginCapture_v2_ptsz)(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED),
            CUDA_SUCCESS);
  EXPECT_EQ(TW_CU(cuStreamEndCapture)(CU_STREAM_PER_THREAD, &graph), CUDA_SUCCESS);
}

TEST_F(DriverGraph, HandMadeGraphsFollowTheirDependencies) {
  const CUdeviceptr word = allocate(4);
  CUgraph graph = nullptr;
  ASSERT_EQ(TW_CU(cuGraphCreate)(&graph, 0), CUDA_SUCCESS);
  CUDA_MEMSET_NODE_PARAMS one{word, 0, 1, 4, 1, 1}, two{word, 0, 2, 4, 1, 1};
  CUgraphNode first = nullptr, second = nullptr;
  ASSERT_EQ(TW_CU(cuGraphAddMemsetNode)(&second, graph, nullptr, 0, &two, context_), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuGraphAddMemsetNode)(&first, graph, nullptr, 0, &one, context_), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuGraphAddDependencies)(graph, &first, &second, 1), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuGraphLaunch)(instantiate(graph), stream_), CUDA_SUCCESS);
  unsigned value = 0;
  ASSERT_EQ(TW_CU(cuMemcpyDtoH_v2)(&value, word, 4), CUDA_SUCCESS);
  EXPECT_EQ(value, 2u);
  ASSERT_EQ(TW_CU(cuGraphAddDependencies)(graph, &second, &first, 1), CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  EXPECT_EQ(TW_CU(cuGraphInstantiateWithFlags)(&exec, graph, 0), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(DriverGraph, HostFunctionsRunInOrder) {
  std::vector<int> order;
  const auto note = [](void* data) {
    auto* list = static_cast<std::vector<int>*>(data);
    list->push_back(static_cast<int>(list->size()));
  };
  ASSERT_EQ(TW_CU(cuLaunchHostFunc)(stream_, note, &order), CUDA_SUCCESS);
  EXPECT_EQ(order.size(), 1u);
  ASSERT_EQ(begin(), CUDA_SUCCESS);
  ASSERT_EQ(TW_CU(cuLaunchHostFunc)(stream_, note, &order), CUDA_SUCCESS);
  CUgraph graph = nullptr;
  ASSERT_EQ(end(&graph), CUDA_SUCCESS);
  EXPECT_EQ(order.size(), 1u);
  ASSERT_EQ(TW_CU(cuGraphLaunch)(instantiate(graph), stream_), CUDA_SUCCESS);
  EXPECT_EQ(order.size(), 2u);
}

}  // namespace
}  // namespace tilewright::emulator
