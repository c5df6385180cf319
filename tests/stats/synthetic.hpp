#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/random.hpp"
#include "measure/samples.hpp"
#include "stats/summary.hpp"

namespace dtrain::stats {

inline constexpr double ms = 1e-3;

using Base = config::RunPlan::Base;

inline measure::RunSamples make_run(const std::string& id, int replicas, Base base = Base::none) {
  measure::RunSamples run;
  run.plan.id = id;
  run.plan.strategy = base == Base::plain ? "single" : "mirrored";
  run.plan.base = base;
  run.plan.replicas = replicas;
  return run;
}

// What a rank does in a step before the collective, and after.
struct RankStep {
  double input = 0.0;
  double forward = 10 * ms;
  double backward = 20 * ms;
  double communication = 0.0;  // from the last arrival on
  double update = 2 * ms;
  double host = 0.0;
  double arrival() const { return input + forward + backward + host; }
};

// A round of `steps` equal steps of ranks that meet in a collective.
inline measure::RoundSample make_round(const std::vector<RankStep>& ranks, int steps, int images_a_step) {
  measure::RoundSample round;
  round.steps = steps;
  round.images = static_cast<std::int64_t>(steps) * images_a_step;
  round.calibration_seconds = 5 * ms;
  double last = 0.0;
  std::size_t last_rank = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (ranks[i].arrival() > last) last_rank = i;
    last = std::max(last, ranks[i].arrival());
  }
  double slowest = 0.0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankStep& r = ranks[i];
    std::vector<double> others;
    for (std::size_t j = 0; j < ranks.size(); ++j) {
      if (j != i) others.push_back(ranks[j].arrival());
    }
    measure::RankPhases p;
    p.input = r.input;
    p.forward = r.forward;
    p.backward = r.backward;
    p.straggler_wait = last - r.arrival();
    p.communication = p.straggler_wait + r.communication;
    p.update = r.update;
    p.host = r.host;
    p.arrival_measured = true;
    if (ranks.size() > 1) {
      p.last_arrivals = i == last_rank ? 1.0 : 0.0;
      p.lateness = r.arrival() - median(others);
    }
    slowest = std::max(slowest, last + r.communication + r.update);
    round.ranks.push_back(p);
  }
  round.seconds = slowest * steps;
  round.step_seconds.assign(static_cast<std::size_t>(steps), slowest);
  return round;
}

// Base and N run, each with the same round `rounds` times; the base first.
inline measure::Samples make_pair(const RankStep& one, int one_images, const std::vector<RankStep>& many,
                                  int many_images, int rounds = 5) {
  measure::Samples samples;
  samples.runs.push_back(make_run("mirrored-1", 1, Base::strategy));
  samples.runs.push_back(make_run(fmt::format("mirrored-{}", many.size()), static_cast<int>(many.size())));
  for (int i = 0; i < rounds; ++i) {
    samples.runs[0].rounds.push_back(make_round({one}, 100, one_images));
    samples.runs[1].rounds.push_back(make_round(many, 100, many_images));
  }
  samples.complete = true;
  return samples;
}

inline Summary summarise(const measure::Samples& samples, config::Scaling scaling = config::Scaling::weak) {
  return summarise({.samples = &samples, .scaling = scaling});
}

inline double part(const LossBudget& budget, const std::string& name) {
  for (const auto& p : budget.parts) {
    if (p.name == name) return p.seconds;
  }
  throw std::runtime_error("no part " + name);
}

inline double percent_sum(const LossBudget& budget) {
  double sum = budget.useful_percent;
  for (const auto& p : budget.parts) sum += p.percent;
  return sum;
}

}  // namespace dtrain::stats
