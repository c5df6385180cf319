#pragma once

#include <cudnn.h>

#include <utility>

#include "backend/cuda/check.hpp"

namespace dtrain::backend::cuda {

// A cuDNN context of the current device. Work is enqueued on the stream it was made with; one thread at a
// time.
class CudnnHandle {
 public:
  explicit CudnnHandle(cudaStream_t stream) {
    DTRAIN_CUDA(cudnnCreate(&raw_));
    const cudnnStatus_t bound = cudnnSetStream(raw_, stream);
    if (bound != CUDNN_STATUS_SUCCESS) DTRAIN_CUDA_QUIETLY(cudnnDestroy(raw_));
    check(bound, "cudnnSetStream");
  }
  CudnnHandle(CudnnHandle&& other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
  CudnnHandle& operator=(CudnnHandle&& other) noexcept {
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~CudnnHandle() {
    if (raw_ != nullptr) DTRAIN_CUDA_QUIETLY(cudnnDestroy(raw_));
  }

  cudnnHandle_t get() const { return raw_; }

 private:
  cudnnHandle_t raw_ = nullptr;
};

}  // namespace dtrain::backend::cuda
