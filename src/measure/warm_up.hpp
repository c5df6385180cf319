#pragma once

#include <optional>

#include "measure/protocol.hpp"

namespace dtrain::measure {

struct WarmUp {
  int steps = 0;              // taken
  double step_seconds = 0.0;  // median of the last window
  bool trusted = false;       // that median rests on enough steps to plan by
};

// Takes `steps` steps, or as many as the rule asks for. `known_step_seconds` is what a step took in an
// earlier round; 0 before the subject's very first step.
WarmUp warm_up(Subject& subject, std::optional<int> steps, const SteadyRule& rule, double known_step_seconds);

// How many steps `min_time` needs when one takes `step_seconds`, with a little to spare.
int steps_for(Seconds min_time, double step_seconds);

}  // namespace dtrain::measure
