#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/element.hpp"

namespace dtrain::kernels::cuda {

// to[i] = from[i], `size` elements; rounds to nearest, ties to even. The arrays do not overlap.
cudaError_t cast_from_float(const float* from, void* to, Element element, std::size_t size,
                            cudaStream_t stream);
cudaError_t cast_to_float(const void* from, Element element, float* to, std::size_t size,
                          cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
