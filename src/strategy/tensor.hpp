#pragma once

#include <memory>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// One model over all ranks: each computes its own output channels of every convolution and dense layer, of
// all images of a step, and holds their weights alone. Ranks gather activations in forward and sum gradients
// in backward, so a step equals one device's.
std::shared_ptr<const Strategy> make_tensor();

}  // namespace dtrain::strategy
