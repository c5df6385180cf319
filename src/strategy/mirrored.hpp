#pragma once

#include <memory>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Synchronous data parallelism: every replica holds all weights, gradient buckets are summed over the
// replicas while backward goes on, and each replica applies the same update. With --sync-every above 1 it is
// local SGD. mirrored is that on one machine, multi-worker over several.
std::shared_ptr<const Strategy> make_mirrored();
std::shared_ptr<const Strategy> make_multi_worker();

}  // namespace dtrain::strategy
