#pragma once

#include <memory>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Data parallelism that trains as mirrored does, with every rank keeping a part of what it need not have as a
// whole: optimizer states (stage 1), gradients (2), weights (3).
std::shared_ptr<const Strategy> make_sharded();

}  // namespace dtrain::strategy
