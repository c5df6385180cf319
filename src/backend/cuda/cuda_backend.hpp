#pragma once

#include <memory>

#include "backend/backend.hpp"

namespace dtrain::backend::cuda {

// Replicas on NVIDIA GPUs, computed by cuDNN and own kernels.
std::shared_ptr<const Backend> make_cuda_backend();

}  // namespace dtrain::backend::cuda
