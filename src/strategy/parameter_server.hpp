#pragma once

#include <memory>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Weights and optimizer state live on servers: every replica pushes its gradients to them and pulls the
// weights that come of it; in step, in step but for backup workers, or without waiting for others. In one
// process the servers are in it; in a job they are its ps tasks.
std::shared_ptr<const Strategy> make_parameter_server();

}  // namespace dtrain::strategy
