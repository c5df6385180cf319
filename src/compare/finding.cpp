#include "compare/finding.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "stats/interval.hpp"

namespace dtrain::compare {

namespace {

using stats::RunLogs;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

const measure::RunSamples& run_of(const Side& side, const std::vector<std::size_t>& runs, std::size_t i) {
  return side.results[i].samples.runs[runs[i]];
}

// Rounds of each result's run.
std::vector<std::vector<double>> values_of(const Side& side, const std::vector<std::size_t>& runs,
                                           const Metric& metric) {
  std::vector<std::vector<double>> values;
  for (std::size_t i = 0; i < runs.size(); ++i) values.push_back(metric.values(side.results[i], runs[i]));
  return values;
}

std::vector<double> flat(const std::vector<std::vector<double>>& values) {
  std::vector<double> all;
  for (const auto& run : values) all.insert(all.end(), run.begin(), run.end());
  return all;
}

Values describe(const std::vector<std::vector<double>>& values) {
  const auto all = flat(values);
  return {.median = stats::median(all), .rounds = all.size(), .runs = values.size()};
}

// Logarithms of goodness: more is better.
RunLogs logs_of(const std::vector<std::vector<double>>& values, const Metric& metric) {
  RunLogs logs;
  for (const auto& run : values) {
    auto& out = logs.emplace_back();
    for (const double value : run) out.push_back(metric.more_is_better ? std::log(value) : -std::log(value));
  }
  return logs;
}

// Logarithms of the calibration kernel's time beside each round; empty unless every round has one.
RunLogs calibrations_of(const Side& side, const std::vector<std::size_t>& runs) {
  RunLogs logs;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    auto& out = logs.emplace_back();
    for (const auto& round : run_of(side, runs, i).rounds) {
      if (round.calibration_seconds <= 0.0) return {};
      out.push_back(std::log(round.calibration_seconds));
    }
  }
  return logs;
}

double scatter(const RunLogs& runs) {
  double sum = 0.0;
  for (const auto& run : runs) {
    const double middle = mean(run);
    for (const double value : run) sum += (value - middle) * (value - middle);
  }
  return sum;
}

RunLogs normalised(const RunLogs& logs, const RunLogs& calibrations, Normalisation how) {
  RunLogs out = logs;
  for (std::size_t run = 0; run < out.size(); ++run) {
    const double typical = stats::median(calibrations[run]);
    for (std::size_t i = 0; i < out[run].size(); ++i) {
      out[run][i] += how == Normalisation::by_round ? calibrations[run][i] : typical;
    }
  }
  return out;
}

struct BothLogs {
  RunLogs base;
  RunLogs next;
};

bool fit(const RunLogs& logs, const RunLogs& calibrations) {
  return std::ranges::equal(
      logs, calibrations, {}, [](const auto& run) { return run.size(); },
      [](const auto& run) { return run.size(); });
}

// The calibration kernel runs on a core: it says nothing of a GPU. Where it scatters more than what it is to
// correct, the run's median is taken.
Normalisation normalise(BothLogs& logs, const Side& base, const Side& next,
                        const Configuration& configuration, const Metric& metric) {
  if (!metric.follows_machine || base.results.front().device != "cpu" ||
      next.results.front().device != "cpu") {
    return Normalisation::none;
  }
  const BothLogs calibrations{calibrations_of(base, configuration.base),
                              calibrations_of(next, configuration.next)};
  if (!fit(logs.base, calibrations.base) || !fit(logs.next, calibrations.next)) return Normalisation::none;
  const BothLogs by_round{normalised(logs.base, calibrations.base, Normalisation::by_round),
                          normalised(logs.next, calibrations.next, Normalisation::by_round)};
  if (scatter(by_round.base) + scatter(by_round.next) <= scatter(logs.base) + scatter(logs.next)) {
    logs = by_round;
    return Normalisation::by_round;
  }
  logs = {normalised(logs.base, calibrations.base, Normalisation::by_run),
          normalised(logs.next, calibrations.next, Normalisation::by_run)};
  return Normalisation::by_run;
}

std::vector<double> pair_differences(const BothLogs& logs) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(logs.base.size(), logs.next.size()); ++i) {
    differences.push_back(mean(logs.next[i]) - mean(logs.base[i]));
  }
  return differences;
}

bool any_zero(const std::vector<double>& values) {
  return std::ranges::any_of(values, [](double value) { return !(value > 0.0); });
}

struct SideDoubt {
  double slowed = 0.0;  // share of the side's rate, mean over its runs
  double sped = 0.0;
};

