#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace dtrain::history {

// What one result says of a rate: its logarithm, and the variance of that by the result's own rounds.
struct Observation {
  double log_rate = 0.0;
  double own_variance = 0.0;
};

// The rate's level changed between results first - 1 and first. Ratios are after / before, with a 95 %
// interval.
struct ChangePoint {
  std::size_t first = 0;  // of the new level
  double ratio = 1.0;
  double low = 1.0;
  double high = 1.0;
};

inline constexpr std::size_t least_segment = 3;  // results on either side of a change
inline constexpr double least_change = 0.02;     // the interval lies wholly beyond it

// Oldest first. Binary segmentation: the split in two levels that fits best is a change point if
//
// - the step is larger than in 99 % of series of the same length that only scatter (simulated; always the
//   same numbers). Noise that remembers makes levels of its own, so that the step is held against the noise
//   that its lag-1 autocorrelation implies, which is corrected for the bias of short series;
// - two levels fit clearly better than a straight line, so that a drift is no change;
// - the interval of the change lies wholly beyond `least_change`.
//
// Then both sides are searched. What the results' own rounds scatter is the least that noise can be. None in
// fewer than two segments' results.
std::vector<ChangePoint> find_change_points(std::span<const Observation> series);

}  // namespace dtrain::history
