#include "kernels/cuda/sum_into_all.hpp"

#include <vector>

#include "kernels/cuda/for_each.cuh"

namespace dtrain::kernels::cuda {

namespace {

struct SumIntoAll {
  static constexpr int width = 4;
  float* buffers[max_summands];
  int count;

  template <int N>
  __device__ void at(std::size_t first) const {
    float sum[N];
    load(buffers[0] + first, sum);
#pragma unroll 4
    for (int r = 1; r < count; ++r) {
      float next[N];
      load(buffers[r] + first, next);
#pragma unroll
      for (int i = 0; i < N; ++i) sum[i] += next[i];
    }
    for (int r = 0; r < count; ++r) store(buffers[r] + first, sum);
  }
};

}  // namespace

cudaError_t sum_into_all(std::span<float* const> buffers, std::size_t offset, std::size_t count,
                         cudaStream_t stream) {
  if (buffers.size() > max_summands) return cudaErrorInvalidValue;
  if (buffers.size() < 2) return cudaSuccess;
  SumIntoAll work = {{}, static_cast<int>(buffers.size())};
  for (std::size_t r = 0; r < buffers.size(); ++r) work.buffers[r] = buffers[r] + offset;
  const std::vector<Array> arrays(work.buffers, work.buffers + buffers.size());
  return for_each(count, stream, work, arrays);
}

}  // namespace dtrain::kernels::cuda
