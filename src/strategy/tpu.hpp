#pragma once

#include <memory>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// Synchronous data parallelism over the devices of one PJRT plugin: one program a step computes, sums and
// updates on all of them.
std::shared_ptr<const Strategy> make_tpu();

}  // namespace dtrain::strategy
