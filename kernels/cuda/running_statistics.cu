#include "kernels/cuda/running_statistics.hpp"

#include "kernels/cuda/launch.cuh"

namespace dtrain::kernels::cuda {

namespace {

__global__ void __launch_bounds__(block_size)
    update_kernel(const __grid_constant__ RunningStatistics statistics, float unbias, unsigned channels) {
  const unsigned c = blockIdx.x * blockDim.x + threadIdx.x;
  if (c >= channels) return;
  const float inverse = statistics.batch_inverse_deviation[c];
  const float biased = fmaxf(1.0F / (inverse * inverse) - statistics.epsilon, 0.0F);
  const float momentum = statistics.momentum;
  statistics.running_mean[c] += momentum * (statistics.batch_mean[c] - statistics.running_mean[c]);
  statistics.running_variance[c] += momentum * (biased * unbias - statistics.running_variance[c]);
}

}  // namespace

cudaError_t update_running_statistics(const RunningStatistics& statistics, int channels,
                                      cudaStream_t stream) {
  const auto count = static_cast<unsigned>(channels);
  const double unbias = statistics.count > 1.0 ? statistics.count / (statistics.count - 1.0) : 1.0;
  return launch_independent(update_kernel, blocks_for(count), block_size, stream, statistics,
                            static_cast<float>(unbias), count);
}

}  // namespace dtrain::kernels::cuda
