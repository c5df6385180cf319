#pragma once

#include "base/open_registry.hpp"
#include "strategy/strategy.hpp"

namespace dtrain::strategy {

// What strategies() shows, for programs that bring their own.
OpenRegistry<std::shared_ptr<const Strategy>>& open_strategies();

}  // namespace dtrain::strategy
