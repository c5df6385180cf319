#pragma once

#include <vector>

namespace dtrain::compare {

inline constexpr int least_pairs = 8;  // signed ranks of fewer cannot show anything at a strict level

// Which side of each pair goes first, so that a drift of the machine favours none: base, new, new, base, ...
// True: the new side.
bool new_goes_first(int pair);

// After how many pairs to look at the evidence, if `pairs` fit into the budget: even numbers, so that both
// orders have had as many turns, half as many again each time. Every look costs some of the allowed chance of
// error, so that there are few. The last is at the end, whatever it is.
std::vector<int> looks(int pairs);

}  // namespace dtrain::compare
