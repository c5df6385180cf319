#pragma once

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>

namespace dtrain::testing {

inline constexpr int skipped = 77;  // exit code

// Empty where the first GPU can be used.
inline std::string why_no_gpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    return fmt::format("no usable GPU ({})",
                       status == cudaSuccess ? "the driver shows none" : cudaGetErrorString(status));
  }
  int major = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess || major < 8) {
    return fmt::format("GPU 0 is of compute capability {}, and 8.0 is the oldest served", major);
  }
  return {};
}

}  // namespace dtrain::testing
