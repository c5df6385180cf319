#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/element.hpp"

namespace dtrain::kernels::cuda {

inline constexpr unsigned bias_chunks = 256;

// Floats that bias_gradient needs to work in, of any content.
constexpr std::size_t bias_scratch(int channels) {
  return static_cast<std::size_t>(bias_chunks) * static_cast<std::size_t>(channels);
}

// sums[c] = or, with `add`, += the sum of values[.][c] over all rows. The order of the sum is fixed, so that
// the bits are the same in every run. values: [rows][channels].
cudaError_t bias_gradient(const void* values, Element element, std::size_t rows, int channels, float* sums,
                          bool add, float* scratch, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
