#pragma once

#include <memory>

#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// The plain loop on one device: no communication, the base that scaling is held against.
std::shared_ptr<const Strategy> make_single();

}  // namespace dtrain::strategy
