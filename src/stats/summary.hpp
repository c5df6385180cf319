#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/samples.hpp"

namespace dtrain::stats {

// A median with a 95 % bootstrap interval over rounds.
struct Interval {
  double median = 0.0;
  double low = 0.0;
  double high = 0.0;
};

struct Percentiles {
  double p50 = 0.0;
  double p95 = 0.0;
  double p99 = 0.0;
};

// One part of the gap between the ideal and the measured step.
struct BudgetPart {
  std::string name;      // input, slower computation, stragglers, communication, update and host, residual
  double seconds = 0.0;  // a step, mean over ranks; negative where N was faster than the base
  double percent = 0.0;  // of the measured step
};

struct LossBudget {
  double ideal_seconds = 0.0;  // a step, if N replicas cost nothing
  double measured_seconds = 0.0;
  double useful_percent = 0.0;  // ideal / measured; with the parts it adds up to 100
  std::vector<BudgetPart> parts;
  bool arrivals_measured = false;
};

struct Straggler {
  int rank = 0;
  config::Phase phase = config::Phase::input;  // where it lost the time
  double last_share = 0.0;                     // share of steps in which it arrived last
  double seconds_late = 0.0;                   // a step, after the median rank
};

struct Steadiness {
  bool stable = true;
  std::vector<std::string> reasons;  // each says what was seen and what to do
};

struct RunSummary {
  Interval images_per_second;
  Percentiles step_seconds;
  Interval mean_step_seconds;
  std::optional<Interval> speedup;     // against the strategy's N = 1, paired by round
  std::optional<Interval> efficiency;  // speedup / N; none for bases, simulated and failed runs
  std::optional<Interval> efficiency_against_plain;
  std::string efficiency_reason;     // why there is none
  std::optional<LossBudget> budget;  // none for bases
  std::optional<Straggler> straggler;
  double measuring_share = 0.0;  // of the step: cost of the stamps
  double model_flops_per_second = 0.0;
  std::optional<double> peak_share;  // of the devices' peak; none when that is not known
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
};

// Everything that is said about samples: the same for a run that has just ended and for a result file read
// back.
Summary summarise(const SummaryInput& input);

}  // namespace dtrain::stats
