#include "support.hpp"

namespace cuda_double {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

using Control = DoubleTest;

TEST_F(Control, SaysWhatTheMachineIs) {
  int count = -1;
  EXPECT_CUDA(cudaGetDeviceCount(&count));
  EXPECT_EQ(count, 2);
  cudaDeviceProp properties{};
  EXPECT_CUDA(cudaGetDeviceProperties(&properties, 1));
  EXPECT_STREQ(properties.name, "NVIDIA H200");
  EXPECT_EQ(properties.major * 10 + properties.minor, 90);
  int multiprocessors = 0;
  EXPECT_CUDA(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  EXPECT_EQ(multiprocessors, properties.multiProcessorCount);
  char bus[32] = "";
  EXPECT_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
  EXPECT_STREQ(bus, "0000:2B:00.0");
  EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
  EXPECT_CUDA(cudaSetDevice(1));
  std::thread([] {
    int device = -1;
    EXPECT_CUDA(cudaGetDevice(&device));
    EXPECT_EQ(device, 0);
  }).join();
}

TEST_F(Control, CanTakeTheDevicesOrTheDriverAway) {
  reset({.devices = 0});
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  EXPECT_EQ(count, 0);
  reset({.driver = false});
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorInsufficientDriver);
  EXPECT_CUDA(cudaDriverGetVersion(&count));
  EXPECT_EQ(count, 0);
  EXPECT_CUDA(cudaRuntimeGetVersion(&count));
  EXPECT_EQ(count, CUDART_VERSION);
}

TEST_F(Control, MakesTheNthCallFail) {
  fail("cudaMalloc", 2, cudaErrorMemoryAllocation);
  fail("cudaFree", 1, cudaErrorLaunchFailure);
  void* first = nullptr;
  void* second = nullptr;
  EXPECT_CUDA(cudaMalloc(&first, 8));
  EXPECT_EQ(cudaMalloc(&second, 8), cudaErrorMemoryAllocation);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(cudaFree(first), cudaErrorLaunchFailure);  // freed all the same
  EXPECT_THAT(calls(), ElementsAre(Pair("cudaFree", 1), Pair("cudaMalloc", 2)));
}

// Whatever fails, everything made is given back: the pattern of the host path's failure tests.
TEST_F(Control, LetsATestFailEveryCallOfAScenario) {
  const auto scenario = [] {
    void* memory = nullptr;
    cudaStream_t stream = nullptr;
    if (cudaMalloc(&memory, 8) != cudaSuccess) return false;
    bool fine = cudaStreamCreate(&stream) == cudaSuccess;
    if (fine) {
      fine = cudaMemsetAsync(memory, 0, 8, stream) == cudaSuccess &&
             cudaStreamSynchronize(stream) == cudaSuccess;
      fine = cudaStreamDestroy(stream) == cudaSuccess && fine;
    }
    return cudaFree(memory) == cudaSuccess && fine;
  };
  EXPECT_TRUE(scenario());
  const auto all = calls();
  EXPECT_THAT(all, ElementsAre(Pair("cudaFree", 1), Pair("cudaMalloc", 1), Pair("cudaMemsetAsync", 1),
                               Pair("cudaStreamCreate", 1), Pair("cudaStreamDestroy", 1),
                               Pair("cudaStreamSynchronize", 1), Pair("memset execution", 1)));
  for (const auto& [call, times] : all) {
    for (int nth = 1; nth <= times; ++nth) {
      reset();
      fail(call, nth);
      EXPECT_FALSE(scenario()) << call;
      EXPECT_EQ(describe(leaks()), "") << call;
      EXPECT_THAT(faults_left(), testing::IsEmpty());
    }
  }
}

TEST_F(Control, SaysWhichFaultsDidNotComeToPass) {
  fail("cudaMalloc", 3, cudaErrorMemoryAllocation);
  EXPECT_THAT(faults_left(), ElementsAre("cudaMalloc #3"));
  reset();
}

TEST_F(Control, DelaysCallsAndWork) {
  const Stream stream;
  slow("kernel execution", 30ms);
  simt::enqueue(stream, [] {});
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  const auto start = std::chrono::steady_clock::now();
  slow("cudaStreamSynchronize", 40ms);
  stream.synchronize();
  EXPECT_GE(std::chrono::steady_clock::now() - start, 40ms);
}

TEST_F(Control, ListsWhatIsLeft) {
  void* memory = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  ASSERT_CUDA(cudaMalloc(&memory, 12));
  ASSERT_CUDA(cudaStreamCreate(&stream));
  ASSERT_CUDA(cudaEventCreate(&event));
  ASSERT_EQ(leaks().size(), 3U);
  EXPECT_EQ(leaks()[0].kind, "device memory");
  EXPECT_EQ(leaks()[0].site, "cudaMalloc #1 (12 bytes on device 0)");
  EXPECT_EQ(leaks()[1].kind, "stream");
  EXPECT_EQ(leaks()[2].kind, "event");
  reset();
  EXPECT_EQ(leaks().size(), 0U);
}

}  // namespace
}  // namespace cuda_double
