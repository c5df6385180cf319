#include "simt/simt.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/launch.cuh"

namespace {

using dtrain::kernels::cuda::launch;
using dtrain::kernels::cuda::launch_independent;
using testing::HasSubstr;

template <class Kernel, class... Arguments>
std::string failure_of(unsigned threads, Kernel kernel, Arguments... arguments) {
  try {
    launch(kernel, 1, threads, nullptr, arguments...);
  } catch (const simt::Error& error) {
    return error.what();
  }
  return "";
}

__global__ void reverse_kernel(int* values) {
  __shared__ int shared[64];
  shared[threadIdx.x] = values[blockIdx.x * 64 + threadIdx.x];
  __syncthreads();
  values[blockIdx.x * 64 + threadIdx.x] = shared[63 - threadIdx.x];
}

TEST(Simt, BarriersOrderSharedMemory) {
  std::vector<int> values(128);
  std::iota(values.begin(), values.end(), 0);
  ASSERT_EQ(launch(reverse_kernel, 2, 64, nullptr, values.data()), cudaSuccess);
  for (int i = 0; i < 128; ++i) EXPECT_EQ(values[i], i / 64 * 64 + 63 - i % 64);
}

TEST(Simt, OsThreadsHaveSharedMemoryOfTheirOwn) {
  std::vector<std::vector<int>> values(4, std::vector<int>(64 * 50));
  std::vector<std::thread> streams;
  for (auto& own : values) {
    std::iota(own.begin(), own.end(), static_cast<int>(&own - values.data()) * 10000);
    streams.emplace_back([&own] { launch(reverse_kernel, 50, 64, nullptr, own.data()); });
  }
  for (auto& stream : streams) stream.join();
  for (int t = 0; t < 4; ++t) {
    for (int i = 0; i < 64 * 50; ++i) EXPECT_EQ(values[t][i], t * 10000 + i / 64 * 64 + 63 - i % 64);
  }
}

// Which thread comes last is up to the order.
__global__ void last_kernel(int* last) { atomicExch(last, static_cast<int>(threadIdx.x)); }

TEST(Simt, SeedsShuffleTheThreads) {
  std::vector<int> seen;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    simt::set_seed(seed);
    int last = -1;
    ASSERT_EQ(launch(last_kernel, 1, 64, nullptr, &last), cudaSuccess);
    seen.push_back(last);
  }
  simt::set_seed(1);
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  EXPECT_GE(seen.size(), 5U);
}

__global__ void shuffle_kernel(int* values) {
  const int own = static_cast<int>(threadIdx.x) * 10;
  int* out = values + threadIdx.x * 5;
  out[0] = __shfl_xor_sync(0xffffffffU, own, 3);
  out[1] = __shfl_up_sync(0xffffffffU, own, 2, 16);
  out[2] = __shfl_down_sync(0xffffffffU, own, 30);
  out[3] = __shfl_sync(0xffffffffU, own, 5, 8);
  out[4] = static_cast<int>(__ballot_sync(0xffffffffU, threadIdx.x % 2));
}

TEST(Simt, ShufflesFollowTheManual) {
  std::vector<int> values(64 * 5);
  ASSERT_EQ(launch(shuffle_kernel, 1, 64, nullptr, values.data()), cudaSuccess);
  for (int t = 0; t < 64; ++t) {
    const int lane = t % 32;
    EXPECT_EQ(values[t * 5], (t ^ 3) * 10);
    EXPECT_EQ(values[t * 5 + 1], (lane % 16 >= 2 ? t - 2 : t) * 10);
    EXPECT_EQ(values[t * 5 + 2], (lane < 2 ? t + 30 : t) * 10);
    EXPECT_EQ(values[t * 5 + 3], (t / 8 * 8 + 5) * 10);
    EXPECT_EQ(static_cast<unsigned>(values[t * 5 + 4]), 0xaaaaaaaaU);
  }
}

__global__ void double_shuffle_kernel(double* sum) {
  double value = 1.0 / (1.0 + threadIdx.x);
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(0xffffffffU, value, offset);
  if (threadIdx.x == 0) *sum = value;
}

TEST(Simt, ShufflesMoveDoubles) {
  double sum = 0.0;
  ASSERT_EQ(launch(double_shuffle_kernel, 1, 32, nullptr, &sum), cudaSuccess);
  double expected = 0.0;
  for (int i = 32; i > 0; --i) expected += 1.0 / i;
  EXPECT_NEAR(sum, expected, 1e-14);
}

// Halves of a warp may shuffle apart, in masks of their own, before they meet again.
__global__ void half_warps_kernel(int* values) {
  const int own = static_cast<int>(threadIdx.x);
  int found = 0;
  if (threadIdx.x < 16) {
    found = __shfl_sync(0x0000ffffU, own, 7);
  } else {
    found = __shfl_sync(0xffff0000U, own, 20);
  }
  values[threadIdx.x] = found + 100 * __shfl_xor_sync(0xffffffffU, own, 16);
}

