#include "stats/summary.hpp"

#include <algorithm>

#include "stats/choice.hpp"
#include "stats/verdict.hpp"

namespace dtrain::stats {

namespace {

using config::RunPlan;
using measure::RunSamples;

double rate(const measure::RoundSample& round) {
  return round.seconds > 0.0 ? static_cast<double>(round.images) / round.seconds : 0.0;
}

struct Bases {
  const RunSamples* plain = nullptr;
  const RunSamples* strategy = nullptr;
};

Bases bases_for(const measure::Samples& samples, const RunSamples& run) {
  Bases bases;
  for (const auto& other : samples.runs) {
    if (other.plan.base == RunPlan::Base::plain && bases.plain == nullptr) bases.plain = &other;
    if (other.plan.base == RunPlan::Base::strategy && other.plan.strategy == run.plan.strategy) {
      bases.strategy = &other;
    }
  }
  return bases;
}

// Why a run, or what it is held against, gives no efficiency; empty if it does.
std::string why_not_scaling(const RunSamples& run) {
  if (!run.failure.empty()) return "the run failed: " + run.failure;
  if (run.plan.simulated) {
    const std::string& reason = run.plan.simulated_reason;
    return "simulated: " + (reason.empty() ? "replicas share a device or core" : reason);
  }
  return run.rounds.empty() ? "no round was measured" : "";
}

std::string why_no_efficiency(const RunSamples& run, const RunSamples* base) {
  if (std::string why = why_not_scaling(run); !why.empty()) return why;
  if (run.plan.base != RunPlan::Base::none) return "a base is what others are held against";
  if (base == nullptr) return "the strategy's run of one replica was not measured";
  if (std::string why = why_not_scaling(*base); !why.empty()) {
    return fmt::format("its base {} cannot serve: {}", base->plan.id, why);
  }
  return "";
}

void add_scaling(RunSummary& summary, const RunSamples& run, const Bases& bases) {
  const double share = 1.0 / run.plan.replicas;
  const bool is_plain = run.plan.base == RunPlan::Base::plain;
  if (!is_plain && bases.plain != nullptr && why_not_scaling(run).empty() &&
      why_not_scaling(*bases.plain).empty()) {
    const auto ratio = rate_ratio(run, *bases.plain);
    if (ratio) summary.efficiency_against_plain = scaled(*ratio, share);
  }
  summary.efficiency_reason = why_no_efficiency(run, bases.strategy);
  if (!summary.efficiency_reason.empty()) return;
  summary.speedup = rate_ratio(run, *bases.strategy);
  if (summary.speedup) {
    summary.efficiency = scaled(*summary.speedup, share);
  } else {
    summary.efficiency_reason = "no round was measured of both the run and its base";
  }
}

void add_rates(RunSummary& summary, const RunSamples& run) {
  std::vector<double> rates;
  std::vector<double> mean_steps;
  std::vector<double> steps;
  for (const auto& round : run.rounds) {
    if (round.seconds > 0.0) rates.push_back(rate(round));
    if (round.seconds > 0.0 && round.steps > 0) mean_steps.push_back(round.seconds / round.steps);
    steps.insert(steps.end(), round.step_seconds.begin(), round.step_seconds.end());
  }
  summary.images_per_second = bootstrap_median(rates);
  summary.mean_step_seconds = bootstrap_median(mean_steps);
  summary.step_seconds = percentiles_of(std::move(steps));
}

// With its device's memory for each replica.
void add_rooflines(RunSummary& summary, const RunSamples& run, const SummaryInput& input) {
  const int replicas = run.plan.replicas;
  const double step = summary.mean_step_seconds.median;
  summary.model_flops_per_second = summary.images_per_second.median * input.training_flops_per_image;
  summary.model_bytes_per_second = summary.images_per_second.median * input.training_bytes_per_image;
  if (step > 0.0) summary.model_bytes_per_second += replicas * input.update_bytes / step;
  if (run.plan.simulated) return;
  const double flops = input.peak_flops_per_replica * replicas;
  const double bytes = input.peak_bytes_per_replica * replicas;
  if (flops > 0.0 && summary.model_flops_per_second > 0.0) {
    summary.peak_share = summary.model_flops_per_second / flops;
  }
  if (bytes > 0.0 && summary.model_bytes_per_second > 0.0) {
    summary.bandwidth_share = summary.model_bytes_per_second / bytes;
  }
}

void add_costs(RunSummary& summary, const RunSamples& run) {
  const double step = summary.mean_step_seconds.median;
  if (step > 0.0) summary.measuring_share = run.stamp_seconds * run.stamps_per_step / step;
}

RunSummary summarise_run(const SummaryInput& input, const RunSamples& run) {
  RunSummary summary;
  const Bases bases = bases_for(*input.samples, run);
  add_rates(summary, run);
  add_scaling(summary, run, bases);
  add_costs(summary, run);
  add_rooflines(summary, run, input);
  const bool scales = run.plan.base == RunPlan::Base::none && run.plan.replicas > 1;
  if (scales && run.failure.empty() && bases.strategy != nullptr && bases.strategy->failure.empty()) {
    summary.budget = loss_budget(run, *bases.strategy);
  }
  summary.straggler = find_straggler(run);
  summary.steadiness = judge(run);
  return summary;
}

}  // namespace

Summary summarise(const SummaryInput& input) {
  Summary summary;
  for (const auto& run : input.samples->runs) summary.runs.push_back(summarise_run(input, run));
  summary.verdict = best_strategy(*input.samples, summary.runs);
  if (summary.verdict.empty()) summary.verdict = verdict(input, summary.runs);
  summary.warnings = warnings(input, summary.runs);
  return summary;
}

}  // namespace dtrain::stats
