#pragma once

// All that a program needs that trains with dtrain's strategies, or adds to them. docs/extending.md shows
// how.
#include "dtrain/extend.hpp"
#include "dtrain/options.hpp"
#include "dtrain/program.hpp"
#include "dtrain/strategy.hpp"
