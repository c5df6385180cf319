#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "cuda_double/double.hpp"

namespace simt {
cudaError_t enqueue(cudaStream_t stream, std::function<void()> kernel);
}

namespace cuda_double {

using namespace std::chrono_literals;

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess) << last_refusal()
#define ASSERT_CUDA(call) ASSERT_EQ(call, cudaSuccess) << last_refusal()

// A fresh machine of two devices, and nothing left at the end.
class DoubleTest : public testing::Test {
 protected:
  void SetUp() override { reset(); }
  void TearDown() override {
    EXPECT_EQ(describe(leaks()), "");
    EXPECT_THAT(faults_left(), testing::IsEmpty());
  }
};

struct Stream {
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_CUDA(cudaStreamCreateWithFlags(&raw, flags));
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { EXPECT_CUDA(cudaStreamDestroy(raw)); }
  operator cudaStream_t() const { return raw; }
  void synchronize() const { EXPECT_CUDA(cudaStreamSynchronize(raw)); }
  cudaStream_t raw = nullptr;
};

struct Event {
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    EXPECT_CUDA(cudaEventCreateWithFlags(&raw, flags));
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() { EXPECT_CUDA(cudaEventDestroy(raw)); }
  operator cudaEvent_t() const { return raw; }
  cudaEvent_t raw = nullptr;
};

template <class T>
struct DeviceArray {
  explicit DeviceArray(std::size_t count) : size(count) {
    EXPECT_CUDA(cudaMalloc(&address, count * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_CUDA(cudaMemcpy(address, values.data(), size * sizeof(T), cudaMemcpyHostToDevice));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { EXPECT_CUDA(cudaFree(address)); }
  T* data() const { return static_cast<T*>(address); }
  operator T*() const { return data(); }
  std::vector<T> values() const {
    std::vector<T> host(size);
    EXPECT_CUDA(cudaMemcpy(host.data(), address, size * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }
  std::size_t size;
  void* address = nullptr;
};

template <class T>
struct PinnedArray {
  explicit PinnedArray(std::size_t count) : size(count) {
    EXPECT_CUDA(cudaHostAlloc(&address, count * sizeof(T), cudaHostAllocDefault));
  }
  PinnedArray(const PinnedArray&) = delete;
  PinnedArray& operator=(const PinnedArray&) = delete;
  ~PinnedArray() { EXPECT_CUDA(cudaFreeHost(address)); }
  T& operator[](std::size_t i) const { return static_cast<T*>(address)[i]; }
  operator T*() const { return static_cast<T*>(address); }
  std::size_t size;
  void* address = nullptr;
};

inline std::vector<std::string> kinds(const std::vector<Operation>& operations) {
  std::vector<std::string> names;
  for (const Operation& operation : operations) names.push_back(operation.kind);
  return names;
}

}  // namespace cuda_double