SideDoubt doubt_side(const Side& side, const std::vector<std::size_t>& runs, const RunLogs& logs,
                     const char* who, Finding& finding) {
  SideDoubt sum;
  const auto share = 1.0 / static_cast<double>(runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) {
    for (auto& doubt : stats::doubts(run_of(side, runs, i), logs[i], side.results[i].machine.cores)) {
      doubt.share *= share;
      sum.slowed += doubt.share;
      if (!doubt.only_slows) sum.sped += doubt.share;
      doubt.what = fmt::format("{}: {}", who, doubt.what);
      finding.doubts.push_back(std::move(doubt));
    }
  }
  return sum;
}

std::string failed(const Side& side, const std::vector<std::size_t>& runs) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string& failure = run_of(side, runs, i).failure;
    if (!failure.empty()) return fmt::format("{}: the run failed: {}", side.name, failure);
  }
  return "";
}

bool any_empty(const std::vector<std::vector<double>>& values) {
  return std::ranges::any_of(values, [](const auto& run) { return run.empty(); });
}

std::string why_no_evidence(const std::vector<double>& base, const std::vector<double>& next,
                            const Metric& metric, bool paired) {
  if (any_zero(base) || any_zero(next)) return "it is 0 on one side, which has no ratio";
  if (paired || !metric.of_rounds) return "";
  const std::size_t fewest = std::min(base.size(), next.size());
  if (fewest >= least_rounds) return "";
  return fmt::format(
      "{} round{} on one side, and fewer than {} say nothing of how much they vary: use more --rounds",
      fewest, fewest == 1 ? "" : "s", least_rounds);
}

void add_evidence(OpenFinding& open, const Side& base, const Side& next, const Configuration& configuration,
                  const Metric& metric, const Config& config, BothLogs logs) {
  Finding& finding = open.finding;
  if (!metric.of_rounds) {
    open.evidence = stats::exact_evidence(mean(logs.next.front()) - mean(logs.base.front()));
    finding.arithmetic = open.evidence->explain();
    return;
  }
  const bool same_samples = logs.base == logs.next;
  finding.normalisation = normalise(logs, base, next, configuration, metric);
  if (same_samples) {
    open.evidence = stats::exact_evidence(0.0);
    finding.arithmetic = {"both sides hold the same samples: there is no change"};
    return;
  }
  open.evidence = config.paired ? stats::paired_evidence(pair_differences(logs))
                                : stats::unpaired_evidence(logs.base, logs.next, config.between_runs);
  finding.arithmetic = open.evidence->explain();
  if (config.paired) return;  // what disturbs the machine disturbs both of a pair
  const SideDoubt of_base = doubt_side(base, configuration.base, logs.base, "base", finding);
  const SideDoubt of_next = doubt_side(next, configuration.next, logs.next, "new", finding);
  open.may_feign = of_next.slowed + of_base.sped;
  open.may_hide = of_base.slowed + of_next.sped;
}

}  // namespace

std::optional<OpenFinding> gather(const Side& base, const Side& next, const Configuration& configuration,
                                  const Registry<Metric>::Entry& metric, const Config& config) {
  const auto base_values = values_of(base, configuration.base, metric.value);
  const auto next_values = values_of(next, configuration.next, metric.value);
  const auto all_base = flat(base_values);
  const auto all_next = flat(next_values);
  OpenFinding open;
  Finding& finding = open.finding;
  finding.configuration = configuration.id;
  finding.metric = metric.name;
  finding.unit = metric.value.unit;
  finding.more_is_better = metric.value.more_is_better;
  finding.base = describe(base_values);
  finding.next = describe(next_values);
  finding.reason = failed(base, configuration.base);
  if (finding.reason.empty()) finding.reason = failed(next, configuration.next);
  if (!finding.reason.empty()) return open;
  const auto nothing = [](double value) { return value == 0.0; };
  if (std::ranges::all_of(all_base, nothing) && std::ranges::all_of(all_next, nothing)) return std::nullopt;
  if (any_empty(base_values)) finding.reason = "the base did not measure it";
  if (any_empty(next_values)) finding.reason = "the new side did not measure it";
  if (!finding.reason.empty()) return open;
  finding.reason = why_no_evidence(all_base, all_next, metric.value, config.paired);
  if (!finding.reason.empty()) return open;
  finding.raw_change = finding.next.median / finding.base.median - 1.0;
  add_evidence(open, base, next, configuration, metric.value, config,
               {logs_of(base_values, metric.value), logs_of(next_values, metric.value)});
  return open;
}

}  // namespace dtrain::compare
