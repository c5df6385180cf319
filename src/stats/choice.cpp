#include "stats/choice.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/text.hpp"

namespace dtrain::stats {

namespace {

using config::RunPlan;
using measure::RunSamples;

constexpr std::size_t last_steps = 10;
constexpr std::size_t first_steps = 10;  // in which sums taken in another order have not yet led elsewhere
constexpr double other_training = 0.01;  // of the loss of a step
constexpr double less_memory = 0.95;     // of another's: below it a choice is made by memory

double rate(const measure::RoundSample& round) {
  return round.seconds > 0.0 ? static_cast<double>(round.images) / round.seconds : 0.0;
}

double memory_of(const RunSamples& run) { return static_cast<double>(run.replica_bytes); }

// What is said of one run beside the best.
struct Standing {
  const RunSamples* run = nullptr;
  std::optional<Interval> ratio;  // of its images/s to the fastest one's
  bool as_fast() const { return !ratio || ratio->high >= 1.0; }
};

std::string in_percent(const Interval& ratio) {
  const auto less = [](double value) { return 100.0 * (1.0 - value); };
  return fmt::format("{:.0f} % slower [{:.0f}, {:.0f}]", less(ratio.median), less(ratio.high),
                     less(ratio.low));
}

std::string memory_text(const RunSamples& run) {
  return run.replica_bytes == 0 ? "" : fmt::format(" ({} a replica)", format_bytes(memory_of(run)));
}

std::vector<Standing> standings(const measure::Samples& samples, const std::vector<std::size_t>& indices,
                                std::size_t fastest) {
  std::vector<Standing> all;
  for (const std::size_t index : indices) {
    const RunSamples& run = samples.runs[index];
    if (!run.failure.empty() || run.rounds.empty()) continue;
    Standing standing{.run = &run, .ratio = {}};
    if (index != fastest) standing.ratio = rate_ratio(run, samples.runs[fastest]);
    all.push_back(standing);
  }
  return all;
}

std::string others_in_words(const std::vector<Standing>& all, const RunSamples& best) {
  std::vector<std::string> words;
  for (const auto& standing : all) {
    if (standing.run == &best) continue;
    words.push_back(standing.as_fast()
                        ? fmt::format("{}{} cannot be told from the fastest", standing.run->plan.strategy,
                                      memory_text(*standing.run))
                        : fmt::format("{} is {}", standing.run->plan.strategy, in_percent(*standing.ratio)));
  }
  return join(words, ", ");
}

bool trains_alike(const RunSamples& run, const RunSamples& other) {
  const std::size_t steps = std::min({first_steps, run.losses.size(), other.losses.size()});
  for (std::size_t step = 0; step < steps; ++step) {
    if (std::abs(run.losses[step] - other.losses[step]) > other_training * std::abs(other.losses[step])) {
      return false;
    }
  }
  return true;
}

std::string trains_otherwise(const measure::Samples& samples, const std::vector<std::size_t>& indices,
                             const RunSamples& best) {
  const std::size_t steps = common_steps(samples, indices);
  if (steps == 0) return {};
  const double reference = loss_until(best, steps);
  std::vector<std::string> words;
  for (const std::size_t index : indices) {
    const RunSamples& run = samples.runs[index];
    if (trains_alike(run, best)) continue;
    words.push_back(fmt::format("{} (loss {:.4f})", run.plan.strategy, loss_until(run, steps)));
  }
  if (words.empty()) return {};
  return fmt::format(
      "; it trains otherwise than {} from the first steps on, so that after {} steps the loss is {:.4f} with "
      "{}",
      join(words, ", "), steps, reference, best.plan.strategy);
}

}  // namespace

std::vector<std::size_t> side_by_side(const measure::Samples& samples) {
  if (samples.runs.empty()) return {};
  const RunPlan& last = samples.runs.back().plan;
  std::vector<std::size_t> indices;
  std::set<std::string> strategies;
  for (std::size_t i = 0; i < samples.runs.size(); ++i) {
    const RunPlan& plan = samples.runs[i].plan;
    if (plan.base != RunPlan::Base::none || plan.exact) continue;
    if (plan.replicas != last.replicas || plan.global_batch != last.global_batch) continue;
    indices.push_back(i);
    strategies.insert(plan.strategy);
  }
  if (strategies.size() < 2) return {};
  return indices;
}

std::optional<Interval> rate_ratio(const RunSamples& run, const RunSamples& base) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < std::min(run.rounds.size(), base.rounds.size()); ++i) {
    if (rate(base.rounds[i]) > 0.0) ratios.push_back(rate(run.rounds[i]) / rate(base.rounds[i]));
  }
  if (ratios.empty()) return std::nullopt;
  return bootstrap_median(ratios);
}

double loss_until(const RunSamples& run, std::size_t steps) {
  const std::size_t first = steps - std::min(steps, last_steps);
  const auto begin = run.losses.begin() + static_cast<std::ptrdiff_t>(first);
  const auto end = run.losses.begin() + static_cast<std::ptrdiff_t>(steps);
  return std::accumulate(begin, end, 0.0) / static_cast<double>(steps - first);
}

std::size_t common_steps(const measure::Samples& samples, const std::vector<std::size_t>& runs) {
  if (runs.empty()) return 0;
  std::size_t steps = samples.runs[runs.front()].losses.size();
  for (const std::size_t index : runs) steps = std::min(steps, samples.runs[index].losses.size());
  return steps;
}

std::string best_strategy(const measure::Samples& samples, const std::vector<RunSummary>& runs) {
  const auto indices = side_by_side(samples);
  std::vector<std::size_t> measured;
  for (const std::size_t index : indices) {
    const RunSamples& run = samples.runs[index];
    if (run.failure.empty() && run.weights_agree && !run.rounds.empty()) measured.push_back(index);
  }
  if (measured.size() < 2) return {};
  const RunPlan& plan = samples.runs[measured.front()].plan;
  if (plan.simulated) {
    return fmt::format("no strategy can be chosen here: {}", plan.simulated_reason);
  }
  const std::size_t fastest = *std::ranges::max_element(
      measured, {}, [&](std::size_t index) { return runs[index].images_per_second.median; });
  const auto all = standings(samples, measured, fastest);
  const RunSamples* best = &samples.runs[fastest];
  for (const auto& standing : all) {
    if (standing.as_fast() && memory_of(*standing.run) < less_memory * memory_of(*best)) best = standing.run;
  }
  const bool unstable =
      std::ranges::any_of(measured, [&](std::size_t index) { return !runs[index].steadiness.stable; });
  const bool by_memory = best != &samples.runs[fastest];
  return fmt::format(
      "{}{} fits this model and machine best: {}{}; {}{}", unstable ? "unstable, so take with care: " : "",
      best->plan.strategy, by_memory ? "as fast as the fastest, with least memory" : "the fastest",
      memory_text(*best), others_in_words(all, *best), trains_otherwise(samples, measured, *best));
}

}  // namespace dtrain::stats
