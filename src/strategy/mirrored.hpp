#pragma once

#include <memory>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Synchronous data parallelism on one machine: every replica holds all weights, gradient buckets are summed
// over the replicas while backward goes on, and each replica applies the same update.
std::shared_ptr<const Strategy> make_mirrored();

}  // namespace dtrain::strategy
