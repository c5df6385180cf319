#include <numeric>

#include "support.hpp"

namespace cuda_double {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using Graphs = DoubleTest;
using Captures = DoubleTest;

struct Graph {
  ~Graph() {
    if (exec != nullptr) {
      EXPECT_CUDA(cudaGraphExecDestroy(exec));
    }
    if (graph != nullptr) {
      EXPECT_CUDA(cudaGraphDestroy(graph));
    }
  }
  void instantiate() { ASSERT_CUDA(cudaGraphInstantiate(&exec, graph, 0)); }
  std::size_t nodes() const {
    std::size_t count = 0;
    EXPECT_CUDA(cudaGraphGetNodes(graph, nullptr, &count));
    return count;
  }
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
};

void begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  EXPECT_CUDA(cudaStreamBeginCapture(stream, mode));
}

cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  EXPECT_CUDA(cudaStreamIsCapturing(stream, &status));
  return status;
}

TEST_F(Graphs, RunWhatWasCapturedWithEveryLaunchAndNotBefore) {
  const Stream stream;
  const DeviceArray<int> memory(std::vector<int>{10});
  const PinnedArray<int> out(1);
  int* value = memory;
  Graph graph;
  begin(stream);
  EXPECT_EQ(status_of(stream), cudaStreamCaptureStatusActive);
  simt::enqueue(stream, [=] { *value += 1; });
  EXPECT_CUDA(cudaMemcpyAsync(out, memory, sizeof(int), cudaMemcpyDeviceToHost, stream));
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph.graph));
  EXPECT_EQ(status_of(stream), cudaStreamCaptureStatusNone);
  EXPECT_EQ(graph.nodes(), 2U);
  graph.instantiate();
  EXPECT_THAT(memory.values(), ElementsAre(10));
  for (int launch = 0; launch < 3; ++launch) EXPECT_CUDA(cudaGraphLaunch(graph.exec, stream));
  stream.synchronize();
  EXPECT_EQ(out[0], 13);
  EXPECT_EQ(operations(stream).size(), 3U + 6U);
}

TEST_F(Graphs, KeepForksAndJoins) {
  const Stream origin;
  const Stream side;
  const Event fork;
  const Event join;
  const DeviceArray<int> memory(std::vector<int>{0, 0, 0});
  int* value = memory;
  Graph graph;
  begin(origin);
  simt::enqueue(origin, [=] { value[0] += 1; });
  EXPECT_CUDA(cudaEventRecord(fork, origin));
  EXPECT_CUDA(cudaStreamWaitEvent(side, fork, 0));
  EXPECT_EQ(status_of(side), cudaStreamCaptureStatusActive);
  simt::enqueue(side, [=] {
    std::this_thread::sleep_for(5ms);
    value[1] = value[0] * 10;
  });
  simt::enqueue(origin, [=] { value[2] += value[0]; });
  EXPECT_CUDA(cudaEventRecord(join, side));
  EXPECT_CUDA(cudaStreamWaitEvent(origin, join, 0));
  simt::enqueue(origin, [=] { value[2] += value[1]; });
  EXPECT_CUDA(cudaStreamEndCapture(origin, &graph.graph));
  EXPECT_EQ(status_of(side), cudaStreamCaptureStatusNone);
  EXPECT_EQ(graph.nodes(), 4U);
  graph.instantiate();
  EXPECT_CUDA(cudaGraphLaunch(graph.exec, origin));
  EXPECT_CUDA(cudaGraphLaunch(graph.exec, origin));
  origin.synchronize();
  EXPECT_THAT(memory.values(), ElementsAre(2, 20, 1 + 10 + 2 + 20));
}

