#pragma once

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Updates all weights. Returns false if a gradient was not finite; under loss scaling weights and optimizer
// state are then as they were.
void update_all(const RankContext& context, const kernels::OptimizerStep& step);

}  // namespace dtrain::strategy
