#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/element.hpp"

namespace dtrain::kernels::cuda {

// Gradients on their way to other replicas. What compression loses is kept in `residual` (starts at 0) and
// goes with the next step's (error feedback).

// to[i] = values[i] + residual[i], rounded to `element`; the residual becomes what rounding lost. Finite
// values beyond the largest of `element` become the largest; a value that is not finite stays so and leaves a
// residual of 0. cast_to_float (cast.hpp) is the way back.
cudaError_t compress(const float* values, float* residual, void* to, Element element, std::size_t size,
                     cudaStream_t stream);

struct Pair {
  std::uint32_t index;
  float value;
};

// Bytes that top_k needs to work in, of any content.
std::size_t top_k_scratch(std::size_t size);

// Adds `values` to `residual`, moves the min(k, size) entries of the residual with the largest magnitude (the
// first of equals; NaN is larger than infinity) to `pairs`, ascending in index, and leaves 0 in their place.
// scratch: top_k_scratch(size) bytes, aligned to 16, one call at a time. size < 2^31.
cudaError_t top_k(const float* values, float* residual, std::size_t size, std::size_t k, Pair* pairs,
                  void* scratch, cudaStream_t stream);

// values[pair.index] += pair.value for `count` pairs, all with indices of their own.
cudaError_t scatter_add(const Pair* pairs, std::size_t count, float* values, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
