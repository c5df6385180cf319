#pragma once

#include <memory>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Local SGD (Stich 2019): every replica updates with its own gradients, and with every K-th step
// (--sync-every K) weights become their mean over all replicas, each counting alike. With an outer momentum b
// > 0 (SlowMo, Wang et al. 2020) the mean only says where to go from x, the weights after the last
// synchronization:
//
//     u = b u + (x - mean),  weights = x - u.
//
// Optimizer state and running statistics stay each replica's own, and u is in no checkpoint. collect_state
// synchronizes early where weights differ, so that what is evaluated or saved is one model; distribute_state
// begins anew from weights that were loaded, the same on all.
//
// On CPU replicas only: usage error on a device with a stream.
std::unique_ptr<RankStrategy> make_local_sgd(const RankContext& context);

}  // namespace dtrain::strategy
