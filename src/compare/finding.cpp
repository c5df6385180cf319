#include "compare/finding.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "report/format.hpp"
#include "stats/interval.hpp"

namespace dtrain::compare {

namespace {

using stats::RunLogs;

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

// As milliseconds, of the base's step in these runs; 0 for what is no part of it.
double least_counted(const Side& base, const std::vector<std::size_t>& runs, const Metric& metric) {
  if (!metric.part_of_step) return 0.0;
  const auto steps = flat(values_of(base, runs, metrics().at("step_ms").value));
  return steps.empty() ? 0.0 : least_part * stats::median(steps);
}

std::vector<std::vector<double>> at_least(double least, std::vector<std::vector<double>> values) {
  for (auto& run : values) {
    for (double& value : run) value = std::max(value, least);
  }
  return values;
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

struct BothLogs {
  RunLogs base;
  RunLogs next;
};

// What is next to nothing is as good as it can be.
BothLogs at_most(double best, BothLogs logs) {
  for (auto* side : {&logs.base, &logs.next}) {
    for (auto& run : *side) {
      for (double& value : run) value = std::min(value, best);
    }
  }
  return logs;
}

bool fit(const RunLogs& logs, const RunLogs& calibrations) {
  return std::ranges::equal(
      logs, calibrations, {}, [](const auto& run) { return run.size(); },
      [](const auto& run) { return run.size(); });
}

RunLogs sum_of(RunLogs logs, const RunLogs& more) {
  for (std::size_t run = 0; run < logs.size(); ++run) {
    for (std::size_t i = 0; i < logs[run].size(); ++i) logs[run][i] += more[run][i];
  }
  return logs;
}

double mean_of_runs(const RunLogs& logs) {
  double sum = 0.0;
  for (const auto& run : logs) sum += stats::mean(run);
  return sum / static_cast<double>(logs.size());
}

std::vector<double> pair_differences(const BothLogs& logs) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < std::min(logs.base.size(), logs.next.size()); ++i) {
    differences.push_back(stats::mean(logs.next[i]) - stats::mean(logs.base[i]));
  }
  return differences;
}

double spread_of_pairs(const BothLogs& logs) {
  auto differences = pair_differences(logs);
  const double middle = stats::median(differences);
  for (double& value : differences) value = std::abs(value - middle);
  return stats::median(differences);
}

// Takes the machine's own speed out, round by round, so that what the calibration scatters is in the scatter
// that is judged. A core says nothing of a GPU. Pairs had the same machine, and are corrected only if that
// brings them together. `best` is what the logarithms are held to, on the base's machine.
BothLogs normalise(const BothLogs& raw, double best, const Side& base, const Side& next,
                   const Configuration& configuration, const Metric& metric, bool paired, Finding& finding) {
  BothLogs logs = at_most(best, raw);
  const bool on_cores = base.results.front().device == "cpu" && next.results.front().device == "cpu";
  if (!metric.follows_machine || !on_cores) return logs;
  const BothLogs calibrations{calibrations_of(base, configuration.base),
                              calibrations_of(next, configuration.next)};
  if (!fit(logs.base, calibrations.base) || !fit(logs.next, calibrations.next)) return logs;
  BothLogs corrected = at_most(best + mean_of_runs(calibrations.base),
                               {sum_of(raw.base, calibrations.base), sum_of(raw.next, calibrations.next)});
  if (paired && spread_of_pairs(corrected) >= spread_of_pairs(logs)) return logs;
  finding.normalised = true;
  finding.machine_change = std::exp(mean_of_runs(calibrations.base) - mean_of_runs(calibrations.next)) - 1.0;
  return corrected;
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

// The kernel follows the clock as training does, nearly: of a large correction a tenth is doubted, and from a
// factor of two on all of it.
void doubt_correction(OpenFinding& open) {
  constexpr double believed = 0.2;
  constexpr double doubted = 0.1;
  const double factor = std::abs(std::log1p(open.finding.machine_change));
  if (factor <= std::log1p(believed)) return;
  const double share = factor < std::log(2.0) ? doubted * (std::exp(factor) - 1.0 - believed) : 1.0;
  open.may_feign += share;
  open.may_hide += share;
  open.finding.doubts.push_back({share, false,
                                 fmt::format("the machine's own speed differs by {:+.1f} % between the sides",
                                             100.0 * open.finding.machine_change)});
}

std::string failed(const Side& side, const std::vector<std::size_t>& runs) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::string& failure = run_of(side, runs, i).failure;
    if (!failure.empty()) return fmt::format("{}: the run failed: {}", side.name, failure);
    if (!run_of(side, runs, i).weights_agree) {
      return fmt::format(
          "{}: its ranks ended with different weights, so that they did not do the work together", side.name);
    }
  }
  return "";
}

