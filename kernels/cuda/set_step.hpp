#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cuda/step_block.hpp"

namespace dtrain::kernels::cuda {

// Writes `value`, which is copied at the call, to *step, and sets *clear to StepOutcome{} (null: to nothing).
cudaError_t set_step(StepBlock* step, const StepBlock& value, StepOutcome* clear, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
