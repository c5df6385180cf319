#pragma once

#include <string>

#include "stats/summary.hpp"

namespace dtrain::stats {

// The one sentence that says what limits scaling here: the largest part of the budget of the largest N that
// is neither simulated nor failed. A straggler counts with all that it makes the others lose.
std::string verdict(const SummaryInput& input, const std::vector<RunSummary>& runs);

// What the reader must know beside the numbers, each with its remedy.
std::vector<std::string> warnings(const SummaryInput& input, const std::vector<RunSummary>& runs);

}  // namespace dtrain::stats
