#pragma once

#include "kernels/cuda/step_block.hpp"
#include "kernels/optimizer.hpp"

namespace dtrain::kernels::cuda {

// Sets the numbers of an update in `block`, computed in double: for sgd, adam and adamw alike.
void fill_optimizer(StepBlock& block, const OptimizerStep& step);

}  // namespace dtrain::kernels::cuda