bool any_empty(const std::vector<std::vector<double>>& values) {
  return std::ranges::any_of(values, [](const auto& run) { return run.empty(); });
}

bool none_above(double least, const std::vector<std::vector<double>>& values) {
  return std::ranges::all_of(flat(values), [least](double value) { return value <= least; });
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

// One value a result, which chance does not change: where it changed all the same, that is worth knowing.
std::string why_mean(const std::vector<double>& base, const std::vector<double>& next) {
  constexpr double worth_saying = 1.01;
  for (const auto* side : {&base, &next}) {
    const auto [least, most] = std::ranges::minmax(*side);
    if (most <= worth_saying * least) continue;
    return fmt::format("it differs between results of the {}, from {} to {}, of which the mean is judged",
                       side == &base ? "base" : "new side", report::rate(least), report::rate(most));
  }
  return "";
}

std::string how_raised(double least) {
  return fmt::format("less than {} ms, {:g} % of the base's step, counts as that", report::rate(least),
                     100.0 * least_part);
}

void add_evidence(OpenFinding& open, const Side& base, const Side& next, const Configuration& configuration,
                  const Metric& metric, const Config& config, const BothLogs& raw, double best) {
  Finding& finding = open.finding;
  if (!metric.of_rounds) {
    open.evidence = stats::exact_evidence(mean_of_runs(raw.next) - mean_of_runs(raw.base));
    finding.arithmetic = open.evidence->explain();
    return;
  }
  const BothLogs logs = normalise(raw, best, base, next, configuration, metric, config.paired, finding);
  if (raw.base == raw.next) {
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
  doubt_correction(open);
}

Finding about(const Configuration& configuration, const Registry<Metric>::Entry& entry) {
  Finding finding;
  finding.configuration = configuration.id;
  finding.metric = entry.name;
  finding.unit = entry.value.unit;
  finding.more_is_better = entry.value.more_is_better;
  return finding;
}

}  // namespace

std::optional<OpenFinding> gather(const Side& base, const Side& next, const Configuration& configuration,
                                  const Registry<Metric>::Entry& entry, const Config& config) {
  const Metric& metric = entry.value;
  const auto base_values = values_of(base, configuration.base, metric);
  const auto next_values = values_of(next, configuration.next, metric);
  OpenFinding open;
  open.finding = about(configuration, entry);
  Finding& finding = open.finding;
  finding.base = describe(base_values);
  finding.next = describe(next_values);
  finding.reason = failed(base, configuration.base);
  if (finding.reason.empty()) finding.reason = failed(next, configuration.next);
  if (!finding.reason.empty()) return open;
  if (finding.base.rounds == 0 && finding.next.rounds == 0) return std::nullopt;
  if (any_empty(base_values)) finding.reason = "the base did not measure it";
  if (any_empty(next_values)) finding.reason = "the new side did not measure it";
  if (!finding.reason.empty()) return open;
  if (none_above(0.0, base_values) && none_above(0.0, next_values)) return std::nullopt;
  const double least = least_counted(base, configuration.base, metric);
  if (none_above(least, base_values) && none_above(least, next_values)) {
    open.evidence = stats::exact_evidence(0.0);
    finding.arithmetic = {how_raised(least) + ": there is no change"};
    return open;
  }
  const auto all_base = flat(at_least(least, base_values));
  const auto all_next = flat(at_least(least, next_values));
  finding.reason = why_no_evidence(all_base, all_next, metric, config.paired);
  if (!finding.reason.empty()) return open;
  finding.raw_change = stats::median(all_next) / stats::median(all_base) - 1.0;
  add_evidence(open, base, next, configuration, metric, config,
               {logs_of(base_values, metric), logs_of(next_values, metric)},
               least > 0.0 ? -std::log(least) : INFINITY);
  const bool one_raised = (finding.base.median < least) != (finding.next.median < least);
  if (one_raised) finding.reason = how_raised(least);
  if (!metric.of_rounds) finding.reason = why_mean(all_base, all_next);
  return open;
}

}  // namespace dtrain::compare
