#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/registry.hpp"

namespace dtrain::kernels {

// The numbers of one update. `step` counts updates from 1.
struct OptimizerStep {
  double learning_rate = 1e-3;
  double momentum = 0.9;          // sgd
  double beta1 = 0.9;             // adam
  double beta2 = 0.999;           // adam
  double epsilon = 1e-8;          // adam: added to sqrt of the bias-corrected second moment
  double weight_decay = 0.0;      // decoupled (Loshchilov, Hutter 2019): w -= lr * decay * w
  double gradient_unscale = 1.0;  // 1 / loss scale
  long step = 1;
};

// weights, gradients, state0 and state1 have one length; an optimizer ignores the states it has no use for.
// Returns false if a gradient was not finite (weights are then undefined).
using OptimizerUpdate = bool (*)(std::span<float> weights, std::span<const float> gradients,
                                 std::span<float> state0, std::span<float> state1, const OptimizerStep& step);

struct Optimizer {
  int states = 0;  // flat buffers of state: 0, 1 or 2
  double default_weight_decay = 0.0;
  OptimizerUpdate update = nullptr;
  OptimizerUpdate reference =
      nullptr;  // plain double-precision arithmetic, what tests hold the fast one against
};

// sgd (momentum, no Nesterov: v = m v + g; w -= lr v), adam (Kingma, Ba 2015), adamw (adam, decay 0.01 unless
// given).
const Registry<Optimizer>& optimizers();

bool all_finite(std::span<const float> values);

}  // namespace dtrain::kernels
