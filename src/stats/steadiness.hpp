#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/samples.hpp"

namespace dtrain::stats {

struct Steadiness {
  bool stable = true;
  std::vector<std::string> reasons;  // why not: each says what was seen and what to do
};

// What makes a run unsteady. Its numbers are kept whatever comes out.
inline constexpr double drift_limit = 0.05;            // change of the rate from first to last round
inline constexpr double uncertainty_limit = 0.05;      // half of the median's interval / median
inline constexpr double foreign_load_limit = 0.2;      // cores
inline constexpr double least_seconds_for_load = 0.5;  // measured: the system counts load in ticks of 10 ms
inline constexpr double stolen_limit = 0.05;           // cores
inline constexpr double throttled_limit = 0.01;        // of the measured time
inline constexpr double calibration_limit = 0.10;      // (max - min) / median
inline constexpr double slow_clock_limit = 0.95;       // of a GPU's highest clock, while something slows it
inline constexpr double bimodal_limit = 0.20;          // between the two groups of step times / their mean

Steadiness judge(const measure::RunSamples& run);

// Change from the first to the last value along the Theil-Sen line of their logarithms, last / first - 1, if
// the Mann-Kendall test finds a trend (two-sided, 5 %; needs five values, all above 0); else 0.
double significant_drift(std::span<const double> values);

// The best split of the values in two groups (Otsu 1979). Two groups are there when the split explains most
// of the variance, more than it would for one hump, and each group holds a fair share.
struct TwoGroups {
  bool found = false;
  double low = 0.0;         // mean of the lower group
  double high = 0.0;        // mean of the upper group
  double high_share = 0.0;  // of the values
};
TwoGroups split_in_two(std::vector<double> values);

}  // namespace dtrain::stats
