#pragma once

#include "cudnn_descriptor.hpp"

struct cudnnContext : cuda_double::Object {
  explicit cudnnContext(int on) : Object("cudnn handle"), device(on) {}

  int device;
  cudaStream_t stream = nullptr;
};

namespace cuda_double {

cudnnContext& cudnn_handle_of(cudnnHandle_t handle);

}  // namespace cuda_double
