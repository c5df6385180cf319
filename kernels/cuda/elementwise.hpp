#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/element.hpp"

namespace dtrain::kernels::cuda {

// All arrays hold `size` elements. A result may be one of the operands (the same address, not a shifted one).

// dx = y > 0 ? dy : 0, where y is the output of the ReLU.
cudaError_t relu_backward(const void* y, const void* dy, void* dx, Element element, std::size_t size,
                          cudaStream_t stream);
// sum = a + b, rounded once.
cudaError_t add(const void* a, const void* b, void* sum, Element element, std::size_t size,
                cudaStream_t stream);
// into += from
cudaError_t accumulate(const void* from, void* into, Element element, std::size_t size, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
