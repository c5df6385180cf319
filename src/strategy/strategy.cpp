#include "strategy/strategy.hpp"
