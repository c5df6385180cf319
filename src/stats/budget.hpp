#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/samples.hpp"

namespace dtrain::stats {

// One part of the gap between the ideal and the measured step.
struct BudgetPart {
  std::string
      name;  // input, slower computation (or program), stragglers, communication, update and host, residual
  double seconds = 0.0;  // a step, mean over ranks; negative where N was faster than the base
  double percent = 0.0;  // of the measured step
};

struct LossBudget {
  double ideal_seconds = 0.0;  // a step, if N replicas cost nothing
  double measured_seconds = 0.0;
  double useful_percent = 0.0;  // ideal / measured; with the parts it adds up to 100
  std::vector<BudgetPart> parts;
  bool arrivals_measured = false;
  bool fused = false;  // a step is one program: "slower program" holds stragglers and communication too
};

// Where a run of N replicas loses time against its base, the run of one.
//
//   ideal step       = base's step x (images a step / base's images a step) / N, which is the base's step
//   under
//                      weak scaling and an N-th of it under strong scaling
//   input            = mean over ranks of input - base's input, scaled as the ideal step is; and so on:
//   slower computation: forward + backward; or all of a fused step, as "slower program"
//   stragglers       : wait between the own arrival and the last one; 0 where arrivals were not measured
//   communication    : exposed: what is left of communication without that wait
//   update and host  : update + what no stamp covers
//   residual         = measured step (of the slowest rank) - mean over ranks of their steps, less the base's
//
// The measured step is ideal + all parts, whatever their signs, because each rank's phases add up to its
// step. Medians of parts would not add up, so that the budget is that of one round of both runs: the one with
// the median efficiency (the two in the middle, pooled, for an even number). useful_percent is that median
// efficiency.
//
// None where no round of both holds the phases of ranks.
std::optional<LossBudget> loss_budget(const measure::RunSamples& run, const measure::RunSamples& base);

}  // namespace dtrain::stats
