#include "stats/budget.hpp"

#include <algorithm>
#include <numeric>

namespace dtrain::stats {

namespace {

// A step, mean over ranks, in seconds.
struct MeanStep {
  double seconds = 0.0;  // of the slowest rank
  double images = 0.0;
  double input = 0.0;
  double computation = 0.0;
  double straggler_wait = 0.0;
  double communication = 0.0;  // without that wait
  double update_and_host = 0.0;
  bool arrivals_measured = true;
  bool fused = false;

  double accounted() const { return input + computation + straggler_wait + communication + update_and_host; }
};

bool usable(const measure::RoundSample& round) {
  return round.steps > 0 && round.seconds > 0.0 && round.images > 0 && !round.ranks.empty();
}

double rate(const measure::RoundSample& round) { return static_cast<double>(round.images) / round.seconds; }

// The rounds in the middle when those of both runs are ordered by efficiency.
std::vector<std::size_t> middle_rounds(const measure::RunSamples& run, const measure::RunSamples& base) {
  std::vector<std::size_t> rounds;
  for (std::size_t i = 0; i < std::min(run.rounds.size(), base.rounds.size()); ++i) {
    if (usable(run.rounds[i]) && usable(base.rounds[i])) rounds.push_back(i);
  }
  std::stable_sort(rounds.begin(), rounds.end(), [&](std::size_t a, std::size_t b) {
    return rate(run.rounds[a]) / rate(base.rounds[a]) < rate(run.rounds[b]) / rate(base.rounds[b]);
  });
  if (rounds.size() <= 1) return rounds;
  const std::size_t n = rounds.size();
  return n % 2 == 1 ? std::vector{rounds[n / 2]} : std::vector{rounds[n / 2 - 1], rounds[n / 2]};
}

void add_ranks(MeanStep& sum, const measure::RoundSample& round) {
  const double weight = static_cast<double>(round.steps) / static_cast<double>(round.ranks.size());
  for (const auto& rank : round.ranks) {
    sum.input += weight * rank.input;
    sum.computation += weight * (rank.forward + rank.backward + rank.fused);
    sum.straggler_wait += weight * rank.straggler_wait;
    sum.communication += weight * (rank.communication - rank.straggler_wait);
    sum.update_and_host += weight * (rank.update + rank.host);
    sum.arrivals_measured = sum.arrivals_measured && rank.arrival_measured;
    sum.fused = sum.fused || rank.fused > 0.0;
  }
}

MeanStep mean_step(const measure::RunSamples& run, const std::vector<std::size_t>& rounds) {
  MeanStep sum;
  double steps = 0.0;
  for (const std::size_t i : rounds) {
    const measure::RoundSample& round = run.rounds[i];
    steps += round.steps;
    sum.seconds += round.seconds;
    sum.images += static_cast<double>(round.images);
    add_ranks(sum, round);
  }
  for (double* value : {&sum.seconds, &sum.images, &sum.input, &sum.computation, &sum.straggler_wait,
                        &sum.communication, &sum.update_and_host}) {
    *value /= steps;
  }
  return sum;
}

}  // namespace

std::optional<LossBudget> loss_budget(const measure::RunSamples& run, const measure::RunSamples& base) {
  const auto rounds = middle_rounds(run, base);
  if (rounds.empty()) return std::nullopt;
  const MeanStep n = mean_step(run, rounds);
  const MeanStep one = mean_step(base, rounds);
  const double scale = n.images / one.images / run.plan.replicas;

  LossBudget budget;
  budget.ideal_seconds = scale * one.seconds;
  budget.measured_seconds = n.seconds;
  budget.useful_percent = 100.0 * budget.ideal_seconds / n.seconds;
  budget.arrivals_measured = n.arrivals_measured;
  budget.fused = n.fused;
  const auto add = [&](const char* name, double measured, double ideal) {
    const double lost = measured - scale * ideal;
    budget.parts.push_back({.name = name, .seconds = lost, .percent = 100.0 * lost / n.seconds});
  };
  add("input", n.input, one.input);
  add(n.fused ? "slower program" : "slower computation", n.computation, one.computation);
  add("stragglers", n.straggler_wait, one.straggler_wait);
  add("communication", n.communication, one.communication);
  add("update and host", n.update_and_host, one.update_and_host);
  add("residual", n.seconds - n.accounted(), one.seconds - one.accounted());
  return budget;
}

}  // namespace dtrain::stats
