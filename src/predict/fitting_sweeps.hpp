#pragma once

#include <string>
#include <vector>

#include "predict/sweep.hpp"
#include "report/result.hpp"

namespace dtrain::predict {

// Those that tell something of how this result's gradients were exchanged. `spans`: its replicas were of
// several workers. What is left out is noted. Data error, naming file and key, for a sweep by another
// communicator than the result's.
std::vector<Sweep> fitting_sweeps(const std::vector<Sweep>& sweeps, const report::Result& result, bool spans,
                                  std::vector<std::string>& notes);

}  // namespace dtrain::predict
