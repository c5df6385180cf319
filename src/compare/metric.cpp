#include "compare/metric.hpp"

#include <algorithm>

namespace dtrain::compare {

namespace {

using measure::RoundSample;
using measure::RunSamples;
using report::Result;

double rate(const RoundSample& round) { return static_cast<double>(round.images) / round.seconds; }

std::vector<double> rates(const Result& result, std::size_t run) {
  std::vector<double> values;
  for (const auto& round : result.samples.runs[run].rounds) values.push_back(rate(round));
  return values;
}

// Against the strategy's run of one replica, round by round.
std::vector<double> efficiencies(const Result& result, std::size_t index) {
  const RunSamples& run = result.samples.runs[index];
  if (run.plan.base != config::RunPlan::Base::none || run.plan.simulated) return {};
  const auto base = std::ranges::find_if(result.samples.runs, [&](const RunSamples& other) {
    return other.plan.base == config::RunPlan::Base::strategy && other.plan.strategy == run.plan.strategy;
  });
  if (base == result.samples.runs.end() || base->plan.simulated) return {};
  std::vector<double> values;
  for (std::size_t i = 0; i < std::min(run.rounds.size(), base->rounds.size()); ++i) {
    values.push_back(rate(run.rounds[i]) / rate(base->rounds[i]) / run.plan.replicas);
  }
  return values;
}

std::vector<double> step_times(const Result& result, std::size_t run) {
  std::vector<double> values;
  for (const auto& round : result.samples.runs[run].rounds) {
    if (round.steps > 0) values.push_back(1e3 * round.seconds / round.steps);
  }
  return values;
}

// Milliseconds a step, mean over ranks.
template <class Part>
auto mean_over_ranks(Part part) {
  return [part](const Result& result, std::size_t run) {
    std::vector<double> values;
    for (const auto& round : result.samples.runs[run].rounds) {
      if (round.ranks.empty() || round.steps == 0) return std::vector<double>();
      double sum = 0.0;
      for (const auto& rank : round.ranks) sum += part(rank);
      values.push_back(1e3 * std::max(sum / static_cast<double>(round.ranks.size()), 0.0));
    }
    return values;
  };
}

std::vector<double> peak_bytes(const Result& result, std::size_t run) {
  return {static_cast<double>(result.samples.runs[run].replica_peak_bytes)};
}

std::vector<double> bytes_sent(const Result& result, std::size_t index) {
  const RunSamples& run = result.samples.runs[index];
  if (run.measured_steps == 0) return {};
  return {static_cast<double>(run.bytes_sent) / static_cast<double>(run.measured_steps)};
}

std::vector<double> last_accuracy(const Result& result, std::size_t run) {
  const auto& evaluations = result.samples.runs[run].evaluations;
  if (evaluations.empty()) return {};
  return {evaluations.back().accuracy};
}

}  // namespace

const Registry<Metric>& metrics() {
  static const auto table = [] {
    using measure::RankPhases;
    Registry<Metric> known("metric");
    known.add("images_per_second", "images of all replicas a second", {"images/s", true, true, true, rates});
    known.add("efficiency", "images/s against N times one replica's",
              {"of one", true, true, false, efficiencies});
    known.add("step_ms", "mean step of the slowest rank", {"ms", false, true, true, step_times});
    known.add("input_ms", "waiting for input, a step",
              {"ms", false, true, true, mean_over_ranks([](const RankPhases& r) { return r.input; }), true});
    known.add(
        "communication_ms", "exposed communication, a step, waiting for stragglers left out",
        {"ms", false, true, true,
         mean_over_ranks([](const RankPhases& r) { return r.communication - r.straggler_wait; }), true});
    known.add("straggler_ms", "waiting for the last rank, a step",
              {"ms", false, true, true, mean_over_ranks([](const RankPhases& r) { return r.straggler_wait; }),
               true});
    known.add("replica_peak_bytes", "most memory that a replica held",
              {"bytes", false, false, false, peak_bytes});
    known.add("bytes_sent", "by rank 0 in a step", {"bytes", false, false, false, bytes_sent});
    known.add("accuracy", "of the last evaluation, where there was one",
              {"of one", true, false, false, last_accuracy});
    return known;
  }();
  return table;
}

}  // namespace dtrain::compare
