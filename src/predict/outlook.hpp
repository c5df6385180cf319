#pragma once

#include <vector>

#include "predict/forecast.hpp"

namespace dtrain::predict {

// The largest N at which limits are looked for: under strong scaling an image a replica.
int looked_up_to(const Setup& setup);

// What takes time as N grows, in the order in which it comes to a tenth of the step; of those that come at
// the same N, the larger first.
std::vector<Limit> find_limits(const Forecast& forecast);

// Other bucket sizes, averaging now and then, compression: those that the model sees something of, best
// first.
std::vector<Gain> find_gains(const Forecast& forecast, const report::Result& result, int replicas);

}  // namespace dtrain::predict
