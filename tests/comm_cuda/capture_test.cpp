#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "base/error.hpp"
#include "gpus.hpp"

namespace dtrain::comm {
namespace {

using backend::cuda::Graph;
using backend::cuda::GraphExec;
using testing::HasSubstr;

// Records all-reduces of these buckets, as a step's backward and update would start and wait for them.
GraphExec record(Communicator& communicator, Gpu& gpu, const std::vector<std::span<float>>& buckets) {
  DTRAIN_CUDA(cudaStreamBeginCapture(gpu.compute(), cudaStreamCaptureModeThreadLocal));
  std::vector<Ticket> tickets;
  for (const auto bucket : buckets) tickets.push_back(communicator.all_reduce(bucket, gpu.mark()));
  communicator.progress();
  for (const Ticket ticket : tickets) communicator.wait(ticket, ample());
  cudaGraph_t raw = nullptr;
  const cudaError_t status = cudaStreamEndCapture(gpu.compute(), &raw);
  const Graph graph(raw);
  DTRAIN_CUDA(status);
  cudaGraphExec_t executable = nullptr;
  DTRAIN_CUDA(cudaGraphInstantiate(&executable, graph.get(), 0));
  return GraphExec(executable);
}

class Capture : public testing::TestWithParam<int> {
 protected:
  void SetUp() override { cuda_double::reset({.devices = 4}); }
  void TearDown() override { expect_no_leaks(); }
};

TEST_P(Capture, ReplaysSumAgainAndAgain) {
  const auto ranks = static_cast<float>(GetParam());
  expect_gpus(nccl(), GetParam(), [&](Communicator& communicator, Gpu& gpu) {
    const std::vector<std::span<float>> buckets = {gpu.upload(std::vector<float>(1000, 1.0F)),
                                                   gpu.upload(std::vector<float>(77, 2.0F)),
                                                   gpu.upload(std::vector<float>(3, 4.0F))};
    // Whatever is made on first use is made before.
    communicator.wait(communicator.all_reduce(buckets[0], {}), ample());
    communicator.synchronize(ample());
    const GraphExec graph = record(communicator, gpu, buckets);
    constexpr int replays = 4;
    for (int replay = 1; replay <= replays; ++replay) {
      DTRAIN_CUDA(cudaGraphLaunch(graph.get(), gpu.compute()));
      communicator.synchronize(ample());
      const float times = std::pow(ranks, static_cast<float>(replay));
      EXPECT_EQ(gpu.download(buckets[0])[999], times * ranks);
      EXPECT_EQ(gpu.download(buckets[1])[0], 2.0F * times);
      EXPECT_EQ(gpu.download(buckets[2])[2], 4.0F * times);
    }
    // What is not recorded goes on as before.
    communicator.wait(communicator.all_reduce(buckets[2], gpu.mark()), ample());
    EXPECT_EQ(gpu.download(buckets[2])[2], 4.0F * std::pow(ranks, static_cast<float>(replays + 1)));
  });
}

// Replays start collectives where no host sees them: the ranks meet in synchronize.
TEST_P(Capture, AMissingRankIsNamedInAReplay) {
  if (GetParam() == 1) GTEST_SKIP() << "a group of one misses nobody";
  std::atomic<bool> over{false};
  const int last = GetParam() - 1;
  const auto errors = run_gpus(nccl(), GetParam(), [&](Communicator& communicator, Gpu& gpu) {
    const auto bucket = gpu.upload(std::vector<float>(100, 1.0F));
    communicator.wait(communicator.all_reduce(bucket, {}), ample());
    communicator.synchronize(ample());
    const GraphExec graph = record(communicator, gpu, {bucket});
    for (int step = 0; step < 3; ++step) {
      DTRAIN_CUDA(cudaGraphLaunch(graph.get(), gpu.compute()));
      communicator.synchronize(ample());
    }
    if (communicator.rank() == last) {
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    DTRAIN_CUDA(cudaGraphLaunch(graph.get(), gpu.compute()));
    try {
      communicator.synchronize(Deadline::in(Seconds(communicator.rank() == 0 ? 0.2 : 60.0)));
    } catch (...) {
      over = true;
      throw;
    }
  });
  EXPECT_EQ(errors[0],
            fmt::format("rank {} did not reach the all-reduce within 0.2 s (rank 0 waited)", last));
  for (int rank = 1; rank < last; ++rank) EXPECT_EQ(errors[static_cast<std::size_t>(rank)], errors[0]);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Capture, testing::Range(1, 5), testing::PrintToStringParamName());

// NCCL lets go of a communicator only after the recordings that use it, and a replica goes after its
// communicator.
TEST(CaptureEnd, ARecordingMayOutliveItsCommunicator) {
  cuda_double::reset();
  const auto group = nccl().make({.size = 2});
  const auto rank_of = [&](int rank) {
    Gpu gpu(rank);
    GraphExec graph;
    {
      const auto communicator = group->join(rank, gpu.stream());
      const auto bucket = gpu.upload(std::vector<float>(100, 1.0F));
      communicator->wait(communicator->all_reduce(bucket, {}), ample());
      communicator->synchronize(ample());
      graph = record(*communicator, gpu, {bucket});
      DTRAIN_CUDA(cudaGraphLaunch(graph.get(), gpu.compute()));
      communicator->synchronize(ample());
      EXPECT_EQ(gpu.download(bucket)[99], 4.0F);
    }
  };
  const TimePoint begin = Clock::now();
  std::thread other(rank_of, 1);
  rank_of(0);
  other.join();
  EXPECT_LT(seconds(Clock::now() - begin), 10.0);
}

// A step that fails while it is recorded must not take the streams along.
TEST(CaptureEnd, AbortWhileRecordingEndsTheGroup) {
  cuda_double::reset();
  const auto errors = run_gpus(nccl(), 2, [](Communicator& communicator, Gpu& gpu) {
    const auto bucket = gpu.upload(std::vector<float>(100, 1.0F));
    communicator.wait(communicator.all_reduce(bucket, {}), ample());
    communicator.synchronize(ample());
    if (communicator.rank() == 1) return communicator.abort("enough");
    DTRAIN_CUDA(cudaStreamBeginCapture(gpu.compute(), cudaStreamCaptureModeThreadLocal));
    try {
      for (;;) communicator.wait(communicator.all_reduce(bucket, gpu.mark()), ample());
    } catch (...) {
      cudaGraph_t graph = nullptr;
      if (cudaStreamEndCapture(gpu.compute(), &graph) == cudaSuccess) DTRAIN_CUDA(cudaGraphDestroy(graph));
      cudaGetLastError();
      throw;
    }
  });
  EXPECT_EQ(errors[0], "rank 1 aborted: enough");
  expect_no_leaks();
}

}  // namespace
}  // namespace dtrain::comm
