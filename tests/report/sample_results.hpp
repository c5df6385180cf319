#pragma once

#include <string>

#include "report/result.hpp"

// Results made by hand, as a benchmark would leave them.
namespace dtrain::report {

// A plain base and mirrored at N = 1, 2, 4; rank 1 is late in input at N = 4. 5 rounds.
Result scaling_result();

// One plain run, one round of one step.
Result one_point_result();

// Stopped before the first round ended.
Result empty_result();

// Two replicas share one core.
Result simulated_result();

// Every text that comes from outside tries to be markup, to end a script or to drive the terminal.
Result hostile_result();

std::string read_file(const std::string& path);

}  // namespace dtrain::report
