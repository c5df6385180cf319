#include "support.hpp"

namespace cuda_double {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Streams = DoubleTest;
using Events = DoubleTest;

void pause(std::chrono::milliseconds time) { std::this_thread::sleep_for(time); }

TEST_F(Streams, RunWhatTheyWereGivenInOrderAndLater) {
  const Stream stream;
  std::vector<int> order;
  simt::enqueue(stream, [&] {
    pause(20ms);
    order.push_back(1);
  });
  simt::enqueue(stream, [&] { order.push_back(2); });
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  stream.synchronize();
  EXPECT_CUDA(cudaStreamQuery(stream));
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST_F(Streams, AreDestroyedAtOnceAndFinishTheirWork) {
  PinnedArray<int> done(1);
  done[0] = 0;
  Event after;
  {
    const Stream stream;
    simt::enqueue(stream, [value = static_cast<int*>(done)] {
      pause(20ms);
      *value = 7;
    });
    EXPECT_CUDA(cudaEventRecord(after, stream));
  }
  EXPECT_CUDA(cudaEventSynchronize(after));
  EXPECT_EQ(done[0], 7);
}

TEST_F(Streams, RefuseDeadHandlesAndKernelsOfAnotherDevice) {
  cudaStream_t dead = nullptr;
  {
    const Stream stream;
    dead = stream;
  }
  EXPECT_EQ(cudaStreamSynchronize(dead), cudaErrorInvalidResourceHandle);
  const Stream stream;
  EXPECT_CUDA(cudaSetDevice(1));
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidResourceHandle);
  simt::enqueue(stream, [] { FAIL(); });
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidResourceHandle);
  EXPECT_THAT(cudaGetErrorString(cudaGetLastError()),
              HasSubstr("a stream of device 0 while device 1 is current"));
  EXPECT_CUDA(cudaGetLastError());
}

TEST_F(Streams, WaitForEventsOfOtherStreamsAndDevices) {
  const Stream first;
  EXPECT_CUDA(cudaSetDevice(1));
  const Stream second;
  const Event nothing;
  EXPECT_CUDA(cudaStreamWaitEvent(second, nothing, 0));  // never recorded
  EXPECT_EQ(cudaEventRecord(nothing, first), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaSetDevice(0));
  const Event ready;
  int value = 0;
  simt::enqueue(first, [&] {
    pause(20ms);
    value = 3;
  });
  EXPECT_CUDA(cudaEventRecord(ready, first));
  EXPECT_CUDA(cudaStreamWaitEvent(second, ready, 0));
  EXPECT_CUDA(cudaSetDevice(1));
  simt::enqueue(second, [&] { value *= 2; });
  second.synchronize();
  EXPECT_EQ(value, 6);
}

TEST_F(Streams, WaitForTheRecordThatWasTheLatestWhenTheyWereTold) {
  const Stream first;
  const Stream second;
  const Event event;
  std::atomic<bool> go{false};
  EXPECT_CUDA(cudaEventRecord(event, first));
  EXPECT_CUDA(cudaStreamWaitEvent(second, event, 0));
  simt::enqueue(first, [&] {
    while (!go) std::this_thread::yield();
  });
  EXPECT_CUDA(cudaEventRecord(event, first));
  second.synchronize();
  EXPECT_EQ(cudaEventQuery(event), cudaErrorNotReady);
  go = true;
  EXPECT_CUDA(cudaEventSynchronize(event));
}

TEST_F(Streams, OfTheLegacyKindWaitForBlockingOnesAndTheyForIt) {
  const Stream blocking(cudaStreamDefault);
  const DeviceArray<int> memory(1);
  int* value = memory;
  simt::enqueue(blocking, [=] {
    pause(20ms);
    *value = 1;
  });
  EXPECT_CUDA(cudaMemset(memory, 0, sizeof(int)));
  simt::enqueue(blocking, [=] { *value += 5; });
  blocking.synchronize();
  EXPECT_THAT(memory.values(), ElementsAre(5));
}

TEST_F(Streams, CallHostFunctionsInOrder) {
  const Stream stream;
  int value = 2;
  simt::enqueue(stream, [&] { value += 1; });
  EXPECT_CUDA(cudaLaunchHostFunc(
      stream, [](void* p) { *static_cast<int*>(p) *= 10; }, &value));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_EQ(value, 30);
}

TEST_F(Events, MeasureTheTimeOfTheStream) {
  const Stream stream;
  const Event start(cudaEventDefault);
  const Event end(cudaEventDefault);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorInvalidResourceHandle);
  EXPECT_CUDA(cudaEventRecord(start, stream));
  simt::enqueue(stream, [] { pause(30ms); });
  EXPECT_CUDA(cudaEventRecord(end, stream));
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  stream.synchronize();
  EXPECT_CUDA(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT_GE(milliseconds, 30);
  EXPECT_LT(milliseconds, 3000);
  const Event untimed;
  EXPECT_CUDA(cudaEventRecord(untimed, stream));
  stream.synchronize();
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, untimed), cudaErrorInvalidResourceHandle);
}

TEST_F(Events, AreReadyBeforeTheFirstRecord) {
  const Event event;
  EXPECT_CUDA(cudaEventQuery(event));
  EXPECT_CUDA(cudaEventSynchronize(event));
  EXPECT_EQ(cudaEventRecordWithFlags(event, nullptr, cudaEventRecordExternal), cudaErrorIllegalState);
}

TEST_F(Streams, SpoilTheirDeviceWhenAKernelFaults) {
  fail("kernel execution", 2, cudaErrorIllegalAddress);
  {
    const Stream stream;
    int count = 0;
    for (int i = 0; i < 3; ++i) simt::enqueue(stream, [&] { ++count; });
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    EXPECT_EQ(count, 1);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
    EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);  // stays
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, 16), cudaErrorIllegalAddress);
    EXPECT_CUDA(cudaSetDevice(1));
    EXPECT_CUDA(cudaMalloc(&memory, 16));  // the other device is fine
    EXPECT_CUDA(cudaFree(memory));
  }
}

TEST_F(Streams, TakeAnExceptionOfAKernelForALaunchFailure) {
  cudaStream_t stream = nullptr;
  ASSERT_CUDA(cudaStreamCreate(&stream));
  simt::enqueue(stream, [] { throw std::runtime_error("divergent barrier"); });
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  EXPECT_THAT(cudaGetErrorString(cudaErrorLaunchFailure), HasSubstr("divergent barrier"));
  EXPECT_EQ(cudaStreamDestroy(stream), cudaErrorLaunchFailure);  // and is destroyed
}

TEST_F(Streams, LogWhatTheyRan) {
  const Stream first;
  const Stream second;
  const DeviceArray<float> memory(4);
  const Event event;
  EXPECT_CUDA(cudaMemsetAsync(memory, 0, 16, first));
  EXPECT_CUDA(cudaEventRecord(event, first));
  EXPECT_CUDA(cudaStreamWaitEvent(second, event, 0));
  simt::enqueue(second, [] {});
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_THAT(kinds(operations(first)), ElementsAre("memset", "event record"));
  EXPECT_THAT(kinds(operations(second)), ElementsAre("event wait", "kernel"));
  EXPECT_EQ(operations(first)[0].target, memory.data());
  EXPECT_EQ(operations(first)[0].bytes, 16U);
  EXPECT_LT(operations(first)[1].order, operations(second)[1].order);
}

}  // namespace
}  // namespace cuda_double
