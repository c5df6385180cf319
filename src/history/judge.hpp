#pragma once

#include <string_view>

#include "history/change_points.hpp"
#include "history/history.hpp"

namespace dtrain::history {

inline constexpr std::size_t enough_results = 2 * least_segment;  // to look for a change
inline constexpr std::string_view no_change = "no change";

// Normalises the series' rates where every result was calibrated, finds its changes, and says in words why
// there are none. On a GPU the calibration kernel, which runs on a core, says nothing; nor does it where it
// makes rates scatter more than twice as much from result to result; then a change of the machine's own speed
// at the same place is said.
void judge(Series& series, ChangePointFinder& finder);

}  // namespace dtrain::history
