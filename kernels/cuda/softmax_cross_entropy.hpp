#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/cuda/element.hpp"
#include "kernels/cuda/step_block.hpp"

namespace dtrain::kernels::cuda {

inline constexpr unsigned loss_scratch = 256;  // doubles, whatever the batch

struct LossBatch {
  const void* logits = nullptr;  // [count][classes] of `element`
  const std::int32_t* labels = nullptr;
  void* gradient = nullptr;  // as logits, elsewhere; null = loss only
  Element element = Element::f32;
  int count = 0;
  int classes = 0;
};

// As kernels/softmax_cross_entropy.hpp: writes step->gradient_scale * (softmax - one hot) and adds to
// outcome->loss_sum and outcome->correct. `scratch` holds loss_scratch doubles of any content and serves one
// call at a time. The same bits in every run and on every GPU.
cudaError_t softmax_cross_entropy(const LossBatch& batch, const StepBlock* step, StepOutcome* outcome,
                                  double* scratch, cudaStream_t stream);

}  // namespace dtrain::kernels::cuda
