// The real NCCL, with the one rank that any machine with a GPU has room for.

#include <gtest/gtest.h>

#include "backend/cuda/stream.hpp"
#include "comm/nccl/group.hpp"

namespace dtrain::comm {
namespace {

using backend::cuda::Event;
using backend::cuda::Graph;
using backend::cuda::GraphExec;

Deadline ample() { return Deadline::in(Seconds(60.0)); }

class OneRank : public ::testing::Test {
 protected:
  OneRank() {
    DTRAIN_CUDA(cudaSetDevice(0));
    stream_ = backend::cuda::make_stream();
    ready_ = backend::cuda::make_event();
    DTRAIN_CUDA(cudaMalloc(reinterpret_cast<void**>(&array_), values_.size() * sizeof(float)));
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = static_cast<float>(i % 1000) - 500.25F;
    DTRAIN_CUDA(cudaMemcpyAsync(array_, values_.data(), values_.size() * sizeof(float),
                                cudaMemcpyHostToDevice, stream_.get()));
    DTRAIN_CUDA(cudaStreamSynchronize(stream_.get()));
  }
  ~OneRank() override {
    DTRAIN_CUDA_QUIETLY(cudaStreamSynchronize(stream_.get()));
    DTRAIN_CUDA_QUIETLY(cudaFree(array_));
  }

  std::span<float> data() { return {array_, values_.size()}; }
  std::vector<float> download() {
    std::vector<float> now(values_.size());
    DTRAIN_CUDA(cudaMemcpyAsync(now.data(), array_, now.size() * sizeof(float), cudaMemcpyDeviceToHost,
                                stream_.get()));
    DTRAIN_CUDA(cudaStreamSynchronize(stream_.get()));
    return now;
  }
  backend::DeviceToken mark() {
    DTRAIN_CUDA(cudaEventRecord(ready_.get(), stream_.get()));
    return {ready_.get()};
  }

  std::vector<float> values_ = std::vector<float>(1'000'003);
  backend::cuda::Stream stream_;
  Event ready_;
  float* array_ = nullptr;
};

TEST_F(OneRank, AddsNothingToItsOwn) {
  const auto group = make_nccl_group({.size = 1});
  const auto communicator = group->join(0, {0, stream_.get()});
  communicator->register_buffer(data());
  communicator->wait(communicator->all_reduce(data(), mark()), ample());
  communicator->synchronize(ample());
  EXPECT_EQ(download(), values_);
  communicator->broadcast(data(), 0, ample());
  communicator->barrier(ample());
  EXPECT_EQ(download(), values_);
  EXPECT_EQ(communicator->all_gather_values(std::vector<double>{1.5, -2.0}, ample()),
            (std::vector<double>{1.5, -2.0}));
  EXPECT_EQ(communicator->bytes_sent(), 0U);
}

TEST_F(OneRank, IsRecordedAndReplayed) {
  const auto group = make_nccl_group({.size = 1});
  const auto communicator = group->join(0, {0, stream_.get()});
  ASSERT_TRUE(communicator->only_enqueues());
  communicator->wait(communicator->all_reduce(data(), {}), ample());
  communicator->synchronize(ample());

  DTRAIN_CUDA(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
  communicator->wait(communicator->all_reduce(data(), mark()), ample());
  cudaGraph_t raw = nullptr;
  const cudaError_t status = cudaStreamEndCapture(stream_.get(), &raw);
  const Graph graph(raw);
  DTRAIN_CUDA(status);
  cudaGraphExec_t made = nullptr;
  DTRAIN_CUDA(cudaGraphInstantiate(&made, graph.get(), 0));
  const GraphExec replay(made);
  for (int i = 0; i < 3; ++i) {
    DTRAIN_CUDA(cudaGraphLaunch(replay.get(), stream_.get()));
    communicator->synchronize(ample());
  }
  EXPECT_EQ(download(), values_);
}

}  // namespace
}  // namespace dtrain::comm