TEST(Simt, MasksNameWhoTakesPart) {
  std::vector<int> values(32);
  ASSERT_EQ(launch(half_warps_kernel, 1, 32, nullptr, values.data()), cudaSuccess);
  EXPECT_EQ(values[3], 7 + 100 * 19);
  EXPECT_EQ(values[31], 20 + 100 * 15);
}

__global__ void count_kernel(unsigned* count, float* sum, int* most) {
  atomicAdd(count, 1);
  atomicAdd(sum, 0.5F);
  atomicMax(most, static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x));
}

TEST(Simt, AtomicsCountEveryThread) {
  unsigned count = 0;
  float sum = 0.0F;
  int most = -1;
  ASSERT_EQ(launch_independent(count_kernel, 7, 96, nullptr, &count, &sum, &most), cudaSuccess);
  EXPECT_EQ(count, 7U * 96U);
  EXPECT_EQ(sum, 336.0F);
  EXPECT_EQ(most, 671);
}

__global__ void vote_kernel(int* votes) {
  const int count = __syncthreads_count(threadIdx.x % 3 == 0);
  if (threadIdx.x == 5) votes[0] = count;
  const int any = __syncthreads_or(threadIdx.x == 40);
  if (threadIdx.x == 6) votes[1] = any;
  const int all = __syncthreads_and(threadIdx.x != 40);
  if (threadIdx.x == 7) votes[2] = all;
}

TEST(Simt, BlocksVote) {
  int votes[3] = {-1, -1, -1};
  ASSERT_EQ(launch(vote_kernel, 1, 48, nullptr, votes), cudaSuccess);
  EXPECT_EQ(votes[0], 16);
  EXPECT_EQ(votes[1], 1);
  EXPECT_EQ(votes[2], 0);
}

__global__ void divergent_barrier_kernel() {
  if (threadIdx.x < 20) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST(Simt, FindsBarriersAtTwoPlaces) {
  EXPECT_THAT(failure_of(64, divergent_barrier_kernel), HasSubstr("one barrier for the whole block"));
}

__global__ void early_exit_kernel() {
  if (threadIdx.x == 9) return;
  __syncthreads();
}

TEST(Simt, FindsThreadsThatLeaveBeforeABarrier) {
  EXPECT_THAT(failure_of(64, early_exit_kernel), HasSubstr("thread 9 has left the kernel"));
}

__global__ void shuffle_against_barrier_kernel() {
  if (threadIdx.x == 4) {
    __syncthreads();
  } else {
    __shfl_xor_sync(0xffffffffU, 1, 1);
  }
}

TEST(Simt, FindsLanesThatAreElsewhere) {
  EXPECT_THAT(failure_of(32, shuffle_against_barrier_kernel),
              HasSubstr("thread 4 waits at a barrier of the block (simt_test.cpp:"));
}

__global__ void exited_lane_kernel() {
  if (threadIdx.x == 31) return;
  __ballot_sync(0xffffffffU, 1);
}

TEST(Simt, FindsLanesThatHaveLeft) {
  EXPECT_THAT(failure_of(32, exited_lane_kernel), HasSubstr("thread 31 has left the kernel"));
}

TEST(Simt, FindsMasksBeyondTheBlock) {
  EXPECT_THAT(failure_of(20, shuffle_kernel, static_cast<int*>(nullptr)),
              HasSubstr("for lanes that are not there"));
}

__global__ void stranger_kernel() { __shfl_sync(0x000000ffU, 1, 9); }

TEST(Simt, FindsShufflesFromLanesThatTakeNoPart) {
  EXPECT_THAT(failure_of(8, stranger_kernel), HasSubstr("shuffles from lane 9, which takes no part"));
}

TEST(Simt, ABlockThatFailedLeavesNothingBehind) {
  EXPECT_NE(failure_of(64, early_exit_kernel), "");
  std::vector<int> values(64);
  std::iota(values.begin(), values.end(), 0);
  ASSERT_EQ(launch(reverse_kernel, 1, 64, nullptr, values.data()), cudaSuccess);
  EXPECT_EQ(values[0], 63);
}

TEST(Simt, IndependentThreadsMustNotMeet) {
  std::vector<int> values(64);
  EXPECT_THROW(launch_independent(reverse_kernel, 1, 64, nullptr, values.data()), simt::Error);
}

__global__ void throwing_kernel(const float* values) { simt::move_aligned(nullptr, nullptr, 16, values); }

TEST(Simt, FindsMisalignedPacks) {
  alignas(16) const float values[8] = {};
  EXPECT_THAT(failure_of(32, throwing_kernel, values + 1), HasSubstr("not a multiple"));
}

TEST(Simt, RefusesWhatAGpuWouldNotLaunch) {
  EXPECT_EQ(launch(divergent_barrier_kernel, 0, 32, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(divergent_barrier_kernel, 1, 1025, nullptr), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch_independent(divergent_barrier_kernel, 1, 0, nullptr), cudaErrorInvalidConfiguration);
}

}  // namespace
