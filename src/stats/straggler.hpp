#pragma once

#include <optional>

#include "measure/samples.hpp"

namespace dtrain::stats {

struct Straggler {
  int rank = 0;
  config::Phase phase = config::Phase::input;  // where it lost the time
  bool between_phases = false;  // it lost more of it where no stamp is, outside all phases: `phase` is second
  double last_share = 0.0;      // share of steps in which it arrived last
  double seconds_late = 0.0;    // a step, beyond the median of the other ranks; median over rounds
};

// The rank that holds the others up, if the evidence is clear; nobody otherwise. How late it is in a round is
// how much longer it takes from leaving one collective to its arrival at the next than the median of the
// others, so that nobody is blamed for being let go later; less what it did for the collective in that time
// and the others, who wait for it, do afterwards. All of:
//
// - it arrived last in more than a quarter of the way from chance (1/N) to all of the steps;
// - in nine rounds of ten it was late by more than the noise floor: 2 % of the step, 0.2 ms, and more than
// the
//   other ranks differed among themselves;
// - its lateness is at least twice what it varies by from round to round (median absolute deviation).
//
// Fewer than five rounds cannot show that last point, and a rank may have been slow in all of them by chance:
// then last in 85 % of the steps and late by 20 % are asked. The phase is the one in which it took most more
// than the median of the other ranks (for two: than the other).
std::optional<Straggler> find_straggler(const measure::RunSamples& run);

}  // namespace dtrain::stats
