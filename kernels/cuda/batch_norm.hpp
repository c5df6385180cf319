#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/element.hpp"

namespace dtrain::kernels::cuda {

// Per channel, fp32.
struct BatchNormValues {
  const float* mean = nullptr;
  const float* variance = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  float epsilon = 1e-5F;
};

// y = (x - mean) / sqrt(variance + epsilon) * gamma + beta, and with `relu` max(0, y). x and y are
// [rows][channels] and may be the same array.
cudaError_t batch_norm_inference(const void* x, void* y, Element element, std::size_t rows, int channels,
                                 const BatchNormValues& values, bool relu, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
