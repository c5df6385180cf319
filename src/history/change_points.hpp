#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace dtrain::history {

// What one result says of a rate: its logarithm, and the variance of that by the result's own rounds.
struct Observation {
  double log_rate = 0.0;
  double own_variance = 0.0;
};

// Results begin to end - 1.
struct Level {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t size() const { return end - begin; }
};

// The rate left its level between results first() - 1 and first(). Ratios are after / before, of these two
// levels alone, with a 95 % interval.
struct ChangePoint {
  Level before;
  Level after;  // begins later than first() where one or two results between belong to neither
  double ratio = 1.0;
  double low = 1.0;
  double high = 1.0;

  std::size_t first() const { return before.end; }
};

inline constexpr std::size_t least_segment = 3;  // results on either side of a change
inline constexpr double least_change = 0.02;     // the interval lies wholly beyond it

// Finds where a series, oldest first, changes its level. Of all ways to cut it in two, the one that fits best
// is believed if
//
// - its levels explain more of the scatter than they do in 99 % of series of the same length that only
//   scatter (simulated; always the same numbers). Noise that remembers makes levels of its own, so that they
//   are held against the noise that the lag-1 autocorrelation of what is left implies, which is corrected for
//   the bias of short series;
// - they fit clearly better than a straight line, so that a drift is no change;
// - the interval of every change lies wholly beyond `least_change`.
//
// Else three levels, and so on up to six, are asked the same more sternly: a slip and its repair hide each
// other from a single cut, and the steps of a staircase do. Then each segment is searched again. What the
// results' own rounds scatter is the least that noise can be.
//
// One or two results at a new level are none yet: they are kept out of the levels beside them. What changed
// is told last, from the levels that were left.
class ChangePointFinder {
 public:
  std::vector<ChangePoint> find(std::span<const Observation> series);

 private:
  void search(std::span<const double> logs, std::span<const double> own, std::size_t offset,
              std::vector<std::size_t>& bounds);
  double strength_by_chance(std::size_t n, std::size_t cuts);

  std::map<std::pair<std::size_t, std::size_t>, double> by_chance_;  // of a length and number of cuts
};

}  // namespace dtrain::history
