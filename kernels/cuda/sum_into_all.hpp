#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

namespace dtrain::kernels::cuda {

inline constexpr std::size_t max_summands = 16;

// For replicas that share one GPU: as kernels/reduce.hpp, on buffers in its memory. The list is copied at the
// call; more than max_summands buffers are cudaErrorInvalidValue.
cudaError_t sum_into_all(std::span<float* const> buffers, std::size_t offset, std::size_t count,
                         cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
