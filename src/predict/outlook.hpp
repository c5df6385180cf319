#pragma once

#include <vector>

#include "predict/forecast.hpp"

namespace dtrain::predict {

// What takes time as N grows, in the order in which it comes to a tenth of the step. Looked for up to
// `largest_replicas`, and under strong scaling up to an image a replica.
std::vector<Limit> find_limits(const Forecast& forecast);

// Other bucket sizes, averaging now and then, compression: those that the model sees something of, best
// first.
std::vector<Gain> find_gains(const Forecast& forecast, const report::Result& result, const std::string& model,
                             int replicas);

}  // namespace dtrain::predict
