#pragma once

#include <string>
#include <vector>

#include "stats/summary.hpp"

namespace dtrain::stats {

// Runs of different strategies that did the same work: the same number of devices and images a step. Indices
// into Samples::runs; empty where there are not two of them.
std::vector<std::size_t> side_by_side(const measure::Samples& samples);

// Images a second of one run over those of another, round by round: a drift of the machine hits both sides.
std::optional<Interval> rate_ratio(const measure::RunSamples& run, const measure::RunSamples& base);

// Mean loss of the last steps up to `steps`, which must be there: single steps are noisy.
double loss_until(const measure::RunSamples& run, std::size_t steps);
// Steps that all of these runs took, so that their losses are those after equal images; 0 where one has none.
std::size_t common_steps(const measure::Samples& samples, const std::vector<std::size_t>& runs);

// Which strategy fits this model and machine: the fastest; of those that cannot be told from it (the interval
// of the ratio paired by round holds 1), the one whose largest replica takes least memory. Says how far the
// others are behind, and which do not train the same. Empty where strategies do not stand side by side.
std::string best_strategy(const measure::Samples& samples, const std::vector<RunSummary>& runs);

}  // namespace dtrain::stats
