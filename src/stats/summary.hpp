#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/samples.hpp"
#include "stats/budget.hpp"
#include "stats/interval.hpp"
#include "stats/steadiness.hpp"
#include "stats/straggler.hpp"

namespace dtrain::stats {

struct RunSummary {
  Interval images_per_second;  // images of all ranks / seconds of the slowest
  Percentiles step_seconds;    // of the slowest rank, all rounds together
  Interval mean_step_seconds;
  std::optional<Interval> speedup;  // images/s against the strategy's N = 1, paired by round, weak or strong
  std::optional<Interval> efficiency;  // speedup / N; none for bases, simulated and failed runs
  // images/s / (N x images/s of the plain loop). Also for the strategy's own base, where it is what the
  // strategy costs at N = 1.
  std::optional<Interval> efficiency_against_plain;
  std::string efficiency_reason;     // why there is none
  std::optional<LossBudget> budget;  // none for bases, failed runs, and without rank phases of both runs
  std::optional<Straggler> straggler;
  double measuring_share = 0.0;         // of the step: what a rank's stamps cost
  double model_flops_per_second = 0.0;  // images/s x training flops an image
  double model_bytes_per_second = 0.0;  // estimated memory traffic of all replicas
  // Of the devices' peaks; none when those are not known, or replicas share devices.
  std::optional<double> peak_share;
  std::optional<double> bandwidth_share;
  Steadiness steadiness;
};

struct Summary {
  std::vector<RunSummary> runs;  // same order as Samples::runs
  std::string verdict;           // the one sentence: what limits scaling here
  std::vector<std::string> warnings;
};

struct SummaryInput {
  const measure::Samples* samples = nullptr;
  config::Scaling scaling = config::Scaling::weak;
  double training_flops_per_image = 0.0;
  double peak_flops_per_replica = 0.0;  // 0 = unknown
  double training_bytes_per_image = 0.0;
  double update_bytes = 0.0;            // a step and replica
  double peak_bytes_per_replica = 0.0;  // a second; 0 = unknown
};

// Everything that is said about samples: the same for a run that has just ended and for a result file read
// back.
Summary summarise(const SummaryInput& input);

}  // namespace dtrain::stats