TEST_F(Graphs, DoNotOverlapThemselvesAndOutliveTheirHandles) {
  const Stream first;
  const Stream second;
  const DeviceArray<int> memory(std::vector<int>{0});
  int* value = memory;
  const Event done;
  {
    Graph graph;
    begin(first);
    simt::enqueue(first, [=] {
      const int before = *value;
      std::this_thread::sleep_for(5ms);
      *value = before + 1;
    });
    EXPECT_CUDA(cudaStreamEndCapture(first, &graph.graph));
    graph.instantiate();
    for (const auto* stream : {&first, &second, &first, &second})
      EXPECT_CUDA(cudaGraphLaunch(graph.exec, *stream));
  }
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_THAT(memory.values(), ElementsAre(4));
}

TEST_F(Graphs, RecordExternalEventsWithEveryLaunch) {
  const Stream stream;
  const Event start(cudaEventDefault);
  const Event end(cudaEventDefault);
  Graph graph;
  begin(stream);
  EXPECT_CUDA(cudaEventRecordWithFlags(start, stream, cudaEventRecordExternal));
  simt::enqueue(stream, [] { std::this_thread::sleep_for(10ms); });
  EXPECT_CUDA(cudaEventRecordWithFlags(end, stream, cudaEventRecordExternal));
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph.graph));
  graph.instantiate();
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
  for (int launch = 0; launch < 2; ++launch) {
    EXPECT_CUDA(cudaGraphLaunch(graph.exec, stream));
    EXPECT_CUDA(cudaEventSynchronize(end));
    EXPECT_CUDA(cudaEventElapsedTime(&milliseconds, start, end));
    EXPECT_GE(milliseconds, 10);
  }
}

TEST_F(Graphs, WithoutAWaitRunTheirStreamsSideBySide) {
  const Stream origin;
  const Stream side;
  const Event fork;
  const Event join;
  std::atomic<int> met{0};
  const auto meet = [&met] {
    ++met;
    while (met < 2) std::this_thread::yield();
  };
  Graph graph;
  begin(origin);
  EXPECT_CUDA(cudaEventRecord(fork, origin));
  EXPECT_CUDA(cudaStreamWaitEvent(side, fork, 0));
  simt::enqueue(side, meet);
  simt::enqueue(origin, meet);
  EXPECT_CUDA(cudaEventRecord(join, side));
  EXPECT_CUDA(cudaStreamWaitEvent(origin, join, 0));
  EXPECT_CUDA(cudaStreamEndCapture(origin, &graph.graph));
  graph.instantiate();
  EXPECT_CUDA(cudaGraphLaunch(graph.exec, origin));
  origin.synchronize();
  EXPECT_EQ(met, 2);
}

