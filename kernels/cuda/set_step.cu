#include "kernels/cuda/set_step.hpp"

#include "kernels/cuda/launch.cuh"

namespace dtrain::kernels::cuda {

namespace {

__global__ void set_step_kernel(StepBlock* step, const __grid_constant__ StepBlock value,
                                StepOutcome* clear) {
  *step = value;
  if (clear != nullptr) *clear = StepOutcome{};
}

}  // namespace

cudaError_t set_step(StepBlock* step, const StepBlock& value, StepOutcome* clear, cudaStream_t stream) {
  return launch_independent(set_step_kernel, 1, 1, stream, step, value, clear);
}

}  // namespace dtrain::kernels::cuda
