#pragma once

#include <optional>

namespace dtrain::tune {

inline constexpr int fewest_pairs = 10;

// How much a search by successive halving measures. Everything is counted in stretches: one short measurement
// of one candidate.
struct Schedule {
  int candidates = 0;    // beside the default
  int first_rounds = 2;  // of all candidates and the default; each later rung has twice as many
  int pairs = 0;         // of the last one and the default, at the end
};

// How many stay of a rung's candidates.
constexpr int survivors(int candidates) { return (candidates + 1) / 2; }

// That a schedule takes until one candidate is left, and with the pairs.
int halving_stretches(const Schedule& schedule);
int all_stretches(const Schedule& schedule);

// Of the smallest search that is worth it: all candidates there are, or the first four of them.
int least_stretches(int available);

// The largest search that takes no more than `stretches`: first more candidates, then more rounds of each and
// pairs. None where that is less than the smallest. `available` is at least 1.
std::optional<Schedule> plan_search(int available, int stretches);

}  // namespace dtrain::tune