TEST_F(Captures, RefuseWorkThatIsNotJoined) {
  const Stream origin;
  const Stream side;
  const Event fork;
  cudaGraph_t graph = nullptr;
  begin(origin);
  EXPECT_CUDA(cudaEventRecord(fork, origin));
  EXPECT_CUDA(cudaStreamWaitEvent(side, fork, 0));
  simt::enqueue(side, [] {});
  EXPECT_EQ(cudaStreamEndCapture(side, &graph), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(cudaStreamEndCapture(origin, &graph), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(status_of(side), cudaStreamCaptureStatusNone);
}

// Each is refused, and makes the capture void.
class ForbiddenInCapture : public DoubleTest {
 protected:
  void expect(cudaError_t expected, const std::function<cudaError_t(cudaStream_t)>& call,
              cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    const Stream stream;
    begin(stream, mode);
    EXPECT_EQ(call(stream), expected);
    EXPECT_EQ(status_of(stream), cudaStreamCaptureStatusInvalidated);
    simt::enqueue(stream, [] { FAIL(); });
    EXPECT_EQ(cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_CUDA(cudaStreamSynchronize(stream));
  }
};

TEST_F(ForbiddenInCapture, Synchronizing) {
  expect(cudaErrorStreamCaptureUnsupported, [](auto stream) { return cudaStreamSynchronize(stream); });
  expect(cudaErrorStreamCaptureUnsupported, [](auto stream) { return cudaStreamQuery(stream); });
  expect(cudaErrorStreamCaptureUnsupported, [](auto) { return cudaDeviceSynchronize(); });
  const Event event;
  expect(cudaErrorCapturedEvent, [&](auto stream) {
    EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(std::array{cudaStreamCaptureModeRelaxed}.data()));
    EXPECT_CUDA(cudaEventRecord(event, stream));
    const cudaError_t status = cudaEventQuery(event);
    EXPECT_CUDA(cudaThreadExchangeStreamCaptureMode(std::array{cudaStreamCaptureModeGlobal}.data()));
    return status;
  });
}

TEST_F(ForbiddenInCapture, AllocatingAndCopyingByTheLegacyStream) {
  void* memory = nullptr;
  expect(cudaErrorStreamCaptureUnsupported, [&](auto) { return cudaMalloc(&memory, 4); });
  expect(cudaErrorStreamCaptureUnsupported,
         [&](auto) { return cudaMemcpy(&memory, &memory, 1, cudaMemcpyDefault); });
  expect(cudaErrorStreamCaptureUnsupported, [&](auto stream) { return cudaMallocAsync(&memory, 4, stream); });
}

TEST_F(ForbiddenInCapture, UnsafeCallsOfOtherThreadsDuringAGlobalCapture) {
  const auto elsewhere = [](auto) {
    cudaError_t status = cudaSuccess;
    std::thread([&] {
      void* memory = nullptr;
      status = cudaMalloc(&memory, 4);
      if (status == cudaSuccess) {
        EXPECT_CUDA(cudaFree(memory));
      }
    }).join();
    return status;
  };
  expect(cudaErrorStreamCaptureUnsupported, elsewhere, cudaStreamCaptureModeGlobal);
  const Stream stream;
  begin(stream, cudaStreamCaptureModeThreadLocal);
  EXPECT_CUDA(elsewhere(stream.raw));
  Graph graph;
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph.graph));
  begin(stream, cudaStreamCaptureModeRelaxed);
  const DeviceArray<int> memory(1);
  Graph relaxed;
  EXPECT_CUDA(cudaStreamEndCapture(stream, &relaxed.graph));
}

TEST_F(ForbiddenInCapture, WaitingForWorkOutside) {
  const Stream other;
  const Event event;
  EXPECT_CUDA(cudaEventRecord(event, other));
  expect(cudaErrorStreamCaptureIsolation, [&](auto stream) { return cudaStreamWaitEvent(stream, event, 0); });
}

TEST_F(ForbiddenInCapture, Merging) {
  const Stream other;
  const Event event;
  begin(other);
  EXPECT_CUDA(cudaEventRecord(event, other));
  expect(cudaErrorStreamCaptureMerge, [&](auto stream) { return cudaStreamWaitEvent(stream, event, 0); });
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(other, &graph), cudaErrorStreamCaptureInvalidated);
}

TEST_F(Captures, EndWhereTheyBegan) {
  const Stream stream;
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  begin(stream);
  EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  std::thread([&] {
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  fail("cudaStreamEndCapture", 3, cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorMemoryAllocation);
  EXPECT_EQ(graph, nullptr);
  EXPECT_EQ(status_of(stream), cudaStreamCaptureStatusNone);
}

TEST_F(Captures, LeaveNoEventToWaitFor) {
  const Stream stream;
  const Event event;
  Graph graph;
  begin(stream);
  EXPECT_CUDA(cudaEventRecord(event, stream));
  EXPECT_CUDA(cudaStreamEndCapture(stream, &graph.graph));
  EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaErrorCapturedEvent);
  EXPECT_CUDA(cudaEventRecord(event, stream));
  EXPECT_CUDA(cudaStreamWaitEvent(stream, event, 0));
  EXPECT_CUDA(cudaEventSynchronize(event));
}

TEST_F(Captures, OfBlockingStreamsForbidTheLegacyStream) {
  const Stream stream(cudaStreamDefault);
  const DeviceArray<int> memory(1);
  begin(stream, cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaMemset(memory, 0, 4), cudaErrorStreamCaptureImplicit);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
}

}  // namespace
}  // namespace cuda_double
