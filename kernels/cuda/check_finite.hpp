#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace dtrain::kernels::cuda {

// Sets *flag to 1 if one of `size` values is infinite or NaN; never clears it.
cudaError_t check_finite(const float* values, std::size_t size, std::int32_t* flag, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
