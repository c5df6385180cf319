#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/element.hpp"
#include "kernels/cuda/step_block.hpp"

namespace dtrain::kernels::cuda {

enum class UpdateRule { sgd, adam };  // adamw is adam with a decay

// A range of a replica's flat buffers; all pointers are to its first element. Fast where they share their
// alignment, as ranges at one offset of aligned buffers do.
struct UpdateRange {
  float* weights = nullptr;
  const float* gradients = nullptr;
  float* state0 = nullptr;
  float* state1 = nullptr;  // adam
  void* copy = nullptr;     // receives the new weights as `element`; null = none
  Element element = Element::bf16;
  std::size_t size = 0;
};

// As kernels/optimizer.hpp, with the numbers of `step` (fill_optimizer). Leaves everything as it is if
// outcome->not_finite; sets outcome->weights_not_finite if a new weight is not finite.
cudaError_t update_weights(UpdateRule rule, const UpdateRange& range, const StepBlock* step,
                           StepOutcome* outcome, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
