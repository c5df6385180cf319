#pragma once

#include <memory>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// The model cut into stages, one a device, which a step's images pass in micro-batches; pipelines side by
// side share a step's images and sum the gradients of the same stage.
std::shared_ptr<const Strategy> make_pipeline();

}  // namespace dtrain::strategy
