#pragma once

#include <cuda_runtime_api.h>

namespace dtrain::kernels::cuda {

// What batch norm remembers of its batches; all fp32, one a channel.
struct RunningStatistics {
  const float* batch_mean = nullptr;
  const float* batch_inverse_deviation = nullptr;  // 1 / sqrt(biased variance + epsilon)
  float* running_mean = nullptr;
  float* running_variance = nullptr;
  float epsilon = 1e-5F;
  float momentum = 0.1F;
  double count = 1.0;  // values a channel in the batch: images x height x width
};

// running = (1 - momentum) running + momentum batch, with the batch's unbiased variance.
cudaError_t update_running_statistics(const RunningStatistics& statistics, int channels, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
