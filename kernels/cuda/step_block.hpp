#pragma once

#include <cstdint>

#include "kernels/normalise.hpp"

namespace dtrain::kernels::cuda {

// What changes from step to step. It lies in device memory, so that a recorded step is replayed unchanged:
// kernels read it where they would otherwise take arguments.
struct StepBlock {
  // Input, one of two: floats that are normalised already, by image, in planes of red, green and blue;
  const float* images = nullptr;
  // or records of 3072 bytes (planes of red, green and blue), as in CIFAR-10 files without their label.
  const std::uint8_t* pixels = nullptr;
  const std::int32_t* records = nullptr;  // which of `pixels`' records; null = record i is image i
  const std::int32_t* labels = nullptr;   // by image, or by record where `records` is given
  const Crop* crops = nullptr;            // by image; null = as they are

  float gradient_scale = 1.0F;  // multiplies d(loss sum)/d(logits)

  // One optimizer update; see kernels/optimizer.hpp. Computed in double on the host.
  float learning_rate = 0.0F;
  float momentum = 0.0F;
  float beta1 = 0.0F;
  float beta2 = 0.0F;
  float one_minus_beta1 = 1.0F;  // rounded once: taken from a rounded beta it would be off by 5e-5
  float one_minus_beta2 = 1.0F;
  float epsilon = 0.0F;
  float decay = 0.0F;             // learning rate x weight decay
  float gradient_unscale = 1.0F;  // 1 / loss scale
  float step_size = 0.0F;         // adam: learning rate / (1 - beta1^step)
  float second_scale = 1.0F;      // adam: 1 / sqrt(1 - beta2^step)
};

// What a step leaves behind, in device memory: added to by kernels, read by the host after the step.
struct StepOutcome {
  double loss_sum = 0.0;  // over images, unscaled
  std::int32_t correct = 0;
  std::int32_t own_not_finite = 0;      // gradients of this replica, before they met the others'
  std::int32_t not_finite = 0;          // gradients that the update was to use; it then left everything alone
  std::int32_t weights_not_finite = 0;  // after the update
  std::uint32_t loss_blocks = 0;        // softmax_cross_entropy's own: blocks that have handed in their sum
};

}  // namespace dtrain::kernels::cuda
