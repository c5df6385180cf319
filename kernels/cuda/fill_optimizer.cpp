#include "kernels/cuda/fill_optimizer.hpp"

#include <cmath>

namespace dtrain::kernels::cuda {

void fill_optimizer(StepBlock& block, const OptimizerStep& step) {
  const auto t = static_cast<double>(step.step);
  block.learning_rate = static_cast<float>(step.learning_rate);
  block.momentum = static_cast<float>(step.momentum);
  block.beta1 = static_cast<float>(step.beta1);
  block.one_minus_beta1 = static_cast<float>(1.0 - step.beta1);
  block.beta2 = static_cast<float>(step.beta2);
  block.one_minus_beta2 = static_cast<float>(1.0 - step.beta2);
  block.epsilon = static_cast<float>(step.epsilon);
  block.decay = static_cast<float>(step.learning_rate * step.weight_decay);
  block.gradient_unscale = static_cast<float>(step.gradient_unscale);
  block.step_size = static_cast<float>(step.learning_rate / (1.0 - std::pow(step.beta1, t)));
  block.second_scale = static_cast<float>(1.0 / std::sqrt(1.0 - std::pow(step.beta2, t)));
}

}  // namespace dtrain::kernels::cuda
