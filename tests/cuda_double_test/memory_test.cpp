#include <cmath>

#include "support.hpp"

namespace cuda_double {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using MemoryTest = DoubleTest;

constexpr std::size_t mib = std::size_t{1} << 20;

TEST_F(MemoryTest, IsGarbageAtFirstAndOverWhenTheDeviceIsFull) {
  reset({.memory_bytes = 10 * mib});
  std::size_t free = 0;
  std::size_t total = 0;
  {
    const DeviceArray<float> first(mib);
    EXPECT_THAT(first.values(), Each(testing::IsNan()));
    EXPECT_CUDA(cudaMemGetInfo(&free, &total));
    EXPECT_EQ(free, 6 * mib);
    EXPECT_EQ(total, 10 * mib);
    void* more = &free;
    EXPECT_EQ(cudaMalloc(&more, 7 * mib), cudaErrorMemoryAllocation);
    EXPECT_EQ(more, nullptr);
    EXPECT_THAT(cudaGetErrorString(cudaErrorMemoryAllocation), HasSubstr("out of memory (cudaMalloc #2"));
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_CUDA(cudaGetLastError());
    EXPECT_CUDA(cudaSetDevice(1));
    const DeviceArray<char> elsewhere(7 * mib);
    EXPECT_CUDA(cudaSetDevice(0));
  }
  EXPECT_CUDA(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, total);
}

TEST_F(MemoryTest, IsFreedOnce) {
  void* memory = nullptr;
  ASSERT_CUDA(cudaMalloc(&memory, 64));
  EXPECT_EQ(cudaFree(static_cast<char*>(memory) + 8), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(memory));
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFree(nullptr));
}

TEST_F(MemoryTest, IsCopiedOnlyAsTheKindSays) {
  const Stream stream;
  const DeviceArray<int> device(std::vector<int>{1, 2, 3, 4});
  const PinnedArray<int> pinned(4);
  int pageable[4] = {};
  EXPECT_EQ(cudaMemcpyAsync(device, pinned, 16, cudaMemcpyDeviceToHost, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(pageable, pinned, 16, cudaMemcpyHostToDevice, stream), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpyAsync(pinned, device, 20, cudaMemcpyDeviceToHost, stream), cudaErrorInvalidValue);
  EXPECT_THAT(last_refusal(), HasSubstr("reaches beyond"));
  EXPECT_CUDA(cudaMemcpyAsync(pinned, device, 16, cudaMemcpyDeviceToHost, stream));
  stream.synchronize();
  EXPECT_EQ(pinned[3], 4);
  EXPECT_CUDA(
      cudaMemcpyAsync(pageable, device, 16, cudaMemcpyDefault, stream));  // waits: the memory is pageable
  EXPECT_THAT(pageable, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(cudaMemsetAsync(pinned, 0, 16, stream), cudaErrorInvalidValue);
}

TEST_F(MemoryTest, ThatIsPageableMayChangeAfterItsCopyWasEnqueued) {
  const Stream stream;
  const DeviceArray<int> device(1);
  int pageable = 5;
  simt::enqueue(stream, [] { std::this_thread::sleep_for(20ms); });
  EXPECT_CUDA(cudaMemcpyAsync(device, &pageable, sizeof pageable, cudaMemcpyHostToDevice, stream));
  pageable = 6;
  stream.synchronize();
  EXPECT_THAT(device.values(), ElementsAre(5));
}

TEST_F(MemoryTest, OfTheHostIsRegisteredOnce) {
  std::vector<int> host(100);
  EXPECT_CUDA(cudaHostRegister(host.data(), 400, cudaHostRegisterDefault));
  EXPECT_EQ(cudaHostRegister(host.data() + 50, 400, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
  cudaPointerAttributes attributes{};
  EXPECT_CUDA(cudaPointerGetAttributes(&attributes, host.data() + 99));
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  EXPECT_CUDA(cudaHostUnregister(host.data()));
  EXPECT_EQ(cudaHostUnregister(host.data()), cudaErrorHostMemoryNotRegistered);
}

std::uint64_t attribute(cudaMemPool_t pool, cudaMemPoolAttr name) {
  std::uint64_t value = 0;
  EXPECT_CUDA(cudaMemPoolGetAttribute(pool, name, &value));
  return value;
}

TEST_F(MemoryTest, OfAPoolIsKeptUpToTheThreshold) {
  const Stream stream;
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {.type = cudaMemLocationTypeDevice, .id = 0};
  cudaMemPool_t pool = nullptr;
  ASSERT_CUDA(cudaMemPoolCreate(&pool, &properties));
  std::uint64_t threshold = 2 * mib;
  EXPECT_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocFromPoolAsync(&memory, 5 * mib, pool, stream));
  EXPECT_EQ(attribute(pool, cudaMemPoolAttrUsedMemCurrent), 5 * mib);
  EXPECT_EQ(attribute(pool, cudaMemPoolAttrReservedMemCurrent), 6 * mib);
  EXPECT_EQ(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &threshold),
            cudaErrorInvalidValue);
  EXPECT_CUDA(cudaFreeAsync(memory, stream));
  EXPECT_EQ(cudaFreeAsync(memory, stream), cudaErrorInvalidValue);
  EXPECT_EQ(attribute(pool, cudaMemPoolAttrReservedMemCurrent), 6 * mib);
  stream.synchronize();
  EXPECT_EQ(attribute(pool, cudaMemPoolAttrReservedMemCurrent), 2 * mib);
  EXPECT_EQ(attribute(pool, cudaMemPoolAttrUsedMemCurrent), 0U);
  EXPECT_EQ(attribute(pool, cudaMemPoolAttrUsedMemHigh), 5 * mib);
  EXPECT_CUDA(cudaMemPoolTrimTo(pool, 0));
  EXPECT_EQ(attribute(pool, cudaMemPoolAttrReservedMemCurrent), 0U);
  EXPECT_CUDA(cudaMemPoolDestroy(pool));
}

TEST_F(MemoryTest, OfTheDefaultPoolCountsAsTaken) {
  reset({.memory_bytes = 10 * mib});
  const Stream stream;
  void* memory = nullptr;
  ASSERT_CUDA(cudaMallocAsync(&memory, 3 * mib, stream));
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_CUDA(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, 6 * mib);
  void* more = nullptr;
  EXPECT_EQ(cudaMallocAsync(&more, 8 * mib, stream), cudaErrorMemoryAllocation);
  EXPECT_CUDA(cudaFreeAsync(memory, stream));
  stream.synchronize();
  EXPECT_CUDA(cudaMemGetInfo(&free, &total));
  EXPECT_EQ(free, total);
}

TEST_F(MemoryTest, OfAnotherDeviceNeedsPeerAccess) {
  const DeviceArray<int> here(4);
  EXPECT_CUDA(cudaSetDevice(1));
  const Stream stream;
  EXPECT_EQ(cudaMemsetAsync(here, 0, 16, stream), cudaErrorInvalidValue);
  EXPECT_THAT(last_refusal(), HasSubstr("lies on device 0, the work runs on device 1"));
  EXPECT_CUDA(cudaDeviceEnablePeerAccess(0, 0));
  EXPECT_CUDA(cudaMemsetAsync(here, 0, 16, stream));
  stream.synchronize();
  EXPECT_THAT(here.values(), Each(0));
}

}  // namespace
}  // namespace cuda_double
