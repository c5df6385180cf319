#pragma once

// Threads of a block working something out together. Every thread of a warp, or of the block, takes part.

#include "kernels/cuda/launch.cuh"

namespace dtrain::kernels::cuda {

inline constexpr unsigned all_lanes = 0xffffffffU;

__device__ inline unsigned lane_of_thread() { return threadIdx.x % warp_size; }
__device__ inline unsigned warp_of_thread() { return threadIdx.x / warp_size; }

// The sum over groups of `lanes` (a power of two) neighbouring lanes, the same bits in every lane.
template <class T>
__device__ inline T sum_of_lanes(T value, unsigned lanes = warp_size) {
  for (unsigned offset = lanes / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(all_lanes, value, static_cast<int>(offset));
  }
  return value;
}

// The sum over a block of block_size threads, taken in a fixed order; in all threads.
template <class T>
__device__ inline T sum_of_block(T value) {
  __shared__ T of_warp[block_size / warp_size];
  value = sum_of_lanes(value);
  __syncthreads();  // the values of an earlier call have been read
  if (lane_of_thread() == 0) of_warp[warp_of_thread()] = value;
  __syncthreads();
  T sum = of_warp[0];
  for (unsigned warp = 1; warp < block_size / warp_size; ++warp) sum += of_warp[warp];
  return sum;
}

// The sum of the values of earlier threads of a block of block_size threads; `total` is that of all.
__device__ inline unsigned sum_before(unsigned value, unsigned& total) {
  __shared__ unsigned of_warp[block_size / warp_size];
  unsigned sum = value;  // of this lane and those before
  for (unsigned offset = 1; offset < warp_size; offset *= 2) {
    const unsigned other = __shfl_up_sync(all_lanes, sum, offset);
    if (lane_of_thread() >= offset) sum += other;
  }
  __syncthreads();  // the values of an earlier call have been read
  if (lane_of_thread() == warp_size - 1) of_warp[warp_of_thread()] = sum;
  __syncthreads();
  unsigned before = 0;
  total = 0;
  for (unsigned warp = 0; warp < block_size / warp_size; ++warp) {
    if (warp < warp_of_thread()) before += of_warp[warp];
    total += of_warp[warp];
  }
  return before + sum - value;
}

// True in all threads of the block that comes here last of the grid; what other blocks wrote before they came
// is then to be seen with __ldcg. `arrived` starts at 0 and is 0 again after the last block.
__device__ inline bool is_last_block(unsigned* arrived) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    last = atomicAdd(arrived, 1U) == gridDim.x - 1;
    if (last) *arrived = 0;
    __threadfence();
  }
  __syncthreads();
  return last;
}

}  // namespace dtrain::kernels::cuda
