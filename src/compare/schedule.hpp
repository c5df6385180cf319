#pragma once

#include <vector>

namespace dtrain::compare {

inline constexpr int least_pairs = 8;  // signed ranks of fewer cannot show anything at a strict level

// Which side of each pair goes first, so that a drift of the machine favours none: base, new, new, base, ...
// True: the new side.
bool new_goes_first(int pair);

// A moment at which the evidence is judged.
struct Look {
  int pairs = 0;
  double error_share = 1.0;  // as of stats::GateConfig
};

// When to look, if `pairs` fit into the budget: twice as many each time, so that there are few, and even
// numbers, so that both orders have had as many turns. The last is at the end, whatever it is, and has four
// fifths of the chance of error: the others are there to stop early where the answer is plain.
std::vector<Look> looks(int pairs);

}  // namespace dtrain::compare
